-- Quicker to compile, and no slower where it counts: what is tested is optimised.
{-# OPTIONS_GHC -O0 #-}

module Main (main) where

import Control.Concurrent (forkIO, threadDelay)
import Control.Monad (forM_, replicateM_)
import Data.Aeson (ToJSON (..), Value (..), decode, eitherDecode, encode, object)
import Data.Binary.Put
import qualified Data.ByteString as ByteString
import qualified Data.ByteString.Char8 as Chars
import qualified Data.ByteString.Lazy as Lazy
import Data.Either (fromRight)
import Data.IORef (modifyIORef, newIORef, readIORef, writeIORef)
import qualified Data.IntMap.Strict as IntMap
import Data.List (isInfixOf, isPrefixOf)
import qualified Data.Map.Strict as Map
import Data.Maybe (isJust, isNothing, mapMaybe)
import Example (exampleRoom)
import Maru.Cli.Doctor
import Maru.Cli.Exit
import Maru.Cli.Fitting (ranWithout)
import Maru.Cli.Host (judgeParts)
import Maru.Cli.Installed (prefixOf)
import Maru.Cli.Machine (treeOf)
import Maru.Cli.Mailbox
import Maru.Cli.Main (commandLineOf)
import Maru.Cli.Output
import Maru.Cli.Profile
import Maru.Cli.Program (Described (..), describeProgram, interpreterOf, isGo, sanitizerIn, undescribed, unfit)
import qualified Maru.Cli.Program as Program
import Maru.Cli.Progress (progressLine, telling)
import Maru.Cli.Room
import Maru.Cli.Room.Dsm (accessFinding)
import Maru.Cli.Room.Dsm.Top (Kept (..), Stand (..), decodeKept, decodeStands)
import Maru.Cli.Room.Io
import Maru.Cli.Room.Io.Calls
import qualified Maru.Cli.Room.Io.Tune as IoTune
import Maru.Cli.Room.Lock (LockFacts (..), afterLock, decideLock, judgeMutexes)
import Maru.Cli.Room.Lock.Overlay (decodeOverlay, turned)
import Maru.Cli.Room.Steer (judgeCores)
import Maru.Cli.Room.Wait (WaitFacts (..), WaitFlags (..), decideWait, judgePolicies, mpiAfterwards, waitAfterwards)
import Maru.Cli.Room.Wait.Boost (BoostOptions (..), boostArguments, periodOf, withConf)
import Maru.Cli.Room.Wait.BoostConf (BoostConf (..), namesOf, parseConf)
import Maru.Cli.Room.Wait.MpiSection
import Maru.Cli.Room.Wait.Page hiding (Channel (..))
import qualified Maru.Cli.Room.Wait.Page as Page
import Maru.Cli.Room.Wait.PollSection
import Maru.Cli.Room.Wait.Tune hiding (settingsFor)
import qualified Maru.Cli.Room.Wait.Tune as WaitTune
import Maru.Cli.Rooms (rooms)
import Maru.Cli.Run
import Maru.Cli.RunSection
import Maru.Cli.Top.Pages
import Maru.Cli.Tune (parseDuration)
import Maru.Control.Launch.Heat (faultReasons)
import Maru.Control.LockProfile (Counts (..), Shares (..), mergeProfile, seriesOf, sharesOf)
import Maru.Control.LockProfile.Types
import Maru.Control.Race (record, start)
import Maru.Native.BoardView
import Maru.Native.LockProfile (lockProfileBytes)
import Options.Applicative
import SteerTest (steering, withMachines)
import System.Exit (ExitCode (..))
import System.Process (readProcessWithExitCode)
import Test.Tasty (TestTree, defaultMain, testGroup)
import Test.Tasty.HUnit (assertBool, assertFailure, testCase, (@?=))

main :: IO ()
main =
  withMachines $ \folder ->
    defaultMain $
      testGroup
        "maru-cli"
        [plans, locks, profiles, supervisors, boards, steering folder, checks, commandLines, outputs, builtCommand]

-- ---- run ----------------------------------------------------------------

request :: [(String, Either Refusal Part)] -> Request
request parts =
  Request
    { requestBestEffort = False,
      requestExplain = False,
      requestQuiet = False,
      requestReport = Nothing,
      requestParts = parts,
      requestProgram = undescribed,
      requestFirst = Nothing,
      requestCommand = ["cmd", "-x"]
    }

plans :: TestTree
plans =
  testGroup
    "plan"
    [ testCase "parts are joined, later rooms win" $
        fmap planEnvironment (planRun (request [("a", part [("X", "1"), ("Y", "1")] []), ("b", part [("X", "2")] [])]))
          @?= Right [("X", "2"), ("Y", "1")],
      testCase "libraries go where they can, and another comes with them" $ do
        let library needing = Right mempty {partEnvironment = [("X", "1")], partPreload = ["/l.so"], partNeeding = needing}
            planned effort described parts = planRun (request parts) {requestBestEffort = effort, requestProgram = described, requestFirst = Just "/first.so"}
            seen = either (\p -> Left (problemStatus p, problemLine p)) (\p -> Right (planPreload p, planEnvironment p, map snd (planReplaced p)))
            static = undescribed {describedProgram = Program.Static}
            asan = undescribed {describedSanitizer = Just "AddressSanitizer"}
        seen (planned False undescribed [("r", library ["--r"])]) @?= Right (["/first.so", "/l.so"], [("X", "1")], [])
        seen (planned False undescribed [("r", part [("X", "1")] [])]) @?= Right ([], [("X", "1")], [])
        seen (planned False static [("r", library ["--r"])]) @?= Left (maruFailed, "--r cannot serve cmd: it is statically linked: no library can stand before its own code; --best-effort goes on without it")
        seen (planned True static [("r", library ["--r"])]) @?= Right ([], [], ["left out: --r cannot serve cmd: it is statically linked: no library can stand before its own code"])
        seen (planned False static [("r", library [])]) @?= Right (["/first.so", "/l.so"], [("X", "1")], [])
        -- What would not start, or have its loader complain, runs without.
        let other = undescribed {describedProgram = Program.Dynamic "/lib/ld-musl-x86_64.so.1"}
            foreign' = undescribed {describedProgram = Program.Foreign}
            bare why = Right ([], [("X", "1")], ["no library of maru's stands before cmd and what it starts: " ++ why])
        map (\described -> seen (planned False described [("r", library [])])) [other, foreign'] @?= map bare ["its C library is not glibc (/lib/ld-musl-x86_64.so.1)", "it is a program for another machine"]
        seen (planned False asan [("r", library ["--r"])]) @?= Right ([], [], ["not active: cmd is built with AddressSanitizer, which must be its first library; it, and what it starts, runs without maru's"])
        seen (planned False asan [("r", library [])]) @?= Right ([], [("X", "1")], ["not active: cmd is built with AddressSanitizer, which must be its first library; it, and what it starts, runs without maru's"])
        fmap planReplaced (planned False undescribed {describedGo = True} [("r", library ["--r"])]) @?= Right [("r", "cmd is written in Go, which makes system calls of its own: --r sees few of them")],
      testCase "processes without libraries are told from the board" $ do
        let without number = board [Section "without" 1 (ByteString.pack [number, 0, 0, 0, 0, 0, 0, 0] <> Chars.pack "/a\tb" <> ByteString.replicate 244 0)]
        map ranWithout [board [], without 0] @?= [Nothing, Nothing]
        ranWithout (without 2) @?= Just "not active in 2 processes with a sanitizer, which must be the first library; the first was /a?b",
      testCase "a room's later part takes the place of one that sets the same" $
        fmap (\p -> (planEnvironment p, planPreload p)) (planRun (request [("a", part [("X", "1")] ["/1.so"]), ("b", part [("X", "2")] ["/2.so"]), ("a", part [("X", "3")] ["/3.so"]), ("a", part [("Y", "4")] ["/4.so"])]))
          @?= Right ([("X", "3"), ("Y", "4")], ["/2.so", "/3.so", "/4.so"]),
      testCase "nothing asked for changes nothing" $
        fmap (\p -> (planEnvironment p, planPreload p, planExplain p)) (planRun (request [("a", Right mempty)]))
          @?= Right ([], [], []),
      testCase "no command is a usage error" $
        either problemStatus (const 0) (planRun (request []) {requestCommand = []}) @?= 64,
      testCase "misuse is a usage error, best effort or not" $
        [ either problemStatus (const 0) (planRun (request [("a", Left (Misused "m"))]) {requestBestEffort = b})
          | b <- [False, True]
        ]
          @?= [64, 64],
      testCase "what is not available stops the run" $
        either problemStatus (const 0) (planRun (request [("a", Left (Unavailable "u"))])) @?= 125,
      testCase "with best effort it is left out and said" $
        fmap planReplaced (planRun (request [("a", Left (Unavailable "u"))]) {requestBestEffort = True})
          @?= Right [("a", "left out: u")],
      testCase "the supervisor's arguments" $
        fmap
          (\p -> supervisorArguments p 12 "/bin/maru")
          (planRun (request [("a", part [("X", "1=2")] ["/1.so", "/2.so"])]))
          @?= Right
            [ "--setenv",
              "X=1=2",
              "--preload",
              "/2.so",
              "--preload",
              "/1.so",
              "--report-fd",
              "12",
              "--reporter",
              "/bin/maru",
              "--",
              "cmd",
              "-x"
            ],
      testCase "wait policies" $ do
        decideWait (WaitFacts known Nothing (Right "/p.so") "/maru") (WaitFlags Nothing False Nothing) @?= Right mempty
        fmap partEnvironment (decideWait (WaitFacts known Nothing (Right "/p.so") "/maru") (WaitFlags (Just "spin") False Nothing)) @?= Right [("MARU_WAIT", "spin")]
        decideWait (WaitFacts known Nothing (Right "/p.so") "/maru") (WaitFlags (Just "x") False Nothing) @?= Left (Misused "unknown wait policy 'x'; known: spin, gang, spin-block")
        fmap partReplaced (decideWait (WaitFacts known Nothing (Right "/p.so") "/maru") (WaitFlags (Just "spin") False Nothing)) @?= Right []
        fmap partEnvironment (decideWait (WaitFacts known Nothing (Right "/p.so") "/maru") (WaitFlags (Just "spin-block:spin=40us") False Nothing)) @?= Right [("MARU_WAIT", "spin-block:spin=40us")]
        decideWait (WaitFacts known Nothing (Right "/p.so") "/maru") (WaitFlags (Just "spin-block:spin=40") False Nothing) @?= Left (Misused "'spin-block:spin=40' is no way to wait: a spin limit is written NAME:spin=40us (ns, us or ms, at most 100ms)")
        decideWait (WaitFacts known Nothing (Right "/p.so") "/maru") (WaitFlags (Just "gang:spin=40us") False Nothing) @?= Left (Misused "'gang:spin=40us' is no way to wait: gang takes no spin limit; these do: spin-block")
        decideWait (WaitFacts known Nothing (Right "/p.so") "/maru") (WaitFlags (Just "x:spin=40us") False Nothing) @?= Left (Misused "unknown wait policy 'x'; known: spin, gang, spin-block")
        fmap partBeside (decideWait (WaitFacts known Nothing (Right "/p.so") "/maru") (WaitFlags Nothing False (Just "1ms"))) @?= Right ["/maru", "boost", "--beside", "--period", "1ms"]
        decideWait (WaitFacts known Nothing (Right "/p.so") "/maru") (WaitFlags Nothing False (Just "1s")) @?= Left (Misused "'1s' is no period: 100us to 50ms, or auto")
        fmap partReplaced (decideWait (WaitFacts known Nothing (Right "/p.so") "/maru") (WaitFlags (Just "gang") False Nothing)) @?= Right ["gang runs as coop but in parallel maps: no slots"]
        fmap partPreload (decideWait (WaitFacts known (Just ("/l.so", ["MPICH"])) (Right "/p.so") "/maru") (WaitFlags (Just "spin") False Nothing)) @?= Right ["/l.so"]
        fmap (\p -> (partEnvironment p, partPreload p)) (decideWait (WaitFacts known Nothing (Right "/p.so") "/maru") (WaitFlags Nothing True Nothing)) @?= Right ([("MARU_WAIT_POLL", "1")], ["/p.so"])
        decideWait (WaitFacts known Nothing (Left "/p.so") "/maru") (WaitFlags Nothing True Nothing) @?= Left (Unavailable "/p.so is not there; install maru wholly or set MARU_PREFIX")
        judgePolicies [("spin", Right Nothing)] @?= Finding Good "spin" ""
        judgePolicies [("spin", Right Nothing), ("gang", Right (Just ("coop", "no slots")))]
          @?= Finding Good "spin; gang runs as coop: no slots" "",
      testCase "what MPI's ranks measured" $ do
        let mpi words' = Section "mpi" 1 (Lazy.toStrict (runPut (mapM_ putWord64host words')))
            boardOf = Board "" 1
            ended = [2, 10000000000, 8000000000, 400000000, 7, 5]
            killed = 1 : 2000000000 : 1000000000 : 50000000 : 1 : 1 : replicate 4 0 ++ 9 : replicate 21 0
            asked = Map.fromList [("MARU_WAIT", "adaptive")]
        decodeMpi (sectionBytes (mpi (ended ++ [0, 0]))) @?= Just (MpiCost 2 10 8 0.4 7 5 0)
        decodeMpi (sectionBytes (mpi (ended ++ [1, 30] ++ killed))) @?= Just (MpiCost 3 12 9 0.45 8 6 39)
        decodeMpi (sectionBytes (mpi (ended ++ [1, 0] ++ take 3 killed))) @?= Nothing
        decodeMpi (sectionBytes (mpi (replicate 8 0))) @?= Nothing
        fmap afterLines (mpiAfterwards asked (boardOf [mpi (ended ++ [0, 0])] []))
          @?= Just ["MPI: 2 ranks, 80 % of their time waiting, 5 % of that on a CPU"]
        fmap afterLines (mpiAfterwards asked (boardOf [mpi (ended ++ [0, 1])] []))
          @?= Just ["MPI: 2 ranks, 80 % of their time waiting, 5 % of that on a CPU; while none waited for a CPU, the MPI waited by itself"]
        -- Several threads of a rank wait at a time: no share of its time is more than all of it.
        fmap afterLines (mpiAfterwards asked (boardOf [mpi ([2, 10000000000, 35000000000, 400000000, 7, 5] ++ [0, 0])] []))
          @?= Just ["MPI: 2 ranks, on average 3.5 threads of each waiting, 1 % of that on a CPU"]
        fmap afterLines (mpiAfterwards asked (boardOf [] ["wait: MPI ranks pass: x", "wait: MPI ranks pass: x", "map: y"]))
          @?= Just ["MPI ranks pass: x"]
        mpiAfterwards asked (boardOf [] []) @?= Nothing,
      testCase "what the nodes of a launch count" $ do
        let line nodes of' = [nodes] ++ of' ++ map (* 100) of' ++ [1, 2, 3, 10 ^ (9 :: Int), 2 * 10 ^ (9 :: Int), 500000000, 4, 5, 6, 7, 8, 9] ++ replicate 19 0
            idle = replicate 64 0
            lines' = Lazy.toStrict . runPut . mapM_ putWord64host . concat
            sent = replicate 6 0 ++ [30, 20] ++ replicate 5 0 ++ [7, 0, 0]
        decodeStands (lines' (idle : line 3 sent : replicate 254 idle))
          @?= Just [Stand 1 3 [("request", (30, 3000)), ("grant", (20, 2000)), ("next", (7, 700))] [("pages", (1, 1)), ("locks", (2, 2)), ("barriers", (3, 0.5))] (zip faultReasons [4, 5, 6, 7]) 8 9]
        decodeStands (lines' (replicate 256 idle)) @?= Just []
        decodeStands (lines' (replicate 255 idle)) @?= Nothing,
      testCase "how a job's checkpoints stand" $ do
        let kept words' why = Lazy.toStrict (runPut (mapM_ putWord64host words') <> Lazy.pack (why ++ replicate (160 - length why) 0))
            words17 = [3, 2, 500, 7, 250, 4, 30, 8192, 4096, 6, 1500, 2, 4, 1, 65536, 300, 200]
            found = Kept 3 2 0.5 7 0.25 0.004 0.03 8192 4096 6 1.5 2 4 True 65536 300 200
        decodeKept (kept words17 []) @?= Just (found "")
        decodeKept (kept words17 [111, 110, 99, 101]) @?= Just (found "once")
        decodeKept (kept (0 : tail words17) []) @?= Nothing
        decodeKept (kept (take 3 words17) []) @?= Nothing,
      testCase "what polling cost" $ do
        let poll words' = Section "poll" 1 (Lazy.toStrict (runPut (mapM_ putWord64host words')))
            boardOf sections = Board "" 1 sections []
        decodePoll (sectionBytes (poll [3, 2, 9, 4000000000, 1000000000, 5, 2000000000, 1])) @?= Just (PollCost 3 2 9 4 1 5 2 1)
        decodePoll (sectionBytes (poll [3, 2])) @?= Nothing
        decodePoll (sectionBytes (poll (replicate 8 0))) @?= Nothing
        fmap afterLines (waitAfterwards Map.empty (boardOf [poll [3, 2, 9, 4000000000, 1000000000, 5, 2000000000, 1]]))
          @?= Just ["polls: 2 processes waited 4.00 s in loops of empty calls, 25 % of that on a CPU"]
        fmap afterLines (waitAfterwards Map.empty (boardOf [poll [3, 0, 0, 0, 0, 0, 0, 0]]))
          @?= Just ["polls: none of 3 programs asked again and again without working in between; nothing was changed"]
        waitAfterwards Map.empty (boardOf []) @?= Nothing
        fmap (length . afterLines) (waitAfterwards (Map.fromList [("MARU_WAIT_POLL", "1")]) (boardOf [])) @?= Just 1,
      testCase "who waits, for what, since when, and what it costs" $ do
        let top used heartbeat = putWord32host used >> putWord32host 9000 >> putInt64host heartbeat >> replicateM_ (12 + 2 * 256) (putWord32host 0)
            line state taken flags job since tid = do
              mapM_ putWord32host [0, state, 0, 0, 0, taken, flags, job]
              putInt64host since
              mapM_ putWord32host [0, 0, tid, 0, 0, 0]
            bytes = Lazy.toStrict (runPut (top 3 0 >> line 1 1 1 7 1000000000 42 >> line 0 2 0x101 7 0 43 >> line 2 0 1 7 0 44))
            table = WaitTable 0 [(0, Page.Channel Awake True 7 1000000000 42 False Page.AnyMessage), (1, Page.Channel Idle True 7 0 43 False Page.MapWork)]
            seen at cpu = Seen at (Just table) (Map.fromList [(42, ("w", cpu))]) [] Nothing Nothing
        decodeTable bytes @?= Just table
        decodeTable (ByteString.take 1000 bytes) @?= Nothing
        drawWaits Nothing (seen 3000000000 0) @?= shownWaits ""
        let worker = Page.Channel Asleep False 7 1000000000 42 False Page.MapWork
            cells waits = [cell | Tabular (Table _ rows) <- drawWaits Nothing waits, row <- rows, cell <- row]
            ofWorker threads = Seen 3000000000 (Just (WaitTable 0 [(0, worker)])) threads [] Nothing Nothing
        cells (ofWorker (Map.fromList [(42, ("w", 0))])) @?= ["42", "w", "work from 7", "7", "2.00 s", "asleep", ""]
        cells (ofWorker Map.empty) @?= ["42", "", "work from 7", "7", "2.00 s", "asleep, not found: ended, or in another pid namespace", ""]
        drawWaits (Just (1, seen 2000000000 0)) (seen 3000000000 800000000) @?= shownWaits "80 %",
      testCase "what a tuner tries, and says" $ do
        let report polls mpiWaits sections =
              fromRight Null . eitherDecode . Lazy.fromStrict . Chars.pack $
                "{\"rooms\": " ++ show (sections :: [String]) ++ ", \"after\": {\"wait\": {\"waits\": " ++ show (mpiWaits :: Int) ++ ", \"poll\": {\"spins\": " ++ show (polls :: Int) ++ "}}}}"
        reachedIn (report 0 0 ["poll"]) @?= Reached False False False
        reachedIn (report 3 0 []) @?= Reached False False True
        reachedIn (report 0 2 []) @?= Reached True False False
        reachedIn (report 0 0 ["map"]) @?= Reached True False False
        reachedIn (report 0 0 ["map", "wait"]) @?= Reached True True False
        reachedIn (object []) @?= Reached False False False
        WaitTune.settingsFor (Reached False False False) @?= []
        take 1 (WaitTune.settingsFor (Reached False False True)) @?= [Waiting "adaptive" True]
        [Waiting "coop" False `elem` WaitTune.settingsFor (Reached True channels False) | channels <- [True, False]] @?= [True, False]
        WaitTune.spinsFor (Reached False False True) @?= []
        take 1 (WaitTune.spinsFor (Reached True False False)) @?= [Waiting "spin-block:spin=5us" False]
        WaitTune.periodsFor (Reached True False False) (Waiting "coop" False) @?= []
        take 1 (WaitTune.periodsFor (Reached True True False) (Waiting "coop" False)) @?= [WaitTune.Boosted (Waiting "coop" False) "auto"]
        let raced base own = iterate (record (Map.fromList [(AsItIs, base), (Waiting "block" True, own)])) (start AsItIs [Waiting "block" True]) !! 6
        waitVerdict (Reached False False False) (raced 2 1) @?= "no gain: nothing waits (no MPI rank, no part of maru, no loop that polls was seen)"
        waitVerdict (Reached False False True) (raced 2 1) @?= "gain: 2.00 times (2.00 to 2.00) as fast with --wait block --wait-poll"
        waitVerdict (Reached False False True) (raced 1 2) @?= "no gain: as it is it is the fastest",
      testCase "delegation of input and output" $ do
        decideDelegation (Right "/l.so") Nothing @?= Right mempty
        fmap (\p -> (partEnvironment p, partPreload p)) (decideDelegation (Right "/l.so") (Just "hint")) @?= Right ([("MARU_IO", "hint")], ["/l.so"])
        either (const True) (const False) (decideDelegation (Left "/l.so") (Just "hint")) @?= True
        decideDelegation (Right "/l.so") (Just "on") @?= Left (Misused "unknown mode 'on' of --io-delegate; known: never, hint, always")
        let gone mode = either show (const "") (decideDelegation (Right "/l.so") (Just mode))
        map (isInfixOf "--io-delegate=guarded is gone: it delegated calls" . gone) ["guarded", "always"] @?= [True, False]
        map (isInfixOf "use --io-delegate=hint" . gone) ["guarded", "guarded:uring"] @?= [True, True]
        isInfixOf "use --io-delegate=always" (gone "always:uring") @?= True,
      testCase "what is tried on a program's input and output" $ do
        filter (isPrefixOf "--io=") (IoTune.settingsFor 2 True) @?= []
        length (filter (isPrefixOf "--io=") (IoTune.settingsFor 4 True)) @?= 4
        filter (isPrefixOf "--io-delegate=") (IoTune.settingsFor 8 False) @?= []
        let raced rounds runs = iterate (record (Map.fromList runs)) (start "" (map fst (drop 1 runs))) !! rounds
            ran fastest = IoTune.ioTuned (raced 3 [("", 2), ("--io-delegate=never", 1.9), (fastest, 1)])
            hint again rounds = Just (raced rounds [("", 2), ("--io-delegate=hint", again)])
        tunedEnvironment (ran "--io-delegate=hint" (hint 1 6)) @?= Just [("MARU_RUN_FLAGS", "--io-delegate=hint")]
        tunedEnvironment (ran "--io-delegate=never" Nothing) @?= Nothing
        -- The winner of a search runs again; that counts.
        tunedEnvironment (ran "--io-delegate=hint" (hint 2 6)) @?= Nothing
        tunedEnvironment (ran "--io-delegate=hint" (hint 1 5)) @?= Nothing
        profileFlags (Profile "p" "io" [("A", "b"), ("MARU_RUN_FLAGS", "--io=auto --io-delegate=hint")] "" Null) @?= ([("A", "b")], ["--io=auto", "--io-delegate=hint"]),
      testCase "the counters of input and output" $ do
        decodeIo (ByteString.replicate 100 0) @?= Nothing
        fmap ioMode (decodeIo (ByteString.replicate (256 + 1024 * 256) 0)) @?= Just "never"
        decodeIo (ByteString.cons 9 (ByteString.replicate (255 + 1024 * 256) 0)) @?= Nothing
        fmap (\c -> (lookup "file read" (ioClasses c), ioKernel c, ioHints c)) (decodeIo countedTwice) @?= Just (Just (14, 514), 4, 6),
      testCase "a library that was there for nothing is said to have been" $ do
        let said planned = maybe [] afterLines . afterIo (Map.fromList planned)
        said [] Nothing @?= []
        map (isPrefixOf "no process of the run showed itself") (said [("MARU_IO", "hint")] Nothing) @?= [True]
        map (isPrefixOf "none of 0 programs with the library read or wrote") (said [] (decodeIo (ByteString.replicate (256 + 1024 * 256) 0))) @?= [True]
        said [] (decodeIo countedTwice) @?= [],
      testCase "what is missed is named" $ do
        let process linkage loaded made = ProcessCalls 7 "p" made loaded True linkage
            owner = (process Dynamic False 0) {callsName = "owner"}
            counts seen = (\c -> c {ioKernel = seen, ioLoads = 1}) <$> decodeIo (ByteString.replicate (256 + 1024 * 256) 0)
            warning seen ps = coverageWarning (coverageOf (counts seen) (owner : ps))
        warning 950 [process Dynamic True 1000] @?= Nothing
        warning 0 [process Dynamic True 199] @?= Nothing
        warning 949 [process Dynamic True 1000] @?= Just "WARNING: 94.9 % of the calls are seen; the others: stdio, or system calls of its own: p"
        warning 0 [process Static False 1000] @?= Just "WARNING: 0.0 % of the calls are seen; the others: linked statically: p"
        warning 0 [process Go False 1000] @?= Just "WARNING: 0.0 % of the calls are seen; the others: Go makes system calls itself: p"
        warning 190 [process Dynamic True 206] @?= Just "WARNING: 92.2 % of the calls are seen; the others: the loader's own reads of programs that were started"
        coverageMade (coverageOf Nothing [owner, process Unknown False 5]) @?= 5,
      testCase "what the kernel says of a process" $ do
        let linked bytes = linkageOf (Described (interpreterOf bytes bytes) (isGo bytes) Nothing)
        madeOf (Chars.pack "rchar: 5\nsyscr: 30\nsyscw: 12\n") @?= 42
        treeOf (IntMap.fromList [(2, 1), (3, 2), (4, 9), (1, 0)]) [] 1 @?= [1, 2, 3]
        treeOf (IntMap.fromList [(1, 3), (2, 1), (3, 2)]) [] 1 @?= [1, 2, 3] -- read while 3 was given anew
        linked (Chars.pack "#!/bin/sh") @?= Unknown
        linked (elf [1, 2]) @?= Static
        linked (elf [1, 3]) @?= Dynamic
        linked (elf [1] <> Chars.pack "Go build ID: \"x\"") @?= Go
        map isGo [noted "Go\0\0", noted "GNU\0"] @?= [True, False]
        linked (ByteString.take 20 (elf [3])) @?= Unknown,
      testCase "the daemon's options" $ do
        map periodOf ["auto", "20ms", "250us"] @?= [Right 0, Right 20000, Right 250]
        mapM_ (\t -> assertBool t (either (const True) (const False) (periodOf t))) ["", "ms", "5", "99us", "51ms", "5s", "99999999999ms"]
        boostArguments (BoostOptions 20000 "pb" (Just "nice") (Just 50) ["7"] ["8", "9"] (Just 0.5) ["/b"] True True False)
          @?= words "--policy pb --period-us 20000 --cap 50 --boost nice --for-ms 500 --board /b --users 7 --groups 8,9 --dry-run --json"
        boostArguments plainBoost
          @?= words "--policy auto --period-us 1000 --cap 90 --board /b --until-input-ends",
      testCase "what the administrator says of the daemon" $ do
        let conf = BoostConf (Just "fifo") (Just 50) ["ann", "7"] ["hpc"]
        parseConf "# ours\n boost fifo\n\ncap 50 # percent\nusers ann,7\ngroups hpc\n" @?= Right conf
        parseConf "" @?= Right (BoostConf Nothing Nothing [] [])
        map
          (either fst (const 0) . parseConf)
          ["boost", "boost fast", "boost fifo nice", "\ncap 101", "boost fifo\nboost nice", "user ann", "users ann bob", "users ann,", "\n\nusers ,", "users a\nusers b"]
          @?= [1, 1, 1, 2, 2, 1, 1, 1, 3, 2]
        boostArguments (withConf conf plainBoost) @?= words "--policy auto --period-us 1000 --cap 50 --boost fifo --board /b --users ann,7 --groups hpc --until-input-ends"
        -- The command has the last word; of users and groups together.
        boostArguments (withConf conf plainBoost {boostBy = Just "nice", boostCap = Just 5, boostUsers = ["bob"]})
          @?= words "--policy auto --period-us 1000 --cap 5 --boost nice --board /b --users bob --until-input-ends"
        map (fromRight [] . namesOf) ["a,b", "a", "", "a,,b", "a b"] @?= [["a", "b"], ["a"], [], [], []],
      testCase "profiles stand before the command" $
        map
          splitProfiles
          [["c", "@x"], ["@p", "c"], ["@p", "@q", "--", "c"], ["@p", "--", "--", "c"], ["@"], ["--", "c"]]
          @?= [([], ["c", "@x"]), (["p"], ["c"]), (["p", "q"], ["c"]), (["p"], ["--", "c"]), ([], ["@"]), ([], ["--", "c"])]
    ]
  where
    part environment preload = Right mempty {partEnvironment = environment, partPreload = preload}
    known = [("spin", Nothing), ("gang", Just ("coop", "no slots")), ("spin-block", Nothing)]

