-- | The first seed: parallel Haskell on many cores.
module Maru.Bench.Evidence.Map (map') where

import Maru.Bench.Evidence

map' :: Seed
map' =
  Seed
    1
    "map: parallel Haskell (SAM)"
    (curves ++ programs ++ ours)

curves :: [Figure]
curves =
  [ curve
      "Fig 1"
      "similarity checker, 81 Java programs, Eval monad, 1 to 32 cores, MUT and total"
      (Value "a bottleneck from about 10 cores on; the curves' values are in no text." [])
      (Value "240 programs in one round on 2026-11-23. The Eval monad's like, `Sparks -N16`, is 10.7 times as fast as `map`. 81 programs were not run there." [sixteen])
      (Value "Eval with its 7.63 on 32 cores fitted (`maru sim map --collector`): best on 19 cores if the collector is to blame, still growing if the program is." []),
    curve
      "Figs 2, 3"
      "similarity checker, 81 Java programs, Cloud Haskell beside the Eval monad"
      (Value "on one core Cloud Haskell takes about 2 times as long; the gap closes, and it scales better. Its rows are published values, not run again." [])
      (Without "Cloud Haskell is not run again; `maru bench many` has its like, `Sockets`, on all cores.")
      (Without "The map's simulator knows no sockets."),
    curve
      "Fig 11"
      "similarity checker, 32 cores, speed-up"
      (Value "Eval 7.63, SAMSTM 6.84, SAMSoc 5.99." [])
      (Value "240 programs in one round on 2026-11-23, times as fast as `map`. `Shm` with 1, 2, 4, 8, 16 workers: 0.97, 1.80, 3.38, 6.79, 10.4. With 16: `Sparks` 10.7, async 10.5. 32 cores: no such machine is at hand." [sixteen])
      (Value "`Shm` with 32 workers: in the table of `maru bench map/curves`, series *shm, simulated*." []),
    curve
      "Figs 14, 15"
      "similarity checker, 108 Java programs, 72 cores, times and speed-ups"
      (Value "SAMShm ≈ 20, SAMSoc ≈ 13, SAMSTM ≈ Eval ≈ 5." [])
      (Value "The row of fig 11 has `Shm` and the others on 16 cores, with 240 programs. 72 cores: no such machine is at hand." [sixteen])
      (Value "`Shm` with 72 workers: in the table of `maru bench map/curves`, series *shm, simulated*. A map as short as today's core makes it is over before 72 workers have started." [])
  ]

-- | One machine, one round of everything.
sixteen :: FilePath
sixteen = "many/2026-11-23-16cpu.json"

curve :: String -> String -> Cell -> Cell -> Cell -> Figure
curve name title published on16 simulated =
  Figure
    { figureName = name,
      figureTitle = title,
      figurePublished = published,
      figureHere = curvesHere,
      figureSixteen = on16,
      figureSimulated = simulated,
      figureExperiments = ["map/curves"],
      figureCommand = "maru bench map/curves"
    }

curvesHere :: Cell
curvesHere =
  Value
    "Two virtual CPUs, little else running, 2026-11-28, 6 to 40 rounds; two points are no curve. Milliseconds of the whole program of 108, with one and two workers (`map`: 437). `Shm` 417, 245; `Sockets` 419, 246; `parallel` 244, 246. `Sparks` 294, 240; `Stm` 424, 231; `Threads` 421, 240; bound threads 408, 232. One worker of `parallel` and `Sparks` uses both CPUs, by foreign calls that let another thread run. Beside the others `Shm` has 0.97 to 1.04 of the speed, beside bound threads 0.86 (0.71 … 0.94, MISSED)."
    ["map/curves/2026-11-28-2cpu.json"]

programs :: [Figure]
programs =
  [ Figure
      { figureName = "Table 1, figs 4, 5",
        figureTitle = "GC tuning of `-A` and `-H` at 8 core counts",
        figurePublished = Value "the swing of the speed-up curve falls by 34 %; 11, 14 and 16 cores are predicted to improve alike." [],
        figureHere =
          Value
            "Two virtual CPUs, nothing else running, 2026-11-28, means of ten runs: two points, no curve, and nothing falls. `similar`, the checker: two cores are 1.45 times as fast as one, and the tuner finds no gain. Its collector takes 2 % of one core's time. `build`, half of whose time is the collector's: 1.04 times, with the tuner's `-A64m` 2.07."
            ["map/swing/2026-11-28-2cpu.json"],
        figureSixteen = Without "Not run there; the same command measures 1 to 16 cores, of which 10, 13, 15 are tuned and 11, 14, 16 predicted.",
        figureSimulated = Value "To 32 cores, the seed's 7.63 there fitted (`maru sim map --collector`, [sim.md](sim.md#map)); swings are predicted. The collector to blame for 7.63: swing 1.63 as it is, 97.1 with flags at the eight counts alone, none with flags everywhere. 11, 14, 16 cores: 8.05, 8.75, 8.85 times as fast as one as they are, 18.7, 23.9, 26.7 with the flags of the next fewer. The program to blame: no swing to begin with. Published is 34 % less: MISSED in either reading." [],
        figureExperiments = ["map/swing"],
        figureCommand = "maru bench map/swing"
      },
    Figure
      { figureName = "Fig 7",
        figureTitle = "lines of \"add 1 to 1..100, print the sum\"",
        figurePublished = Value "Eval 9, SAM 15, Cloud Haskell 43." [],
        figureHere = Value "3 with `Shm`: [examples/sum100.hs](../examples/sum100.hs). A test holds it to at most 9, `scripts/test --only examples`; the next row has all models." [],
        figureSixteen = Without "A count of lines does not depend on the machine.",
        figureSimulated = Without "A count of lines is not simulated.",
        figureExperiments = [],
        figureCommand = "scripts/test --only examples"
      },
    Figure
      { figureName = "Table 2",
        figureTitle = "lines of four programs in every model",
        figurePublished = Value "four programs; the text names only the sum, and its counts: Eval 9, SAM 15, Cloud Haskell 43." [],
        figureHere = Value "A test counts them: [bench/map/models](../bench/map/models/README.md) has the table of `map`, Eval monad, maru, async and actors." [],
        figureSixteen = Without "A count of lines does not depend on the machine.",
        figureSimulated = Without "A count of lines is not simulated.",
        figureExperiments = [],
        figureCommand = "scripts/test --only 36-haskell-maru-bench"
      },
    Figure
      { figureName = "Figs 8, 9",
        figureTitle = "STM list and red-black tree, 64 cores",
        figurePublished = Value "the list scales, the tree does not." [],
        figureHere =
          Value
            "Two virtual CPUs, little else running, 2026-11-23, a set of 256, a fifth of the operations updates. Two threads by one: list 1.63 times as fast, red-black tree 0.68, skip list 0.67, hash trie 0.57, a list that keeps versions 0.86, one snapshot 0.75. So the shape is the seed's. Its reason is not: of 1000 operations on the tree 0.4 begin anew, on the list 42. Operations a second with two threads, thousands: list 189, tree 2874, trie 4923, snapshot 11 560, processes with parts of the keys 12 926."
            ["map/stm/2026-11-23-2cpu.json"],
        figureSixteen = Without "Not run there; `maru bench map/stm` goes to all cores of a machine.",
        figureSimulated = Value "With 64 threads the list is 7.4 times as fast as with one, the tree 0.69 times (`maru sim stm`, [sim.md](sim.md#stm)). Conflicts limit the list; the tree is limited by what all commits share, not by re-balancing." [],
        figureExperiments = ["map/stm"],
        figureCommand = "maru bench map/stm"
      },
    Figure
      { figureName = "Fig 13",
        figureTitle = "one shared log with Last and Count: what a killed writer leaves",
        figurePublished = Value "the text does not examine it." [],
        figureHere = Value "The reader of one shared log is blocked in 1903 of 2000 trials (1020 on a busy day). With one log per worker it is blocked in none. 2026-11-21 and the day before." ["map/seedlog/2026-11-21-2cpu.json", "map/seedlog/2026-11-20-2cpu-busy.json"],
        figureSixteen = Without "A hole in a log is a matter of one writer's death, not of the number of cores.",
        figureSimulated = Value "Not simulated but explored: SPIN has all interleavings of the log's protocol ([models](../models))." [],
        figureExperiments = ["map/seedlog"],
        figureCommand = "maru bench map/seedlog"
      },
    Figure
      { figureName = "Table 3, fig 17",
        figureTitle = "fib 1..40 on a unikernel, 10 virtual machines",
        figurePublished = Value "9.687 times as fast as one, against 4.56 with forkOS; at 2 cores +0.69 %." [],
        figureHere = Value "Two virtual CPUs beside other work (load 1 to 6, 2026-11-24), two rounds, interrupted there. Times as fast as one core, as 40 items and with the whole list for each of two workers: `Shm` 1.32 and 1.23, `Sockets` 1.26 and 1.19, ranks of MPICH 1.31 and 1.70, of Open MPI 1.28 and 1.44. Micro-VMs, emulated, fib of 1 to 30 on the same list: 0.02 and 0.06. Two rounds decide nothing." ["map/fib/2026-11-24-2cpu-loaded.json"],
        figureSixteen = Without "Not run there; the same command takes all cores of a machine.",
        figureSimulated = Value "As 40 items it is at most 2.62 times as fast, with any number of workers: the last item alone is 0.38 of all. So the published value is of something else." [],
        figureExperiments = ["map/fib"],
        figureCommand = "maru bench map/fib"
      }
  ]

-- | What no seed has, by bars of our own.
ours :: [Figure]
ours =
  [ Figure
      { figureName = "",
        figureTitle = "four workloads on 16 cores by every back end and peer, default flags and tuned",
        figurePublished = Value "None: our own bars." [],
        figureHere = Value "On two virtual CPUs, 2026-11-21, every back end and peer: [bench/map](../bench/map/README.md)." ["map/backends/2026-11-21-2cpu.json"],
        figureSixteen =
          Value
            "One round on 2026-11-23, `--quick`, 16 cores of one socket, a virtual machine. Times as fast as `map`, in the order `Shm`, `Auto`, tuned `parallel`, `Sparks -N16`. `build`: 13.3, 12.3, 13.9, 3.7. `similar`: 10.4, 9.8, 11.2, 10.7. `grain` of 78 µs: 13.3, 13.3, 1.4, 1.3 (bar 14.4: MISSED). `ints`: 5.9, 3.5, 4.1, 0.5. `Auto` has 0.92, 0.94, 1.00, 0.60 of the best of ours (bar 0.95: MISSED in three). One round decides nothing."
            [sixteen],
        figureSimulated = Without "The simulator has no collector, and no peer's scheduler.",
        figureExperiments = ["map/backends"],
        figureCommand = "maru bench many map/backends"
      },
    Figure
      { figureName = "",
        figureTitle = "eight programs of nofib/parallel and of a book",
        figurePublished = Value "None: our own bars, geometric mean 1.1 of tuned sparks, none below 0.95." [],
        figureHere =
          Value
            "Two virtual CPUs (AMD EPYC), little else running, 2026-11-29, 6 to 10 rounds: geometric mean 1.20 (1.18 … 1.21) of tuned sparks. `queens` has 0.90 (0.83 … 0.93, MISSED), `minimax` 0.99 (0.95 … 1.02), `kmeans` 1.00 (0.97 … 1.08), `matmult` 1.10 (1.00 … 1.12); all others are above. Sparks get flags; maru gets none. Earlier that day (the second file) the caller's allocation area did not grow yet: the mean was 1.13, `matmult` 0.85."
            ["map/programs/2026-11-29-2cpu-area.json", "map/programs/2026-11-29-2cpu.json"],
        figureSixteen = Value "On 2026-11-22, by ports of the originals, one run each: three were faster under `Shm`, five under sparks. They were written anew since; these were not run on 16 cores." [],
        figureSimulated = Without "The simulator has no sparks.",
        figureExperiments = ["map/programs"],
        figureCommand = "maru bench map/programs"
      },
    Figure
      { figureName = "",
        figureTitle = "a call on three trivial items: the first, and each of many",
        figurePublished = Value "None: our own bars, 100 µs of processor time on a warm pool, 1 ms by fresh forks." [],
        figureHere =
          Value
            "Two virtual CPUs, idle, 2026-11-23, six rounds. Processor time of caller and workers: each later call of a pool 55 µs (32 … 78: holds). A first call by fresh forks 3.0 ms (MISSED). Beside other work (the second file): 29 µs and 2.1 ms. By samples of 200 calls in a row, 34 % are faults on pages that the fork shares, 14 % the fork itself. A fork by GHC's run-time system alone, whose child ends at once, takes 0.5 ms in the child. Later, little else running (load 2, 2026-11-24, 80 interleaved pairs): a first call takes 0.93 (0.91 … 0.95) of what it took, 3.1 ms (MISSED). Such a fork alone takes 1.6 ms in all. Beside much other work (the fourth file, load 53): 0.82 (0.78 … 0.86), 2.8 ms, 1.3 ms. On two other virtual CPUs, little else running (2026-11-28, the fifth file): 2.0 ms (MISSED), such a fork 1.0 ms, a pool's call 32 µs."
            ["map/calls/2026-11-23-2cpu-idle.json", "map/calls/2026-11-23-2cpu.json", "map/calls/2026-11-24-2cpu-pairs.json", "map/calls/2026-11-24-2cpu-loaded-pairs.json", "map/calls/2026-11-28-2cpu.json"],
        figureSixteen = Without "Not run there; the bars are about one call's own cost.",
        figureSimulated = Without "A fork's page faults are in no model.",
        figureExperiments = ["map/calls"],
        figureCommand = "maru bench map/calls"
      },
    Figure
      { figureName = "",
        figureTitle = "all pairs of the checker by four ranks of `mpirun`, against `Shm`",
        figurePublished = Value "None: our own bar, 1.15 of the wall time." [],
        figureHere =
          Value
            "Two virtual CPUs, 2026-11-24, nothing else running (load 0.4 before, 1.3 after), workers forked once a call. 400 programs: `Shm` 1.78 s; Open MPI 4.1.4 1.07 times that (1.05 … 1.12), MPICH 4.0.2 1.05 times (1.05 … 1.10): both hold, 6 rounds. 120 programs: `Shm` 168 ms; Open MPI 1.18 times (1.15 … 1.24, MISSED), MPICH 1.13 times (1.11 … 1.17: holds, 8 rounds). Workers were forked for each block before: some 65 times for 400 programs, now 4. Six rounds of both, interleaved, at a load of 0.7 to 4.7, Open MPI and MPICH. 400 programs, wall time over that of `Shm`: 1.17 and 1.14 times before, 1.06 and 1.09 after. Processor time of all processes: 1.14 and 1.10 before, 1.06 and 1.07 after. 120 programs, wall time: 1.48 and 1.48 before, 1.17 and 1.24 after. Beside other work, before: 0.83 (MPICH) and 1.32 times (Open MPI) at a load of 3 to 10, 0.75 and 1.34 at 15 to 53. Other work flatters four ranks: they get a larger share of the cores than two workers do."
            ["map/cluster/2026-11-24-2cpu-idle.json", "map/cluster/2026-11-24-2cpu-before-after.json", "map/cluster/2026-11-24-2cpu-load-6.json", "map/cluster/2026-11-24-2cpu-load-40.json"],
        figureSixteen = Without "Not run there; four ranks need four cores, which the command takes anywhere.",
        figureSimulated = Without "MPI's own progress is in no model.",
        figureExperiments = ["map/cluster"],
        figureCommand = "maru bench map/cluster"
      },
    Figure
      { figureName = "",
        figureTitle = "a micro-VM of the map: a warm call, and its channel",
        figurePublished = Value "None: our own bars, 10 ms and 0.7 of `Shm` under KVM." [],
        figureHere = Value "Emulated, under a load of 15 on two virtual CPUs (2026-11-23), one run: a warm call 147 ms (median of 40, least 25). Bytes cross by a virtio port, not by shared pages. No machine of ours shows virtualization, so nothing was measured under KVM." [],
        figureSixteen = Without "Not run there; `MARU_VMS=1 maru-test-cluster warm 40` prints it where KVM is.",
        figureSimulated = Without "A virtual machine is in no model.",
        figureExperiments = [],
        figureCommand = "MARU_VMS=1 maru-test-cluster warm 40"
      },
    Figure
      { figureName = "",
        figureTitle = "a map on many hosts of 16 cores, one coordinator",
        figurePublished = Value "None." [],
        figureHere = Value "One input of the simulation: an item and its result cost the coordinator 6.5 µs of its processor time. Two and three ranks of MPICH on two loaded virtual CPUs, 2026-11-23; 64 hosts that are network namespaces of one machine (load 40, 2026-11-24), agents in them by a stand-in for `ssh`, four items each: 6.4 s from start to end, 93 ms of the coordinator's processor time, 626 kB read and written by it. Of 16 hosts 2.0 s, 32 ms, 176 kB. The map was not run between machines." [],
        figureSixteen = Without "One host is no cluster; `mpirun` or `MARU_HOSTS` on real ones is.",
        figureSimulated = Value "Use of all cores with items of 100 ms, ten a core: 67 % of 64 hosts, 61 % of 256, 40 % of 1024, 11 % of 4096; with sub-masters 49 % of 1024 ([sim.md](sim.md#map))." [],
        figureExperiments = [],
        figureCommand = "maru sim map --hosts 64,256,1024,4096"
      },
    Figure
      { figureName = "",
        figureTitle = "`build` beside a live heap of the caller, 16 workers",
        figurePublished = Value "None: our own bar, no collection by births, forks paid once." [],
        figureHere = Without "Sixteen workers on two CPUs say nothing of births; the command runs with as many as there are.",
        figureSixteen =
          Value
            "2026-11-23, 16 cores of one socket, interleaved, with 0, 256, 1024 MiB. Before: 343, 1287, 2029 ms, of it 865 and 1491 ms the caller's collections. After: 327, 374, 455 ms, of it below 1 ms. Bare forks of such a process, beside: 98 and 362 ms. With faster births, in a later run: 294, 292, 329 ms."
            ["map/heap/2026-11-23-16cpu-before.json", "map/heap/2026-11-23-16cpu.json"],
        figureSimulated = Without "The map's simulator has no heap.",
        figureExperiments = ["map/heap"],
        figureCommand = "maru bench map/heap"
      },
    Figure
      { figureName = "",
        figureTitle = "`maru tune gc` beside an exhaustive grid of `-A`, `-n`, `-N`, `-F`, three programs",
        figurePublished = Value "None: our own bars, 3 % of the best with a quarter of the runs." [],
        figureHere =
          Value
            "Two virtual CPUs, nothing else running, 2026-11-29. 11 of 12 claims hold: 73 to 93 runs, where the grid has 378. By time all three programs hold, 0.96 to 1.00 of the best. Undecided after 40 pairs is `kmeans` by processor time: 1.007 (0.985 … 1.050) of the best. Before it was mended (the second file, load 12 to 45) the tuner made 154 runs and found nothing."
            ["map/tuner/2026-11-29-2cpu.json", "map/tuner/2026-11-23-2cpu-loaded-before.json"],
        figureSixteen = Without "Not run there: the grid grows with the cores.",
        figureSimulated = Value "A test has a hundred surfaces of costs with 2 % of noise. In 95 or more the search comes within 3 % of the best. It takes at most a quarter of the runs of a grid measured three times." [],
        figureExperiments = ["map/tuner"],
        figureCommand = "maru bench map/tuner"
      },
    Figure
      { figureName = "",
        figureTitle = "peers from their registries beside maru, nine kinds of items",
        figurePublished = Value "None: our own bar, ahead of every process-based peer." [],
        figureHere =
          Value
            "Two virtual CPUs, nothing else running, 2026-11-28, six rounds. 103 of 112 claims hold: ahead of `multiprocessing`, joblib, mpire, Ray, GNU parallel and `mclapply` in each of eight kinds, with `shm` and with `auto`. Parmap is ahead in five (MISSED). It takes 0.24 of the time of `shm` with items that do nothing, 0.78 with 10 µs, 0.90 with 1 ms, 0.98 skewed, 0.99 with 100 ms; of that of `auto` 1.80, 0.75, 0.88, 0.98, 0.96. Threads are ahead where items are short; the run says by how much and why. A killed worker: maru and GNU parallel give all results, the others an error, half of them, or none within 60 s. domainslib is missing: it needs OCaml 5. On 2026-11-24 101 claims held: with six items of 100 ms `auto` lost to three peers, as it measured the first in the caller."
            ["map/peers/2026-11-28-2cpu.json", "map/peers/2026-11-24-2cpu.json"],
        figureSixteen = Without "Not run there; of Haskell's peers the row of four workloads has values, and the command takes all cores of a machine.",
        figureSimulated = Without "No peer's scheduler is in a model.",
        figureExperiments = ["map/peers"],
        figureCommand = "maru bench map/peers"
      }
  ]
