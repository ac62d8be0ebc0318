{-# LANGUAGE OverloadedStrings #-}

-- | Real programs with maru and without: a fresh process each time, in rounds of all sides.
--
-- @direct@ is the program alone; @never@ passes its calls through @libmaru-io.so@ (where that is judged);
-- @auto@ steers and reads streams ahead, and has five seconds under load to find out what pays: all have
-- them, since some programs' data grow meanwhile. On a machine of several nodes there are more:
-- @numactl@ near the device, the same with interrupts bound by hand, beside @irqbalance@, and each policy.
module IoReal
  ( realExperiments,

    -- * For tests
    endOf,
    notMeasured,
  )
where

import Control.Applicative ((<|>))
import Data.Aeson (Value, object, (.=))
import qualified Data.Aeson.Key as Key
import Data.Bifunctor (first)
import Data.List (isPrefixOf, nub, sort)
import qualified Data.Map.Strict as Map
import Data.Maybe (catMaybes, fromMaybe, isJust)
import qualified Data.Text as Text
import IoIrqs
import IoPrograms (programs)
import IoWorkload
import Maru.Bench.Experiment
import Maru.Bench.Rounds
import Maru.Bench.Side (Sample, Side (..), at, number)
import Maru.Cli.Exit
import Maru.Cli.Group
import Maru.Cli.Installed
import Maru.Cli.Output
import Maru.Cli.Reaper (Reaper)
import Maru.Control.Ratio
import Maru.Control.Statistics
import Numeric (showFFloat)
import System.Directory (findExecutable, getDirectoryContents)
import System.FilePath ((</>))
import System.IO
import System.Process (proc)

realExperiments :: [Experiment]
realExperiments =
  [ Experiment
      { experimentName = "io/" ++ workloadName w,
        experimentPurpose = workloadPurpose w,
        experimentRun = run w
      }
    | w <- programs
  ]

run :: Workload -> Reaper -> Effort -> (String -> IO ()) -> IO Figures
run workload reaper effort say = do
  absent <- missing (workloadNeeds workload)
  case absent of
    Just why -> pure (Figures why [] [] (object ["not_measured" .= why]))
    Nothing -> measured workload reaper effort say

measured :: Workload -> Reaper -> Effort -> (String -> IO ()) -> IO Figures
measured workload reaper effort say = do
  _ <- libraryPath "libmaru-io.so"
  maru <- commandPath
  nodes <- maybe 0 (length . filter isNode) <$> orNothing (getDirectoryContents "/sys/devices/system/node")
  rivals <- if nodes < 2 then pure [] else othersOf maru
  let sides = [Side name [before] | (name, before) <- ways workload maru ++ rivals]
      -- Ten rounds of any workload take some four minutes; more of them twice that at most.
      span' = Span 5 (if effort == Quick || length sides > 2 then 1 else 2)
      most = 20
  withFolder $ \folder -> do
    say "prepares its data"
    workloadPrepare workload reaper folder
    rounds <- runRoundsBetween (10, most) effort say (sample workload reaper span' folder) sides (claims workload)
    let judged = map (judgeClaim rounds) (claims workload rounds)
    pure
      Figures
        { figuresLine = claimsLine judged,
          figuresTables = [("Claims", claimsTable judged), ("What it did", rates rounds sides), ("What was said at the end", ends rounds sides)] ++ notMeasured nodes (map fst rivals),
          figuresPlots = [],
          figuresData = object ["rounds" .= roundsJson rounds, "claims" .= map claimJson judged, "nodes" .= nodes]
        }
  where
    isNode name = "node" `isPrefixOf` name && all (`elem` ("0123456789" :: String)) (drop 4 name)

-- | Name, words before the program's own.
ways :: Workload -> FilePath -> [(String, [String])]
ways workload maru =
  [("direct", [])]
    ++ [("never", [maru, "run", "--io-delegate=never", "--"]) | workloadPasses workload]
    ++ [("auto", [maru, "run", "--io", "auto", "--io-delegate=hint", "--"])]

-- | Where there are several nodes. What stands in the name is started beside the program.
othersOf :: FilePath -> IO [(String, [String])]
othersOf maru = do
  near <- nodeOfDisk
  numactl <- isJust <$> findExecutable "numactl"
  balance <- isJust <$> findExecutable "irqbalance"
  pure $
    [(name, ["numactl", "--cpunodebind=" ++ show near, "--membind=" ++ show near]) | numactl, name <- ["numactl", boundIrqs]]
      ++ [(irqbalance, []) | balance]
      ++ [(policy, [maru, "run", "--io", policy, "--"]) | policy <- policies]

-- | What is compared on several nodes, and is not here: by how many this machine has, and what it
-- runs.
notMeasured :: Int -> [String] -> [(String, Table)]
notMeasured nodes ran =
  [("Not measured", Table [(L, "side"), (L, "why")] [[name, why name] | name <- absent]) | not (null absent)]
  where
    absent = filter (`notElem` ran) (["numactl", boundIrqs, irqbalance] ++ policies)
    why name
      | nodes < 2 = "one node: there is no near and no far"
      | otherwise = "apt-get install " ++ (if name == irqbalance then irqbalance else "numactl")

policies :: [String]
policies = ["single-socket", "per-socket", "cross-socket"]

irqbalance :: String
irqbalance = "irqbalance"

-- | The first disk's that knows; else 0.
nodeOfDisk :: IO Int
nodeOfDisk = do
  disks <- fromMaybe [] <$> orNothing (getDirectoryContents "/sys/block")
  known <- mapM (\d -> orNothing (readFile ("/sys/block" </> d </> "device" </> "numa_node"))) (sort disks)
  pure $ case [n | Just text <- known, [(n, _)] <- [reads text], n >= (0 :: Int)] of
    n : _ -> n
    [] -> 0

sample :: Workload -> Reaper -> Span -> FilePath -> Side -> IO Sample
sample workload reaper span' folder side = do
  let launch = Launch reaper (concat (sideProcesses side)) (folder </> "errors")
  (besides, found) <- beside reaper (sideName side) (workloadMeasure workload folder launch span')
  errors <- withFile (launchErrors launch) ReadMode (\h -> hSetBinaryMode h True >> hGetContents h >>= \t -> length t `seq` pure t)
  pure (object ["rates" .= object [Key.fromString name .= rate | (name, rate) <- found], "ended" .= (besides <|> endOf errors)])

-- | With what the side has beside the program, and what was said of that.
beside :: Reaper -> String -> IO a -> IO (Maybe String, a)
beside reaper name action
  | name == boundIrqs = first Just <$> whileBound action
  | name == irqbalance = (,) Nothing <$> inGroup reaper (proc irqbalance ["--foreground"]) (const action)
  | otherwise = (,) Nothing <$> action

-- | What steering said last, of what a run wrote to standard error: perhaps behind a program's own
-- words on the same line.
endOf :: String -> Maybe String
endOf errors = case drop 1 (Text.splitOn "maru: steer: " (Text.pack errors)) of
  [] -> Nothing
  found -> Just (Text.unpack (Text.takeWhile (/= '\n') (last found)))

claims :: Workload -> Rounds -> [Claim]
claims workload rounds =
  [ ratio (name ++ ", " ++ side ++ " / direct") (AtLeast bar) (number ["rates", Text.pack name]) side "direct"
    | (side, bar) <- [("never", 0.98) | workloadPasses workload] ++ [("auto", 0.97)],
      name <- namesOf rounds
  ]
    ++ [ single "steering ended at off or with threads placed only" (AtLeast 1) (pure . maybe 0 left . at ["ended"]) "auto"
         | workloadAnswers workload
       ]
  where
    left end = if any (`isPrefixOf` end) ["off", "placed"] then 1 else 0 :: Double

namesOf :: Rounds -> [String]
namesOf rounds = nub (concatMap names (samplesOf rounds "direct"))
  where
    names = maybe [] (Map.keys :: Map.Map String Value -> [String]) . at ["rates"]

rates :: Rounds -> [Side] -> Table
rates rounds sides =
  Table
    ((L, "side") : concat [[(R, name), (R, "/ direct")] | name <- names])
    [title s : concat [[median' s name, share s name] | name <- names] | s <- sides]
  where
    names = namesOf rounds
    title s = if sideName s == boundIrqs then titleOf (ended rounds s) else sideName s
    of' name = number ["rates", Text.pack name]
    median' s name = maybe "-" (short . summaryMedian) (summaryOf (of' name) rounds (sideName s))
    share s name = maybe "-" (\e -> showFFloat (Just 3) (estimateMedian e) "") (judgedEstimate (judgeClaim rounds (ratio "" (AtLeast 0) (of' name) (sideName s) "direct")))
    short v = if v >= 1e7 then showFFloat (Just 1) (v / 1e6) " M" else showFFloat (Just 0) v ""

-- | Of those that say something, and of auto, which should.
ends :: Rounds -> [Side] -> Table
ends rounds sides =
  Table
    [(L, "side"), (L, "said"), (R, "rounds")]
    [ [sideName s, end, show n]
      | s <- sides,
        (end, n) <- Map.toList (Map.fromListWith (+) [(end, 1 :: Int) | end <- ended rounds s])
    ]

-- | What was said at the end of each of a side's runs.
ended :: Rounds -> Side -> [String]
ended rounds side
  | sideName side == "auto" = map (fromMaybe "(said nothing)") words'
  | otherwise = catMaybes words'
  where
    words' = map (at ["ended"]) (samplesOf rounds (sideName side))
