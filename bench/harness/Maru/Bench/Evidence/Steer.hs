-- | The second seed: cores of their own for system calls and interrupts.
module Maru.Bench.Evidence.Steer (steer) where

import Maru.Bench.Evidence

steer :: Seed
steer =
  Seed
    2
    "steer: core partitioning (Syscalib)"
    [ Figure
        { figureName = "WordCount",
          figureTitle = "Hadoop, 100 GB, 3 to 6 nodes",
          figurePublished = Value "up to 1.56 times as fast; Cross-socket is best." [],
          figureHere = Value "0.996 (0.986 … 0.998) of direct under `auto`, in one process on two CPUs, where nothing can be won (2026-11-22). On HDFS, with a name node and three data nodes, no run was kept. Beside much other work (load 47, 2026-11-28) one of its programs did not answer in 120 s." ["io/hadoop/2026-11-22-2cpu.json"],
          figureSixteen = Without "The 16 cores at hand are of one socket, where all three policies place alike.",
          figureSimulated = Value "Cross-socket is best on two sockets, by costs that were chosen for it (`maru sim io --study`, [sim.md](sim.md#io)); the gains mean nothing." [],
          figureExperiments = ["io/hadoop", "io/hadoop-hdfs"],
          figureCommand = "maru bench io/hadoop io/hadoop-hdfs"
        },
      Figure
        { figureName = "Web server",
          figureTitle = "Apache under JMeter, Per-socket",
          figurePublished = Value "up to +51 % throughput." [],
          figureHere = Value "0.987 of direct with files of 4 KiB and 0.985 with 256 KiB under `auto`, with wrk as its load, 16 connections that stay, on two CPUs, where nothing can be won (2026-11-22). JMeter 5.6.3 itself, 16 users on connections that stay, ran in three loaded rounds, which decide nothing (2026-11-28)." ["io/httpd/2026-11-22-2cpu.json"],
          figureSixteen = Without "The 16 cores at hand are of one socket, where all three policies place alike.",
          figureSimulated = Value "Per-socket is best on two sockets, by costs that were chosen for it (`maru sim io --study`, [sim.md](sim.md#io)); the gains mean nothing." [],
          figureExperiments = ["io/httpd", "io/httpd-jmeter"],
          figureCommand = "maru bench io/httpd io/httpd-jmeter"
        },
      Figure
        { figureName = "",
          figureTitle = "nginx, Apache, Redis, PostgreSQL, SQLite, fio, RocksDB under `--io auto` and reading ahead",
          figurePublished = Value "None: our own bars, each beside itself." [],
          figureHere =
            Value
              "On 2026-11-22, two virtual CPUs, where nothing can be won: passed through 0.975 to 1.011 of direct (bar 0.98). Under `auto` with `--io-delegate=guarded`, a mode that was cut since, 0.971 to 1.049 (bar 0.97), five rows of fio undecided. The mode `hint`, which `maru bench` runs today, is in no kept run ([steer-io.md](steer-io.md#real-programs))."
              ["io/nginx/2026-11-22-2cpu.json", "io/httpd/2026-11-22-2cpu.json", "io/redis/2026-11-22-2cpu.json", "io/pgbench/2026-11-22-2cpu.json", "io/sqlite/2026-11-22-2cpu.json", "io/fio/2026-11-22-2cpu.json", "io/rocksdb/2026-11-22-2cpu.json"],
          figureSixteen = Without "Not run there: one socket has no far memory that placing could save.",
          figureSimulated = Without "The model has loads of six kinds, none of them one of these programs.",
          figureExperiments = ["io/nginx", "io/httpd", "io/redis", "io/pgbench", "io/sqlite", "io/fio", "io/rocksdb"],
          figureCommand = "maru bench io/nginx io/httpd io/redis io/pgbench io/sqlite io/fio io/rocksdb"
        }
    ]
