-- | The rival that an administrator would set up. The program is bound near the disk, and every
-- device's interrupts bound by hand to CPUs of the device's node. They are in a journal and put
-- back by @maru-steer@, as those of @maru run --io@ are, whatever is killed.
module IoIrqs
  ( boundIrqs,
    whileBound,
    titleOf,
    irqsRun,

    -- * For tests
    nearOrders,
    boundLine,
    firstLine,
  )
where

import Control.Exception (bracket)
import Control.Monad (void, when)
import qualified Data.IntMap.Strict as IntMap
import qualified Data.IntSet as IntSet
import Data.List (isPrefixOf, isSuffixOf)
import Data.Maybe (isNothing)
import Maru.Cli.Exit
import Maru.Cli.Installed (helperPath)
import Maru.Cli.Machine (readMachine)
import Maru.Cli.Room.Steer.Link
import Maru.Control.Observe
import Maru.Control.Place
import System.Environment (getExecutablePath)
import System.Exit (ExitCode (..))
import System.IO
import System.Posix.Process (getParentProcessID, getProcessID)
import System.Process
import System.Timeout (timeout)

-- | The side's name.
boundIrqs :: String
boundIrqs = "numactl, interrupts bound"

-- | The side's name in a table, by what was said of its runs: no row claims what was not done.
titleOf :: [String] -> String
titleOf said
  | null said = boundIrqs -- interrupted before its first run
  | all (nothingBound `isPrefixOf`) said = "numactl, no interrupt could be bound"
  | all ("; refused: 0" `isSuffixOf`) said = boundIrqs
  | otherwise = "numactl, interrupts bound that could be"

-- | One CPU each, of the device's node in turn: of several the kernel takes the first.
nearOrders :: Machine -> [Order]
nearOrders machine =
  [ Set (OfFile ("proc/irq/" ++ show irq ++ "/smp_affinity_list")) (show cpu)
    | h <- machineHardware machine,
      Just node <- [hardwareNode h],
      let near = [cpu | (cpu, n) <- IntMap.toAscList (machineCpus machine), n == node],
      (irq, cpu) <- zip (IntSet.toAscList (hardwareInterrupts h)) (if null near then [] else cycle near)
  ]

-- | What the binding came to, as it is said.
boundLine :: [Answer] -> String
boundLine answers = how ++ "; refused: " ++ show (length refused) ++ concat [" (" ++ why ++ ")" | why : _ <- [refused]]
  where
    refused = [why | Refused why <- answers]
    how = case length answers - length refused of
      0 -> nothingBound
      1 -> "bound 1 interrupt"
      n -> "bound " ++ show n ++ " interrupts"

nothingBound :: String
nothingBound = "bound no interrupt"

-- | Runs the action while they are bound; with what that came to, which is said on standard error,
-- too.
whileBound :: IO a -> IO (String, a)
whileBound action = do
  reaper <- helperPath "maru-steer"
  bench <- getExecutablePath
  us <- getProcessID
  let words' = ["reaper", "--tree", show us, "--", bench, "steer-irqs", reaper]
  bracket (createProcess (proc reaper words') {std_in = CreatePipe, std_out = CreatePipe}) end $ \(_, said, _, _) -> do
    told <- maybe (pure (Left "has no output")) (firstLine patience) said
    line <- either (problem unavailable . ("interrupts cannot be bound: maru-steer " ++)) pure told
    warn line
    (,) line <$> action
  where
    -- Its standard input is its life; it has put everything back when it ends.
    end (life, said, _, reaper) = do
      mapM_ hClose life
      ended <- timeout patience (waitForProcess reaper)
      when (isNothing ended) (warn ("maru-steer has not ended for " ++ seconds patience ++ " s: interrupts may still be bound; when it is gone: maru-steer repair"))
      mapM_ hClose said

-- | For the reaper: microseconds. Each interrupt is a line on disk before it is bound; some hundred
-- take a second.
patience :: Int
patience = 60000000

seconds :: Int -> String
seconds us = show (us `div` 1000000)

-- | What is said there first, within so many microseconds; 'Left': what happened instead.
firstLine :: Int -> Handle -> IO (Either String String)
firstLine most handle = told <$> timeout most (orNothing (hGetLine handle))
  where
    told = maybe (Left ("said nothing for " ++ seconds most ++ " s")) (maybe (Left "ended") Right)

-- | @maru-bench steer-irqs REAPER@, for the reaper alone: binds them once, says how many, and waits for the
-- end.
irqsRun :: [String] -> IO ExitCode
irqsRun arguments = case arguments of
  [reaper] -> do
    parent <- getParentProcessID
    link <- openLink
    first <- hear link
    batch <- nearOrders <$> readMachine "/"
    answered <- case words <$> first of
      Just ("ready" : _) -> exchange link batch
      Just ("off" : why) -> pure (Right (map (const (Refused (unwords why))) batch))
      _ -> pure (Left Orphaned)
    either (finish reaper parent) (\answers -> tell answers >> await link >>= finish reaper parent) answered
  _ -> problem usage "steer-irqs is for the reaper alone"
  where
    finish reaper parent end = case end of
      Told _ -> pure ExitSuccess
      Orphaned -> repairAfter reaper parent ""
    await link = endOf <$> hear link
    tell answers = void (orNothing (putStrLn (boundLine answers) >> hFlush stdout))
