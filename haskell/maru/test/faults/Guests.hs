{-# OPTIONS_GHC -fno-cse -fno-full-laziness #-}

{- HLINT ignore "Use >=>" -}

-- | Programs that do more than map, and places that refuse.
module Guests (tests) where

import Control.Concurrent
import Control.Exception hiding (Handler)
import Control.Monad
import Data.Char (toLower)
import Data.List (isInfixOf, isPrefixOf, partition)
import Maru
import Maru.Internal.Cores (giveCores, shareCores, takeCores)
import Maru.Native.Own
import System.Exit (ExitCode (..))
import System.Mem (performMajorGC)
import System.Posix.Process hiding (ProcessStatus (..))
import qualified System.Posix.Process as Process
import System.Posix.Signals
import System.Posix.Types (ProcessID)
import System.Timeout (timeout)
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit
import Tools

tests :: Backend -> TestTree
tests b =
  testGroup
    "guests and refusals"
    [ testCase "several maps at once from several threads" . leavingNothing $ do
        boxes <- forM [1 .. 6] $ \k -> do
          box <- newEmptyMVar
          _ <- forkIO (try (parMapM (onBackend b) {workers = Workers 2} (working 20) [k .. k + 100]) >>= putMVar box)
          pure (k, box)
        within 60 . forM_ boxes $ \(k, box) ->
          takeMVar box >>= either (throwIO :: SomeException -> IO ()) (@?= [k + 1 .. k + 101]),
      testCase "one result demanded by several threads" . leavingNothing $ do
        let ys = parMapWith (onBackend b) (working 20) [1 .. 200]
        boxes <- replicateM 4 $ do
          box <- newEmptyMVar
          box <$ forkIO (evaluate (sum ys) >>= putMVar box)
        within 30 (forM_ boxes (takeMVar >=> (@?= sum [2 .. 201]))),
      testCase "a map started and consumed with asynchronous exceptions masked" . leavingNothing $
        forM_ [mask_, uninterruptibleMask_] $ \masked ->
          within 20 (masked (parMapM (onBackend b) (working 1) [1 .. 50])) >>= (@?= [2 .. 51]),
      testCase "a process that the program forks while a map runs disturbs nothing" $ forks b,
      testCase "a map inside a process that the program forked" $ forkedMap b,
      testCase "a process that the program forked is not held up by what another thread was at" $ when (b == Shm) heldUp,
      testCase "a forked process that goes on with its parent's map gets one clear error" $ heirs b,
      testCase "a caller that ignores SIGCHLD" $ chld b Ignore,
      testCase "a caller whose SIGCHLD handler waits for any child" $
        chld b (Catch (void (try (getAnyProcessStatus False False) :: IO (Either SomeException (Maybe (ProcessID, Process.ProcessStatus)))))),
      testCase "signals that the program ignores end no worker (nohup)" $ ignoring b,
      testGroup
        "where the system refuses: the right result, or one clear line"
        [ testCase what (refusing b argument)
          | (what, argument) <-
              [ ("no more address space", "space"),
                ("only a little address space", "little-space"),
                ("no more processes", "processes"),
                ("no more descriptors", "descriptors 0"),
                ("three more descriptors", "descriptors 3"),
                ("eight more descriptors", "descriptors 8"),
                ("sixteen more descriptors", "descriptors 16"),
                ("twenty-four more descriptors", "descriptors 24"),
                ("a sandbox refuses memfd_create", "memfd"),
                ("a sandbox refuses pidfd_open", "pidfd"),
                ("a sandbox refuses shared futexes", "futex"),
                ("a sandbox refuses eventfd and socketpair", "sockets"),
                ("a worker that never starts", "one-start")
              ]
        ],
      testGroup
        "where the system refuses, what chooses workers by itself does without them, quietly, and says so"
        [ testCase what (alone argument)
          | b == Shm,
            (what, argument) <-
              [ ("no more processes", "processes"),
                ("no more descriptors", "descriptors 0"),
                ("three more descriptors", "descriptors 3"),
                ("eight more descriptors", "descriptors 8"),
                ("a sandbox refuses socketpair", "pair"),
                ("a sandbox refuses process_vm_readv", "look")
              ]
        ],
      testGroup
        "where the system refuses a worker what it needs, the line names it"
        [ testCase call $ do
            (status, out, err) <- scene ["refuse", argument, backendName b] ""
            (status, out) @?= (ExitFailure 1, "")
            assertBool err (call `isInfixOf` err && not ("must not exit" `isInfixOf` err))
          | (call, argument) <- [("socket pair", "pair"), ("process_vm_readv", "look")]
        ],
      testCase "where the system refuses threads of its own to bound-threads: one clear line" $
        when (b == Shm) (scene ["bound"] "" >>= \(status, out, err) -> clear status out err),
      testCase "what was for a worker that is refused goes to none of the program's descriptors" $
        finishes ["second", backendName b] "" ["right"],
      testCase "what another thread opens just before a fork is not kept open by the worker" $
        when (b == Shm) (finishes ["between"] "" ["right"]),
      testCase "what goes on without its first worker is given each item once" $
        when (b == Shm) (finishes ["first", "auto"] "" ["right", "workers"]),
      testCase "pages for workers that are not born yet take no descriptor from those that may be" $
        when (b == Shm) (finishes ["sixteen", "24"] "" ["right", "workers"]),
      testCase "spare threads of the run-time system end where no descriptor is left" $
        when (b == Shm) (finishes ["spares"] "" ["right"]),
      testGroup
        "a limit to the length of files (ulimit -f) costs no result"
        [ testCase (kibibytes <> " KiB") $ do
            (status, out, err) <- scene ["files", kibibytes, backendName b] ""
            (status, err) @?= (ExitSuccess, "")
            let (notes, rest) = partition ("by copy" `isInfixOf`) (lines out)
            rest @?= ["right", "0", "right"]
            when (b == Shm) $ do
              length notes @?= byCopy
              assertBool out (all ("ulimit -f" `isInfixOf`) notes)
          | (kibibytes, byCopy) <- [("100000", 0), ("10000", 1), ("0", 1)]
        ],
      testCase "a channel takes what address space there is, also less than 16 MiB" $
        when (b == Shm) (finishes ["channel"] "" ["(True,Just 1)"]),
      testGroup
        "workers that are not wanted for long end, and one clear line says what is refused then"
        [testCase what (slept argument) | (what, argument) <- [("nothing", "nothing"), ("pages", "pages"), ("processes", "forks")]],
      testCase "what a sandbox answers is what is said" $
        when (b == Sockets) $ do
          (_, _, err) <- scene ["refuse", "sockets", backendName b] ""
          assertBool err (map toLower "Operation not permitted" `isInfixOf` map toLower err),
      testCase "--nonmoving-gc is refused with one clear line, or works" $ do
        (status, out, err) <- scene ["refuse", "nothing", backendName b, "+RTS", "--nonmoving-gc", "-RTS"] ""
        clear status out err
    ]
  where
    slept what = do
      (status, out, err) <- scene ["asleep", what, backendName b] ""
      (status, err) @?= (ExitSuccess, "")
      case lines out of
        ["ended", "right"] -> pure ()
        ["ended", line] -> assertBool out ((what, b) `notElem` [("nothing", b), ("pages", Sockets)] && "maru: " `isPrefixOf` line)
        _ -> assertFailure out

refusing :: Backend -> String -> Assertion
refusing b what = do
  (status, out, err) <- scene ["refuse", what, backendName b] ""
  clear status out err

alone :: String -> Assertion
alone what = do
  (status, out, err) <- scene ["alone", what] ""
  (status, out, err) @?= (ExitSuccess, "right\nin the caller\n", "")

-- | The right result, or status 1 and one line: by us, or by the run-time system
-- where it could not start a thread and ended the program before we could speak.
clear :: ExitCode -> String -> String -> Assertion
clear ExitSuccess out err = (out, err) @?= ("right\n", "")
clear status out err = do
  (status, out) @?= (ExitFailure 1, "")
  let (ours, others) = partition ("maru: " `isInfixOf`) (lines err)
      (threads, strange) = partition ("failed to create OS thread" `isInfixOf`) others
  (strange, length ours) @?= ([], if null threads then 1 else min 1 (length ours))
  assertBool err (not ("maru: " `isInfixOf` drop 5 (dropUntil "maru: " (concat ours))))

dropUntil :: String -> String -> String
dropUntil word = go
  where
    go [] = []
    go t@(_ : rest) = if word `isPrefixOf` t then t else go rest

forks :: Backend -> Assertion
forks b = leavingNothing $ do
  let ys = parMapWith (onBackend b) {policy = Fail} (pausing 5) [1 .. 300 :: Int]
  within 10 (evaluate (sum (take 10 ys))) >>= (@?= 55)
  pids <- replicateM 5 . forkProcess $ do
    -- In it the parent's result becomes garbage.
    replicateM_ 3 (performMajorGC >> threadDelay 20000)
    exitImmediately (ExitFailure 7)
  within 30 (evaluate (sum ys)) >>= (@?= sum [1 .. 300])
  forM_ pids $ \pid -> getProcessStatus True False pid >>= (@?= Just (Process.Exited (ExitFailure 7)))

forkedMap :: Backend -> Assertion
forkedMap b = leavingNothing $ do
  pid <- forkProcess $ do
    ys <- parMapM (onBackend b) (working 1) [1 .. 100]
    left <- children
    exitImmediately (if ys == [2 .. 101] && null left then ExitSuccess else ExitFailure 1)
  within 20 (getProcessStatus True False pid) >>= (@?= Just (Process.Exited ExitSuccess))

-- | What threads of the parent hold at the fork nobody gives back in the child.
heldUp :: Assertion
heldUp = leavingNothing $ do
  shareCores 2
  cores <- takeCores 2
  own <- newOwn 'a'
  held <- ownOf own 'a' >>= takeMVar
  pid <- forkProcess $ do
    -- The parent gives its cores back meanwhile.
    threadDelay 200000
    fresh <- timeout 1000000 (ownOf own 'b' >>= takeMVar)
    taken <- takeCores (length cores)
    exitImmediately (if (fresh, length taken) == (Just 'b', length cores) then ExitSuccess else ExitFailure 1)
  giveCores cores
  within 20 (getProcessStatus True False pid) >>= (@?= Just (Process.Exited ExitSuccess))
  ownOf own 'a' >>= (`putMVar` held)
  assertBool "no core was idle" (not (null cores))

heirs :: Backend -> Assertion
heirs b = leavingNothing $ do
  let ys = parMapWith (onBackend b) {policy = Fail, window = Just 4} (pausing 5) [1 .. 100 :: Int]
  within 10 (evaluate (sum (take 3 ys))) >>= (@?= 6)
  pid <- forkProcess $ do
    got <- try (evaluate (sum ys))
    exitImmediately $ case got of
      Left e | "another process" `isInfixOf` displayException (e :: SomeException) -> ExitSuccess
      Left _ -> ExitFailure 2
      Right _ -> ExitFailure 1
  within 20 (getProcessStatus True False pid) >>= (@?= Just (Process.Exited ExitSuccess))
  within 20 (evaluate (sum ys)) >>= (@?= 5050)

-- | A worker that gets them goes on. Where the program does not ignore them they end it.
ignoring :: Backend -> Assertion
ignoring b = leavingNothing . forM_ [sigHUP, sigTERM, sigQUIT] $ \signal -> do
  let hit n = effect (n <$ when (n == 5) (raiseSignal signal)) :: Int
      caught handler = bracket (installHandler signal handler Nothing) (\old -> installHandler signal old Nothing) . const . within 20
      options = (onBackend b) {policy = Skip}
  survived <- caught Ignore (parMapTry' options hit [1 .. 10])
  survived @?= map Right [1 .. 10]
  ended <- caught Default (parMapTry' options hit [1 .. 10])
  [d | Left d <- ended] @?= [Killed (fromIntegral signal)]
  where
    parMapTry' options f xs = evaluate (forced (map (either (Left . death) Right) (parMapTry options f xs)))
    forced ys = foldr seq () ys `seq` ys
    death e = maybe Vanished lostDeath (fromException (failedCause e))

chld :: Backend -> Handler -> Assertion
chld b handler = do
  old <- installHandler sigCHLD handler Nothing
  flip finally (installHandler sigCHLD old Nothing) . leavingNothing . forM_ [Fail, Retry 3] $ \p -> do
    within 20 (parMapM (onBackend b) {policy = p} (working 20) [1 .. 100]) >>= (@?= [2 .. 101])
    within 20 (evaluate (sum (take 5 (parMapWith (onBackend b) {policy = p} (working 20) [1 ..])))) >>= (@?= 20)
