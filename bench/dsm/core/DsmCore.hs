{-# LANGUAGE OverloadedStrings #-}

-- | The shipped protocol core on networks that
-- are described. The method is at the top of @dsm_sim.c@; what faults and
-- diffs cost, by @dsm_access.c@ and @dsm_diff.c@.
module DsmCore
  ( coreExperiments,
  )
where

import Control.Concurrent
import Control.Exception (SomeException, bracket, throwIO, try)
import Control.Monad ((>=>))
import Data.Aeson (Value, object, (.=))
import Data.Char (toLower)
import Data.List (intercalate)
import Data.Maybe (fromMaybe, mapMaybe)
import Data.Text (Text)
import DsmJobs
import Maru.Bench.Experiment
import Maru.Bench.Side
import Maru.Cli.Checks
import Maru.Cli.Installed (helperPath)
import Maru.Cli.Output
import Maru.Cli.Reaper (Reaper)
import Maru.Control.Plot
import Maru.Control.Sim.Check hiding (Check)
import qualified Maru.Control.Sim.Check as Sim

coreExperiments :: [Experiment]
coreExperiments =
  [ Experiment "dsm/access" "The first read and write of a page that is here, and the mappings of a gigabyte" accesses,
    Experiment "dsm/diff" "Finding what changed in a page, by each instruction set that this CPU has" diffs,
    Experiment "dsm/homes" "The programs of examples/dsm on 8 simulated nodes: where pages have their homes, and diffs that ride on grants" homes,
    Experiment "dsm/links" "The programs of examples/dsm on 8 simulated nodes: fetch policies on the paper's network and at 1, 10, 100 Gb/s" links,
    Experiment "dsm/prefetch" "The programs of examples/dsm on 8 simulated nodes: pages that come unasked, and none" prefetch,
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

-- | At the same time: simulated time does not mind. Our end is theirs.
together :: [IO a] -> IO [a]
together acts = bracket (mapM start acts) end (mapM (readMVar . snd >=> either (throwIO :: SomeException -> IO a) pure))
  where
    start act = do
      done <- newEmptyMVar
      thread <- forkIOWithUnmask $ \unmask -> try (unmask act) >>= putMVar done
      pure (thread, done)
    -- All are told before one is waited for: a second signal ends the waiting.
    end started = mapM_ (forkIO . killThread . fst) started >> mapM_ (readMVar . snd) started

-- ---- access --------------------------------------------------------------

accesses :: Reaper -> Effort -> (String -> IO ()) -> IO Figures
accesses reaper _ say = do
  program <- helperPath "maru-bench-dsm-access"
  say "faults"
  sample <- runTool reaper program []
  let ways = list ["ways"] sample
      median way what = figure [what, "median_ns"] way / 1000
      checks = concat [bars way | way <- ways, text ["way"] way == "userfaultfd", measured way]
      bars way =
        [ against "read fault, and a page copied, median, us" (AtMost 4) (median way "read_fault_and_copy"),
          against "write fault, and a twin, median, us" (AtMost 5.5) (median way "write_fault_and_twin"),
          against "mappings of a gigabyte with alternating pages" (AtMost 100) (figure ["alternating_gigabyte", "mappings"] way)
        ]
      row way
        | measured way =
          [text ["way"] way]
            ++ [fixed 2 (median way what) | what <- ["read_fault_and_copy", "write_fault_and_twin", "protect_one_page", "invalidate_one_page"]]
            ++ [fixed 0 (figure ["alternating_gigabyte", field] way) | field <- ["mib_done", "mappings"]]
        | otherwise = [text ["way"] way, "not measured: " ++ text ["not_measured"] way]
  pure
    Figures
      { figuresLine = if null checks then "userfaultfd: not measured here" else checkLine checks,
        figuresTables = [("Microseconds a page, median; a gigabyte whose every other page may be read", Table heads (map row ways)), judged checks],
        figuresPlots = [],
        figuresData = object ["sample" .= sample, "checks" .= checksJson checks]
      }
  where
    heads = (L, "way") : [(R, what) | what <- ["read", "write", "protect", "invalidate", "MiB done", "mappings"]]

measured :: Value -> Bool
measured = null . text ["not_measured"]

-- ---- diff ----------------------------------------------------------------

diffs :: Reaper -> Effort -> (String -> IO ()) -> IO Figures
diffs reaper _ say = do
  program <- helperPath "maru-bench-dsm-diff"
  say "pages"
  sample <- runTool reaper program []
  let codes = zip ["scalar", "AVX2", "AVX-512"] (list ["codes"] sample)
      checks =
        [ against (name ++ ", the worst pattern, ns") (AtMost bar) (figure ["worst_encode_ns"] code)
          | ((name, code), bar) <- zip codes [600, 350, 130],
            measured code
        ]
      rows (name, code)
        | measured code =
          [ [name, text ["changed"] p] ++ [fixed 0 (figure [what] p) | what <- ["encode_ns", "encode_masked_ns", "apply_ns"]]
            | p <- list ["patterns"] code
          ]
        | otherwise = [[name, "not measured: " ++ text ["not_measured"] code, "", "", ""]]
  pure
    Figures
      { figuresLine = checkLine checks,
        figuresTables = [("ns a page, hot, on " ++ text ["cpu"] sample, Table heads (concatMap rows codes)), judged checks],
        figuresPlots = [],
        figuresData = object ["sample" .= sample, "checks" .= checksJson checks]
      }
  where
    heads = [(L, "code"), (L, "changed"), (R, "find"), (R, "with masks"), (R, "apply")]

-- ---- homes -----------------------------------------------------------------

homes :: Reaper -> Effort -> (String -> IO ()) -> IO Figures
homes reaper _ say = do
  program <- helperPath "maru-sim-dsm"
  say (intercalate ", " (map linkName described))
  samples <- together (map (simulated program) described)
  let checks =
        [ against (name ++ ", " ++ p ++ ": the default over cyclic homes") (AtMost 1.02) (over s p "migrate" / over s p "cyclic")
          | (Link name _ _ _ _, s) <- samples,
            p <- programs
        ]
  pure
    Figures
      { figuresLine = checkLine checks,
        figuresTables = [("Time, messages and bytes over those of cyclic homes without diffs on grants", Table heads (concatMap rows samples)), judged checks],
        figuresPlots = [],
        figuresData = object ["links" .= [object ["link" .= name, "latency_ns" .= a, "ps_per_byte" .= b, "cpu" .= c, "sample" .= s] | (Link name _ a b c, s) <- samples], "checks" .= checksJson checks]
      }
  where
    simulated program link@(Link _ _ a b c) = do
      sample <- runTool reaper program ["homes", show a, show b, show c]
      pure (link, sample)
    heads = [(L, "link"), (L, "program"), (L, "homes"), (R, "bytes on a grant"), (R, "time"), (R, "messages"), (R, "bytes"), (R, "homes moved")]
    rows (Link name _ _ _ _, s) =
      [ [name, text ["program"] r, text ["homes"] r, fixed 0 (figure ["grant_bytes"] r)]
          ++ [fixed 3 (figure [field] r / base s (text ["program"] r) field) | field <- ["seconds", "messages", "bytes"]]
          ++ [fixed 0 (figure ["moved"] r)]
        | r <- list ["runs"] s
      ]
    base s p field = sum [figure [field] r | r <- list ["runs"] s, text ["program"] r == p, text ["homes"] r == "cyclic", figure ["grant_bytes"] r == 0]
    over s p policy = sum [figure ["seconds"] r | r <- list ["runs"] s, text ["program"] r == p, text ["homes"] r == policy, figure ["grant_bytes"] r == 256]

-- ---- prefetch --------------------------------------------------------------

prefetch :: Reaper -> Effort -> (String -> IO ()) -> IO Figures
prefetch reaper _ say = do
  program <- helperPath "maru-sim-dsm"
  say (intercalate ", " (map linkName described))
  samples <- together (map (simulated program) described)
  let checks = [against (name ++ ", " ++ p ++ ": with pages that come unasked over without") (AtMost 1.03) (ratioOf s p "seconds") | (Link name _ _ _ _, s) <- samples, p <- programs]
  pure
    Figures
      { figuresLine = checkLine checks,
        figuresTables = [("With pages that come unasked over without", Table heads (concatMap rows samples)), judged checks],
        figuresPlots = [],
        figuresData = object ["links" .= [object ["link" .= name, "latency_ns" .= a, "ps_per_byte" .= b, "cpu" .= c, "sample" .= s] | (Link name _ a b c, s) <- samples], "checks" .= checksJson checks]
      }
  where
    simulated program link@(Link _ _ a b c) = do
      sample <- runTool reaper program ["prefetch", show a, show b, show c]
      pure (link, sample)
    heads = [(L, "link"), (L, "program"), (R, "time"), (R, "messages"), (R, "bytes"), (R, "unasked"), (R, "in vain")]
    rows (Link name _ _ _ _, s) =
      [ [name, p] ++ [fixed 3 (ratioOf s p field) | field <- ["seconds", "messages", "bytes"]] ++ [fixed 0 (value s p "on" field) | field <- ["foreseen", "unused"]]
        | p <- programs
      ]
    ratioOf s p field = value s p "on" field / value s p "off" field
    value s p way field = sum [figure [field] r | r <- list ["runs"] s, text ["program"] r == p, text ["prefetch"] r == way]

-- ---- links -------------------------------------------------------------

links :: Reaper -> Effort -> (String -> IO ()) -> IO Figures
links reaper _ say = do
  program <- helperPath "maru-sim-dsm"
  say (intercalate ", " (map linkName described))
  samples <- together (map (simulated program) described)
  let checks = paper (concatMap (runsOf "paper") samples) ++ concatMap adaptive samples
  pure
    Figures
      { figuresLine = checkLine checks,
        figuresTables = [("Simulated seconds, 8 nodes, one page a fetch", Table heads (concatMap rows samples)), judged checks],
        figuresPlots = [plot p samples | p <- programs],
        figuresData = object ["links" .= [object ["link" .= name, "latency_ns" .= a, "ps_per_byte" .= b, "cpu" .= c, "sample" .= s] | (Link name _ a b c, s) <- samples], "checks" .= checksJson checks]
      }
  where
    simulated program link@(Link _ _ a b c) = do
      sample <- runTool reaper program ["programs", show a, show b, show c]
      pure (link, sample)
    runsOf name (Link n _ _ _ _, s) = if n == name then list ["runs"] s else []
    heads = [(L, "link"), (L, "program")] ++ [(R, p) | p <- policies] ++ [(R, "range/page"), (R, "adaptive/better")]
    rows (Link name _ _ _ _, s) = [[name, p] ++ [fixed 4 (time s p f) | f <- policies] ++ [fixed 3 (time s p "range" / time s p "page"), fixed 3 (ofBetter s p)] | p <- programs]
    paper runs =
      [ against "paper's network, tsp: range over page" (AtMost 0.92) (gain runs "tsp"),
        against "paper's network, raytrace: range over page" (AtMost 0.92) (gain runs "raytrace"),
        against "paper's network, ocean: range over page (the paper: no gain)" (AtLeast 0.92) (gain runs "ocean")
      ]
    gain runs p = timeIn runs p "range" / timeIn runs p "page"
    adaptive (Link name _ _ _ _, s) = [against (name ++ ", " ++ p ++ ": adaptive over the better of page and range") (AtMost 1.02) (ofBetter s p) | p <- programs]
    ofBetter s p = time s p "adaptive" / min (time s p "page") (time s p "range")

policies :: [String]
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

scale :: Reaper -> Effort -> (String -> IO ()) -> IO Figures
scale reaper _ say = do
  program <- helperPath "maru-sim-dsm"
  say "1 to 64 nodes"
  sample <- runTool reaper program ["scale"]
  let costs = list ["costs"] sample
      checks = concatMap (orders costs) known
  pure
    Figures
      { figuresLine = checkLine checks,
        figuresTables = [("A piece", Table [(L, "operation"), (R, "nodes"), (R, "messages"), (R, "bytes")] (map row costs)), judged checks],
        figuresPlots =
          [ Plot (what ++ " of an operation") (Axis "nodes" Logarithmic) (Axis (map toLower what) Logarithmic) [Series name (mapMaybe (place field name) costs) | (name, _, _) <- known]
            | (what, field) <- [("Bytes", "bytes"), ("Messages", "messages")]
          ],
        figuresData = object ["sample" .= sample, "checks" .= checksJson checks]
      }
  where
    row c = [text ["operation"] c, whole ["nodes"] c, fixed 2 (figure ["messages"] c), fixed 0 (figure ["bytes"] c)]
    whole path = fixed 0 . figure path
    place field name c = if text ["operation"] c == name && figure ["nodes"] c > 1 then Just (exactly (figure ["nodes"] c) (figure [field] c)) else Nothing

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
