{-# LANGUAGE OverloadedStrings #-}

-- | What a page, a barrier and a fetch-and-add over TCP cost, beside Open MPI's one-sided operations
-- and its barrier. The method is at the top of @dsm_fetch.c@ and @dsm_peer.c@; a round measures each
-- side once. Nodes and ranks run in the real-time class where that is permitted, so that a machine
-- that is shared measures the same.
module DsmPeer
  ( peerExperiment,
  )
where

import BoostMpi (Mpi (OpenMpi), frontOfAll, mpiPrograms)
import Data.Aeson (object, (.=))
import Data.String (fromString)
import Maru.Bench.Experiment
import Maru.Bench.Rounds
import Maru.Bench.Side
import Maru.Cli.Exit
import Maru.Cli.Installed
import Maru.Cli.Output
import Maru.Cli.Reaper (Reaper)
import Maru.Control.Ratio

peerExperiment :: Experiment
peerExperiment = Experiment "dsm/peer" "A page, a barrier of two and a fetch-and-add over TCP on the loopback interface, beside Open MPI's one-sided operations and barrier" comparing

comparing :: Reaper -> Effort -> (String -> IO ()) -> IO Figures
comparing reaper effort say = do
  ours <- helperPath "maru-bench-dsm"
  programs <- mpiPrograms "dsm_peer"
  theirs <- maybe (problem unavailable "Open MPI is not here with the program that is measured") pure (lookup OpenMpi programs)
  front <- frontOfAll
  let times = if effort == Quick then "1" else "3"
      sides =
        [ Side maru [front ++ [ours, "one", "page", "200", "tcp", times]],
          Side openMpi [overTcp ++ front ++ [theirs, times]]
        ]
      claims = [ratio (text ++ ": maru / Open MPI, p50") (AtMost 1) (number [fromString what, "p50"]) maru openMpi | (what, text) <- operations]
  rounds <- runRounds effort say (runWords reaper . concat . sideProcesses) sides (const claims)
  let judged = map (judgeClaim rounds) claims
  pure
    Figures
      { figuresLine = claimsLine judged,
        figuresTables =
          [ ("Microseconds, p50, median of the rounds (least…most)", Table ((L, "operation") : [(R, sideName s) | s <- sides]) [text : [spreadOf (micro what) rounds (sideName s) | s <- sides] | (what, text) <- operations]),
            ("Claims", claimsTable judged)
          ],
        figuresPlots = [],
        figuresData = object ["measured" .= roundsJson rounds, "claims" .= map claimJson judged]
      }
  where
    maru = "maru"
    openMpi = "Open MPI"
    operations = [("one", "one page of 4 KiB"), ("barrier", "a barrier of two"), ("fetch_add", "fetch-and-add")]
    micro what sample = (/ 1000) <$> number [fromString what, "p50"] sample

-- | Its one-sided component for TCP is pt2pt: left to itself it takes shared memory on one host, and
-- rdma knows no TCP.
overTcp :: [String]
overTcp = ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include", "lo", "--mca", "osc", "pt2pt", "-n", "2"]
