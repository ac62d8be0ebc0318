-- | The rival that an administrator would set up: the program bound near the disk, and every
-- device's interrupts bound by hand to CPUs of the device's node. They are in a journal and put back by
-- @maru-steer@, as those of @maru run --io@ are, whoever is killed.
module Maru.Cli.Bench.Io.Irqs
  ( boundIrqs,
    whileBound,
    irqsRun,
    absentRivals,

    -- * For tests
    nearOrders,
  )
where

import Control.Exception (bracket)
import qualified Data.IntMap.Strict as IntMap
import qualified Data.IntSet as IntSet
import Maru.Cli.Bench.Side (helperPath)
import Maru.Cli.Exit
import Maru.Cli.Output
import Maru.Cli.Steer.Link
import Maru.Cli.Steer.Read (readMachine)
import Maru.Control.Observe
import Maru.Control.Place
import System.Environment (getExecutablePath)
import System.Exit (ExitCode (..))
import System.IO
import System.Posix.Process (getParentProcessID, getProcessID)
import System.Process

-- | The side's name.
boundIrqs :: String
boundIrqs = "numactl, interrupts bound"

-- | What several nodes are needed for: on how many this machine has.
absentRivals :: Int -> [(String, Table)]
absentRivals nodes =
  [ ( "Not measured",
      Table
        [(L, "side"), (L, "why")]
        [[name, "one node: there is no near and no far"] | name <- ["numactl", boundIrqs, "irqbalance", "single-socket", "per-socket", "cross-socket"]]
    )
    | nodes < 2
  ]

-- | One CPU each, of the device's node in turn: of several the kernel takes the first.
nearOrders :: Machine -> [Order]
nearOrders machine =
  [ Set (OfFile ("proc/irq/" ++ show irq ++ "/smp_affinity_list")) (show cpu)
    | h <- machineHardware machine,
      Just node <- [hardwareNode h],
      let near = [cpu | (cpu, n) <- IntMap.toAscList (machineCpus machine), n == node],
      (irq, cpu) <- zip (IntSet.toAscList (hardwareInterrupts h)) (if null near then [] else cycle near)
  ]

-- | Runs the action while they are bound; what could not be is said on standard error.
whileBound :: IO a -> IO a
whileBound action = do
  guard <- helperPath "maru-steer"
  maru <- getExecutablePath
  us <- getProcessID
  let words' = ["guard", "--tree", show us, "--", maru, "steer-irqs", guard]
  bracket (createProcess (proc guard words') {std_in = CreatePipe, std_out = CreatePipe}) end $ \(_, said, _, _) -> do
    told <- maybe (pure Nothing) (orNothing . hGetLine) said
    maybe (problem unavailable "interrupts cannot be bound: maru-steer ended") warn told
    action
  where
    -- Its standard input is its life; it has put everything back when it ends.
    end (life, said, _, guard) = mapM_ hClose life >> waitForProcess guard >> mapM_ hClose said

-- | @maru steer-irqs GUARD@, for the guard alone: binds them once, says how many, and waits for the
-- end.
irqsRun :: [String] -> IO ExitCode
irqsRun arguments = case arguments of
  [guard] -> do
    parent <- getParentProcessID
    link <- openLink
    first <- hear link
    batch <- nearOrders <$> readMachine "/"
    answered <- case words <$> first of
      Just ("ready" : _) -> exchange link batch
      Just ("off" : why) -> pure (Right (map (const (Refused (unwords why))) batch))
      _ -> pure (Left Orphaned)
    either (finish guard parent) (\answers -> tell answers >> await link >>= finish guard parent) answered
  _ -> problem usage "steer-irqs is for the guard alone"
  where
    finish guard parent end = case end of
      Told _ -> pure ExitSuccess
      Orphaned -> repairAfter guard parent ""
    await link = endOf <$> hear link
    tell answers = do
      let refused = [why | Refused why <- answers]
      _ <- orNothing (putStrLn ("bound " ++ show (length answers - length refused) ++ " interrupts; refused: " ++ show (length refused) ++ concat [" (" ++ why ++ ")" | why : _ <- [refused]]) >> hFlush stdout)
      pure ()
