module Main (main) where

import IoIrqs (irqsRun)
import Maru.Bench.Command (benchCommand)
import Maru.Bench.Evidence (Seed (..), markdown)
import Maru.Bench.Evidence.All (seeds)
import Maru.Bench.Experiments (experiments)
import Maru.Cli.CommandLine (parsed, program)
import System.Environment (unsetEnv)
import System.Exit (ExitCode (..))

main :: IO ()
main = program run
  where
    run ("steer-irqs" : arguments) = irqsRun arguments
    -- For scripts/experiments.
    run ["figures", n] = mapM_ putStrLn (concat [markdown seed | seed <- seeds, show (seedNumber seed) == n]) >> pure ExitSuccess
    -- Programs that are measured would take the user's flags beside those of their experiment.
    run arguments = unsetEnv "GHCRTS" >> parsed "maru bench" (benchCommand experiments) arguments