supervisors :: TestTree
supervisors =
  testGroup
    "supervisor"
    [ testCase "what is installed lies beside the command, unless told" $ do
        prefixOf Nothing "/usr/bin/maru" @?= "/usr"
        prefixOf (Just "") "/usr/bin/maru" @?= "/usr"
        prefixOf (Just "/x") "/usr/bin/maru" @?= "/x"
        judgeParts [Right "/x/lib/maru/a.so", Right "/x/libexec/maru/b"] @?= Finding Good "2 parts below /x" ""
        judgeParts [Right "/x/lib/maru/a.so", Left ("/x/lib/maru/b.so", "b")] @?= Finding Bad "/x/lib/maru/b.so is not there: no b" "install maru wholly or set MARU_PREFIX"
        -- Programs are started from there; libraries are what is not loaded.
        judgeParts [Right "/my x/libexec/maru/b", Right "/my x/lib/maru/a.so"]
          @?= Finding Doubtful "maru run loads nothing into programs: the linker takes no library from /my x/lib/maru, for the space or colon in that path" "install maru in another folder",
      testCase "its words are understood" $
        fmap wordsMeasured (lastWords (Chars.pack (unlines ["{}", figures])))
          @?= Right (Measured 3 True 1.5 1 0.25 2048 True "slow"),
      testCase "with what was said beside the run" $
        fmap (length . wordsBeside) (lastWords (Chars.pack (unlines ["{}", "{\"room\":\"r\",\"line\":\"l\"}", figures])))
          @?= Right 1,
      testCase "also where that comes late, or was cut off" $
        fmap (\w -> (length (wordsBeside w), wordsTorn w, wordsMeasured w)) (lastWords (Chars.pack (unlines ["{}", "{\"room\":", figures, "{\"room\":\"r\",\"line\":\"l\"}"])))
          @?= Right (1, 1, Measured 3 True 1.5 1 0.25 2048 True "slow"),
      testCase "broken words are an error" $
        mapM_
          (either (const (pure ())) (const (assertFailure "accepted")) . lastWords . Chars.pack)
          ["", "{}\n", "{}\n{}\n", "x\n" ++ figures],
      testCase "the verdict says only what was measured" $
        [verdictLine (Measured 0 True 1.5 1 0.25 2048 counted "1.50 s wall") active | (counted, active) <- [(True, ["map", "lock"]), (True, []), (False, [])]]
          @?= map ("1.50 s wall; " ++) ["rooms: map lock", "no room was active", "what rooms did was not counted"]
    ]
  where
    figures = "{\"schema\":\"maru-supervise/1\",\"status\":3,\"started\":true,\"wall_s\":1.5,\"user_s\":1,\"sys_s\":0.25,\"max_rss_kib\":2048,\"words\":\"slow\"}"

