{-# LANGUAGE OverloadedStrings #-}

-- | @maru sim stm@: threads at a list and at a red-black tree of transactional variables.
module Maru.Cli.Room.Map.StmSim
  ( stmSimulator,
    stmSimulated,
  )
where

import Data.Aeson (object, (.=))
import Data.List (intercalate)
import Maru.Cli.Output
import Maru.Cli.Readers
import Maru.Cli.Room
import Maru.Control.Plot
import Maru.Control.Sim.Stm
import Options.Applicative

stmSimulator :: Simulator
stmSimulator =
  Simulator
    { simName = "stm",
      simPurpose = "Transactions of many threads: a list and a red-black tree, and why one scales",
      simParser = pictured . Right <$> (figures <$> model <*> threads)
    }
  where
    threads = option (eitherReader (listOf (wholeFrom 1 1024 "a number of threads"))) (long "threads" <> metavar "N,..." <> value [1, 2, 4, 8, 16, 32, 64] <> help "Threads, a core each (default 1,2,4,...,64)")
    model =
      (\n share shared seed -> (measuredStm List 1) {stmSize = n, stmUpdates = fromIntegral share / 100, stmShared = fromIntegral shared, stmSeed = seed})
        <$> count "size" "N" 1 65536 256 "Elements"
        <*> count "updates" "PERCENT" 0 100 20 "Share of the operations that insert or delete"
        <*> count "shared-ns" "NANOSECONDS" 0 1000000 353 "What a commit takes more when another core committed last"
        <*> count "seed" "N" 0 10000000 1 "Of keys and operations"
    count name meta least most def = numbered name meta (wholeFrom least most "a number") def (show def)

-- | The series that stand beside a measurement: name, and times as fast as one thread by threads.
stmSimulated :: [Int] -> [(String, [(Int, Double)])]
stmSimulated threads = [(structureName s ++ ", simulated", curve (measuredStm s 1) threads) | s <- [minBound ..]]

curve :: Stm -> [Int] -> [(Int, Double)]
curve model threads = [(n, rate n / rate 1) | n <- threads]
  where
    rate n = perSecond (simulateStm model {stmThreads = n})

figures :: Stm -> [Int] -> Figures
figures base threads =
  Figures
    { figuresLine = "simulated with " ++ show last' ++ " threads, times as fast as one: " ++ intercalate ", " [structureName s ++ " " ++ fixed 2 (scale (of' s)) | s <- [minBound ..]],
      figuresTables =
        [ ( "Simulated, thousand operations a second; times as fast as one thread; attempts thrown away per 1000",
            Table ((L, "structure") : [(R, show n) | n <- threads]) [structureName s : map (cell s) threads | s <- [minBound ..]]
          ),
          ( "Simulated with " ++ show last' ++ " threads, times as fast as one: without each part of the model",
            Table [(L, "model"), (R, "list"), (R, "redblack")] [name : [fixed 2 (scale model {stmStructure = s}) | s <- [minBound ..]] | (name, model) <- stmAblations base]
          ),
          ( "What an operation reads and writes",
            Table [(L, "structure"), (R, "read"), (R, "written")] [[structureName s, per countReads c, per countWrites c] | s <- [minBound ..], let c = counted s 1]
          )
        ],
      figuresPlots =
        [ Plot
            ("Simulated: a set of " ++ show (stmSize base) ++ ", " ++ fixed 0 (100 * stmUpdates base) ++ " % of the operations update")
            (Axis "threads" Logarithmic)
            (Axis "times as fast as one thread" Linear)
            [Series (structureName s ++ ", simulated") [Point (fromIntegral n) v v v | (n, v) <- curve (of' s) threads] | s <- [minBound ..]]
        ],
      figuresData =
        object
          [ "seed" .= stmSeed base,
            "rows" .= [object ["series" .= (structureName s ++ ", simulated"), "threads" .= n, "per_second" .= perSecond c, "thrown_away" .= countThrown c, "reads" .= countReads c, "writes" .= countWrites c, "commits" .= countCommits c] | s <- [minBound ..], n <- threads, let c = counted s n]
          ]
    }
  where
    last' = maximum (1 : threads)
    of' s = base {stmStructure = s}
    scale model = sum (map snd (curve model [last']))
    counted s n = simulateStm (of' s) {stmThreads = n}
    per what c = fixed 2 (fromIntegral (what c) / fromIntegral (max 1 (countCommits c)) :: Double)
    cell s n =
      let c = counted s n
       in fixed 0 (perSecond c / 1000) ++ "; " ++ fixed 2 (perSecond c / perSecond (counted s 1)) ++ "; " ++ fixed 1 (1000 * fromIntegral (countThrown c) / fromIntegral (max 1 (countCommits c)))
