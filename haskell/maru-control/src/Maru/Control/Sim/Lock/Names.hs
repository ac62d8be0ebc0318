-- | The names by which algorithms are asked for.
module Maru.Control.Sim.Lock.Names
  ( algorithmName,
    algorithmFromName,
  )
where

import Data.Bits (popCount)
import Data.Char (isDigit)
import Data.List (intercalate, nub, (\\))
import Data.Maybe (listToMaybe)
import Maru.Control.Sim.Lock.Model
import Numeric (showHex)
import Text.Read (readMaybe)

-- | As 'algorithmFromName' reads it.
algorithmName :: Algorithm -> String
algorithmName algorithm = case algorithm of
  Fifo -> "fifo"
  Hmcs passes -> "hmcs:passes=" ++ show passes
  Cna c ->
    intercalate "," . filter (not . null) . merge $
      [ if cnaRange c == Just defaultRange then "" else "handoff_range=" ++ maybe "0" (\r -> "0x" ++ showHex r "") (cnaRange c),
        if cnaReduction c == impliedReduction c then "" else "shuffle_reduction=" ++ show (cnaReduction c),
        maybe "" (\d -> "deadline_ns=" ++ show (round d :: Int)) (cnaDeadline c),
        maybe "" (\n -> "max_bypass=" ++ show n) (cnaBypass c)
      ]
  where
    merge keys = case filter (not . null) keys of
      [] -> ["cna"]
      k : ks -> ("cna:" ++ k) : ks

-- | With a deadline there is no shuffle reduction unless it is asked for.
impliedReduction :: CnaKnobs -> Int
impliedReduction c = maybe 128 (const 1) (cnaDeadline c)

-- | @NAME[:key=value,...]@: @fifo@ (also @mcs@, @clh@, @ticket@),
-- @cna[:handoff_range=0x100,shuffle_reduction=1,deadline=25us,max_bypass=9]@,
-- @hmcs[:passes=64]@.
algorithmFromName :: String -> Either String Algorithm
algorithmFromName text = case break (== ':') text of
  (name, rest) -> do
    keys <- traverse key (if null rest then [] else splitOn ',' (drop 1 rest)) >>= each
    case name of
      "cna" -> Cna . finish <$> foldl (\c k -> c >>= cnaKey k) (Right unset) keys
      "hmcs" -> foldl (\a k -> a >>= hmcsKey k) (Right (Hmcs 64)) keys
      _
        | name `elem` ["fifo", "mcs", "clh", "ticket"] -> maybe (Right Fifo) (unknown name) (firstOf keys)
        | otherwise -> Left ("unknown lock '" ++ name ++ "'; the model tells apart fifo (mcs, clh, ticket), cna and hmcs")
  where
    firstOf = foldr (\k _ -> Just (fst k)) Nothing
    key word = case break (== '=') word of
      (k, '=' : v) | not (null k) -> Right (k, v)
      _ -> Left ("KEY=VALUE is needed, not '" ++ word ++ "'")
    each keys = let names = map fst keys in maybe (Right keys) (\k -> Left ("the key '" ++ k ++ "' is given twice")) (listToMaybe (names \\ nub names))
    unknown name k = Left ("the lock " ++ name ++ " has no key '" ++ k ++ "'")
    unset = CnaKnobs (Just defaultRange) 0 Nothing Nothing
    finish c = if cnaReduction c == 0 then c {cnaReduction = impliedReduction c} else c
    cnaKey (k, v) c = case k of
      "handoff_range" -> if v == "0" then Right c {cnaRange = Nothing} else (\n -> c {cnaRange = Just n}) <$> range k v
      "shuffle_reduction" -> (\n -> c {cnaReduction = n}) <$> range k v
      "max_bypass" -> (\n -> c {cnaBypass = Just n}) <$> whole 0 k v
      "deadline_ns" -> (\n -> c {cnaDeadline = Just (fromIntegral n)}) <$> whole 1 k v
      "deadline" -> (\t -> c {cnaDeadline = Just t}) <$> duration v
      _ -> unknown "cna" k
    hmcsKey (k, v) _ = if k == "passes" then Hmcs <$> whole 1 k v else unknown "hmcs" k

whole :: Int -> String -> String -> Either String Int
whole least key text = case readMaybe text of
  Just n | all (`elem` "0123456789xXabcdefABCDEF") text, n >= fromIntegral least, n <= 2 ^ (40 :: Int) -> Right (fromInteger n)
  _ -> Left (key ++ " needs a number of at least " ++ show least ++ ", not '" ++ text ++ "'")

-- | As @maru\/lock.h@ has it.
range :: String -> String -> Either String Int
range key text = case whole 1 key text of
  Right n | n <= defaultRange, popCount n == 1 -> Right n
  _ -> Left (key ++ " needs a power of two from 1 to " ++ show defaultRange ++ ", not '" ++ text ++ "'")

-- | Nanoseconds of @500ns@, @25us@, @1ms@ or @1s@; a number alone is nanoseconds.
duration :: String -> Either String Double
duration text = case (readMaybe digits, lookup unit units) of
  (Just n, Just factor) | n * factor >= 1, n * factor <= 1e12 -> Right (n * factor)
  _ -> Left ("a deadline such as 25us or 1ms is needed, not '" ++ text ++ "'")
  where
    (digits, unit) = span (\c -> isDigit c || c == '.') text
    units = [("", 1), ("ns", 1), ("us", 1e3), ("ms", 1e6), ("s", 1e9)] :: [(String, Double)]

splitOn :: Char -> String -> [String]
splitOn separator text = case break (== separator) text of
  (word, _ : more) -> word : splitOn separator more
  (word, []) -> [word]