locks :: TestTree
locks =
  testGroup
    "lock"
    [ testCase "without the flag nothing is asked for" $ decideLock Nothing @?= Right mempty,
      testCase "a lock that is there" $
        fmap (\p -> (partEnvironment p, partPreload p)) (decideLock (Just facts {factLock = "cna:deadline=25us"}))
          @?= Right ([("MARU_LOCK", "cna:deadline=25us")], ["/l.so"]),
      testCase "glibc's own are not said to queue" $
        map (fmap (any ("queue for it" `isInfixOf`) . partExplain) . decideLock . Just) [facts {factLock = "pass"}, facts {factLock = "cna"}] @?= [Right False, Right True],
      testCase "one that is not" $
        decideLock (Just facts {factLock = "mcs"})
          @?= Left (Misused "no lock 'mcs' can be laid over a program's mutexes; there are pass, cna"),
      testCase "where it is wrong" $
        decideLock (Just facts {factWrong = Just 4, factLock = "cna:x=1"}) @?= Left (Misused "--lock cna:x=1: not understood from 'x=1' on; cna has KEY=VALUE of deadline, handoff_range"),
      testCase "a key where there are none" $
        decideLock (Just facts {factWrong = Just 5, factLock = "pass:"}) @?= Left (Misused "--lock pass:: not understood from '' on; pass has no keys"),
      testCase "a range that is no power of two" $
        decideLock (Just facts {factWrong = Just 18, factLock = "cna:handoff_range=3"}) @?= Left (Misused "--lock cna:handoff_range=3: not understood from '3' on; it takes a power of two from 1 to 65536"),
      testCase "a time without a unit" $
        decideLock (Just facts {factWrong = Just 13, factLock = "cna:deadline=25"}) @?= Left (Misused "--lock cna:deadline=25: not understood from '25' on; it takes a time with a unit: 25ns, 25us or 25ms"),
      testCase "programs that cannot be served" $
        map (\p -> isJust (unfit undescribed {describedProgram = p})) [Program.Static, Program.Foreign, Program.Privileged, Program.Dynamic "/lib/ld-musl-x86_64.so.1", Program.Dynamic "/lib64/ld-linux-x86-64.so.2", Program.Unknown]
          @?= [True, True, True, True, False, False],
      testCase "what a file's first bytes tell" $
        map (interpreterOf (Chars.pack "\DELELF\2\1")) [Chars.pack "#! /bin/sh -e\n", Chars.pack "#!", Chars.pack "text", Chars.pack "\DELELF\1\1", Chars.pack "\DELELF\2\1"]
          @?= [Program.Script "/bin/sh", Program.Unknown, Program.Unknown, Program.Foreign, Program.Unknown],
      testCase "program headers where none can be" $
        map (interpreterOf (headersAt 64) . headersAt) [64, 0, 0xffff000000000000, maxBound] @?= [Program.Static, Program.Unknown, Program.Unknown, Program.Unknown],
      testCase "this very program is linked dynamically" $ do
        described <- describeProgram ["/proc/self/exe"]
        assertBool (show described) (isNothing (unfit described) && describedProgram described /= Program.Unknown && isNothing (describedSanitizer described)),
      testCase "so it is where its loader is executed, with it as an argument" $ do
        itself <- describedProgram <$> describeProgram ["/proc/self/exe"]
        case itself of
          Program.Dynamic linker -> do
            through <- mapM (describeProgram . (linker :)) [["/proc/self/exe"], ["--argv0", "/dev/null", "--inhibit-cache", "/proc/self/exe", "/dev/null"], [], ["--help"], ["ls"]]
            map unfit through @?= [Nothing, Nothing, Nothing, Nothing, Nothing]
            map ((/= Program.Unknown) . describedProgram) through @?= [True, True, False, False, False]
          other -> assertFailure (show other),
      testCase "sanitizers by the names that the loader needs" $
        map (sanitizerIn . Chars.intercalate (Chars.pack "\0") . map Chars.pack) [["", "libc.so.6", "asan_init", "read"], ["libasan.so.8"], ["libclang_rt.tsan-x86_64.so"], ["x", "__msan_init"], ["liblsan.so.0"], ["libubsan.so.1"]]
          @?= [Nothing, Just "AddressSanitizer", Just "ThreadSanitizer", Just "MemorySanitizer", Just "LeakSanitizer", Nothing],
      testCase "the profile needs room on the board" $
        map (fmap partBoardRoom . decideLock . Just) [facts, facts {factProfiled = True}] @?= [Right 0, Right lockProfileBytes],
      testCase "it is said that nothing came of it" $ do
        said <- mapM (\planned -> maybe [] afterLines <$> afterLock (Map.fromList planned) (board [])) [[], [("MARU_LOCK", "cna")]]
        said @?= [[], ["no process of the run showed itself: where the library was not loaded, mutexes were glibc's"]],
      testCase "a deadline is halved and doubled, up to none" $ do
        map (turned '<') [0, 25000, 1000, 1500] @?= [1000000000, 12500, 1000, 1000]
        map (turned '>') [25000, 600000000, 1000000000, 0] @?= [50000, 1000000000, 0, 0],
      testCase "a section that is too short" $ decodeOverlay (Chars.replicate 2000 '\0') @?= Nothing,
      testCase "shares of windows that are open" $ do
        -- Window 7: two threads with 3 each, one handed in; window 9: one thread alone.
        let open = [(fairnessOf [window 7 1 3 9, window 9 1 5 25], [Pace 0 [(7, 3), (0, 6), (0, 6)]])]
        map ((\shares -> [(sharesWindows x, sharesMean x) | x <- take 1 shares]) . sharesOf) open @?= [[(1, 1)]],
      testCase "one that had all while another waited" $
        map (\x -> (sharesWindows x, sharesMean x, sharesLeast x)) (take 1 (sharesOf (fairnessOf [window 7 2 10 100], []))) @?= [(1, 0.5, 0.5)],
      testCase "a course goes on with the windows that are open" $
        seriesOf ((fairnessOf []) {fairnessFirst = 100, fairnessStep = 2, fairnessSeries = [(10, 2, 1.5), (0, 0, 0)], fairnessScales = scalesOf [] [window 103 1 4 16]}, [])
          @?= [(0, 50, Just 0.75), (0.2, 20, Nothing)],
      testCase "threads are merged by mutex and place" $ do
        let row at n = Row (Just (64, at)) (Just 5) n 0 0 0 0 0 0 0 0 mempty mempty
            slots = [Slot 1 0 [row (1, 8) 2], Slot 1 0 [row (1, 8) 3, row (2, 8) 4], Slot 2 0 [row (1, 8) 9]]
            profile = LockProfile (IntMap.fromList [(1, process' 10), (2, process' 11)]) (IntMap.fromList [(1, "/a"), (2, "/a")]) (IntMap.fromList [(5, Mutex 1 64 (0, 0) 0)]) IntMap.empty [] slots 0 0 [] False
        -- Modules 1 and 2 are one file.
        [(processPid p, [(at, countAcquisitions c, countThreads c) | (at, c) <- sites]) | (p, _, sites) <- mergeProfile profile]
          @?= [(10, [(Just (1, 8), 9, 3)]), (11, [(Just (1, 8), 9, 1)])]
    ]
  where
    facts = LockFacts [("pass", []), ("cna", ["deadline", "handoff_range"])] Nothing (Right "/l.so") "cna" False Nothing
    window = Window
    process' pid = Process pid "p" 1 True (0, 0)
    scalesOf fine coarse = [Scale 0 0 0 0 fine, Scale 0 0 0 0 [], Scale 0 0 0 0 coarse]
    fairnessOf fine = Fairness 0 (scalesOf fine []) 0 0 []
    -- A program that says that its one program header, an empty one, is there.
    headersAt offset = Lazy.toStrict . runPut $ do
      putByteString (Chars.pack "\DELELF\2\1" <> Chars.replicate 26 '\0')
      putWord64host offset
      putByteString (Chars.replicate 14 '\0')
      mapM_ putWord16host [56, 1]
      putByteString (Chars.replicate 62 '\0')

