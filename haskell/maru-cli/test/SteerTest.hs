{-# LANGUAGE OverloadedStrings #-}
-- Quicker to compile, and no slower where it counts: what is tested is optimised.
{-# OPTIONS_GHC -O0 #-}

-- | Machines as folders of small files, and what is made of them. Each is one text in
-- @test\/steer@, unfolded for as long as the tests run.
module SteerTest (steering, withMachines) where

import Control.Exception (bracket)
import qualified Data.ByteString.Lazy.Char8 as Lazy
import qualified Data.IntMap.Strict as IntMap
import qualified Data.IntSet as IntSet
import qualified Data.Map.Strict as Map
import Maru.Cli.Machine
import Maru.Cli.Room.Steer.Control
import Maru.Cli.Room.Steer.Record
import Maru.Cli.Room.Steer.Watch
import Maru.Control.Observe
import Maru.Control.Place
import Maru.Control.Sim.Io (Flow (..), Look (..))
import Maru.Control.Steer
import System.Directory (getTemporaryDirectory, listDirectory, removeDirectoryRecursive)
import System.FilePath (takeBaseName, (</>))
import System.Posix.Process (getProcessID)
import System.Posix.Temp (mkdtemp)
import System.Process (callProcess)
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (assertBool, testCase, (@?=))

-- | Runs the action with a folder that has each machine as a folder of its name.
withMachines :: (FilePath -> IO a) -> IO a
withMachines = bracket unfolded removeDirectoryRecursive
  where
    unfolded = do
      root <- getTemporaryDirectory >>= mkdtemp . (</> "maru-machines-")
      files <- listDirectory "test/steer"
      root <$ sequence_ [callProcess "test/unfold" ["test/steer" </> f, root </> takeBaseName f] | f <- files]

-- | Of the folder that 'withMachines' gives.
steering :: FilePath -> TestTree
steering root = testGroup "steer" [machines root, programs root, verdicts, moved, remembered root, recorded]

recorded :: TestTree
recorded =
  testCase "what maru top recorded, for the simulator: no first look, no run without a page" $ do
    looksOf (Lazy.unlines [page "not used: it counts from the first look on" 1000, page "used" 2, "", "{\"runs\":[{\"rooms\":{}}]}"])
      @?= Right [Look 2 2.25 [(File, Flow 100 1024 0.25 0.25), (Net, Flow 10 163840 0.25 0.25)]]
    looksOf (page "used" 2 <> "\nx\n") @?= Left "line 2 is no line of maru top --record"
    looksOf (page "not used: it counts from the first look on" 2) @?= Left "no look at input and output is in it, but for first ones (means since the start): record with maru top --record for longer"
  where
    page why time = "{\"runs\":[{\"rooms\":{\"steer\":{\"bpf\":\"" <> why <> "\",\"seconds\":" <> Lazy.pack (show (time :: Int)) <> rest
    rest =
      ",\"cores\":[{\"irq\":0.25,\"softirq\":0.125},{\"irq\":0,\"softirq\":0.125}],\"network_bytes_per_s\":163840,\"threads\":["
        <> "{\"user\":0.5,\"system\":0.25,\"calls_per_s\":100,\"read_bytes_per_s\":1000,\"written_bytes_per_s\":24,\"kind\":\"file\"},"
        <> "{\"user\":0.25,\"system\":0.25,\"calls_per_s\":null,\"read_bytes_per_s\":0,\"written_bytes_per_s\":0,\"kind\":\"network\"},"
        <> "{\"user\":1,\"system\":0.5,\"calls_per_s\":0,\"read_bytes_per_s\":0,\"written_bytes_per_s\":0,\"kind\":null}]}}}]}"

remembered :: FilePath -> TestTree
remembered root =
  testCase "nodes that have memory: all, where nothing says which" $ do
    four <- readMemoryNodes (root </> "four-nodes")
    four @?= IntSet.fromList [0 .. 3]
    some <- readMemoryNodes (root </> "node-without-cpus")
    some @?= IntSet.fromList [0, 5]

moved :: TestTree
moved =
  testCase "what the kernel counted: kinds add up, an entry told twice counts once, other lines not at all" $
    parseMoved ["7 read 8:0 100 1", "7 read 8:0 80 1", "7 written 8:0 50 2", "7 sent 3 5 1", "9 received 3 6 1", "9 read 8:0 x 1", "9 other 3 6 1", ""]
      @?= IntMap.fromList [(7, Map.fromList [(CountedDisk "8:0", 150), (CountedInterface 3, 5)]), (9, Map.fromList [(CountedInterface 3, 6)])]

verdicts :: TestTree
verdicts =
  testGroup
    "the verdict"
    [ testCase "of nothing" $ verdict (newStory (By Auto)) @?= "off: hardly any input and output was seen",
      testCase "of what may not be seen" $ verdict (newStory (By Auto)) {storyBlind = True} @?= "off: the program's input and output may not be seen (another user's; CAP_SYS_PTRACE is missing)",
      testCase "as asked" $ verdict (newStory Off) @?= "off, as asked",
      testCase "of what is placed, and what could not be" $
        verdict placed {storyRefused = Map.fromList [(OfFile "proc/irq/9/smp_affinity_list", "Operation not permitted"), (OfThread 7 1, "gone")]}
          @?= "placed, per-socket: file calls on 2-3 (5 threads, 1.10 times the rate in 9 pairs, trials: 2, undone: 1); could not set thread 7 (gone) and 1 more",
      testCase "of what is on trial, and what was tried" $ do
        verdict placed {storyTrying = True, storyTally = Tally 1 0 0 Nothing}
          @?= "on trial, per-socket: file calls on 2-3 (5 threads, trials: 1, undone: 0)"
        verdict tried {storyTrying = True} @?= "off: on trial, not decided yet (0 threads, trials: 3, undone: 2)"
        [verdict tried {storyTally = (storyTally tried) {tallyLast = Just (why, 7, 0.98)}} | why <- [NotFaster, Slower, Undecided, Idle]]
          @?= [ "off: tried and undone, " ++ why ++ " (0 threads, trials: 3, undone: 2)"
                | why <- ["it was not faster (0.98 times the rate in 7 pairs of slices)", "the rate fell", "nothing could be decided (7 pairs of slices)", "nothing got done meanwhile"]
              ],
      testCase "where nothing could be set it is off" $
        verdict placed {storyInForce = 0, storyMended = True, storyFailed = 2}
          @?= "off: nothing of what was wanted could be set; put back what a run that was killed had left; 2 settings could not be put back",
      testCase "policies by name" $ do
        choiceOf "auto" @?= Right (By Auto)
        choiceOf "off" @?= Right Off
        choiceOf "Auto" @?= Left "unknown io policy 'Auto'; known: single-socket, per-socket, cross-socket, auto, off"
    ]
  where
    placed = (newStory (By Auto)) {storySets = Map.singleton (Item File Call) (IntSet.fromList [2, 3]), storyPolicy = Just PerSocket, storyThreads = 5, storyInForce = 5, storyTally = Tally 2 1 1 (Just (Faster, 9, 1.1))}
    tried = (newStory (By Auto)) {storyTally = Tally 3 0 2 (Just (Faster, 9, 1.1))}

-- | CPUs by node, disks and their nodes.
shape :: Machine -> ([(Node, [Cpu])], [(String, Maybe Node)])
shape m = (Map.toAscList (Map.fromListWith (flip (++)) [(node, [cpu]) | (cpu, node) <- IntMap.toAscList (machineCpus m)]), [(hardwareName h, hardwareNode h) | h <- machineHardware m])

machines :: FilePath -> TestTree
machines root =
  testGroup
    "machines"
    [ testCase "one node of two CPUs" $ fixture "one-by-two" >>= (@?= ([(0, [0, 1])], [])) . shape,
      testCase "two of eight, a disk at one, a network interface at the other" $ do
        m <- fixture "two-by-eight"
        shape m @?= ([(0, [0 .. 7]), (1, [8 .. 15])], [("nvme0n1", Just 1), ("eth0", Just 0)])
        machineDistance m 0 1 @?= 21
        map (IntSet.toAscList . hardwareInterrupts) (machineHardware m) @?= [[40, 41], [50, 51]]
        map hardwareQueues (machineHardware m) @?= [[], ["rx-0", "rx-1", "tx-0", "tx-1"]],
      testCase "four nodes of one socket" $ do
        m <- fixture "four-nodes"
        fst (shape m) @?= [(n, [4 * n .. 4 * n + 3] ++ [16 + 4 * n .. 19 + 4 * n]) | n <- [0 .. 3]]
        machineDistance m 1 3 @?= 12,
      testCase "a node without CPUs may hold a device, and keeps its distance" $ do
        m <- fixture "node-without-cpus"
        shape m @?= ([(0, [0 .. 3]), (2, [4 .. 7])], [("nvme0n1", Just 5)])
        machineDistance m 2 5 @?= 17,
      testCase "a device at node -1 is at no node" $ fixture "unknown-node" >>= (@?= [("nvme0n1", Nothing)]) . snd . shape,
      testCase "CPUs that are offline are not there" $ do
        m <- fixture "offline"
        fst (shape m) @?= [(0, [0, 1, 3]), (1, [4, 6, 7])]
        s <- readSnapshot (both root "offline") []
        IntMap.keys (snapshotCores s) @?= [0, 1, 3, 4, 6, 7]
        map interruptCounts (snapshotInterrupts s) @?= [IntMap.fromList [(0, 1), (1, 2), (3, 3), (4, 4), (6, 5), (7, 6)]],
      testCase "a container's CPUs are its programs'" $ readAllowed (both root "cpuset") 7 >>= (@?= Just (IntSet.fromList [4, 5])),
      testCase "a folder that describes nothing is a machine of no CPUs" $ readMachine (root </> "nowhere") >>= (@?= ([], [])) . shape
    ]
  where
    fixture = readMachine . (root </>)

both :: FilePath -> String -> Roots
both root name = Roots (root </> name) (root </> name)

programs :: FilePath -> TestTree
programs root =
  testGroup
    "a program"
    [ testCase "is its process and those below" $ do
        p <- parents (both root "two-by-eight")
        treeOf p [] 100 @?= [100, 200]
        treeOf p [200] 100 @?= [100]
        treeOf p [] 999 @?= [],
      testCase "is seen with its devices, its nodes, its interrupts" $ do
        (m, seen) <- observed
        let t = IntMap.fromList [(threadId (usedThread u), u) | u <- observedThreads seen]
        fmap usedRead (IntMap.lookup 100 t) @?= Just 80000
        fmap (statName . threadStat . usedThread) (IntMap.lookup 100 t) @?= Just "up (load)"
        fmap usedNode (IntMap.lookup 101 t) @?= Just (Just 1)
        fmap usedDevice (IntMap.lookup 100 t) @?= Just (Just File)
        fmap usedHardware (IntMap.lookup 100 t) @?= Just ["nvme0n1"]
        fmap usedDevice (IntMap.lookup 200 t) @?= Just Nothing
        fmap IntMap.toList (Map.lookup "nvme0n1" (observedInterrupts seen)) @?= Just [(cpu, 0.005) | cpu <- [8 .. 15]]
        fmap useSoftirq (IntMap.lookup 3 (observedCores seen)) @?= Just 0.05
        -- 8 of 10 MB are read on node 0, the disk is at node 1.
        observedRemote seen @?= Just 0.8
        assertBool (show (predictedGain m seen)) (maybe False (\g -> g > 0.1 && g < 0.3) (predictedGain m seen)),
      testCase "gets done what its children did that have ended meanwhile; by its threads' counts where processes' may not be read" $ do
        m <- readMachine (root </> "two-by-eight")
        s <- readSnapshot (both root "two-by-eight") [100, 200]
        IntMap.toList (snapshotBytes s) @?= []
        let later = s {snapshotTime = snapshotTime s + 2}
            with bytes snapshot = snapshot {snapshotBytes = IntMap.fromList bytes}
        observedBytes (between m s later) @?= 0
        -- The second one ended, and the first, which waited for it, has what it did.
        observedBytes (between m (with [(100, 100), (200, 50)] s) (with [(100, 400)] later)) @?= 125
        -- Somebody else waited for it.
        observedBytes (between m (with [(100, 100), (200, 500)] s) (with [(100, 400)] later)) @?= 0
        self <- fromIntegral <$> getProcessID
        bytes <- snapshotBytes <$> readSnapshot (Roots (root </> "two-by-eight") "/") [self]
        assertBool (show bytes) (maybe False (> 0) (IntMap.lookup self bytes)),
      testCase "uses a disk by its node, which is not touched: the machine need not even have it" $ do
        s <- readSnapshot (both root "raw-disk") [300]
        map threadDisks (snapshotThreads s) @?= [["maru0"]],
      testCase "goes next to its disk, and so do its interrupts" $ do
        (m, seen) <- observed
        let busy = seen {observedThreads = [u {usedUser = 0.3, usedSystem = 0.6} | u <- observedThreads seen]}
            sets = Map.fromList [(Item File Call, IntSet.fromList [12 .. 15]), (Item File Interrupt, IntSet.fromList [10, 11])]
            wanted = settings m base base [] (Just SingleSocket) sets busy
        topologyFile (topologyFor m busy) @?= Just 1
        wanted
          @?= Map.fromList
            [ (OfThread 100 90000, "12-15"),
              (OfThread 101 90000, "12-15"),
              (OfThread 200 95000, "0-9"),
              (OfFile "proc/irq/40/smp_affinity_list", "10"),
              (OfFile "proc/irq/41/smp_affinity_list", "11")
            ]
        orders wanted Map.empty @?= map Back (Map.keys wanted),
      testCase "that placed a thread itself keeps it" $ do
        (m, seen) <- observed
        let own = seen {observedThreads = [u {usedThread = (usedThread u) {threadAllowed = IntSet.singleton 2}} | u <- observedThreads seen]}
            sets = Map.singleton (Item File Call) (IntSet.fromList [12 .. 15])
        settings m base base [] (Just SingleSocket) sets own @?= Map.empty
        Map.size (settings m base base [IntSet.singleton 2] (Just SingleSocket) sets own) @?= 3,
      testCase "that uses the network gets its queues" $ do
        (m, seen) <- observed
        let sets = Map.fromList [(Item Net Call, IntSet.fromList [6, 7]), (Item Net Interrupt, IntSet.fromList [3, 4, 5])]
            files = [(f, v) | (OfFile f, v) <- Map.toList (settings m base base [] (Just PerSocket) sets seen)]
        lookup "proc/irq/51/smp_affinity_list" files @?= Just "4"
        lookup "sys/class/net/eth0/queues/rx-1/rps_cpus" files @?= Just "38"
        lookup "sys/class/net/eth0/queues/tx-0/xps_cpus" files @?= Just "c0"
        lookup "proc/sys/net/core/rps_sock_flow_entries" files @?= Just "32768"
        lookup "sys/class/net/eth0/queues/rx-0/rps_flow_cnt" files @?= Just "16384"
    ]
  where
    base = IntSet.fromList [0 .. 15]
    observed = do
      m <- readMachine (root </> "two-by-eight")
      p <- parents (both root "two-by-eight")
      s <- readSnapshot (both root "two-by-eight") (treeOf p [] 100)
      pure (m, sinceStart m s)
