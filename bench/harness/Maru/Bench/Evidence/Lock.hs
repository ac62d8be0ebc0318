-- | The fifth seed: fairness of NUMA-aware locks.
module Maru.Bench.Evidence.Lock (lock) where

import Maru.Bench.Evidence

lock :: Seed
lock =
  Seed
    5
    "lock: NUMA hand-over"
    [ Figure
        { figureName = "MWRL",
          figureTitle = "FxMark's, 24 threads, 2 sockets: CNA against the stock lock",
          figurePublished = Value "throughput +25.8 %, tail latency 3.56 to 17.21 times." [],
          figureHere = Without "No machine of two sockets is at hand; `maru bench lock/mwrl` runs every lock under a user-space twin, as threads and as processes, on such a machine.",
          figureSixteen = Without "These 16 cores are of one socket, so no hand-over leaves it.",
          figureSimulated = Value "throughput +26.4 % (calibrated), worst 1 % 5.1 to 12.3 times. The seed does not say what its tail is: at the share that has its falls, the worst 0.27 %, 5.1 to 25.8 times, which misses (`maru sim lock --study`, [sim.md](sim.md#lock))." [],
          figureExperiments = ["lock/mwrl"],
          figureCommand = "maru bench lock/mwrl"
        },
      Figure
        { figureName = "Ranges",
          figureTitle = "hand-over range 0x1000 … 0x100",
          figurePublished = Value "throughput −3.8 % … −21.1 %, tail latency −4.4 % … −80.4 %." [],
          figureHere = Without "No machine of two sockets is at hand; the sweep is in what `maru bench lock/mwrl` writes, `data.saturated.runs` and `data.processes.runs` of `lock-mwrl.json`.",
          figureSixteen = Without "These 16 cores are of one socket, so no hand-over leaves it.",
          figureSimulated = Value "throughput −2.8 % … −21.2 % (the latter calibrated), worst 1 % −2.1 % … −58.8 %, which misses; worst 0.27 % −4.4 % … −80.4 % (the latter calibrated). No cost decides that, [sim.md](sim.md#lock) says what does." [],
          figureExperiments = ["lock/mwrl"],
          figureCommand = "maru bench lock/mwrl"
        },
      Figure
        { figureName = "",
          figureTitle = "queue locks, saturated, beside the same with `wait=spin`, and beside `pthread`",
          figurePublished = Value "None: our own bars. With as many threads as cores 0.9 of spinning, with more 0.3 of `pthread`; the default lock 0.95 of `pthread`." [],
          figureHere = Value "With few threads on two virtual CPUs, 2026-11-23: in the file." ["lock/crowd/2026-11-23-2cpu-few.json"],
          figureSixteen =
            Value
              "2026-11-23, 16 cores of one socket, a virtual machine. Four interleaved runs of 0.25 to 0.3 s, median (least … most) of the ratios. Default over `pthread` with 2, 8, 16, 24, 64 threads: 1.39 (1.17 … 1.48), 1.41 (1.28 … 1.44), 1.39 (1.36 … 1.44), 1.53 (1.49 … 1.59), 1.52 (1.49 … 1.56). Queue locks over their spinning twins, 16 threads: 1.37 to 1.60, least 1.01. With 8 threads: `mcs` 1.01, `cna` 1.02. Undecided there: `clh` 0.93 (0.85 … 1.02), `ticket` 0.91 (0.89 … 0.98), `qspin` 0.96 (0.89 … 0.99). Queue locks over `pthread` with 24 and 64 threads: 0.35 to 0.42. The day before, all queue locks did 0.03 to 0.15 of `pthread` there. The default's longest wait with 24 threads is 5 to 7 ms, `pthread`'s 1 to 2 ms; Jain 0.93 and 0.97. RocksDB's readwhilewriting with 16 threads under `--lock fifo`: 0.86, 0.95, 0.88 of glibc (0.78, 0.82 before; bar 0.97, MISSED), readrandomwriterandom 1.01, 1.05."
              ["lock/crowd/2026-11-23-16cpu.json"],
          figureSimulated = Value "A queue that sleeps, on 16 cores: `maru sim lock --waiting`, table in [sim.md](sim.md#lock)." [],
          figureExperiments = ["lock/crowd"],
          figureCommand = "maru bench lock/crowd many"
        },
      Figure
        { figureName = "",
          figureTitle = "24 threads at one `pthread_mutex` on 2 cores, program unmodified: the overlay beside glibc",
          figurePublished = Value "None: our own bar, throughput ≥ 0.9 times, longest wait ≤ 1 times." [],
          figureHere =
            Value
              "2026-11-21, 9 interleaved runs of 10 s, nothing else running. `fifo`: throughput 1.35 times (1.23 … 1.38), longest wait 0.41 (0.31 … 0.42), p99.9 0.16 µs against 1.23 µs. `cna:deadline=25us`: 1.31 (1.18 … 1.36) and 0.40 (0.34 … 0.42), p99.9 0.15 µs. Locks that only spin, one run each, million operations a second where glibc has 2.66: `ttas` 0.65, `ticket` 0.004, `clh` 0.004, `qspin` 0.003, `mcs` 0.002, `cna` below 0.001."
              ["lock/overlay/2026-11-21-2cpu.json", "lock/overlay/2026-11-21-2cpu-rounds.json", "lock/overlay/2026-11-21-2cpu-spinning.json"],
          figureSixteen = Value "Level with glibc on 2026-11-22: 0.8 to 1.1 times with 2, 16 and 48 threads, one to three runs, raw data not kept." [],
          figureSimulated = Without "The simulator has no more threads than cores with the overlay's queue.",
          figureExperiments = ["lock/overlay"],
          figureCommand = "maru bench lock/overlay"
        },
      Figure
        { figureName = "",
          figureTitle = "programs as Debian ships them, SQLite, a GHC program and Python: the overlay beside glibc",
          figurePublished = Value "None: our own bar, throughput ≥ 0.95 times, no wrong answer." [],
          figureHere =
            Value
              "2026-11-21, at least 9 interleaved runs of 2 s of each, nothing else running; `cna:deadline=25us` and `fifo` over glibc, medians. MariaDB 1.03 and 0.99, Python 1.03 and 0.99: hold. With the overlay of 2026-11-22 SQLite 1.14 (1.08 … 1.18) and 1.12 (1.07 … 1.16): hold. Redis 1.01 (0.97 … 1.02) and 1.01 (0.97 … 1.05): hold. RocksDB 1.03 (0.97 … 1.04) and 0.98 (0.96 … 1.00): hold. memcached, its client bound to a CPU, 1.07 (0.96 … 1.16) and 1.06 (0.99 … 1.16): hold. GHC lost in the first run, 0.90 and 0.88, to a timer that the queue's head set. Without it 0.97 (0.95 … 1.00) and 0.96 (0.92 … 0.98): hold. No wrong answer; each run checks its own ([programs.py](../bench/lock/programs/programs.py) says how). Two cores of one socket: that nothing is lost is shown, not what is gained between sockets."
              ["lock/programs/2026-11-21-2cpu.json", "lock/programs/sqlite/2026-11-22-2cpu.json", "lock/programs/redis/2026-11-22-2cpu.json", "lock/programs/rocksdb/2026-11-22-2cpu.json", "lock/programs/memcached/2026-11-22-2cpu.json", "lock/programs/ghc/2026-11-21-2cpu.json"],
          figureSixteen = Value "RocksDB alone: in the row of queue locks above." [],
          figureSimulated = Without "No model has whole programs.",
          figureExperiments = ["lock/programs/rocksdb", "lock/programs/memcached", "lock/programs/sqlite", "lock/programs/mariadb", "lock/programs/redis", "lock/programs/python", "lock/programs/ghc"],
          figureCommand = "maru bench lock/programs"
        },
      Figure
        { figureName = "",
          figureTitle = "what the profile of mutexes costs: RocksDB's `db_bench`, memcached, the twin of MWRL on 4 threads",
          figurePublished = Value "None: our own bar, throughput ≥ 0.97 times." [],
          figureHere =
            Value
              "2026-11-22, nothing else running, 23, 12 and 9 pairs: 0.99 (0.97 … 1.04), 1.00 (0.97 … 1.05), 1.01 (0.97 … 1.05): hold."
              ["lock/profile/rocksdb/2026-11-22-2cpu.json", "lock/profile/memcached/2026-11-22-2cpu.json", "lock/profile/mwrl/2026-11-22-2cpu.json"],
          figureSixteen = Without "Not run there: the counters are a thread's own, and the bar is about one thread's path.",
          figureSimulated = Without "The cost is of instructions, which no model has.",
          figureExperiments = ["lock/profile/rocksdb", "lock/profile/memcached", "lock/profile/mwrl"],
          figureCommand = "maru bench lock/profile"
        }
    ]
