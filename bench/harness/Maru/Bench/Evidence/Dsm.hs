-- | The third seed: shared memory that survives a failed node.
module Maru.Bench.Evidence.Dsm (dsm) where

import Maru.Bench.Evidence

dsm :: Seed
dsm =
  Seed
    3
    "dsm: fault-tolerant distributed shared memory (FT-KDSM)"
    [ Figure
        { figureName = "Fig 1",
          figureTitle = "one-way transfer of 4 KB and 2 KB",
          figurePublished = Value "215 µs and 118 µs, on Myrinet with processors of 850 MHz." [],
          figureHere =
            Value
              "No such network is here. Over TCP on the loopback interface a page of 4 KiB takes 11.8 µs (11.6 … 12.5) from fault to return, request and answer together; through shared memory 3.3 µs. Two virtual CPUs, idle, 2026-11-23, waiting by spinning, 6 rounds. One way alone, the quickest of 3072 transfers of 4 and of 2 KiB took 6.3 and 5.9 µs. That was the same day on two other virtual CPUs, beside 20 busy processes."
              ["dsm/fetch/2026-11-23-2cpu-idle.json"],
          figureSixteen = Without "One machine has no network to measure; on two, `maru launch --hosts` has the same fetches.",
          figureSimulated = Value "An input, no result: the simulator's network in the rows below (`paper`) was made from these times. With 21 µs and 47 ns a byte it takes 214 and 117 µs." [],
          figureExperiments = ["dsm/fetch"],
          figureCommand = "maru bench dsm/fetch"
        },
      programRow "raytrace (cars) and tsp (20 cities)" "8 to 12 % faster." "raytrace (own scene) takes 0.77 (0.73 … 0.86) and tsp 0.78 (0.76 … 0.93) of the time with pages. Two nodes of one machine, messages as late as on the paper's network, wall time, 6 rounds, 2026-11-22." "raytrace 34 % (own scene), tsp 21 % faster on 8 nodes (`maru bench dsm/links`).",
      programRow "water (1728 molecules, 5 steps)" "faster." "0.99 (0.93 … 1.04) of the time with pages, with fewer molecules: the same run. With 1728, SPLASH-3's own on 8 nodes sends 39.3 instead of 64.9 MB of pages, 96.6 instead of 123.5 MB in all (counted, 2026-11-23; its speed was not measured)." "9 % faster with 216 molecules and 5 steps, on 8 nodes (`maru bench dsm/links`).",
      programRow "ocean (258 × 258)" "slightly slower." "Own ocean takes 0.82 (0.80 … 0.87) of the time with pages: the same run. So the published sign is missed." "36 % faster (own ocean, 257 × 257). SPLASH-3's own, 258 × 258, sends half the bytes; why is in [dsm-protocol.md](dsm-protocol.md).",
      Figure
        { figureName = "",
          figureTitle = "six programs of SPLASH-3, unchanged, as nodes of one host beside threads",
          figurePublished = Value "None: our own bars. One node takes at most 1.1 of a thread's time, ocean and raytrace 1.3. Nodes reach 0.8 of the speed-up of as many threads, fft, radix and raytrace 0.6." [],
          figureHere =
            Value
              "Two virtual CPUs, nothing else running, 2026-11-29, 6 to 12 rounds: all 18 claims hold. One node takes 0.96 (fft) to 1.05 (water) of a thread's time. Two nodes reach 0.74 (fft), 0.81 (raytrace), 0.90 (radix, ocean), 0.93 (lu) and 1.20 (water) of two threads' speed-up."
              ["dsm/splash/2026-11-29-2cpu.json"],
          figureSixteen = Without "Not run since nodes of one host have one memory; the command takes all cores, up to eight.",
          figureSimulated = Without "On one host nodes share one memory, which the simulator does not have.",
          figureExperiments = ["dsm/splash"],
          figureCommand = "MARU_SPLASH=Splash-3 maru bench dsm/splash"
        }
    ]

-- | A program of the seed's second figure: diff range against pages.
programRow :: String -> String -> String -> String -> Figure
programRow title published here simulated =
  Figure
    { figureName = "Fig 2",
      figureTitle = title ++ ", diff range against page",
      figurePublished = Value published [],
      figureHere = Value here ["dsm/wall/2026-11-22-2cpu.json"],
      figureSixteen = Without "On one machine's shared memory a page costs next to nothing to carry; the comparison needs a network.",
      figureSimulated = Value simulated ["dsm/links/2026-11-21-2cpu.json"],
      figureExperiments = ["dsm/links"],
      figureCommand = "maru bench dsm/wall dsm/links"
    }
