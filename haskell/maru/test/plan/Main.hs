{-# LANGUAGE OverloadedStrings #-}

-- | The chunk planner's rules as properties, and a small simulation of workers.
module Main (main) where

import Data.List (foldl', insert, unfoldr)
import Data.Maybe (fromMaybe)
import Hedgehog
import qualified Hedgehog.Gen as Gen
import qualified Hedgehog.Range as Range
import Maru.Internal.Plan
import Maru.Options (Chunking (..), Options (chunking, window), defaultOptions)
import Test.Tasty (TestTree, defaultMain, testGroup)
import Test.Tasty.HUnit (assertBool, testCase)
import Test.Tasty.Hedgehog (testPropertyNamed)

main :: IO ()
main =
  defaultMain $
    testGroup
      "chunk planner"
      [ testGroup
          "one step"
          [ testPropertyNamed "chunks hold at least one item and at most what is available" "sizes" sizes,
            testPropertyNamed "no more than two chunks per worker are unclaimed" "published" published,
            testPropertyNamed "a step and a claim agree on the next chunk" "agree" agree,
            testPropertyNamed "beyond two chunks per worker only full ones are published, and so many at most" "beyond" beyond,
            testPropertyNamed "a further chunk is a full one or none, until the end is known" "further" furtherFull,
            testPropertyNamed "without a measured cost a guided chunk holds one item" "unknownCost" unknownCost,
            testPropertyNamed "a guided chunk is at most twice the one before, whatever was measured" "growth" growth,
            testPropertyNamed "with the end known a guided chunk is at most remaining / (2 * workers)" "endGame" endGame,
            testPropertyNamed "what is available is shared out while the end is unknown" "shared" shared,
            testPropertyNamed "the look-ahead never exceeds the window" "bounded" bounded,
            testPropertyNamed "the look-ahead has room for every chunk published or worked on" "roomy" roomy,
            testPropertyNamed "large results hold the look-ahead to a budget, and leave each worker its chunks" "afforded" afforded,
            testPropertyNamed "a chunk and a window of the options are kept, however large, as far as counts go" "kept" kept
          ],
        testGroup
          "a whole run"
          [ testPropertyNamed "nothing is lost and nothing comes twice, however the input arrives" "complete" complete,
            testPropertyNamed "fixed: sizes differ by at most one when the total is known" "even" evenly,
            testPropertyNamed "fixed: no more chunks than needed" "fewest" fewest,
            testPropertyNamed "a chunk's time converges to 30 times its dispatch, or 8 times for each worker" "converges" converges,
            testPropertyNamed "a window that moves by single items makes chunks as large as one that is all there" "moving" moving,
            testPropertyNamed "one misleading measurement is forgotten within a few chunks" "recovers" recovers,
            testPropertyNamed "with equal items the workers end within one item of each other" "balanced" balanced
          ],
        testGroup
          "measuring"
          [ testPropertyNamed "the mean stays between what was and what is measured" "mean" mean,
            testPropertyNamed "an empty chunk teaches nothing" "emptyChunk" emptyChunk
          ],
        testGroup
          "simulated makespan of 4000 items on 8 workers"
          [ makespan "equal costs" (const 1),
            makespan "costs that grow" fromIntegral,
            makespan "costs that fall" (fromIntegral . (4000 -)),
            makespan "one item in 50 costs 100 times as much" (\i -> if i `mod` 50 == 7 then 100 else 1),
            testCase "equal static shares of growing costs are 1.8 times the ideal: the simulation can fail" $
              let costs = map fromIntegral [1 .. 4000 :: Int] :: [Double]
                  static = maximum (map sum (chop (replicate 8 500) costs))
               in assertBool (show static) (static > 1.8 * sum costs / 8)
          ]
      ]

-- Generators ------------------------------------------------------------------

settingsGen :: Gen Settings
settingsGen =
  Settings
    <$> Gen.choice [pure Guided, Fixed <$> Gen.int (Range.exponential 1 1000)]
    <*> workersGen
    <*> Gen.maybe (Gen.int (Range.exponential 1 10000))

workersGen :: Gen Int
workersGen = Gen.int (Range.exponential 1 64)

seenGen :: Gen Seen
seenGen =
  Seen
    <$> Gen.maybe nsGen
    <*> Gen.maybe nsGen
    <*> Gen.int (Range.exponential 0 100000)
    <*> Gen.bool
    <*> Gen.int (Range.linear 0 200)
    <*> Gen.int (Range.exponential 0 largestChunk)

-- | From less than a cycle to an hour.
nsGen :: Gen Double
nsGen = (10 **) <$> Gen.double (Range.linearFrac (-1) 12.5)

guidedGen :: Gen Settings
guidedGen = (\s -> s {setChunking = Guided}) <$> settingsGen

-- One step --------------------------------------------------------------------

-- | Until each worker finds so many as it needs.
needed :: Settings -> Seen -> ([Int], Int)
needed settings = publishing settings (chunksAhead * setWorkers settings)

sizes :: Property
sizes = property $ do
  (settings, seen) <- forAll ((,) <$> settingsGen <*> seenGen)
  most <- forAll (Gen.int (Range.linear 0 200))
  let chunks = fst (publishing settings most seen)
  annotateShow chunks
  assert (all (>= 1) chunks)
  diff (sum chunks) (<=) (seenAvailable seen)

published :: Property
published = property $ do
  (settings, seen) <- forAll ((,) <$> settingsGen <*> seenGen)
  let chunks = fst (needed settings seen)
      room = max 0 (chunksAhead * setWorkers settings - seenUnclaimed seen)
  diff (length chunks) (<=) room
  -- And the room is used while there are items.
  assert (length chunks == room || sum chunks == seenAvailable seen)

agree :: Property
agree = property $ do
  (settings, seen) <- forAll ((,) <$> settingsGen <*> seenGen)
  let (chunks, size) = needed settings seen {seenUnclaimed = 0}
  nextChunk settings seen === (case chunks of [] -> 0; n : _ -> n, size)

beyond :: Property
beyond = property $ do
  (settings, seen0) <- forAll ((,) <$> settingsGen <*> seenGen)
  most <- forAll (Gen.int (Range.linear 0 200))
  let seen = seen0 {seenEnded = False}
      (chunks, _) = publishing settings most seen
      further = drop (max 0 (chunksAhead * setWorkers settings - seenUnclaimed seen)) chunks
  diff (length chunks) (<=) (max 0 (most - seenUnclaimed seen))
  assert (all (== aim settings seen) further)

furtherFull :: Property
furtherFull = property $ do
  (settings, seen0) <- forAll ((,) <$> settingsGen <*> seenGen)
  let seen = seen0 {seenEnded = False}
      (n, size) = furtherChunk settings seen
      (_, aimed) = nextChunk settings seen {seenAvailable = maxBound `div` 8}
  diff n (<=) (seenAvailable seen)
  assert (if seenAvailable seen >= aimed then n == aimed && size == aimed else n == 0 && size == seenSize seen)
  furtherChunk settings seen {seenEnded = True} === nextChunk settings seen {seenEnded = True}

unknownCost :: Property
unknownCost = property $ do
  (settings, seen) <- forAll ((,) <$> guidedGen <*> seenGen)
  assert (all (== 1) (fst (needed settings seen {seenItemNs = Nothing})))

growth :: Property
growth = property $ do
  (settings, seen) <- forAll ((,) <$> guidedGen <*> seenGen)
  let (chunks, size) = needed settings seen
      bound = 2 * max 1 (seenSize seen)
  assert (all (<= bound) chunks)
  diff size (<=) bound

endGame :: Property
endGame = property $ do
  (settings, seen) <- forAll ((,) <$> guidedGen <*> seenGen)
  let chunks = fst (needed settings seen {seenEnded = True})
      remaining = scanl (-) (seenAvailable seen) chunks
  annotateShow (zip chunks remaining)
  assert (and [n <= max 1 (left `div` (2 * setWorkers settings)) | (n, left) <- zip chunks remaining])

shared :: Property
shared = property $ do
  (settings, seen) <- forAll ((,) <$> guidedGen <*> seenGen)
  let workers = setWorkers settings
      (n, _) = nextChunk settings seen
  diff ((n - 1) * workers) (<) (max 1 (seenAvailable seen))

bounded :: Property
bounded = property $ do
  (settings, seen) <- forAll ((,) <$> settingsGen <*> seenGen)
  let ahead = lookAhead settings (aim settings seen)
  case setWindow settings of
    Just w -> ahead === w
    Nothing -> case setChunking settings of
      Guided -> diff ahead (<=) (max smallestWindow (4 * setWorkers settings * largestChunk))
      Fixed n -> ahead === max smallestWindow (4 * setWorkers settings * n)

-- | Results that are large hold the look-ahead to the budget, as far as each worker keeps a
-- chunk and the next one; others, and the user's window, leave it as it was.
afforded :: Property
afforded = property $ do
  settings <- forAll settingsGen
  bytes <- forAll (Gen.double (Range.exponentialFloat 1 1e10))
  ahead <- forAll (Gen.int (Range.exponential 1 1000000))
  let n = affordable settings (Just bytes) ahead
      busy = chunksAhead * setWorkers settings * (case setChunking settings of Fixed k -> k; Guided -> 1)
      room = resultBudget / bytes
  affordable settings Nothing ahead === ahead
  case setWindow settings of
    Just _ -> n === ahead
    Nothing | fromIntegral ahead <= room -> n === ahead
    _ -> do
      diff n (>=) (min ahead busy)
      diff n (<=) (max busy (floor room))

roomy :: Property
roomy = property $ do
  (settings, seen) <- forAll ((,) <$> settingsGen <*> seenGen)
  let s = settings {setWindow = Nothing}
      chunks = fst (needed s seen)
      ahead = lookAhead s (aim s seen)
  diff ((chunksAhead + 1) * setWorkers s * maximum (0 : chunks)) (<=) ahead

kept :: Property
kept = property $ do
  size <- forAll (Gen.element counts)
  ahead <- forAll (Gen.maybe (Gen.element counts))
  workers <- forAll (Gen.int (Range.exponential 1 65535))
  portions <- forAll (Gen.list (Range.linear 0 10) (Gen.int (Range.linear 0 300)))
  let settings = settingsOf defaultOptions {chunking = Fixed size, window = ahead} workers
      room = lookAhead settings (aim settings nothingSeen)
  -- No sum of what one run counts is beyond the numbers, nor a chunk beyond 32 bits.
  assert (room >= 1 && room <= maxBound `div` 4)
  aim settings nothingSeen === min (2 ^ (30 :: Int)) size
  sum (runOf settings Nothing portions) === sum portions
  where
    counts = [1, 7, 2 ^ (30 :: Int), 2 ^ (30 :: Int) + 1, 2 ^ (32 :: Int), 2 ^ (62 :: Int), maxBound - 1, maxBound]

-- A whole run -----------------------------------------------------------------

-- | The sizes of all chunks when the items arrive in these portions.
runOf :: Settings -> Maybe Double -> [Int] -> [Int]
runOf settings itemNs = go nothingSeen {seenItemNs = itemNs}
  where
    go seen [] = drain seen {seenEnded = True}
    go seen (portion : later) =
      let seen' = seen {seenAvailable = seenAvailable seen + portion, seenEnded = null later}
          (chunks, size) = needed settings seen'
       in chunks ++ go seen' {seenAvailable = seenAvailable seen' - sum chunks, seenSize = size} later
    drain seen = case needed settings seen of
      ([], _) -> []
      (chunks, size) -> chunks ++ drain seen {seenAvailable = seenAvailable seen - sum chunks, seenSize = size}

complete :: Property
complete = property $ do
  settings <- forAll settingsGen
  itemNs <- forAll (Gen.maybe nsGen)
  portions <- forAll (Gen.list (Range.linear 0 50) (Gen.int (Range.linear 0 300)))
  sum (runOf settings itemNs portions) === sum portions

evenly :: Property
evenly = property $ do
  (size, workers, total) <- forAll fixedGen
  let chunks = runOf (Settings (Fixed size) workers Nothing) Nothing [total]
  annotateShow chunks
  diff (maximum chunks - minimum chunks) (<=) 1
  diff (maximum chunks) (<=) size

fewest :: Property
fewest = property $ do
  (size, workers, total) <- forAll fixedGen
  length (runOf (Settings (Fixed size) workers Nothing) Nothing [total]) === (total + size - 1) `div` size

fixedGen :: Gen (Int, Int, Int)
fixedGen =
  (,,)
    <$> Gen.int (Range.exponential 1 200)
    <*> workersGen
    <*> Gen.int (Range.exponential 1 5000)

-- | Sizes that a worker is given that asks again and again, with items of the
-- given nanoseconds.
claims :: Settings -> Double -> [Double] -> [Int]
claims settings dispatchNs = go nothingSeen {seenDispatchNs = Just dispatchNs, seenAvailable = maxBound `div` 8}
  where
    go _ [] = []
    go seen (itemNs : later) =
      let (n, size) = nextChunk settings seen
          cost = ItemCost n (fromIntegral n * itemNs)
       in n : go seen {seenSize = size, seenItemNs = blend (seenItemNs seen) cost} later

converges :: Property
converges = property $ do
  workers <- forAll workersGen
  dispatchNs <- forAll (Gen.double (Range.exponentialFloat 200 100000))
  itemNs <- forAll (Gen.double (Range.exponentialFloat 40 1e8))
  let n = last (claims (Settings Guided workers Nothing) dispatchNs (replicate 20 itemNs))
      ratio = fromIntegral n * itemNs / dispatchNs
      aimed = max targetRatio (sharedRatio * fromIntegral workers)
  annotateShow (n, ratio)
  assert ((ratio >= 0.66 * aimed && ratio <= 1.67 * aimed) || (n == 1 && ratio > aimed) || n == largestChunk)

-- | Workers that have enough, a consumer that takes one item after the other: with
-- each, one more is available.
moving :: Property
moving = property $ do
  workers <- forAll workersGen
  itemNs <- forAll (Gen.double (Range.exponentialFloat 100 1e7))
  let settings = Settings Guided workers Nothing
      start = nothingSeen {seenItemNs = Just itemNs}
      full = iterate (\size -> snd (nextChunk settings start {seenAvailable = maxBound `div` 8, seenSize = size})) 0 !! 14
      go _ size 0 = [size]
      go available size left = case furtherChunk settings start {seenAvailable = available, seenSize = size} of
        (n, size') -> [n | n > 0] ++ go (available - n + 1) size' (left - 1 :: Int)
  last (go 1 0 (4 * largestChunk)) === full

recovers :: Property
recovers = property $ do
  itemNs <- forAll (Gen.double (Range.exponentialFloat 1000 1e6))
  wrong <- forAll (Gen.element [0.001, 0.1, 10, 1000])
  let costs = replicate 20 itemNs ++ [wrong * itemNs] ++ replicate 30 itemNs
      chunks = claims (Settings Guided 4 Nothing) 5000 costs
      usual = chunks !! 20
  annotateShow chunks
  diff (maximum chunks) (<=) (2 * usual)
  diff (abs (last chunks - usual)) (<=) (1 + usual `div` 20)

balanced :: Property
balanced = property $ do
  workers <- forAll (Gen.int (Range.linear 1 32))
  total <- forAll (Gen.int (Range.exponential 1 20000))
  let ends = simulate (Settings Guided workers Nothing) 1000 (replicate total 1000)
  annotateShow ends
  diff (maximum ends - minimum ends) (<=) 1000.001

-- Measuring -------------------------------------------------------------------

mean :: Property
mean = property $ do
  before <- forAll (Gen.maybe nsGen)
  items <- forAll (Gen.int (Range.linear 1 1000))
  each <- forAll nsGen
  let after = blend before (ItemCost items (fromIntegral items * each))
      low = min each (fromMaybe each before)
      high = max each (fromMaybe each before)
  case after of
    Nothing -> failure
    Just x -> assert (x >= low * 0.999 && x <= high * 1.001)

emptyChunk :: Property
emptyChunk = property $ do
  before <- forAll (Gen.maybe nsGen)
  ns <- forAll nsGen
  blend before (ItemCost 0 ns) === before

-- Simulation ------------------------------------------------------------------

-- | When each worker ends (nanoseconds) if whoever is free first claims the next
-- chunk of items with these costs, all known from the start; dispatch is free.
simulate :: Settings -> Double -> [Double] -> [Double]
simulate settings dispatchNs costs =
  go start costs (replicate (setWorkers settings) (0, Nothing))
  where
    start = nothingSeen {seenDispatchNs = Just dispatchNs, seenAvailable = length costs, seenEnded = True}
    -- Free workers, first free first; a chunk's cost is known when it is done.
    go _ _ [] = []
    go seen left ((now, done) : others)
      | null left = now : map fst others
      | otherwise =
        let seen' = seen {seenItemNs = maybe (seenItemNs seen) (blend (seenItemNs seen) . uncurry ItemCost) done}
            (n, size) = nextChunk settings seen'
            (mine, rest) = splitAt n left
            time = foldl' (+) 0 mine
            next = seen' {seenSize = size, seenAvailable = seenAvailable seen' - n}
         in go next rest (insert (now + time, Just (n, time)) others)

makespan :: String -> (Int -> Double) -> TestTree
makespan name cost =
  testCase (name <> ": within 5 % of the ideal") $
    let costs = map ((* 1000) . cost) [1 .. 4000]
        ideal = max (sum costs / 8) (maximum costs)
        got = maximum (simulate (Settings Guided 8 Nothing) 5000 costs)
     in assertBool (show (got / ideal)) (got <= 1.05 * ideal)

chop :: [Int] -> [a] -> [[a]]
chop ns xs = unfoldr cut (ns, xs)
  where
    cut ([], _) = Nothing
    cut (n : more, ys) = let (a, b) = splitAt n ys in Just (a, (more, b))
