-- | The fourth seed: coscheduling by periodic boosts.
module Maru.Bench.Evidence.Wait (wait) where

import Maru.Bench.Evidence

wait :: Seed
wait =
  Seed
    4
    "wait: Periodic Boost"
    [ Figure
        { figureName = "Figs 2, 3",
          figureTitle = "four jobs on two nodes, the share of communication varied",
          figurePublished = Value "boost + lowering is ≥ 50 % better than LOCAL, ≥ 9 % better than boost alone." [],
          figureHere = Value "79 to 88 % and 41 to 74 % better, on 2026-11-22, nothing else running. Sleeping and giving way are better still: see the table below." ["boost/seed/2026-11-22-2cpu.json"],
          figureSixteen = Without "The regime is two nodes of one CPU each; sixteen cores add nothing to it.",
          figureSimulated = Value "boost + lowering takes 0.14 to 0.25 of LOCAL and 0.33 to 0.51 of boost alone (`maru sim boost --study`); up to 1024 nodes in [sim.md](sim.md#boost)." [],
          figureExperiments = ["boost/seed"],
          figureCommand = "maru bench boost/seed"
        },
      Figure
        { figureName = "Fig 4",
          figureTitle = "mixes of jobs with share 0.1 and 0.5",
          figurePublished = Value "boost + lowering is best." [],
          figureHere =
            Value
              "Of 4 jobs 1, 2, 3 with 0.5, times the ideal: boost + lowering 1.19, 1.19, 1.25; boost 1.94, 2.23, 2.60; LOCAL 5.6, 10.0, 10.0. Better still are sleeping with 1.17, 1.08, 1.07 and `adaptive` with 1.13, 1.11, 1.13. On 2026-11-22, six rounds, nothing else running."
              ["boost/mixes/2026-11-22-2cpu.json"],
          figureSixteen = Without "The regime is two nodes of one CPU each; sixteen cores add nothing to it.",
          figureSimulated = Without "The simulator's jobs all have one share; it has no mixes.",
          figureExperiments = ["boost/mixes"],
          figureCommand = "maru bench boost/mixes"
        },
      Figure
        { figureName = "",
          figureTitle = "MPI programs and programs that poll, unchanged, more of them than CPUs",
          figurePublished = Value "None: our own bars." [],
          figureHere =
            Value
              "MPI on 2026-11-22, two virtual CPUs: 8 ranks under MPICH are 7.9 and 21 times as fast as by themselves. Beside a hog a CPU they are 2.5 to 3.0 times Open MPI's own mode, without hogs 0.98 to 1.02 of it ([bench/boost](../bench/boost/README.md)). Programs that poll, the same day: 4 pairs on two CPUs are 5.0 times as fast under `--wait-poll` as by themselves (1.18 of blocking). 2 pairs beside a hog a CPU: 3.0 times (1.13). A CPU each: 0.99 of the time."
              ["boost/polls/2026-11-22-2cpu.json"],
          figureSixteen = Without "The next row but one has MPI on 16 cores; `maru bench boost/polls` was not run there.",
          figureSimulated = Without "The simulator's jobs are maru's channels; MPI's own progress is in no model.",
          figureExperiments = ["boost/mpi-ring", "boost/mpi-reduce", "boost/mpi-halo", "boost/polls"],
          figureCommand = "maru bench boost/mpi-ring boost/mpi-reduce boost/mpi-halo boost/polls"
        },
      Figure
        { figureName = "",
          figureTitle = "small messages of 2 MPI ranks while neither waits for a CPU, with maru and without",
          figurePublished = Value "None: our own bar, 1.05." [],
          figureHere =
            Value
              "Two virtual CPUs, idle, 2026-11-23. All 32 hold: eight operations of two MPIs and two sizes. 8 bytes, 9 pairs: Open MPI 0.96 to 1.04, MPICH 0.98 to 1.03. 4 KiB: Open MPI 0.97 to 1.05, 32 pairs; MPICH 0.96 to 1.01, 9 pairs. Beside other work three operations of MPICH and all of Open MPI with 4 KiB stayed undecided after 40 pairs (the third and fourth file)."
              ["boost/mpi/2026-11-23-2cpu-small-idle.json", "boost/mpi/2026-11-23-2cpu-small-4k-idle.json", "boost/mpi/2026-11-23-2cpu-small.json", "boost/mpi/2026-11-23-2cpu-small-4k.json"],
          figureSixteen = Value "The next row has them." [],
          figureSimulated = Without "MPI's own progress is in no model.",
          figureExperiments = ["boost/mpi-small", "boost/mpi-small-4k"],
          figureCommand = "maru bench boost/mpi-small boost/mpi-small-4k"
        },
      Figure
        { figureName = "",
          figureTitle = "MPI programs on 16 cores, with fewer ranks than CPUs and with more",
          figurePublished = Value "None: our own bars, nothing lost where no rank waits, 1.05 of the better mode where some do." [],
          figureHere = Without "Two CPUs are no sixteen; the rows above have what they show.",
          figureSixteen =
            Value
              "One to four runs each on 2026-11-23, 16 cores of one socket, a virtual machine. Allreduce of 8 bytes on 2 ranks: Open MPI 0.59 µs alone, 0.65 under maru, 4.1 before. MPICH: 1.51, 1.55, 5.2. Computing for 200 µs, 15 ranks: 0.93 to 1.11 of the plain time, within the noise. With more ranks, times the ideal of ring, allreduce, halo. 64 ranks, Open MPI's own mode: 1.91, 2.21, 1.81, then 1.50, 1.66, 1.58. Under maru: 1.39, 1.59, 1.66, then 1.64, 1.84, 1.84; before 2.7, 2.2, 2.9. 32 ranks, its own mode: 2.50, 1.67, 1.75. Under maru: 1.59, 2.19, 2.24 (two of three MISSED). 16 ranks beside a hog a CPU, Open MPI alone: 47, 61, 61. Under maru: 10.9, 27, 17, and 10.4, 18, 12 before. That loss was mended afterwards, on two CPUs; it was not measured again on 16."
              ["boost/mpi/2026-11-23-16cpu.json"],
          figureSimulated = Without "MPI's own progress is in no model.",
          figureExperiments = [],
          figureCommand = "maru bench boost/mpi-small many"
        }
    ]
