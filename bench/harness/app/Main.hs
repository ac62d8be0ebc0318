module Main (main) where

import IoIrqs (irqsRun)
import Maru.Bench.Command (benchCommand)
import Maru.Bench.Experiments (experiments)
import Maru.Cli.CommandLine (parsed, program)

main :: IO ()
main = program run
  where
    run ("steer-irqs" : arguments) = irqsRun arguments
    run arguments = parsed "maru bench" (benchCommand experiments) arguments
