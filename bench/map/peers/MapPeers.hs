{-# LANGUAGE OverloadedStrings #-}

-- | @map\/peers@: maru beside the parallel maps of other languages and packages, in one run. Items are
-- work of a stated processor time by the same C code ('Maru.Bench.Items'), so what differs is what a
-- map costs.
module MapPeers
  ( peersExperiment,

    -- * Its parts
    Kind (..),
    Peer (..),
  )
where

import Control.Exception (bracket, try)
import Control.Monad (filterM, void)
import Data.Aeson (object, (.=))
import Data.Maybe (fromMaybe, mapMaybe)
import GHC.Conc (getNumProcessors)
import Maru.Bench.Experiment
import Maru.Bench.Rounds
import Maru.Bench.Side
import Maru.Cli.Exit (Problem (..), orNothing)
import Maru.Cli.Installed (helperPath)
import Maru.Cli.Output
import Maru.Cli.Reaper (Reaper)
import Maru.Control.Ratio
import Maru.Control.Statistics
import System.Directory (doesFileExist, getTemporaryDirectory, removeDirectoryRecursive, removeFile)
import System.Environment (lookupEnv)
import System.FilePath ((</>))
import System.Posix.Temp (mkdtemp)
import System.Timeout (timeout)

peersExperiment :: Experiment
peersExperiment =
  Experiment
    { experimentName = "map/peers",
      experimentPurpose = "maru beside parallel, monad-par, async, multiprocessing, joblib, mpire, Ray, GNU parallel, mclapply, Parmap and rayon, nine kinds of items",
      experimentRun = run
    }

-- | What is mapped: a name, how many items or maps, and in words.
data Kind = Kind
  { kindName :: !String,
    kindSize :: !Int,
    kindTitle :: !String
  }

-- | Those first in which the maps differ most: a run that is interrupted has them.
kinds :: [Kind]
kinds =
  [ Kind "results" 16 "16 results of 4 MiB",
    Kind "input" 64 "64 items that look into an input of 64 MiB",
    Kind "iterated" 100 "a hundred maps in a row, each of 8 items of 10 us",
    Kind "nothing" 10000 "10 000 items that do nothing",
    Kind "us10" 5000 "5000 items of 10 us",
    Kind "skewed" 64 "59 items of 1 ms, then 5 of 20 ms",
    Kind "ms1" 100 "100 items of 1 ms",
    Kind "ms100" 6 "6 items of 100 ms",
    Kind "killed" 40 "40 items of 1 ms, the 20th of which kills its process once"
  ]

deadly :: Kind -> Bool
deadly kind = kindName kind == "killed"

-- | Who maps: in processes, or in threads of the caller's.
data Peer = Peer
  { peerName :: !String,
    peerProcesses :: !Bool
  }
  deriving (Eq, Show)

-- | Those that are programs of their own, which @bench\/map\/peers\/install@ makes.
installed :: [Peer]
installed =
  [ Peer "multiprocessing" True,
    Peer "joblib" True,
    Peer "mpire" True,
    Peer "ray" True,
    Peer "gnu-parallel" True,
    Peer "mclapply" True,
    Peer "parmap" True,
    Peer "rayon" False,
    Peer "monad-par" False,
    Peer "domainslib" False
  ]

-- | Those that @maru-bench-map@ holds.
linked :: [Peer]
linked = [Peer "parallel" False, Peer "async" False]

peers :: [Peer]
peers = installed ++ linked

-- | By which the peers' times are divided: forked workers, which stay in a row of maps.
ours :: Kind -> String
ours kind = if kindName kind == "iterated" then "pool" else "shm"

-- | The same, and the default back end, which may decide that a map is too short for workers.
both :: Kind -> [String]
both kind = [ours kind, "auto"]

run :: Reaper -> Effort -> (String -> IO ()) -> IO Figures
run reaper effort say = bracket (getTemporaryDirectory >>= mkdtemp . (</> "maru-peers-")) removeDirectoryRecursive $ \scratch -> do
  program <- helperPath "maru-bench-map"
  cores <- getNumProcessors
  folder <- fromMaybe "" <$> lookupEnv "MARU_BENCH_PEERS"
  there <- filterM (doesFileExist . (folder </>) . peerName) (if null folder then [] else installed)
  let missing = [peerName p | p <- installed, p `notElem` there]
      mark = scratch </> "killed"
      sides kind = [Side w [ownArguments program cores mark kind w] | w <- ownWays kind] ++ [Side (peerName p) [environment mark ++ [folder </> peerName p, kindName kind, show (kindSize kind), show cores]] | p <- there]
      timed = filter (not . deadly) kinds
  found <- runRoundsOfEachWithin limit effort say (measure mark) [(kindName kind, sides kind, const (map snd (barred there kind))) | kind <- timed]
  -- What becomes of a killed worker is no matter of pairs, and some peers wait until they are ended.
  ends <- mapM (\kind -> runRoundsBetween (killings, killings) Full (say . ((kindName kind ++ ": ") ++)) (measure mark) (sides kind) (const [])) (filter deadly kinds)
  let results = zip (timed ++ filter deadly kinds) (found ++ ends)
      judged = [(kind, p, judgeClaim rounds claim) | (kind, rounds) <- results, (p, claim) <- barred there kind]
      beside = [(kind, p, judgeClaim rounds (versus kind p (ours kind))) | (kind, rounds) <- results, not (deadly kind), p <- linked ++ there, not (peerProcesses p)]
      verdicts = [j | (_, _, j) <- judged] ++ [judgeClaim rounds (failures kind) | (kind, rounds) <- results, not (deadly kind)]
  pure
    Figures
      { figuresLine = countsLine verdicts ++ (if null missing then "" else "; missing: " ++ unwords missing),
        figuresTables =
          [("Missing peers: MARU_BENCH_PEERS=FOLDER names what bench/map/peers/install FOLDER made", Table [(L, "peer")] (map pure missing)) | not (null missing)]
            ++ concatMap (uncurry (peersTables there)) results
            ++ [ ("Process-based peers: their time by ours; at least 1, we are ahead", claimsTable verdicts),
                 ("Peers that are ahead, by how much and why", aheadTable (judged ++ beside))
               ],
        figuresPlots = [],
        figuresData =
          object
            [ "cores" .= cores,
              "missing" .= missing,
              "kinds" .= [object ["kind" .= kindName kind, "size" .= kindSize kind, "measured" .= roundsJson rounds] | (kind, rounds) <- results],
              "claims" .= map claimJson verdicts,
              "beside" .= [claimJson j | (_, _, j) <- beside]
            ]
      }
  where
    killings = if effort == Quick then 1 else 2
    barred there kind = [(p, versus kind p own) | not (deadly kind), p <- there, peerProcesses p, own <- both kind]
    environment mark = ["MARU_BENCH_MARK=" ++ mark]
    ownArguments program cores mark kind w =
      environment mark ++ [program, "map", "peers-" ++ kindName kind, w, show (kindSize kind), "--workers", show cores]
        ++ (if w `elem` map peerName linked then ["+RTS", "-N" ++ show cores] else [])
    measure mark side = do
      void (orNothing (removeFile mark))
      outcome <- try (timeout (patience * 1000000) (runSide reaper "env" side))
      pure $ case outcome of
        Right (Just sample) -> sample
        Right Nothing -> object ["failed" .= ("is not done after " ++ show patience ++ " s")]
        Left (Problem _ why) -> object ["failed" .= ("ends without a result" :: String), "why" .= why]

-- | Seconds after which no round is added for what is undecided; and after which a map is ended: all
-- take less than ten on an idle machine.
limit, patience :: Int
limit = 60
patience = 60

-- | maru's own, and the packages that its program is linked with.
ownWays :: Kind -> [String]
ownWays kind = both kind ++ "map" : map peerName linked

versus :: Kind -> Peer -> String -> Claim
versus kind p own = ratio (kindName kind ++ ": time of " ++ peerName p ++ " by that of " ++ own) (AtLeast 1) wallNs (peerName p) own

-- | A run of ours that ends without its results is in no pair: it must not be forgotten with it. Each round is given the
-- number of all, so that no median hides one.
failures :: Kind -> Claim
failures kind = Claim (kindName kind ++ ": runs of ours without all results") (both kind) counted (AtMost 0)
  where
    counted rounds = [fromIntegral (length (filter (failed rounds) (concatMap (samplesOf rounds) (both kind)))) | _ <- samplesOf rounds (ours kind)]
    failed rounds sample = maybe True (`notElem` checksumsOf "map" rounds) (number ["checksum"] sample)

checksumsOf :: String -> Rounds -> [Double]
checksumsOf way rounds = [c | s <- samplesOf rounds way, Just c <- [number ["checksum"] s]]

-- | What a kind took each way. The checksum says whether all results are there.
peersTables :: [Peer] -> Kind -> Rounds -> [(String, Table)]
peersTables there kind rounds =
  [ ( kindTitle kind,
      Table
        [(L, "way"), (L, "runs in"), (R, "ms"), (R, "least … most"), (R, "processor ms"), (R, "times " ++ ours kind), (L, "results")]
        [ [w, place w, cell w, range w, cpu w, times w, outcome w]
          | w <- ownWays kind ++ map peerName there
        ]
    )
  ]
  where
    place w
      | w == "map" = "the caller"
      | w == "auto" = "what it chooses"
      | otherwise = if w `elem` [peerName p | p <- peers, not (peerProcesses p)] then "threads" else "processes"
    cell w = maybe "-" (ms . summaryMedian) (summaryOf wallNs rounds w)
    range w = maybe "-" (\s -> ms (summaryLeast s) ++ " … " ++ ms (summaryMost s)) (summaryOf wallNs rounds w)
    cpu w = maybe "-" (ms . summaryMedian) (summaryOf processor rounds w)
    times w = maybe "-" (fixed 2 . estimateMedian) (judgedEstimate (judgeClaim rounds (versus kind (Peer w False) (ours kind))))
    ms = fixed 1 . (/ 1e6)
    expected = checksumsOf (if deadly kind then ours kind else "map") rounds
    outcome w
      | null samples = "-"
      | why : _ <- mapMaybe (at ["failed"]) samples = why
      | any (`notElem` expected) (checksumsOf w rounds) = "not all there, and its status is 0"
      | otherwise = "all"
      where
        samples = samplesOf rounds w

-- | Of the caller and what it waited for. Ray's workers are not its children, so it says nothing of them.
processor :: Sample -> Maybe Double
processor sample = (+) <$> number ["meter", "cpu_self_ns"] sample <*> number ["meter", "cpu_children_ns"] sample

aheadTable :: [(Kind, Peer, Judged)] -> Table
aheadTable judged =
  Table
    [(L, "what"), (R, "times"), (R, "95 % interval"), (L, "why")]
    [ [claimText (judgedClaim j), fixed 3 (estimateMedian e), fixed 3 (estimateLow e) ++ " … " ++ fixed 3 (estimateHigh e), reason kind p (claimSides (judgedClaim j))]
      | (kind, p, j) <- judged,
        Just e <- [judgedEstimate j],
        estimateMedian e < 1
    ]

reason :: Kind -> Peer -> [String] -> String
reason kind p compared
  | items == "ms100" && "auto" `elem` compared = "the default begins its workers beside the first item, when that has taken 5 ms"
  | peerProcesses p = "it forks once for each worker and starts at once: nothing is claimed, watched or given again, as ours does"
  | items == "results" = "results stay in the heap where they were made: nothing crosses"
  | items == "input" = "one heap: nothing is forked that has the input's page tables"
  | items `elem` ["ms1", "ms100", "skewed"] = "its threads are there at once; our workers are forked first, some ms"
  | otherwise = "one heap: nothing is forked, and no result crosses"
  where
    items = kindName kind
