-- | Eight programs of other people's, written anew: three of the nofib suite's parallel part and of
-- the book Parallel and Concurrent Programming in Haskell each, and two that both have. What they
-- compute and how they are cut is theirs; no line is.
module Maru.Bench.Programs
  ( programs,
  )
where

import Control.DeepSeq (NFData, force)
import Control.Exception (evaluate)
import Maru.Bench.Mapper (Mapper)
import Maru.Bench.Meter (nowNs)
import Maru.Bench.Program.Blackscholes
import Maru.Bench.Program.Kmeans
import Maru.Bench.Program.Matmult
import Maru.Bench.Program.Minimax
import Maru.Bench.Program.Nbody
import Maru.Bench.Program.Queens
import Maru.Bench.Program.Sudoku
import Maru.Bench.Program.Sumeuler
import Maru.Bench.Workload

-- | Each with what its size and grain are.
programs :: [Work]
programs =
  [ Work "sumeuler" "Euler's totient of 1..SIZE, GRAIN numbers an item" (\n grain -> without (sumeuler n (max 1 grain))),
    Work "blackscholes" "SIZE options priced, GRAIN an item" (\n grain -> without (blackscholes n (max 1 grain))),
    Work "nbody" "the forces between SIZE bodies, a body an item" (\n _ -> from (bodies n) nbody),
    Work "queens" "the queens of a board of side SIZE, three maps within each other" (\n _ -> without (queens n)),
    Work "sudoku" "SIZE sudokus, one an item" (\n _ -> from (puzzles n) sudoku),
    Work "matmult" "a matrix of side SIZE squared, ten rows an item" (\n _ -> from (matrix n) matmult),
    Work "minimax" "noughts and crosses, side SIZE, GRAIN moves ahead, two maps within each other" (\n grain -> without (minimax n grain)),
    Work "kmeans" "20 centres of SIZE points, a map an iteration, GRAIN iterations" (\n grain -> from (points n) (kmeans 20 grain))
  ]

from :: NFData input => input -> (input -> Mapper -> Int) -> IO Prepared
from input program = do
  ready <- evaluate (force input)
  without (program ready)

-- The first result is the only one that is seen.
without :: (Mapper -> Int) -> IO Prepared
without program = pure . Prepared [] Nothing $ \m -> do
  total <- evaluate (program m)
  (,) total <$> nowNs
