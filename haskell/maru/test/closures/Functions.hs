{-# LANGUAGE BangPatterns #-}
{-# LANGUAGE ExistentialQuantification #-}
{-# LANGUAGE MagicHash #-}

-- | Random functions, of what GHC makes closures from: functions in functions, unevaluated values,
-- partial applications, records, lists, maps, arrays, bytes, what is shared, circles, top-level constants.
module Functions (functions, draws, chunksOf) where

import qualified Data.ByteString as Bytes
import qualified Data.ByteString.Unsafe as Bytes (unsafePackAddressLen)
import Data.List (unfoldr)
import qualified Data.Map.Strict as Map
import Data.Maybe (fromMaybe)
import GHC.Arr (Array, listArray, numElements, (!))
import System.IO.Unsafe (unsafePerformIO)

-- | A value of any type, and how it is shown.
data Shown = forall a. Show a => Shown a

data Rule = Rule
  { ruleBefore :: Int -> Int,
    ruleAfter :: Int -> Int,
    ruleLimit :: Int
  }

-- | So many, by these numbers. They are made smaller than any address of a program: a number that
-- happens to be one of this process is refused as such, and where its memory lies is chance.
functions :: Int -> [Int] -> [Int -> Int]
functions n = take n . unfoldr (Just . function 4) . map (`mod` 4000000)

table :: Map.Map Int Int
table = Map.fromList [(i, i * i `mod` 31) | i <- [0 .. 500]]
{-# NOINLINE table #-}

mix :: Int -> Integer -> Double -> Char -> Int -> Int
mix a b c d x = a * x + fromInteger (b `mod` 97) + truncate c + fromEnum d
{-# NOINLINE mix #-}

-- | Bytes that the value which is made of them has unpacked.
lazily :: Bytes.ByteString -> Int -> Int -> Int
lazily !bytes !k = let total = Bytes.foldl' (\s w -> s * 5 + fromIntegral w) k bytes in \x -> if even x then x + total else x
{-# NOINLINE lazily #-}

-- | Some of which lie in the program, and a number beside them.
beside :: Bytes.ByteString -> Bytes.ByteString -> Int -> Int -> Int
beside !one !other !k = let !n = Bytes.foldl' (\s w -> s + fromIntegral w) k one in \x -> x + n + Bytes.foldl' (\s w -> if fromIntegral w == x then s else s + Bytes.length one) 0 other
{-# NOINLINE beside #-}

literal :: Bytes.ByteString
literal = unsafePerformIO (Bytes.unsafePackAddressLen 7 "literal"#)
{-# NOINLINE literal #-}

-- | A function of so many levels at most, and the numbers that are left.
function :: Int -> [Int] -> (Int -> Int, [Int])
function level (kind : a : b : more) = case (if level == 0 then (kind `mod` 12 + 18) `mod` 21 else kind `mod` 21) of
  0 -> (\x -> x * a + b, more)
  1 -> (mix a (toInteger b ^ (9 :: Int)) (fromIntegral a / 7) (toEnum (b `mod` 1000)), more)
  2 -> let xs = [a .. a + b `mod` 60] in (\x -> x + sum (take (x `mod` 40) xs), more)
  3 -> let xs = cycle [a `mod` 11, b, 3] in (\x -> xs !! (abs x `mod` 50), more)
  4 -> let (p, q) = divMod' a (b `mod` 50 + 1) in (\x -> p * x - q, more)
  5 -> let bytes = Bytes.replicate (a `mod` 900 + 1) (fromIntegral b) in (\x -> Bytes.foldl' (\s w -> s * 3 + fromIntegral w) x (Bytes.drop 1 bytes), more)
  6 -> (\x -> Map.findWithDefault x (abs (x + a) `mod` 600) table, more)
  7 -> let names = Map.fromList [(i, show (i * b)) | i <- [0 .. a `mod` 40]] in (\x -> maybe x length (Map.lookup (abs x) names), more)
  8 -> let things = [Shown a, Shown (Just (show b)), Shown [fromIntegral a / 3 :: Double], Shown (toInteger b ^ (5 :: Int))] in (\x -> x + sum [length (show y) | Shown y <- things], more)
  9 -> two more $ \f g -> f . g
  10 -> two more $ \f g -> let shared = f (g a) in \x -> if even x then shared + f x else shared - g x
  11 -> two more $ \f g -> ruled (Rule f g (b `mod` 100))
  12 -> two more $ \f g -> let ping x = if x <= 0 then f b else pong (x - 1); pong x = if x <= 0 then g a else ping (x - 2) in ping . (`mod` 20)
  13 -> two more $ \f g -> let known = Map.fromList (zip [0 ..] [f, g, f . (+ a)]) in \x -> fromMaybe id (Map.lookup (abs x `mod` 4) known) x
  14 -> two more $ \f g -> foldr (.) id [f, (`mod` 10007), g, subtract b]
  15 -> two more $ \f g -> flip (\x y -> f x + g y) a
  16 -> two more $ \f g -> let tree = grown 24 (Leaf a) in tree `seq` \x -> if even x then f (leftmost tree) else g x
  17 -> two more $ \f g -> let self = [f, g, \x -> if x > 0 then (self !! (x `mod` 3)) (x `div` 2 - 1) else b] in self !! 2
  18 -> let bytes = Bytes.replicate (b `mod` 5000 + 1) (fromIntegral a) in bytes `seq` (lazily bytes a, more)
  19 -> let bytes = Bytes.replicate (a `mod` 300 + 1) (fromIntegral b) in (if even a then beside literal bytes b else beside bytes literal b, more)
  _ -> let cells = listArray (0, a `mod` 900) [c * b | c <- [1 ..]] :: Array Int Int in (\x -> cells ! (abs x `mod` numElements cells), more)
  where
    two rest both = let (f, rest') = function (level - 1) rest; (g, rest'') = function (level - 1) rest' in (both f g, rest'')
function _ _ = (id, [])

-- | Of so many levels, each of which it has once: what does not keep that has millions.
data Tree = Leaf !Int | Node !Tree !Tree

grown :: Int -> Tree -> Tree
grown levels t = if levels == 0 then t else grown (levels - 1) (Node t t)

leftmost :: Tree -> Int
leftmost (Leaf n) = n
leftmost (Node t _) = leftmost t

divMod' :: Int -> Int -> (Int, Int)
divMod' x y = (x `div` y, x `mod` y)
{-# NOINLINE divMod' #-}

ruled :: Rule -> Int -> Int
ruled r x = if x > ruleLimit r then ruleBefore r x else ruleAfter r x
{-# NOINLINE ruled #-}

chunksOf :: Int -> [a] -> [[a]]
chunksOf n = unfoldr (Just . splitAt n)

-- | By a linear congruential generator (Knuth's MMIX), its upper bits.
draws :: Int -> [Int]
draws = map (\x -> (x `div` 2 ^ (33 :: Int)) `mod` 2 ^ (30 :: Int)) . drop 1 . iterate (\x -> x * 6364136223846793005 + 1442695040888963407)
