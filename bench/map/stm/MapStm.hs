{-# LANGUAGE OverloadedStrings #-}

-- | @map\/stm@: a set that threads share, as a list, a tree and what else there is; and why one scales
-- where another does not.
module MapStm
  ( stmExperiment,
  )
where

import Data.Aeson (object, (.=))
import Data.List.NonEmpty (NonEmpty (..))
import Data.Text (Text)
import GHC.Conc (getNumProcessors)
import Maru.Bench.Experiment
import Maru.Bench.Rounds
import Maru.Bench.Side
import Maru.Cli.Installed (helperPath)
import Maru.Cli.Output
import Maru.Cli.Reaper (Reaper)
import Maru.Cli.Room.Map.StmSim (stmSimulated)
import Maru.Control.Plot
import Maru.Control.Ratio
import Maru.Control.Statistics

stmExperiment :: Experiment
stmExperiment =
  Experiment
    { experimentName = "map/stm",
      experimentPurpose = "A set that threads share: list, red-black tree, skip list, trie, versions, snapshot; parts in processes",
      experimentRun = run
    }

run :: Reaper -> Effort -> (String -> IO ()) -> IO Figures
run reaper effort say = do
  program <- helperPath "maru-bench-map"
  cores <- getNumProcessors
  rounds <- runRounds effort say (runSide reaper program) (stmSides cores) (const (stmClaims cores))
  let judged = map (judgeClaim rounds) (stmClaims cores)
  pure
    Figures
      { figuresLine = claimsLine judged,
        figuresTables = stmTables cores rounds ++ [("Claims", claimsTable judged)],
        figuresPlots =
          [ Plot
              "A set of 256, a fifth of the operations updates"
              (Axis "threads, or processes" Linear)
              (Axis "times as fast as with one" Linear)
              [Series (structureName s) [point (fromIntegral n) (summarise (v :| [])) | n <- counts cores, Just v <- [speedUp rounds s n]] | s <- structures],
            Plot
              "The list and the tree, simulated up to 64 threads"
              (Axis "threads" Logarithmic)
              (Axis "times as fast as with one" Linear)
              [Series name [Point (fromIntegral n) v v v | (n, v) <- points] | (name, points) <- simulated]
          ],
        figuresData = object ["cores" .= cores, "measured" .= roundsJson rounds, "simulated" .= [object ["series" .= name, "threads" .= n, "times_one" .= v] | (name, points) <- simulated, (n, v) <- points], "claims" .= map claimJson judged]
      }
  where
    simulated = stmSimulated [1, 2, 4, 8, 16, 32, 64]

-- | What a structure is called, and how many operations it does on 256 elements.
data Structure = Structure
  { structureName :: !String,
    structureOperations :: !Int
  }

structures :: [Structure]
structures = [Structure "list" 20000, Structure "redblack" 200000, Structure "skiplist" 100000, Structure "trie" 300000, Structure "versions" 40000, Structure "snapshot" 500000, Structure "processes" 500000]

-- | Powers of two, and all cores.
counts :: Int -> [Int]
counts cores = takeWhile (< cores) (iterate (* 2) 1) ++ [cores]

data Case = Case
  { caseSize :: !Int,
    caseUpdates :: !Int
  }
  deriving (Eq)

usual :: Case
usual = Case 256 20

-- | Those beside the usual one, all cores.
cases :: [Case]
cases = [Case size updates | size <- [64, 1024], updates <- [0, 20, 100]]

stmSides :: Int -> [Side]
stmSides cores = [side s n usual | s <- structures, n <- counts cores] ++ [side s cores c | s <- structures, c <- cases]

side :: Structure -> Int -> Case -> Side
side s n c =
  Side
    (named s n c)
    [["stm", structureName s, "--threads", show n, "--size", show (caseSize c), "--updates", show (caseUpdates c), "--operations", show operations, "+RTS", "-A4m", "-N" ++ show n]]
  where
    -- A longer list costs more, by its square: GHC looks for each variable among those that the
    -- transaction has read.
    operations = case structureName s of
      "list" -> min 100000 (structureOperations s * 65536 `div` (caseSize c * caseSize c))
      "versions" -> structureOperations s * 256 `div` caseSize c
      _ -> structureOperations s

named :: Structure -> Int -> Case -> String
named s n c = structureName s ++ " " ++ show (caseSize c) ++ "/" ++ show (caseUpdates c) ++ " x" ++ show n

-- | Operations a second.
rate :: Sample -> Maybe Double
rate sample = (\n ns -> n / ns * 1e9) <$> number ["operations"] sample <*> wallNs sample

-- | Of something, for each commit.
each :: Text -> Sample -> Maybe Double
each what sample = (/) <$> number [what] sample <*> number ["commits"] sample

speedUp :: Rounds -> Structure -> Int -> Maybe Double
speedUp rounds s n = (/) <$> middle n <*> middle 1
  where
    middle k = summaryMedian <$> summaryOf rate rounds (named s k usual)

stmTables :: Int -> Rounds -> [(String, Table)]
stmTables cores rounds =
  [ ( "Thousand operations a second on a set of 256, a fifth of them updates, by threads",
      Table
        ((L, "structure") : [(R, show n) | n <- counts cores] ++ [(R, "times as fast as one")])
        [structureName s : [thousands (named s n usual) | n <- counts cores] ++ [maybe "-" (fixed 2) (speedUp rounds s cores)] | s <- structures]
    ),
    ( "What a committed operation took with " ++ show cores ++ " threads: attempts thrown away per 1000, variables read, written, written near the start per 1000",
      Table
        [(L, "structure"), (R, "thrown away"), (R, "read"), (R, "written"), (R, "near the start"), (R, "collecting, % of the time")]
        [ let name = named s cores usual
           in [ structureName s,
                cell 2 (fmap (\a -> 1000 * (a - 1)) . each "attempts") name,
                cell 1 (each "reads") name,
                cell 2 (each "writes") name,
                cell 2 (fmap (* 1000) . each "top_writes") name,
                cell 0 (\sample -> (\gc wall -> 100 * gc / wall) <$> number ["meter", "gc_ns"] sample <*> wallNs sample) name
              ]
          | s <- structures
        ]
    ),
    ( "Thousand operations a second with " ++ show cores ++ " threads, and attempts thrown away per 1000, by elements and percent of updates",
      Table
        ((L, "structure") : [(R, show (caseSize c) ++ ", " ++ show (caseUpdates c) ++ " %") | c <- cases])
        [structureName s : [thousands (named s cores c) ++ ", " ++ cell 1 (fmap (\a -> 1000 * (a - 1)) . each "attempts") (named s cores c) | c <- cases] | s <- structures]
    )
  ]
  where
    thousands name = maybe "-" (fixed 0 . (/ 1000) . summaryMedian) (summaryOf rate rounds name)
    cell digits metric name = maybe "-" (fixed digits . summaryMedian) (summaryOf metric rounds name)

-- | The seed's two findings, and what is offered instead.
stmClaims :: Int -> [Claim]
stmClaims cores =
  [ faster "list: as fast with all cores as with one thread, times the cores" (AtLeast 0.6) (named list cores usual) (named list 1 usual),
    faster "redblack: the same (the seed saw none of it)" (AtMost 0.6) (named tree cores usual) (named tree 1 usual),
    paired "processes with parts of the keys beside threads at a trie, all cores: operations a second" (AtLeast 1) quotient rate rate (named processes cores usual) (named trie cores usual)
  ]
  where
    faster text bar = paired text bar (\l r -> (/ fromIntegral cores) <$> quotient l r) rate rate
    quotient l r = if r > 0 then Just (l / r) else Nothing
    (list, tree, trie, processes) = (known "list", known "redblack", known "trie", known "processes")
    known name = Structure name 0