profiles :: TestTree
profiles =
  testGroup
    "profile"
    [ testCase "comes back as it was written" $
        decodeProfile (encode (encodeProfile profile)) @?= Right profile,
      testCase "another schema is refused" $
        assertBool "accepted" $
          either (const True) (const False) (decodeProfile (Lazy.fromStrict (Chars.pack "{\"schema\":\"maru-profile/9\"}"))),
      testCase "durations" $ do
        traverse parseDuration ["30", "30s", "1.5m", "1h"] @?= Right [30, 30, 90, 3600]
        mapM_ (\t -> assertBool t (either (const True) (const False) (parseDuration t))) ["", "0s", "5x", "-1s", "."]
    ]
  where
    profile = Profile "n" "gc" [("GHCRTS", "-A64m")] "gain" (object [])

-- ---- top ----------------------------------------------------------------

-- | As @maru/run.h@ lays it out.
runBytes :: Int -> Int -> [String] -> Chars.ByteString
runBytes state status words' = Lazy.toStrict . runPut $ do
  putWord32host (fromIntegral state)
  putInt32host 42
  putWord64host 7
  putInt64host 1000
  putInt32host (fromIntegral status)
  putWord32host (fromIntegral (Chars.length command'))
  putByteString command'
  putByteString (Chars.replicate 64 '\0')
  where
    command' = Chars.pack (concatMap (++ "\0") words')

plainBoost :: BoostOptions
plainBoost = BoostOptions 1000 "auto" Nothing Nothing [] [] Nothing ["/b"] False False True

board :: [Section] -> Board
board sections = Board "/proc/9/fd/3" 9 sections ["map: worker 3 killed by signal 9"]

boards :: TestTree
boards =
  testGroup
    "top"
    [ testCase "the run section" $
        decodeRun (runBytes 1 0 ["sleep", "3"]) @?= Just (RunSection Running 42 1000 0 ["sleep", "3"]),
      testCase "bytes that are no run section" $
        map decodeRun [Chars.empty, Chars.take 20 (runBytes 1 0 []), runBytes 9 0 ["x"]] @?= [Nothing, Nothing, Nothing],
      testCase "a command cannot write on the screen" $
        commandLine (RunSection Running 1 0 0 ["a\ESC[2J", "b\n"]) @?= "a?[2J b?",
      testCase "JSON loses none of them, and shows them to no terminal" $ do
        let said = "\x9b\&31m \x202e \xe0021 grün" :: String
            line = jsonLine (toJSON said)
        decode line @?= Just said
        Chars.unpack (Lazy.toStrict line) @?= "\"\\u009b31m \\u202e \\udb40\\udc21 gr\xc3\xbcn\"\n",
      testCase "a run with its log" $
        drawn [] withRun >>= (@?= ["42  Running  sleep 3", "  ! map: worker 3 killed by signal 9"]),
      testCase "a program without maru run" $ do
        drawn [] (board []) >>= (@?= ["9  a program that uses maru itself"]) . take 1
        drawn [] (board []) {boardPath = ""} >>= (@?= ["9  not started by maru"]) . take 1,
      testCase "pages are drawn and see what was before" $ do
        (after, shown) <- lookAll 1 [withRun] =<< pages
        map (take 1 . drop 1 . drawBoard False) shown @?= [["  1 sections"]]
        drawn after withRun >>= (@?= ["  1 sections, seen before"]) . take 1 . drop 1,
      testCase "keys reach the page that knows them" $ do
        opened <- pages
        drawn (map (pressKey 'x') opened) withRun >>= (@?= 5) . length
        drawn (map (pressKey 'y') opened) withRun >>= (@?= 3) . length,
      testCase "colour only where wanted" $ do
        (_, shown) <- lookAll 1 [withRun] []
        map (take 1 . drawBoard True) shown @?= [["\ESC[1m42  Running  sleep 3\ESC[0m"]],
      testCase "JSON has the pages' data" $ do
        (_, shown) <- lookAll 1 [withRun] =<< pages
        assertBool "no example" ("\"rooms\":{\"example\":1}" `isInfixOf` Chars.unpack (Lazy.toStrict (encode (sampleJson 1 shown))))
    ]
  where
    withRun = board [Section "run" 1 (runBytes 1 0 ["sleep", "3"])]
    pages = sequence (mapMaybe openPage [exampleRoom])
    drawn at one = concatMap (drawBoard False) . snd <$> lookAll 2 [one] at

-- ---- doctor, bench ------------------------------------------------------

checks :: TestTree
checks =
  testGroup
    "doctor"
    [ testCase "an exception is a finding" $ do
        (_, finding) <- examine ("r", Check "c" (ioError (userError "boom")))
        findingLevel finding @?= Bad
        assertBool "no reason" ("boom" `isInfixOf` findingDetail finding),
      testCase "only what is missing changes the status" $ do
        doctorStatus [] @?= ExitSuccess
        doctorStatus [Finding Doubtful "" ""] @?= ExitSuccess
        doctorStatus [Finding Good "" "", Finding Bad "" ""] @?= ExitFailure 69,
      testCase "one respect is one" $
        drop 3 (doctorTable False [(("r", "c"), Finding Doubtful "few" "")]) @?= ["maru works here, with less in 1 respect"],
      testCase "what a program under the locks' library says" $ do
        let line = "maru: lock: process 7 keeps glibc's mutexes as they are: its mutexes are laid out otherwise\n"
        map (\(status, said) -> (\f -> (findingLevel f, findingDetail f)) (judgeMutexes status said)) [(ExitSuccess, ""), (ExitSuccess, "ld.so complains\n"), (ExitSuccess, line), (ExitFailure 127, "no GLIBC_2.34\n"), (ExitFailure 139, "")]
          @?= [ (Good, "queues can be laid over this C library's (--lock)"),
                (Good, "queues can be laid over this C library's (--lock)"),
                (Doubtful, "--lock leaves them as they are: its mutexes are laid out otherwise"),
                (Doubtful, "no program starts under libmaru-lock.so: no GLIBC_2.34"),
                (Doubtful, "no program starts under libmaru-lock.so")
              ],
      testCase "cores for input and output" $
        map (findingLevel . judgeCores) [1, 3, 4, 64] @?= [Doubtful, Doubtful, Good, Good],
      testCase "remedies stand below their checks" $
        doctorTable False [(("r", "c"), Finding Bad "none" "get one"), (("r", "d"), Finding Good "some" "unused")]
          @?= [ "room  check  answer",
                "r     c      fail    none",
                "          -> get one",
                "r     d      ok      some",
                "",
                "1 missing, 0 doubtful"
              ],
      testCase "accesses are seen one way or the other" $ do
        findingLevel (accessFinding (Right ()) (Left "no")) @?= Good
        let second = accessFinding (Left "not permitted") (Right ())
        findingLevel second @?= Doubtful
        assertBool "no reason" ("not permitted" `isInfixOf` findingDetail second)
        findingLevel (accessFinding (Left "a") (Left "b")) @?= Bad
    ]

-- ---- the command line ---------------------------------------------------

commandLines :: TestTree
commandLines =
  testGroup
    "command line"
    [ testCase "a room's plugs are on the command line" $
        mapM_
          accepted
          [ ["run", "--example", "fancy", "--", "true"],
            ["sim", "example", "--n", "4"],
            ["sim", "map", "--workers", "1,2", "--chunks", "static,fixed:8"],
            ["sim", "map", "--collector"],
            ["sim", "boost", "--nodes", "1,64", "--policy", "coop+auto,pb", "--quantum", "100", "--ratio", "0.3"],
            ["tune", "example", "cmd", "-x"],
            ["tune", "gc", "--budget", "30s", "--json=f", "--", "cmd"],
            ["doctor", "--json"],
            ["doctor", "--json=file"],
            ["top", "--once", "42"],
            ["launch", "-n", "2", "--", "ls", "-n"],
            ["launch", "-n", "2", "--hosts", "f", "--globals", "shared", "--access", "mprotect", "--memory", "1024", "--report", "-", "ls", "-n"],
            ["launch", "-n", "2", "--ckpt-every", "0.5", "--ckpt-dir", "d", "--resume", "d", "--output", "now", "--", "ls", "-n"],
            ["launch", "--move", "2=hostc", "4711"],
            ["similar", "dir"]
          ],
      testCase "what is not there is refused" $
        mapM_
          refused
          [ ["launch", "--", "true"],
            ["launch", "-n", "0", "--", "true"],
            ["launch", "-n", "257", "--", "true"],
            ["launch", "-n", "2"],
            ["launch", "--move", "2=hostc"],
            ["launch", "-n", "2", "--globals", "some", "true"],
            ["launch", "-n", "2", "--access", "magic", "true"],
            ["launch", "-n", "2", "--memory", "0", "true"],
            ["sim", "nothing"],
            ["tune", "lock", "cmd"],
            ["run", "--frobnicate", "--", "true"],
            ["top", "-3"],
            ["doctor", "file"]
          ],
      testCase "the command's own flags are the command's" $
        mapM_ accepted [["run", "ls", "--wait", "x"], ["run", "--", "--wait"], ["run", "@p", "--", "ls", "-l"]],
      testCase "rooms have different names" $
        length rooms @?= length (foldr (\r seen -> if roomName r `elem` seen then seen else roomName r : seen) [] rooms)
    ]
  where
    parse = execParserPure defaultPrefs (commandLineOf (rooms ++ [exampleRoom]))
    accepted words' = case parse words' of
      Success _ -> pure ()
      _ -> assertFailure (unwords words')
    refused words' = case parse words' of
      Failure _ -> pure ()
      _ -> assertFailure (unwords words')

outputs :: TestTree
outputs =
  testGroup
    "output"
    [ testCase "columns" $
        renderTable (Table [(L, "name"), (R, "n")] [["a", "10"], ["long name", "7"]])
          @?= ["name        n", "a          10", "long name   7"],
      testCase "durations" $
        map seconds [0, 5e-8, 1.5e-6, 2.5e-4, 2.5e-2, 0.5, 2.5, 250]
          @?= ["0 s", "50 ns", "1.50 µs", "250 µs", "25.00 ms", "500 ms", "2.50 s", "250 s"],
      testCase "progress, and how long the rest takes if it goes on like that" $ do
        map (uncurry (progressLine "comparing")) [(0, 5), (0.004, 0.5), (0.25, 10), (0.5, 300), (1, 9)]
          @?= ["comparing: 0 %", "comparing: 0 %", "comparing: 25 %, 30 s left", "comparing: 50 %, 5 min left", "comparing: 100 %"],
      testCase "a line at first after so long, then no more than one in so long" $ do
        time <- newIORef 100
        lines' <- newIORef []
        tell <- telling (readIORef time) 30 30 (\line -> modifyIORef lines' (line :)) "reading"
        forM_ [(10, 0.1), (129, 0.2), (131, 0.25), (160, 0.5), (162, 0.5), (163, 1)] $ \(now, share) -> writeIORef time now >> tell share
        readIORef lines' >>= (@?= ["reading: 50 %, 62 s left", "reading: 25 %, 93 s left"]),
      testCase "a limit that is over just as a message comes loses none" $ do
        box <- newMailbox
        _ <- forkIO (forM_ [1 .. 3000 :: Int] (\n -> threadDelay 1 >> post box n))
        let heard got = receiveWithin 5e-5 box >>= maybe (heard got) (\n -> if n == 3000 then pure (reverse (n : got)) else heard (n : got))
        heard [] >>= (@?= [1 .. 3000]),
      testCase "JSON is one line" $
        (eitherDecode (jsonLine Null), Lazy.length (jsonLine Null)) @?= (Right Null, 5)
    ]

builtCommand :: TestTree
builtCommand = testCase "the built command (test/cli.sh)" $ do
  (code, out, err) <- readProcessWithExitCode "timeout" ["240", "bash", "test/cli.sh"] ""
  case code of
    ExitSuccess -> pure ()
    _ -> assertFailure (out ++ err)

-- | A section whose lines 0 and 3 hold: 7 calls and 257 bytes in the first class; 2 calls that the
-- kernel counts, 3 windows.
countedTwice :: ByteString.ByteString
countedTwice = ByteString.concat [ByteString.replicate 256 0, line, empty', empty', line, ByteString.replicate (1020 * 256) 0]
  where
    empty' = ByteString.replicate 256 0
    line = ByteString.concat ([ByteString.replicate 8 0, word 7 0, word 1 1] ++ replicate 14 (word 0 0) ++ [word 2 0, word 0 0, word 0 0, word 3 0, ByteString.replicate 88 0])
    word low high = ByteString.pack ([low, high] ++ replicate 6 0)

-- | An executable with a note of type 4 by that name, of four bytes.
noted :: String -> ByteString.ByteString
noted name = ByteString.take 64 (elf [4]) <> segment <> ByteString.pack [4, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0] <> Chars.pack name
  where
    segment = ByteString.pack (concat [word 4, word 120, word 0, word 0, word 16, word 0, word 0])
    word n = n : replicate 7 0

-- | An executable with program headers of these kinds.
elf :: [Int] -> ByteString.ByteString
elf kinds = ByteString.concat (Chars.pack "\DELELF" : ByteString.replicate 28 0 : word8 64 : ByteString.replicate 14 0 : half 56 : half (length kinds) : ByteString.replicate 6 0 : [ByteString.pack (fromIntegral kind : replicate 55 0) | kind <- kinds])
  where
    word8 n = ByteString.pack (n : replicate 7 0)
    half :: Int -> ByteString.ByteString
    half n = ByteString.pack [fromIntegral n, 0]

-- | One that waits for 2 s.
shownWaits :: String -> [Block]
shownWaits lost =
  [ Line "2 channels, 1 waited for; no maru boost",
    Tabular
      ( Table
          [(R, "thread"), (L, "name"), (R, "waits for"), (R, "job"), (R, "since"), (L, "how"), (R, "CPU lost")]
          [["42", "w", "channel 0", "7", "2.00 s", "awake, nobody wakes it", lost]]
      )
  ]
