{-# LANGUAGE ExistentialQuantification #-}
{-# LANGUAGE StaticPointers #-}

-- | The law on peers that are processes, hosts or virtual machines, where no closure travels: what
-- the conformance suite draws at random is drawn here for functions that do. The same numbers each time.
module Lawful (broken) where

import Control.Exception
import Control.Monad
import Data.Binary (Binary)
import qualified Data.ByteString as Bytes
import Data.List (isInfixOf)
import Functions (chunksOf, draws)
import GHC.StaticPtr (StaticPtr)
import Maru
import Maru.Cluster

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
