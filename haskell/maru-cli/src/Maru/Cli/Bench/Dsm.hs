{-# LANGUAGE OverloadedStrings #-}

-- | The shared memory: fetching over loopback measured
-- ("Maru.Cli.Bench.Dsm.Fetch"), and the shipped protocol core on networks that
-- are described. The method is at the top of @bench\/dsm\/dsm_sim.c@.
module Maru.Cli.Bench.Dsm
  ( dsmExperiments,
  )
where

import Data.Aeson (Value, object, (.=))
import Data.Maybe (fromMaybe, mapMaybe)
import Data.Text (Text)
import Maru.Cli.Bench.Dsm.Fetch (fetching)
import Maru.Cli.Bench.Side
import Maru.Cli.Output
import Maru.Cli.Room
import Maru.Cli.Sim.Checks
import Maru.Cli.Sim.Readers (fixed)
import Maru.Control.Plot
import Maru.Control.Sim.Check hiding (Check)
import qualified Maru.Control.Sim.Check as Sim

dsmExperiments :: [Experiment]
dsmExperiments =
  [ Experiment "dsm/fetch" "A page that is at another node, over the loopback interface: one by one and in batches, by each fetch policy and transport" fetching,
    Experiment "dsm/links" "tsp, ray tracing and ocean on 8 simulated nodes: fetch policies on the paper's network and at 1, 10, 100 Gb/s" links,
    Experiment "dsm/scale" "Messages and bytes of a fetch, a lock and a barrier on 1 to 64 simulated nodes" scale
  ]

list :: [Text] -> Value -> [Value]
list path = fromMaybe [] . at path

text :: [Text] -> Value -> String
text path = fromMaybe "" . at path

figure :: [Text] -> Value -> Double
figure path = fromMaybe (0 / 0) . number path

-- | A figure beside its bar.
against :: String -> Bound -> Double -> Sim.Check
against name bound value = Sim.Check name Predicted bound value ""

judged :: [Sim.Check] -> (String, Table)
judged checks = ("Bars", checkTable checks)

-- ---- links -------------------------------------------------------------

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

links :: Effort -> (String -> IO ()) -> IO Figures
links _ say = do
  program <- helperPath "maru-sim-dsm"
  samples <- mapM (simulated program) described
  let checks = paper (concatMap (runsOf "paper") samples) ++ concatMap adaptive samples
  pure
    Figures
      { figuresLine = checkLine checks,
        figuresTables = [("Simulated seconds, 8 nodes, one page a fetch", Table heads (concatMap rows samples)), judged checks],
        figuresPlots = [plot p samples | p <- programs],
        figuresData = object ["links" .= [object ["link" .= name, "latency_ns" .= a, "ps_per_byte" .= b, "cpu" .= c, "sample" .= s] | (Link name _ a b c, s) <- samples], "checks" .= checksJson checks]
      }
  where
    simulated program link@(Link name _ a b c) = do
      say name
      sample <- runTool program ["programs", show a, show b, show c]
      pure (link, sample)
    runsOf name (Link n _ _ _ _, s) = if n == name then list ["runs"] s else []
    heads = [(L, "link"), (L, "program")] ++ [(R, p) | p <- policies] ++ [(R, "range/page"), (R, "adaptive/better")]
    rows (Link name _ _ _ _, s) = [[name, p] ++ [fixed 4 (time s p f) | f <- policies] ++ [fixed 3 (time s p "range" / time s p "page"), fixed 3 (ofBetter s p)] | p <- programs]
    paper runs =
      [ against "paper's network, tsp: range over page" (AtMost 0.92) (ratio runs "tsp"),
        against "paper's network, raytrace: range over page" (AtMost 0.92) (ratio runs "raytrace"),
        against "paper's network, ocean: range over page (the paper: no gain)" (AtLeast 0.92) (ratio runs "ocean")
      ]
    ratio runs p = timeIn runs p "range" / timeIn runs p "page"
    adaptive (Link name _ _ _ _, s) = [against (name ++ ", " ++ p ++ ": adaptive over the better of page and range") (AtMost 1.02) (ofBetter s p) | p <- programs]
    ofBetter s p = time s p "adaptive" / min (time s p "page") (time s p "range")

programs, policies :: [String]
programs = ["tsp", "raytrace", "ocean"]
policies = ["page", "range", "stamp", "adaptive"]

time :: Value -> String -> String -> Double
time = timeIn . list ["runs"]

timeIn :: [Value] -> String -> String -> Double
timeIn runs program policy = sum [figure ["seconds"] r | r <- runs, text ["program"] r == program, text ["fetch"] r == policy, figure ["batch"] r == 1]

plot :: String -> [(Link, Value)] -> Plot
plot program samples =
  Plot
    (program ++ " on 8 nodes: time over that of whole pages")
    (Axis "Gb/s" Logarithmic)
    (Axis "time, page = 1" Linear)
    [Series policy [exactly gigabits (time s program policy / time s program "page") | (Link _ gigabits _ _ _, s) <- samples] | policy <- policies]

exactly :: Double -> Double -> Point
exactly x y = Point x y y y

-- ---- scale -------------------------------------------------------------

scale :: Effort -> (String -> IO ()) -> IO Figures
scale _ say = do
  program <- helperPath "maru-sim-dsm"
  say "1 to 64 nodes"
  sample <- runTool program ["scale"]
  let costs = list ["costs"] sample
      checks = concatMap (orders costs) known
  pure
    Figures
      { figuresLine = checkLine checks,
        figuresTables = [("A piece", Table [(L, "operation"), (R, "nodes"), (R, "messages"), (R, "bytes")] (map row costs)), judged checks],
        figuresPlots = [Plot "Bytes of an operation" (Axis "nodes" Logarithmic) (Axis "bytes" Logarithmic) [Series name (mapMaybe (place name) costs) | (name, _, _) <- known]],
        figuresData = object ["sample" .= sample, "checks" .= checksJson checks]
      }
  where
    row c = [text ["operation"] c, whole ["nodes"] c, fixed 2 (figure ["messages"] c), fixed 0 (figure ["bytes"] c)]
    whole path = fixed 0 . figure path
    place name c = if text ["operation"] c == name && figure ["nodes"] c > 1 then Just (exactly (figure ["nodes"] c) (figure ["bytes"] c)) else Nothing

-- | The protocol's orders in the number of nodes, as exponents: messages, bytes. A
-- lock's and a barrier's messages bear three numbers a node.
known :: [(String, Double, Double)]
known =
  [ ("fetch, page", 0, 0),
    ("fetch, range", 0, 0),
    ("fetch, stamp", 0, 0),
    ("lock", 0, 1),
    ("barrier", 1, 2),
    ("barrier where every node wrote a page", 1, 2)
  ]

-- | From 16 nodes to 64, with a tenth for what is left of smaller terms.
orders :: [Value] -> (String, Double, Double) -> [Sim.Check]
orders costs (name, messages, bytes) =
  [against (name ++ ": exponent of " ++ what) (AtMost (order + 0.1)) (exponentOf field) | (what, field, order) <- [("messages", "messages", messages), ("bytes", "bytes", bytes)]]
  where
    exponentOf field = logBase 4 (value field 64 / value field 16)
    value field nodes = sum [figure [field] c | c <- costs, text ["operation"] c == name, figure ["nodes"] c == nodes]
