module AdviseTest (advising) where

import qualified Data.IntSet as IntSet
import Data.List (isInfixOf)
import Data.String (fromString)
import Hedgehog (Gen, PropertyT, annotateShow, assert, forAll, property, (===))
import qualified Hedgehog.Gen as Gen
import qualified Hedgehog.Range as Range
import Maru.Control.Advise
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (testCase, (@?=))
import Test.Tasty.Hedgehog (testPropertyNamed)

law :: String -> PropertyT IO () -> TestTree
law name = testPropertyNamed name (fromString name) . property

-- | Two CPUs, watched for 2 s.
calm :: Seen
calm = Seen 2 (IntSet.fromList [0, 1]) [] [] [] [] ["mpirun", "-n", "8", "./my app"] False

-- | Computes all the time.
worker :: Int -> Task
worker n = Task n n "app" 2 0.01 0 2 5 (IntSet.fromList [0, 1]) 0 0 []

-- | One of eight that poll: most of its time it is ready and does not run.
poller :: Int -> Task
poller n = (worker n) {taskUser = 0.15, taskSystem = 0.33, taskDelayed = 1.5, taskInvoluntary = 900, taskSpots = [InCall, InCall, InProgram]}

names :: Seen -> [(String, Confidence)]
names seen = [(findingName f, findingConfidence f) | f <- advise seen]

remedies :: Seen -> [String]
remedies = concatMap findingRemedies . advise

genTask :: Gen Task
genTask =
  Task <$> int 50 <*> int 9 <*> pure "t" <*> time <*> time <*> time <*> int 9000 <*> int 9000
    <*> Gen.element (map IntSet.fromList [[], [0], [1], [0, 1], [0 .. 7]])
    <*> Gen.int (Range.linear (-5) 19)
    <*> Gen.double (Range.linearFrac 0 1e9)
    <*> Gen.list (Range.linear 0 5) (Gen.element [InYield, InCall, InProgram, Asleep "futex_wait"])
  where
    int most = Gen.int (Range.linear 0 most)
    time = Gen.frequency [(1, pure 0), (3, Gen.double (Range.linearFrac 0 5))]

genSeen :: Gen Seen
genSeen =
  Seen <$> Gen.element [0, 0.2, 2]
    <*> Gen.element (map IntSet.fromList [[], [0], [0, 1], [0 .. 7]])
    <*> Gen.list (Range.linear 0 12) genTask
    <*> Gen.list (Range.linear 0 4) (Neighbour 7 "hog" <$> Gen.double (Range.linearFrac 0 9) <*> Gen.element (map IntSet.fromList [[], [0], [1, 7]]) <*> Gen.element [0, 19] <*> Gen.bool)
    <*> Gen.list (Range.linear 0 2) (Group "/a" <$> Gen.maybe (Gen.double (Range.linearFrac 0.1 8)) <*> Gen.double (Range.linearFrac 0 9) <*> pure Nothing)
    <*> Gen.list (Range.linear 0 3) ((,) <$> Gen.int (Range.linear 0 9) <*> Gen.enumBounded)
    <*> pure ["a"]
    <*> Gen.bool

