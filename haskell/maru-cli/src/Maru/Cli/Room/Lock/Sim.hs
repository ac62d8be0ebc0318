{-# LANGUAGE OverloadedStrings #-}

-- | @maru sim lock@: a contended lock on a machine with several sockets.
module Maru.Cli.Room.Lock.Sim
  ( lockSimulator,
  )
where

import Data.Aeson (Value (..), eitherDecode, object, withObject, (.:), (.=))
import Data.Aeson.Types (parseEither)
import qualified Data.ByteString.Lazy as Lazy
import Data.List.NonEmpty (NonEmpty)
import Data.Map.Strict (Map)
import qualified Data.Map.Strict as Map
import Data.Maybe (fromMaybe)
import Data.String (fromString)
import Maru.Cli.Checks
import Maru.Cli.Output
import Maru.Cli.Readers
import Maru.Cli.Room (Simulation (..), Simulator (..))
import Maru.Control.Plot
import Maru.Control.Sim.Lock
import Maru.Control.Sim.Lock.Study
import Maru.Control.Sim.Lock.Tuning
import Maru.Control.Sim.Lock.Waiting
import Maru.Control.Sim.Tally
import Maru.Control.Tune.Lock (Objective (..), Window (..), settingName, verdictLine)
import Numeric (showFFloat)
import Options.Applicative hiding (internal)

lockSimulator :: Simulator
lockSimulator =
  Simulator
    { simName = "lock",
      simPurpose = "A contended lock: who is next, what it costs in throughput and in the tail",
      simParser = (\o -> Simulation [("--save", optionSave o)] (isPictured (optionAction o)) (start o)) <$> options
    }

data Options = Options
  { optionModel :: !Model,
    optionThreads :: !(Maybe Int),
    optionLocks :: ![Algorithm],
    optionMachine :: !(Maybe FilePath),
    optionSave :: !(Maybe FilePath),
    optionAction :: !Action
  }

data Action
  = -- | The locks asked for, beside FIFO.
    Compare
  | -- | The seed's study: what holds and what misses.
    Reproduce
  | -- | The tuner against its oracle.
    Tuning
  | -- | A queue that sleeps beside one that does not.
    Waits
  | Calibrate !Points

isPictured :: Action -> Bool
isPictured asked = case asked of
  Tuning -> False
  Calibrate _ -> False
  _ -> True

options :: Parser Options
options =
  build
    <$> numbered "sockets" "S" (wholeFrom 1 1024 "a number of sockets") (modelSockets d) "2" "Sockets of the machine"
    <*> numbered "cores" "N" (wholeFrom 1 65536 "a number of cores") (modelThreads d) "24" "Cores in all, dealt to the sockets in turn"
    <*> optional (option (eitherReader (wholeFrom 1 65536 "a number of threads")) (long "threads" <> metavar "N" <> help "Threads, at most one a core (default: as many)"))
    <*> many (option (eitherReader algorithmFromName) (long "lock" <> metavar "NAME[:K=V,...]" <> help "fifo, cna[:handoff_range=,shuffle_reduction=,deadline=,max_bypass=], hmcs[:passes=]; may be repeated (default: fifo, cna at the seed's ranges, a deadline of 25 us)"))
    <*> numbered "hold-ns" "NS" (numberFrom 0 1e9 "a time") (loadHold load) "150" "Time that the lock is held"
    <*> numbered "think-ns" "NS" (numberFrom 0 1e9 "a time") (loadThink load) "1100" "Time between two operations of a thread"
    <*> optional (strOption (long "machine" <> metavar "FILE" <> help "Costs of the machine (default: the seed's)"))
    <*> numbered "duration-ms" "MS" (numberFrom 1 100000 "a time") (modelDuration d / 1e6) "1000" "Simulated time"
    <*> numbered "seed" "N" (wholeFrom 0 maxBound "a number") (modelSeed d) "1" "Of the random numbers"
    <*> (chosen <|> pure Compare)
    <*> optional (strOption (long "save" <> metavar "FILE" <> help "Write the machine's costs there"))
  where
    d = seedModel
    load = modelLoad d
    chosen =
      flag' Reproduce (long "study" <> help "The seed's study and Linux's table: what the model predicts, what it misses, what each part does")
        <|> flag' Tuning (long "tuning" <> help "The tuner against an oracle, on five loads and four objectives each")
        <|> flag' Waits (long "waiting" <> help "One socket: a queue lock by how its waiters wait, before and after its holder is held up once")
        <|> Calibrate <$> option (eitherReader points) (long "calibrate" <> metavar "GAIN,DROP" <> help "Find a machine's costs from CNA's gain over FIFO and its loss at 0x100, such as 0.258,0.211")
    build sockets cores threads locks held think machine ms seed what save =
      Options
        { optionModel =
            d
              { modelSockets = sockets,
                modelThreads = cores,
                modelLoad = load {loadHold = held, loadThink = think},
                modelDuration = ms * 1e6,
                modelSeed = seed
              },
          optionThreads = threads,
          optionLocks = if null locks then Fifo : map seedCna ranges ++ [deadlineCna 2.5e4] else locks,
          optionMachine = machine,
          optionSave = save,
          optionAction = what
        }

points :: String -> Either String Points
points text = do
  numbers <- listOf (numberFrom (-0.9) 10 "a share") text
  case numbers of
    [gain, loss] -> Right (Points gain loss)
    _ -> Left ("GAIN,DROP is needed, not '" ++ text ++ "'")

-- | Reads the machine, runs, writes the machine.
start :: Options -> IO (Either String Figures)
start o = do
  machine <- traverse (readInput decodeMachine) (optionMachine o)
  let model = (optionModel o) {modelMachine = fromMaybe (modelMachine (optionModel o)) machine}
  case checked o model >>= \m -> act (optionAction o) machine m (optionLocks o) of
    Left why -> pure (Left why)
    Right (found, figures) -> do
      mapM_ (\file -> writeTo file (jsonLine (encodeMachine found))) (optionSave o)
      pure (Right figures)

checked :: Options -> Model -> Either String Model
checked o model
  | isWaits (optionAction o) = Right model
  | maybe False (> modelThreads model) (optionThreads o) = Left "sim lock has no more threads than cores: waiters that lose their core are not in the model"
  | otherwise = maybe (Right m) Left (foldr ((<|>) . problem') Nothing (optionLocks o))
  where
    isWaits what = case what of
      Waits -> True
      _ -> False
    m = model {modelThreads = fromMaybe (modelThreads model) (optionThreads o)}
    problem' algorithm = problemOf m {modelAlgorithm = algorithm}

-- | The machine in the end, and what to show.
act :: Action -> Maybe Machine -> Model -> [Algorithm] -> Either String (Machine, Figures)
act what given model locks = case what of
  Compare -> Right (modelMachine model, comparison model locks)
  Reproduce -> Right (modelMachine model, reproduction model)
  Tuning -> Right (modelMachine model, tuning)
  Waits -> Right (modelMachine model, waits model)
  Calibrate wanted -> do
    machine <- calibrate model {modelMachine = fromMaybe assumedMachine given} wanted
    Right (machine, calibration model {modelMachine = machine})

-- ---- comparison --------------------------------------------------------

comparison :: Model -> [Algorithm] -> Figures
comparison model locks =
  Figures
    { figuresLine = "best: " ++ algorithmName (fst best) ++ ", " ++ fixed 3 (over throughput (snd best)) ++ " times FIFO's throughput",
      figuresTables = [(title, Table heads (map row runs))],
      figuresPlots = [Plot "Simulated lock" (Axis "mean of the worst 1 % of the responses, µs" Logarithmic) (Axis "throughput over FIFO" Linear) (map series runs)],
      figuresData = object ["model" .= show model, "rows" .= map rowJson runs]
    }
  where
    runs = [(a, if a == Fifo then base else simulate model {modelAlgorithm = a}) | a <- locks]
    base = simulate model {modelAlgorithm = Fifo}
    best = foldl (\a b -> if throughput (snd b) > throughput (snd a) then b else a) (Fifo, base) runs
    over f o = f o / max 1e-9 (f base)
    title = show (modelSockets model) ++ " sockets, " ++ show (modelThreads model) ++ " threads; responses over FIFO's"
    heads =
      [(L, "lock"), (R, "op/s"), (R, "over FIFO"), (R, "p50"), (R, "p99"), (R, "x"), (R, "p99.9"), (R, "x"), (R, "p99.99"), (R, "x"), (R, "longest"), (R, "x"), (R, "worst 1 %"), (R, "x"), (R, "remote"), (R, "fair 10 ms"), (R, "passed over")]
    row (a, o) =
      [algorithmName a, fixed 0 (throughput o), fixed 3 (over throughput o), time (quantile 0.5 (outcomeResponse o))]
        ++ concat [[time (f o), fixed 2 (over f o)] | f <- tails]
        ++ [percent 1 (remoteShare o), fixed 3 (outcomeJainWindow o), maybe "-" show (outcomeBypass o)]
    tails = map (. outcomeResponse) [quantile 0.99, quantile 0.999, quantile 0.9999, most, worstMean 0.01]
    series (a, o) = Series (algorithmName a) [point' (worstMean 0.01 (outcomeResponse o) / 1000) (over throughput o)]
    point' x y = Point x y y y
    rowJson (a, o) =
      object
        [ "lock" .= algorithmName a,
          "ops_per_s" .= throughput o,
          "over_fifo" .= over throughput o,
          "response_ns" .= tallyJson (outcomeResponse o),
          "wait_ns" .= tallyJson (outcomeWait o),
          "remote_share" .= remoteShare o,
          "found_free" .= outcomeFree o,
          "jain_10ms" .= outcomeJainWindow o,
          "jain" .= outcomeJain o,
          "longest_bypass" .= outcomeBypass o
        ]

tallyJson :: Tally -> Value
tallyJson t =
  object
    [ "mean" .= mean t,
      "p50" .= quantile 0.5 t,
      "p99" .= quantile 0.99 t,
      "p999" .= quantile 0.999 t,
      "p9999" .= quantile 0.9999 t,
      "max" .= most t,
      "worst_1_percent" .= worstMean 0.01 t
    ]

-- | Of nanoseconds.
time :: Double -> String
time ns = seconds (ns / 1e9)

-- ---- study -------------------------------------------------------------

reproduction :: Model -> Figures
reproduction model =
  Figures
    { figuresLine = checkLine checks,
      figuresTables =
        [ ("CNA over FIFO, medians of " ++ show replicas ++ " seeds", Table ([(R, head') | head' <- ["range", "throughput", "p99", "p99.9", "p99.99", "longest", "worst 1 %"]]) rows),
          ("By the share of the responses that \"tail\" means: the mean of the worst, over FIFO", Table ([(R, "worst")] ++ [(R, algorithmName (seedCna r)) | (r, _) <- shown] ++ [(R, "change to 0x1000"), (R, "to 0x100")]) (map byShare [0.02, 0.01, 0.005, tailShare, 0.001])),
          ("What the studies say and what the model has", checkTable checks),
          ("The model without each of its parts, and with one more", Table ([(L, "model"), (R, "gain"), (R, "0x1000"), (R, "0x100")] ++ concat [[(R, "worst " ++ percentOf share), (R, "to 0x100")] | share <- [0.01, tailShare]]) (map ablation parts))
        ],
      figuresPlots = [Plot "Hand-over range" (Axis "range" Logarithmic) (Axis "over FIFO" Linear) [curve "throughput" throughput, curve "worst 1 %" (worstMean 0.01 . outcomeResponse)]],
      figuresData = object ["checks" .= checksJson checks]
    }
  where
    s = study model
    checks = seedChecks s ++ deadlineChecks s ++ kernelChecks [(n, kernelGain (kernelModel n) {modelMachine = modelMachine model}) | n <- kernelThreads]
    kernelGain m = throughput (simulate m {modelAlgorithm = kernelCna}) / throughput (simulate m {modelAlgorithm = Fifo})
    rows =
      [algorithmName (seedCna r) : ratios o | (r, o) <- studyRanges s]
        ++ [algorithmName (deadlineCna deadline) : ratios o | (deadline, o) <- studyDeadlines s]
    ratios :: NonEmpty Outcome -> [String]
    ratios o = fixed 3 (ratioTo (studyFifo s) throughput o) : [fixed 2 (ratioTo (studyFifo s) (f . outcomeResponse) o) | f <- [quantile 0.99, quantile 0.999, quantile 0.9999, most, worstMean 0.01]]
    curve name f = Series name [Point (fromIntegral r) v v v | (r, o) <- studyRanges s, let v = ratioTo (studyFifo s) f o]
    shown = [(r, o) | (r, o) <- studyRanges s, r `elem` [0x10000, 0x1000, 0x100]]
    byShare share =
      percentOf share :
      [fixed 1 v | (_, v) <- means] ++ [percent 1 (v / normal - 1) | (_, normal) <- take 1 means, (_, v) <- drop 1 means]
      where
        means = [(r, ratioTo (studyFifo s) (worstMean share . outcomeResponse) o) | (r, o) <- shown]
    percentOf share = showFFloat Nothing (100 * share) " %"
    parts = ablations model {modelDuration = modelDuration model / 4}
    ablation (name, m, cna) =
      [name, fixed 3 (throughput normal / throughput fifo), change 0x1000, change 0x100] ++ concat [[fixed 1 (worst share normal), percent 1 (worst share (at 0x100) / worst share normal - 1)] | share <- [0.01, tailShare]]
      where
        fifo = simulate m {modelAlgorithm = Fifo}
        at r = simulate m {modelAlgorithm = cna r}
        normal = at 0x10000
        change r = percent 1 (throughput (at r) / throughput normal - 1)
        worst share o = worstMean share (outcomeResponse o) / worstMean share (outcomeResponse fifo)

-- ---- tuning ------------------------------------------------------------

tuning :: Figures
tuning =
  Figures
    { figuresLine = show (length (filter succeeded tried)) ++ " of " ++ show (length tried) ++ " hold the objective within 10 %, at 95 % of the oracle's throughput or more",
      figuresTables = [("Tuner and oracle", Table [(L, "load"), (L, "tuner"), (R, "windows"), (R, "tail / limit"), (R, "throughput / oracle"), (L, "oracle"), (L, "")] (map row tried))],
      figuresPlots = [],
      figuresData = object ["rows" .= map json tried]
    }
  where
    tried = concatMap trials workloads
    tailOf t = (\w -> windowTail w / objectiveLimit (trialObjective t)) <$> trialResult t
    speedOf t = (\w (_, best) -> windowThroughput w / windowThroughput best) <$> trialResult t <*> trialOracle t
    row t =
      [ trialWorkload t,
        verdictLine (trialObjective t) (trialVerdict t),
        show (trialWindows t),
        maybe "-" (fixed 2) (tailOf t),
        maybe "-" (fixed 3) (speedOf t),
        oracle t,
        if succeeded t then "holds" else "MISS"
      ]
    oracle t = maybe "none" (settingName . fst) (trialOracle t)
    json t =
      object
        [ "load" .= trialWorkload t,
          "share" .= objectiveShare (trialObjective t),
          "limit_ns" .= objectiveLimit (trialObjective t),
          "windows" .= trialWindows t,
          "tail_over_limit" .= tailOf t,
          "throughput_over_oracle" .= speedOf t,
          "oracle" .= (settingName . fst <$> trialOracle t :: Maybe String),
          "holds" .= succeeded t
        ]

-- ---- waiting -----------------------------------------------------------

waits :: Model -> Figures
waits model =
  Figures
    { figuresLine = checkLine waitingChecks,
      figuresTables =
        [ (title, Table ((L, "waiting") : (L, "its holder") : [(R, show n) | n <- counts]) [waitingName w : state : map (fixed 0) (row w stall) | w <- allWaitings, (state, stall) <- states]),
          ("What was measured on 16 cores and what the model has, in thousands a second", checkTable waitingChecks)
        ],
      figuresPlots = [Plot "Simulated queue lock" (Axis "threads" Logarithmic) (Axis "thousand operations a second" Logarithmic) [Series (waitingName w ++ ", " ++ state) [Point (fromIntegral n) v v v | (n, v) <- zip counts (row w stall)] | w <- allWaitings, (state, stall) <- states]],
      figuresData = object ["rows" .= [object ["waiting" .= waitingName w, "stall_ns" .= stall, "threads" .= counts, "ops_per_s" .= map (* 1000) (row w stall)] | w <- allWaitings, (_, stall) <- states], "checks" .= checksJson waitingChecks]
    }
  where
    cores = modelThreads model
    title = show cores ++ " cores, thousand operations a second by threads"
    counts = takeWhile (< cores) (iterate (* 2) 2) ++ [cores, cores + max 1 (cores `div` 2), 4 * cores]
    states = [("undisturbed", 0), ("held up for 1 ms", 1e6)] :: [(String, Double)]
    row w stall = [perSecond (scene w cores n) {sceneStall = stall, sceneHold = loadHold (modelLoad model), sceneThink = loadThink (modelLoad model), sceneSeed = modelSeed model} / 1000 | n <- counts]

-- ---- machines ----------------------------------------------------------

calibration :: Model -> Figures
calibration model =
  Figures
    { figuresLine = "gain " ++ percent 1 gain ++ ", drop at 0x100 " ++ percent 1 loss,
      figuresTables = [("Costs of the machine", Table [(L, "cost"), (R, "value")] [[name, fixed 1 (get (modelMachine model))] | (name, get, _) <- machineFields])],
      figuresPlots = [],
      figuresData = object ["machine" .= encodeMachine (modelMachine model), "gain" .= gain, "drop" .= loss]
    }
  where
    Points gain loss = pointsOf model

-- | A file of schema @maru-machine/1@.
encodeMachine :: Machine -> Value
encodeMachine machine =
  object
    [ "schema" .= ("maru-machine/1" :: String),
      "lock" .= object [fromString name .= get machine | (name, get, _) <- machineFields]
    ]

-- | Costs that a file leaves out are the seed's.
decodeMachine :: Lazy.ByteString -> Either String Machine
decodeMachine bytes = eitherDecode bytes >>= parseEither machine
  where
    machine = withObject "machine" $ \o -> do
      schema <- o .: "schema"
      if schema == ("maru-machine/1" :: String) then pure () else fail ("schema maru-machine/1 is needed, not " ++ schema)
      costs <- o .: "lock"
      case [name | name <- Map.keys costs, name `notElem` [known | (known, _, _) <- machineFields]] of
        [] -> pure (foldl (field costs) seedMachine machineFields)
        name : _ -> fail ("unknown cost '" ++ name ++ "'")
    field :: Map String Double -> Machine -> (String, a, Double -> Machine -> Machine) -> Machine
    field costs known (name, _, set) = maybe known (`set` known) (Map.lookup name costs)
