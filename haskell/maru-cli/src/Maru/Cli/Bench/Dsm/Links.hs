-- | The networks and programs that @dsm\/links@, @dsm\/homes@ and @dsm\/wall@ share.
module Maru.Cli.Bench.Dsm.Links
  ( Link (..),
    described,
    programs,
  )
where

-- | Name, Gb/s, latency in ns, ps a byte, by how much processors are slower than today's.
data Link = Link !String !Double !Int !Int !Int

-- | The paper's two constants are its own; the other latencies are assumed.
described :: [Link]
described =
  [ Link "paper" 0.17 21000 47000 20,
    Link "1 Gb/s" 1 15000 8500 1,
    Link "10 Gb/s" 10 6500 855 1,
    Link "100 Gb/s" 100 1500 83 1
  ]

-- | Those of examples\/dsm.
programs :: [String]
programs = ["tsp", "raytrace", "ocean", "water", "radix", "fft", "lu", "matmul"]