advising :: TestTree
advising =
  testGroup
    "advise"
    [ testCase "nothing is wrong with two that compute on two CPUs, or with who sleeps" $ do
        names calm @?= []
        names calm {seenTasks = map worker [1, 2]} @?= []
        names calm {seenTasks = [(worker 1) {taskUser = 0.01, taskSystem = 0, taskSpots = [Asleep "ep_poll"]}]} @?= [],
      testCase "a thread that copies files is not one that polls" $
        names calm {seenTasks = [(worker 1) {taskUser = 0.2, taskSystem = 1.8, taskMoved = 2e9}]} @?= [],
      testCase "eight that poll on two CPUs" $ do
        let seen = calm {seenTasks = map poller [1 .. 8]}
        names seen @?= [("spinning", Likely), ("oversubscribed", Certain)]
        take 1 (remedies seen) @?= ["maru run --wait adaptive --wait-poll -- mpirun -n 8 './my app'"],
      testCase "sched_yield in the stacks makes it certain" $
        take 1 (names calm {seenTasks = [(poller n) {taskSpots = [InYield, InCall]} | n <- [1 .. 8]]}) @?= [("spinning", Certain)],
      testCase "MPI's ranks spin even where the kernel sees nothing of it" $ do
        let seen = calm {seenTasks = [(poller n) {taskUser = 0.48, taskSystem = 0} | n <- [1 .. 8]], seenRanks = [(n, OpenMpi) | n <- [1 .. 8]]}
        names seen @?= [("spinning", Possible), ("oversubscribed", Certain)]
        take 1 (remedies seen) @?= ["maru run --wait adaptive -- mpirun -n 8 './my app'"]
        names seen {seenRanks = []} @?= [("oversubscribed", Certain)],
      testCase "hogs are named, and only where they are in the way" $ do
        let hog = Neighbour 99 "cc1" 1.2 (IntSet.fromList [1]) 0 False
            kept = calm {seenTasks = [(worker 1) {taskUser = 1, taskDelayed = 0.9}, worker 2], seenNeighbours = [hog]}
        names kept @?= [("hogs", Likely)]
        remedies kept @?= ["end or move them, or let them yield: renice -n 19 -p 99"]
        names kept {seenNeighbours = [hog {neighbourSeen = IntSet.fromList [5]}]} @?= []
        names kept {seenTasks = [worker 1]} @?= []
        any ("control groups" `isInfixOf`) (remedies kept {seenNeighbours = [hog {neighbourApart = True}]}) @?= True,
      testCase "all on one CPU of two" $ do
        let one n = (worker n) {taskUser = 0.5, taskDelayed = 1.4, taskAllowed = IntSet.fromList [0]}
        names calm {seenTasks = map one [1 .. 4]} @?= [("pinned", Certain), ("oversubscribed", Certain), ("few-cpus", Certain)]
        -- One on each is as it should be.
        names calm {seenTasks = [(worker n) {taskAllowed = IntSet.fromList [n - 1]} | n <- [1, 2]]} @?= [],
      testCase "a quota that stops it, and a low priority" $ do
        names calm {seenTasks = [worker 1], seenGroups = [Group "/box" (Just 1) 0.6 Nothing]} @?= [("throttled", Certain)]
        names calm {seenTasks = [(worker 1) {taskNice = 10, taskUser = 1, taskDelayed = 1}]} @?= [("priority", Likely)],
      testCase "what is read" $ do
        parseSchedstat "2000000000 500000000 7\n" @?= Just (2, 0.5)
        parseSwitches "Name:\tx\nvoluntary_ctxt_switches:\t3\nnonvoluntary_ctxt_switches:\t4\n" @?= Just (3, 4)
        map parseQuota ["150000 100000\n", "max 100000\n", "-1 100000", "", "1 0"] @?= [Just 1.5, Nothing, Nothing, Nothing, Nothing]
        spotOf False "[<0>] do_sched_yield+0x1/0x2\n[<0>] do_syscall_64+0x3/0x4\n" @?= Just InYield
        spotOf False "[<0>] exit_to_user_mode_loop+0x51/0xe0\n[<0>] do_syscall_64+0x23b/0x280\n" @?= Just InCall
        spotOf False "[<0>] exit_to_user_mode_loop+0x51/0xe0\n[<0>] asm_sysvec_apic_timer_interrupt+0x1/0x2\n" @?= Just InProgram
        spotOf True "[<0>] futex_wait_queue+0x1/0x2\n" @?= Just (Asleep "futex_wait_queue")
        spotOf True "" @?= Nothing
        map mpiOf [["libc.so.6", "libmpi.so.40.30.4"], ["libmpich.so.12.2.1"], ["libmpi.so.12"], ["libc.so.6"]] @?= [Just OpenMpi, Just Mpich, Just Mpich, Nothing],
      law "no text makes a parser fail" $ do
        text <- forAll (Gen.string (Range.linear 0 200) (Gen.element "ctxt_switches:[<0>] do+/\n0123-"))
        last (show (parseSchedstat text, parseSwitches text, parseQuota text, spotOf True text, mpiOf (lines text))) === ')',
      law "every finding has a text, figures that are numbers, and something to do" $ do
        seen <- forAll genSeen
        let findings = advise seen
        annotateShow findings
        assert (all (\f -> not (null (findingText f)) && not (null (findingRemedies f)) && not (any ((\x -> isNaN x || isInfinite x) . snd) (findingFigures f))) findings)
        assert (not (any (("NaN" `isInfixOf`) . findingText) findings) && not (any (("Infinity" `isInfixOf`) . findingText) findings))
    ]
