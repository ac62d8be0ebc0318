{-# LANGUAGE OverloadedStrings #-}

-- | What a page costs that is at another node, by each fetch policy, with nodes that spin and nodes
-- that spare processors, over TCP and over libfabric. And what the network alone takes for as many
-- bytes. The method is at the top of @dsm_fetch.c@ and @dsm_floor.c@; a round measures each way
-- once.
module DsmFetch
  ( fetchExperiment,
  )
where

import Data.Aeson (object, (.=))
import qualified Data.Map.Strict as Map
import Data.Maybe (mapMaybe)
import Maru.Bench.Experiment
import Maru.Bench.Rounds
import Maru.Bench.Side
import Maru.Cli.Exit
import Maru.Cli.Group
import Maru.Cli.Installed
import Maru.Cli.Output
import Maru.Cli.Reaper (Reaper)
import Maru.Control.Ratio
import Maru.Control.Statistics
import System.Exit (ExitCode (..))
import System.Process

-- | Fetch policy, microseconds of spinning, transport; or the network alone.
data Way
  = Way !String !Int !String
  | Alone !Int !String
  deriving (Eq)

wayName :: Way -> String
wayName way = case way of
  Way fetch spin transport -> fetch ++ manner spin ++ by transport
  Alone spin transport -> "the network alone" ++ manner spin ++ by transport
  where
    manner spin = if spin > 0 then ", spinning" else ", sparing"
    by transport = if transport == "tcp" then "" else ", " ++ transport

-- | libfabric is compared with TCP where whole pages go: most bytes.
waysWith :: [String] -> [Way]
waysWith providers =
  [Way fetch spin "tcp" | fetch <- ["page", "range", "stamp", "adaptive"], spin <- [0, spinUs]]
    ++ [Way "page" spin "shm" | spin <- [0, spinUs]]
    ++ [Way "page" spinUs transport | transport <- fabrics]
    ++ [Alone 0 "tcp"]
    ++ [Alone spinUs transport | transport <- "tcp" : fabrics]
  where
    fabrics = ["ofi:" ++ provider | provider <- providers]

spinUs :: Int
spinUs = 200

fetchExperiment :: Experiment
fetchExperiment = Experiment "dsm/fetch" "A page that is at another node, over the loopback interface: one by one and in batches, by each fetch policy and transport" fetching

fetching :: Reaper -> Effort -> (String -> IO ()) -> IO Figures
fetching reaper effort say = do
  program <- helperPath "maru-bench-dsm"
  alone <- helperPath "maru-bench-dsm-floor"
  providers <- providersHere reaper
  let ways = waysWith providers
      sides = [Side (wayName way) [commandOf way] | way <- ways]
      times = if effort == Quick then "1" else "6"
      commandOf (Way fetch spin transport) = [program, "one", fetch, show spin, transport, times]
      commandOf (Alone spin transport) = [alone, transport, show spin, times]
      run side = case concat (sideProcesses side) of
        tool : arguments -> runTool reaper tool arguments
        [] -> problem internal ("no command for " ++ sideName side)
      claims = concatMap claimsFor ways
  rounds <- runRounds effort say run sides (const claims)
  let judged = map (judgeClaim rounds) claims
  pure
    Figures
      { figuresLine = claimsLine judged,
        figuresTables =
          [ ("From the access to its end, median over rounds", Table heads (concatMap (rows rounds) ways)),
            ("Claims", claimsTable judged)
          ],
        figuresPlots = [],
        figuresData = object ["ways" .= map wayName ways, "measured" .= roundsJson rounds, "claims" .= map claimJson judged]
      }
  where
    heads = [(L, "way"), (L, "pages"), (R, "p50"), (R, "p90"), (R, "p99")]
    rows rounds way =
      [ [wayName way, text] ++ [maybe "-" (seconds . (1e-9 *) . summaryMedian) (summaryOf (number [what, q]) rounds (wayName way)) | q <- ["p50", "p90", "p99"]]
        | (what, text) <- [("one", "one by one"), ("batched", "each of 64"), ("rested", "one after 1 ms"), ("lock", "a lock"), ("lock_rested", "a lock after 1 ms"), ("handed", "a lock handed over"), ("barrier", "a barrier of two"), ("one_way_4096", "4 KiB one way"), ("one_way_2048", "2 KiB one way")]
      ]

-- | The bars of TCP, and of shared memory with a core for each node. Libfabric must not be slower than
-- TCP. Nor may maru add more to it than to TCP.
claimsFor :: Way -> [Claim]
claimsFor (Alone _ _) = []
claimsFor way@(Way _ spin transport)
  | transport == "tcp" =
    [ single (name ++ ": one page, p50, us") (AtMost (if spin > 0 then 15 else 25)) (micro "one") name,
      single (name ++ ": a page of a batch of 64, p50, us") (AtMost 3) (micro "batched") name
    ]
      ++ [single (name ++ ": one page after 1 ms, p50, us") (AtMost 25) (micro "rested") name | spin == 0]
  | transport == "shm" =
    [ single (name ++ ": " ++ text ++ ", p50, us") (AtMost most) (micro what) name
      | spin > 0,
        (what, text, most) <- [("one", "one page", 6), ("lock", "a lock", 2), ("handed", "a lock handed over", 2), ("barrier", "a barrier of two", 2)]
    ]
      ++ [single (name ++ ": a lock after 1 ms, p50, over the wait room's hand-over to a sleeper") (AtMost 2) asleep name]
  | otherwise =
    [ratio (name ++ ": " ++ text ++ ", p50, over that of TCP") (AtMost 1) (number [what, "p50"]) name (wayName tcp) | (what, text) <- both]
      ++ [Claim (name ++ ": " ++ text ++ ", what is added to the network, over that with TCP") (wayName <$> four) (added what) (AtMost 1) | (what, text) <- both]
  where
    name = wayName way
    tcp = Way "page" spinUs "tcp"
    both = [("one", "one page"), ("batched", "a page of a batch of 64")]
    micro what sample = maybe [] (pure . (/ 1000)) (number [what, "p50"] sample)
    four = [way, Alone spinUs transport, tcp, Alone spinUs "tcp"]
    -- Two wake-ups: of the lock's manager by the request, of who asked by the answer.
    asleep sample = maybe [] pure ((/) <$> number ["lock_rested", "p50"] sample <*> number ["handover"] sample)
    added what (Rounds rounds) = mapMaybe (addedIn what . snd) rounds
    addedIn what samples = do
      [ours, floor', theirs, itsFloor] <- mapM (\w -> Map.lookup (wayName w) samples >>= number [what, "p50"]) four
      if theirs > itsFloor then Just ((ours - floor') / (theirs - itsFloor)) else Nothing

-- | Those of libfabric that are measured, where it has them.
providersHere :: Reaper -> IO [String]
providersHere reaper = helperAt "maru-launch" >>= either (const (pure [])) ask
  where
    ask path = do
      (code, said, _) <- outputOf reaper (proc path ["--providers"]) {std_in = CreatePipe}
      case (code, lines said) of
        (ExitSuccess, names : _) -> pure [p | p <- ["tcp;ofi_rxm", "net"], p `elem` separated names]
        (ExitFailure 69, _) -> pure []
        _ -> problem internal (path ++ " --providers failed")
    separated names = case break (== ',') names of
      (one, ',' : ' ' : rest) -> one : separated rest
      (one, _) -> [one]
