{-# LANGUAGE OverloadedStrings #-}

-- | Rounds and claims, with sides that measure nothing.
module Main (main) where

import Control.Concurrent (forkIO, myThreadId, threadDelay, throwTo, yield)
import Control.Exception (AsyncException (..), IOException, bracket, bracket_, mask_, throwIO, toException, try)
import Control.Monad (forM_, replicateM_, void, when)
import Data.Aeson (Value, eitherDecode, object, (.=))
import qualified Data.ByteString.Lazy as Lazy
import Data.Either (fromLeft)
import Data.IORef
import Data.List (isInfixOf, isPrefixOf, nub, sort)
import qualified Data.Map.Strict as Map
import Data.Maybe (isNothing, mapMaybe)
import IoIrqs
import IoPrograms (fioRates, readseqRate, redisRates)
import IoReal (endOf, notMeasured)
import IoWeb (jmeterRate, ratePerSecond)
import LockMwrl (againstTail)
import MapFib (fibCeiling)
import MapSwing (observations, swingSides)
import Maru.Bench.Command (chosen, fiveMinutes, untilEnded)
import Maru.Bench.Evidence
import Maru.Bench.Evidence.All (seeds)
import Maru.Bench.Experiment (Effort (..), Experiment (..))
import Maru.Bench.Experiments (experiments)
import Maru.Bench.Interrupt
import Maru.Bench.Kept
import Maru.Bench.Report
import Maru.Bench.Rounds
import Maru.Bench.Side
import Maru.Cli.Machine (readMachine)
import Maru.Cli.Output
import Maru.Cli.Reaper (withReaper)
import Maru.Cli.Room.Steer.Link (Answer (..))
import Maru.Control.Observe (Machine)
import Maru.Control.Place hiding (sampleOf)
import Maru.Control.Plot
import Maru.Control.Ratio
import Maru.Control.Sim.Map.Collector (Observations (..), Observed (..), buildObserved)
import System.Directory (getTemporaryDirectory, removeDirectoryRecursive)
import System.IO (hClose, hFlush, hPutStrLn)
import System.Posix.Signals (Handler (Default), installHandler, raiseSignal, sigHUP, sigINT, sigTERM)
import System.Posix.Temp (mkdtemp)
import System.Process (callProcess, createPipe)
import Test.Tasty (TestTree, defaultMain, testGroup)
import Test.Tasty.HUnit (assertBool, assertFailure, testCase, (@?=))

main :: IO ()
main = defaultMain (testGroup "bench" [running, interrupting, claiming, reading, naming, reporting, programs, swinging, drawing])

sampleOf :: Double -> Value
sampleOf wall = object ["meter" .= object ["wall_ns" .= wall]]

sides :: [Side]
sides = [Side name [] | name <- ["a", "b", "c"]]

-- | The n-th measurement of a side takes what the function says; also which
-- sides were measured, in order.
play :: Effort -> (String -> Int -> Double) -> [Claim] -> IO (Rounds, [String])
play effort cost claims = do
  counts <- newIORef Map.empty
  order <- newIORef []
  let measure side = do
        let name = sideName side
        n <- Map.findWithDefault 0 name <$> readIORef counts
        modifyIORef' counts (Map.insert name (n + 1))
        modifyIORef' order (name :)
        pure (sampleOf (cost name n))
  rounds <- runRounds effort (const (pure ())) measure sides (const claims)
  (,) rounds . reverse <$> readIORef order

running :: TestTree
running =
  testGroup
    "rounds"
    [ testCase "every side in every round, in rotated order" $ do
        (_, order) <- play Quick (\_ _ -> 1) []
        order @?= ["a", "b", "c", "b", "c", "a", "c", "a", "b"],
      testCase "as many rounds as the time holds: one at least, at most as many as decide a claim" $ do
        let rounds limit cost = do
              (found, cut) <- runRoundsFor limit (const (pure ())) (\_ -> sampleOf 1 <$ threadDelay cost) sides
              pure (length (samplesOf found "a"), null cut)
        counts <- mapM (uncurry rounds) [(0, 1000), (3600, 0)]
        counts @?= [(1, True), (fewestPairs, True)],
      testCase "the time is shared: what one part takes too long, those after it lack" $ do
        shareOfTime 60 10 [20, 30] @?= 10
        shareOfTime 50 20 [30] @?= 20
        shareOfTime 25 20 [30] @?= 10
        map (\left -> shareOfTime left 30 []) [7, -3] @?= [7, 0],
      testCase "of which an interrupted one is kept, and said" $ do
        count <- newIORef (0 :: Int)
        let measure _ = do
              modifyIORef' count (+ 1)
              n <- readIORef count
              if n > 4 then throwIO UserInterrupt else pure (sampleOf 1)
        (found, cut) <- runRoundsFor 3600 (const (pure ())) measure sides
        (sum (map (length . samplesOf found . sideName) sides), null cut) @?= (4, False),
      testCase "rotation keeps everybody" $
        forM_ [0 .. 7] $ \k -> sort (rotated k [1 .. 3 :: Int]) @?= [1, 2, 3],
      testCase "what is clear takes the fewest rounds" $ do
        (rounds, _) <- play Full (\name _ -> if name == "a" then 2 else 1) [faster]
        length (samplesOf rounds "c") @?= fewestPairs,
      testCase "what is not takes more, of its own sides, up to the most" $ do
        (rounds, _) <- play Full (\name n -> if name == "a" && even n then 0.5 else 1) [faster]
        length (samplesOf rounds "a") @?= mostPairs
        length (samplesOf rounds "b") @?= mostPairs
        length (samplesOf rounds "c") @?= fewestPairs
        judgedVerdict (judgeClaim rounds faster) @?= Undecided,
      testCase "it stops when it has become clear" $ do
        (rounds, _) <- play Full (\name n -> if name == "a" && n < 3 then 0.5 else if name == "a" then 2 else 1) [faster]
        let n = length (samplesOf rounds "a")
        assertBool (show n) (n > fewestPairs && n < mostPairs)
        judgedVerdict (judgeClaim rounds faster) @?= Holds
    ]
  where
    faster = ratio "a / b" (AtLeast 1) wallNs "a" "b"

-- | As 'play' without claims; the n-th measurement of all does the action before. Also what was
-- said last.
playUntil :: Int -> IO () -> ((Side -> IO Value) -> (String -> IO ()) -> IO a) -> IO (a, String)
playUntil last' end run = do
  count <- newIORef (0 :: Int)
  said <- newIORef ""
  let measure _ = do
        modifyIORef' count (+ 1)
        n <- readIORef count
        when (n == last') end
        pure (sampleOf 1)
  found <- run measure (writeIORef said)
  (,) found <$> readIORef said

interrupting :: TestTree
interrupting =
  testGroup
    "interruptions"
    [ testCase "keep the rounds that there are, and what there is of the last" $ do
        (rounds, said) <- playUntil 8 (throwIO UserInterrupt) three
        map (length . samplesOf rounds) ["a", "b", "c"] @?= [2, 2, 3]
        said @?= "interrupted after 2 rounds"
        fmap estimatePairs (judgedEstimate (judgeClaim rounds same)) @?= Just 2
        judgedVerdict (judgeClaim rounds same) @?= Undecided,
      testCase "are found, too, where what was measured has ended of them first" $ do
        self <- myThreadId
        let gone = forkIO (threadDelay 50000 >> throwTo self UserInterrupt) >> throwIO (userError "killed")
        (rounds, said) <- playUntil 4 gone three
        length (samplesOf rounds "a") @?= 1
        said @?= "interrupted after 1 round",
      testCase "are kept where nobody hears of them" $ do
        let deaf measure say = runRounds Quick (\line -> say line >> when ("interrupted" `isPrefixOf` line) (throwIO (userError "hung up"))) measure sides (const [same])
        (rounds, said) <- playUntil 8 (throwIO UserInterrupt) deaf
        length (samplesOf rounds "c") @?= 3
        said @?= "interrupted after 2 rounds",
      testCase "are not what a failure is" $ do
        failed <- try (playUntil 4 (throwIO (userError "broken")) three)
        either (const True) (const False) (void failed :: Either IOException ()) @?= True,
      testCase "before anything was measured leave nothing to write" $ do
        ended <- try (playUntil 1 (throwIO UserInterrupt) three)
        either (== UserInterrupt) (const False) (void ended :: Either AsyncException ()) @?= True,
      testCase "of one thing end those behind it" $ do
        (found, said) <- playUntil 11 (throwIO UserInterrupt) (\measure say -> runRoundsOfEach Quick say measure [(name, sides, const []) | name <- ["x", "y", "z"]])
        [sum (map (length . samplesOf rounds) ["a", "b", "c"]) | rounds <- found] @?= [9, 1, 0]
        said @?= "y: interrupted after 0 rounds",
      testCase "of an experiment end those behind it, and what was measured is written" $ do
        let act n = if n == (4 :: Int) then throwIO UserInterrupt else pure (n, if n == 3 then Just (toException UserInterrupt) else Nothing)
        (written, _) <- untilEnded act [1, 2, 3, 5]
        written @?= [1, 2, 3]
        (before, _) <- untilEnded act [1, 4, 5]
        before @?= [1]
        (all', end) <- untilEnded act [1, 2]
        (all', null end) @?= ([1, 2], True),
      testCase "say of whom nothing is kept" $ do
        let act n = if n == (4 :: Int) then throwIO UserInterrupt else pure (n, if n == 3 then Just (toException UserInterrupt) else Nothing)
        ends <- mapM (fmap (fmap snd . snd) . untilEnded act) [[1, 4, 5], [1, 3, 5], [1, 2]]
        ends @?= [Just (Just 4), Just Nothing, Nothing],
      testCase "that come when all is measured, and before it is written, lose nothing" $ do
        written <- newIORef False
        ended <- try . bracket_ (pure ()) restored . mask_ $ do
          interrupts <- catchInterrupts
          raiseSignal sigINT
          seen interrupts
          replicateM_ 100 yield
          sparing interrupts (writeIORef written True)
        kept <- readIORef written
        (kept, either (== UserInterrupt) (const True) ended) @?= (True, True)
    ]
  where
    seen interrupts = interrupted interrupts >>= \end -> when (isNothing end) (yield >> seen interrupts)
    restored = mapM_ (\signal -> installHandler signal Default Nothing) [sigINT, sigTERM, sigHUP]
    three measure say = runRounds Quick say measure sides (const [same])
    same = ratio "a / b" (AtLeast 1) wallNs "a" "b"

claiming :: TestTree
claiming =
  testGroup
    "claims"
    [ testCase "a ratio pairs the runs of one round" $ do
        (rounds, _) <- play Quick (\name n -> fromIntegral (n + 1) * (if name == "a" then 3 else 1)) []
        claimValues (ratio "" (AtLeast 1) wallNs "a" "b") rounds @?= [3, 3, 3],
      testCase "a side that was not measured gives no verdict" $ do
        (rounds, _) <- play Quick (\_ _ -> 1) []
        let judged = judgeClaim rounds (ratio "" (AtLeast 1) wallNs "a" "nobody")
        judgedVerdict judged @?= Undecided
        judgedEstimate judged @?= Nothing,
      testCase "the table has a row a claim, the line names the losses" $ do
        (rounds, _) <- play Full (\name _ -> if name == "a" then 2 else 1) []
        let judged = map (judgeClaim rounds) [ratio "won" (AtLeast 1) wallNs "a" "b", ratio "lost" (AtMost 1) wallNs "a" "b"]
        map last (tableRows (claimsTable judged)) @?= ["holds", "FAILS"]
        claimsLine judged @?= "1 of 2 claims hold; FAIL: lost"
    ]

reading :: TestTree
reading =
  testGroup
    "samples"
    [ testCase "two processes take from the first start to the last end" $
        wallNs (object ["together" .= [span' 10 50, span' 12 90]]) @?= Just 80,
      testCase "one process takes what it says" $ wallNs (sampleOf 7) @?= Just 7,
      testCase "what is not there is not a number" $ number ["meter", "gc_ns"] (sampleOf 7) @?= Nothing
    ]
  where
    span' :: Double -> Double -> Value
    span' start end = object ["meter" .= object ["start_ns" .= start, "end_ns" .= end]]

naming :: TestTree
naming =
  testGroup
    "names"
    [ testCase "a room's name stands for all of its experiments" $
        fmap (map experimentName) (chosen experiments ["map"]) @?= Right (filter ("map/" `isPrefixOf`) names),
      testCase "an experiment's for itself" $
        fmap (map experimentName) (chosen experiments ["map/channel"]) @?= Right ["map/channel"],
      testCase "what is named twice, or by its room as well, is measured once" $ do
        fmap (map experimentName) (chosen experiments ["map/heap", "map/heap"]) @?= Right ["map/heap"]
        fmap (sort . map experimentName) (chosen experiments ["map/heap", "map"]) @?= Right (sort (filter ("map/" `isPrefixOf`) names)),
      testCase "a part of a name for nothing" $
        either (const True) (const False) (chosen experiments ["map/chan"]) @?= True,
      testCase "none for all" $ fmap (map experimentName) (chosen experiments []) @?= Right names,
      testCase "what is unknown is refused with what is known" $
        fromLeft "" (chosen [example] ["x"]) @?= "unknown experiment 'x'; known: example",
      testCase "no name twice" $ length (nub names) @?= length names
    ]
  where
    names = map experimentName experiments

example :: Experiment
example =
  Experiment "example" "counts" $ \_ _ _ ->
    pure
      Figures
        { figuresLine = "counted to 3",
          figuresTables = [("Numbers", Table [(R, "n")] [["1"], ["2"], ["3"]])],
          figuresPlots = [Plot "Numbers" (Axis "n" Linear) (Axis "n" Linear) [Series "n" [Point i i 0 i | i <- [1 .. 3]]]],
          figuresData = object []
        }

reporting :: TestTree
reporting =
  testGroup
    "the report"
    [ testCase "is one page with every experiment" $ do
        results <- shownExample
        let page = htmlReport [("host", "nowhere")] InSources False [] results
        mapM_ (page `has`) ["counted to 3", "<svg", "id=\"example\"", "<h3>Numbers</h3>", "<dd>nowhere</dd>", "href=\"example.json\""],
      testCase "has every figure, with its four columns, and no other file" $ do
        let page = htmlReport [] InSources True ["map/fib"] []
        mapM_ (page `has`) [figureTitle f | f <- figures, all (`notElem` ("`'\"&" :: String)) (figureTitle f)]
        mapM_ (page `has`) (("<h4>" ++) . columnName <$> columns)
        page `has` "Not measured in this run, for its time was over: map/fib."
        assertBool "fetches something" (not ("http://" `isInfixOf` page || "src=" `isInfixOf` page))
        assertBool "links to what is not beside it" (not ("href=\"" `isInfixOf` page)),
      testCase "links to the data that its figures cite, where they are beside it" $ do
        let page = htmlReport [] (Beside "kept") True [] []
        assertBool "nothing is cited" (length citedData > 50)
        mapM_ (\path -> page `has` ("<a href=\"kept/" ++ path ++ "\">")) citedData,
      testCase "says of a failed experiment that it failed, in red" $ do
        let page = htmlReport [] InSources True [] [Shown "map/stm" "a set" "no helper" [] [] (Just 69)]
        mapM_ (page `has`) ["<tr class=\"failed\">", "FAILED: no helper", "FAILED: map/stm."]
        assertBool "links to data that there are none of" (not ("map-stm.json" `isInfixOf` page)),
      testCase "every column of every figure has a value, or one sentence that says why not" $
        forM_ [(figureTitle f, cell) | f <- figures, column <- columns, cell <- [cellOf column f]] $ \(title, cell) -> case cell of
          Value text _ -> assertBool title (length text > 3)
          Without why -> assertBool (title ++ ": " ++ why) ('.' `elem` why && last why == '.' && length (words why) > 3 && not ("not yet measured" `isInfixOf` why)),
      testCase "every figure's command and experiments are there" $ do
        forM_ figures $ \f -> do
          assertBool (figureTitle f) (not (null (figureCommand f)))
          chosenAll (figureExperiments f)
          case words (figureCommand f) of
            "maru" : "bench" : asked -> chosenAll asked
            _ -> pure ()
        chosenAll (map fst fiveMinutes)
        assertBool "more than five minutes" (sum (map snd fiveMinutes) <= 240),
      testCase "what a run has written is what the next one goes on with" $
        bracket (getTemporaryDirectory >>= \tmp -> mkdtemp (tmp ++ "/kept-")) removeDirectoryRecursive $ \folder -> do
          let run = Run folder ["example", "other"] True "a build"
          begun <- beginRun run
          begun @?= Fresh
          noteDone run ["example"]
          again <- beginRun run
          again @?= GoesOn (folder ++ "/unfinished.json") ["example"]
          other <- beginRun run {runQuick = False}
          other @?= Fresh
          built <- beginRun run {runBuild = "another"}
          built @?= OtherBuild
          lost <- readKept folder example
          fmap shownLine lost @?= Nothing
          endRun run
          ended <- beginRun run
          ended @?= Fresh
          noteDone run {runNames = ["example"]} ["example"]
          alone <- beginRun run {runNames = ["example"]}
          alone @?= Fresh
    ]
  where
    figures = concatMap seedFigures seeds
    page `has` text = assertBool text (text `isInfixOf` page)
    chosenAll names = either assertFailure (const (pure ())) (chosen experiments names)
    shownExample = withReaper "/bin/true" $ \reaper -> traverse (\x -> shownOf x <$> experimentRun x reaper Quick (const (pure ()))) [example]

programs :: TestTree
programs =
  testGroup
    "programs of others"
    [ testCase "what real programs say of their rates" $ do
        ratePerSecond "Running 1s test\nRequests/sec:  39343.41\nTransfer/sec: 1MB" @?= Just 39343.41
        ratePerSecond "Requests/sec: x" @?= Nothing
        jmeterRate "summary +      1 in 00:00:00 =    7.0/s Avg:     4 Min:     0 Max:    32 Err:     1 (9.00%) Active: 4\nsummary =   2404 in 00:00:03 =  788.2/s Avg:     4 Min:     0 Max:    32 Err:     0 (0.00%)\n... end of run" @?= Just (788.2, 0)
        jmeterRate "summary = " @?= Nothing
        redisRates "\"test\",\"rps\"\n\"SET\",\"1000.5\",\"0.1\"\n\"GET\",\"2000\",\"0.1\"\n" @?= [1000.5, 2000]
        fioRates "fio: a word\n{\"jobs\": [{\"jobname\": \"4k\", \"read\": {\"bw_bytes\": 5}, \"write\": {\"bw_bytes\": 0}}]}" @?= Right [("4k", 5)]
        fioRates "{\"jobs\": [{\"jobname\": \"4k\"}]}" @?= Left "a job without bytes"
        readseqRate "readseq : 0.5 micros/op 100 ops/sec 0.1 seconds\nreadseq : 0.5 micros/op 200 ops/sec; x\nreadseq : 0.5 micros/op 200 ops/sec; x" @?= Just 200
        readseqRate "readseq : 0.5 micros/op 100 ops/sec" @?= Nothing
        endOf "a\nprogress \rmaru: steer: off: 2 CPUs\nmaru: 1 s wall\n" @?= Just "off: 2 CPUs"
        endOf "nothing" @?= Nothing
        let absent nodes ran = concat [map (take 2) rows | (_, Table _ rows) <- notMeasured nodes ran]
            policies = ["single-socket", "per-socket", "cross-socket"]
        map head (absent 1 []) @?= ["numactl", "numactl, interrupts bound", "irqbalance"] ++ policies
        absent 2 ("irqbalance" : policies) @?= [[name, "apt-get install numactl"] | name <- ["numactl", "numactl, interrupts bound"]]
        absent 2 (["numactl", "numactl, interrupts bound", "irqbalance"] ++ policies) @?= [],
      testCase "as forty items fib is limited by the last" $ do
        assertBool (show (fibCeiling 40)) (abs (fibCeiling 40 - 2.618) < 0.001)
        (fibCeiling 1, fibCeiling 2) @?= (1, 4 / 3),
      bound,
      answering
    ]

bound :: TestTree
bound =
  testCase "interrupts that are bound by hand: one CPU each, of the device's node" $ do
    orders' <- nearOrders <$> described "two-by-eight"
    orders' @?= [Set (OfFile ("proc/irq/" ++ show irq ++ "/smp_affinity_list")) (show cpu) | (irq, cpu) <- [(40, 8), (41, 9), (50, 0), (51, 1)] :: [(Int, Int)]]
    unknown <- nearOrders <$> described "unknown-node"
    unknown @?= []
    -- What is said of them, and the name that the row gets.
    let wholly = boundLine [Done Nothing, Done Nothing]
        some = boundLine [Done Nothing, Refused "managed"]
        none = boundLine [Refused "Operation not permitted", Refused "x"]
    [wholly, some, none] @?= ["bound 2 interrupts; refused: 0", "bound 1 interrupt; refused: 1 (managed)", "bound no interrupt; refused: 2 (Operation not permitted)"]
    map titleOf [[wholly, wholly], []] @?= replicate 2 boundIrqs
    map titleOf [[some], [wholly, some], [none, wholly]] @?= replicate 3 "numactl, interrupts bound that could be"
    map titleOf [[none, none], [boundLine []]] @?= replicate 2 "numactl, no interrupt could be bound"

-- | A machine of the command's own tests.
described :: String -> IO Machine
described name = bracket folder removeDirectoryRecursive $ \root -> do
  callProcess "../haskell/maru-cli/test/unfold" ["../haskell/maru-cli/test/steer/" ++ name ++ ".machine", root]
  readMachine root
  where
    folder = getTemporaryDirectory >>= mkdtemp . (++ "/maru-machine-")

answering :: TestTree
answering =
  testCase "who is to say what became of the interrupts is not waited for without end" $ do
    (heard, told) <- createPipe
    silent <- firstLine 20000 heard
    hPutStrLn told "bound no interrupt; refused: 0" >> hFlush told
    spoken <- firstLine 20000000 heard
    hClose told
    gone <- firstLine 20000000 heard
    [silent, spoken, gone] @?= [Left "said nothing for 0 s", Right "bound no interrupt; refused: 0", Left "ended"]

swinging :: TestTree
swinging =
  testGroup
    "the collector's study"
    [ testCase "two cores: both as they are, the last with what was found, and what the model is calibrated by" $
        [(sideName s, concat (sideProcesses s)) | s <- swingSides 2 (Map.singleton 2 ["-A64m"])]
          @?= [("1 core", ["-N1"]), ("2 cores", ["-N2"]), ("2 cores -A64m", ["-N2", "-A64m"]), ("1 core -A64m", ["-N1", "-A64m"]), ("1 core -A256k", ["-N1", "-A256k"]), ("2 cores -qg", ["-N2", "-qg"])],
      testCase "one core has no second one to be calibrated by" $
        map sideName (swingSides 1 (Map.singleton 1 [])) @?= ["1 core", "1 core -A256k", "1 core -A64m"],
      testCase "sixteen cores: what is predicted has the flags of the next fewer; nothing is measured twice" $ do
        let names = map sideName (swingSides 16 (Map.fromList [(10, ["-A16m"]), (13, []), (15, ["-qg"])]))
        length names @?= length (nub names)
        forM_ ["10 cores -A16m", "11 cores -A16m", "13 cores", "14 cores", "16 cores -qg", "9 cores -A16m", "9 cores"] $ \name -> assertBool name (name `elem` names)
        assertBool "14 cores have a gain" (not (any (`elem` names) ["14 cores -A16m", "14 cores -qg"])),
      testCase "a model is calibrated by processor time of one core; of two by the shortest runs, unless others had them" $ do
        let run name wall = (name, object ["rts" .= Map.fromList ([("mut_cpu_seconds", 1), ("GC_cpu_seconds", 2), ("mut_wall_seconds", wall), ("GC_wall_seconds", 2 * wall), ("num_GCs", 10), ("allocated_bytes", 100)] :: [(String, Double)])])
            all' = ["1 core", "1 core -A256k", "1 core -A64m", "2 cores", "2 cores -qg"]
            rounds load names = Rounds [(load, Map.fromList [run name wall | name <- names]) | wall <- [9, 3, 5]]
            one = Observed 1 2 10 100
            two = Observed 3 6 10 100
        observations 2 (rounds "0.50 1 1" all') @?= Just (Observations one one one (Just (two, two)))
        observations 2 (rounds "7.00 1 1" all') @?= Just (Observations one one one (Just (Observed 0.5 1 10 100, Observed 0.5 2 10 100)))
        observations 2 (rounds "0.50 1 1" (take 3 all')) @?= Just (Observations one one one Nothing)
        observations 2 (rounds "0.50 1 1" (drop 1 all')) @?= Nothing,
      testCase "the simulator's own numbers are those of the kept run" $ do
        kept <- either fail pure . eitherDecode =<< Lazy.readFile "results/map/swing/2026-11-28-2cpu.json"
        let rounds = [Rounds (mapMaybe measured rs) | Just ps <- [at ["data", "programs"] kept], p <- ps :: [Value], at ["program"] p == Just ("build" :: String), Just rs <- [at ["measured", "rounds"] p]]
            measured r = (,) <$> at ["load"] r <*> at ["samples"] (r :: Value)
        map (observations 2) rounds @?= [Just buildObserved]
    ]

drawing :: TestTree
drawing =
  testGroup
    "plots"
    [ testCase "every knob of a lock that was measured is a series" $
        [(name, length points) | Series name points <- plotSeries (againstTail "" (map measured names))]
          @?= [("cna, 0x10000 to 0x100", 2), ("the same, shuffle 1/128", 1), ("cna, deadline 1 ms to 25 us", 1), ("mcs", 1), ("pthread", 1)],
      testCase "what did not come to an end is no point" $
        length (plotSeries (againstTail "" [object ["lock" .= ("mcs" :: String), "finished" .= False]])) @?= 0
    ]
  where
    -- As maru-bench-lock calls them.
    names = ["pthread", "ttas", "mcs", "cna:handoff_range=0x10000", "cna:handoff_range=0x100", "cna:shuffle_reduction=128,handoff_range=0x100", "cna:deadline=25us", "mcs:wait=spin"]
    measured :: String -> Value
    measured name = object ["lock" .= name, "per_second" .= (1e6 :: Double), "wait_ns" .= object ["cvar_1" .= (1e3 :: Double)]]
