{-# LANGUAGE ExistentialQuantification #-}
{-# LANGUAGE StaticPointers #-}

-- | The law on peers that are processes, hosts or virtual machines, where no closure travels: what
-- the conformance suite draws at random is drawn here for functions that do. The same numbers each time.
module Lawful (broken, unheld) where

import Control.Concurrent (newEmptyMVar, putMVar, takeMVar, threadDelay)
import Control.Exception
import Control.Monad
import Data.Binary (Binary)
import qualified Data.ByteString as Bytes
import Data.List (isInfixOf)
import Functions (chunksOf, draws)
import GHC.StaticPtr (StaticPtr)
import Maru
import Maru.Cluster
import Maru.Codec (Codec (..))
import System.IO.Unsafe (unsafePerformIO)
import System.Timeout (timeout)

-- | Of so many cases, those that do not hold.
broken :: Int -> IO [String]
broken n = concat <$> forM (zip [1 .. n] (chunksOf 8 (draws 20261123))) (\(k, ds) -> maybe [] (\why -> ["case " <> show k <> ": " <> why]) <$> failing ds)

-- | A function as it is, and as it travels: its environment are the items that throw.
data Shape = forall b. Eq b => Shape (Int -> b) (StaticPtr (Remote [Int] Int b))

shapes :: [Shape]
shapes =
  [ Shape cube (static (troubled cube)),
    Shape root (static (troubled root)),
    Shape list (static (troubled list)),
    Shape choice (static (troubled choice)),
    Shape bytes (static (troubled bytes)),
    Shape nothing (static (troubled nothing))
  ]

cube :: Int -> Integer
cube n = toInteger n ^ (20 :: Int)

root :: Int -> Double
root = sqrt . fromIntegral . abs

list :: Int -> [Int]
list n = [1 .. n `mod` 50]

choice :: Int -> Maybe (Either Int String)
choice n = if even n then Nothing else Just (if n `mod` 3 == 0 then Left n else Right (show n))

-- Some are longer than what a pipe holds.
bytes :: Int -> Bytes.ByteString
bytes n = Bytes.replicate (n `mod` 41 * 2000) 7

nothing :: Int -> ()
nothing = const ()

troubled :: Binary b => (Int -> b) -> Remote [Int] Int b
troubled f = remoteWith (\bad n -> if n `elem` bad then throw (userError (trouble n)) else f n)

trouble :: Int -> String
trouble n = "trouble at " <> show n <> "."

-- | Why it does not hold: values, order, exceptions in their places, the first of them from the whole
-- list, and a part of a list without end.
failing :: [Int] -> IO (Maybe String)
failing ds = case ds of
  [shape, size, count, chunk, ahead, first, second, part] -> case shapes !! (shape `mod` length shapes) of
    Shape f pointer -> do
      let xs = take (size `mod` 41) [0 ..]
          options =
            defaultOptions
              { workers = Workers (1 + count `mod` 3),
                chunking = ([Guided] <> map Fixed [1, 2, 3, 7, 64]) !! (chunk `mod` 6),
                window = ([Nothing, Nothing] <> map Just [1, 2, 5, 100]) !! (ahead `mod` 6)
              }
          bad = [d `mod` 41 | d <- [first, second], even d]
          expected = [if x `elem` bad then Left (trouble x) else Right (f x) | x <- xs]
          some = part `mod` 30
      got <- mapM outcome (parMapOnWith options pointer bad xs)
      whole <- outcome (foldr seq () (parMapOnWith options pointer bad xs))
      endless <- mapM outcome (take some (parMapOnWith options pointer [] [0 ..]))
      pure (msum [got `differs` (expected, "items"), [whole] `differs` ([sequence_ expected], "the first exception"), endless `differs` (map (Right . f) (take some [0 ..]), "a list without end")])
  _ -> pure (Just "too few numbers")
  where
    outcome x = either (\e -> Left (show (e :: SomeException))) Right <$> try (evaluate x)
    differs got (expected, what)
      | length got == length expected, and (zipWith same got expected) = Nothing
      | otherwise = Just (what <> " differ; drawn were " <> show ds)
    same (Left e) (Left e') = e' `isInfixOf` e
    same (Right x) (Right y) = x == y
    same _ _ = False

-- | Laws of the conformance suite that a function which travels can show, and do not hold here.
unheld :: IO [String]
unheld = concat <$> forM laws (\(name, holds) -> (\held -> [name | not held]) <$> holds)

laws :: [(String, IO Bool)]
laws =
  [ ("the empty list", pure (null (slowly 0 []))),
    ("an input with an undefined end", pure (take 3 (slowly 0 (1 : 2 : 3 : undefined)) == [1, 2, 3])),
    ("an input that blocks delays nothing before it, and goes on later", blocks),
    ("a conversation: each input is made from the result before it", pure (take 12 (let ys = slowly 0 (0 : map (+ 1) ys) in ys) == [0 .. 11])),
    ("a timeout while waiting; demanded again, it is right", timedOut),
    ("a list that is dropped keeps no process from the next call", dropped),
    ("two maps consumed in turns", pure (zip (slowly 50 [1 .. 300]) (slowly 0 [2 .. 301]) == zip [1 .. 300] [2 .. 301])),
    ("a map in an item", pure (parMapOn (static inner) [1 .. 6] == [n * 210 | n <- [1 .. 6]])),
    ("results of five megabytes", pure (map Bytes.length (parMapOn (static sevens) [5000000, 5000001]) == [5000000, 5000001])),
    ("an exception deep in a result is the item's", lastThrows (parMapOn (static deep) [1, 2, 3])),
    ("a codec's failure is the item's", lastThrows (parMapOn (static picky) [1, 2, 3]))
  ]
  where
    blocks = do
      later <- newEmptyMVar
      let ys = slowly 0 ([1, 2] <> unsafePerformIO (takeMVar later))
      early <- evaluate (sum (take 2 ys))
      putMVar later [3, 4]
      pure (early == 3 && sum ys == 10)
    timedOut = do
      let ys = slowly 300000 [1 .. 6]
      early <- timeout 20000 (evaluate (sum ys))
      pure (null early && sum ys == 21)
    dropped = do
      first <- evaluate (sum (take 1 (slowly 1000 [1 ..])))
      pure (first == 1 && sum (slowly 0 [1 .. 100]) == 5050)
    lastThrows ys = do
      got <- mapM (try . evaluate) ys
      pure (map (either (\SomeException {} -> False) (const True)) got == [True, True, False])

-- Not inlined, as below: docs/map.md says which static forms GHC 9.0.2 does not link. Without the first one's
-- local name, of a single use, hlint asks for such a one.

-- | The numbers, each after so many microseconds.
slowly :: Int -> [Int] -> [Int]
slowly us xs = let pointer = static waiting in parMapOnWith defaultOptions pointer us xs
{-# NOINLINE slowly #-}

waiting, times :: Remote Int Int Int
waiting = remoteWith (\us n -> unsafePerformIO (threadDelay us) `seq` n)
times = remoteWith (*)

sevens :: Remote () Int Bytes.ByteString
sevens = remote (`Bytes.replicate` 7)

deep :: Remote () Int [Int]
deep = remote (\n -> [n, 6 `div` (3 - n)])

inner :: Remote () Int Int
inner = remote nested

nested :: Int -> Int
nested n = sum (parMapOnWith defaultOptions (static times) n [1 .. 20])
{-# NOINLINE nested #-}

picky :: Remote () Int Int
picky = remoteVia binary binary (Codec (\n -> if n == 3 then throw (userError "three") else encode binary n) (decode binary)) (const id)
