{-# LANGUAGE OverloadedStrings #-}

-- | What a page costs that is at another node, by each fetch policy, with a
-- server that sleeps and one that spins, over TCP and over libfabric. The method
-- is at the top of @bench\/dsm\/dsm_fetch.c@; a round measures each way once.
module Maru.Cli.Bench.Dsm.Fetch
  ( fetching,
  )
where

import Data.Aeson (object, (.=))
import Maru.Cli.Bench.Rounds
import Maru.Cli.Bench.Side
import Maru.Cli.Exit
import Maru.Cli.Output
import Maru.Cli.Room
import Maru.Control.Ratio
import Maru.Control.Statistics
import System.Exit (ExitCode (..))
import System.Process (readProcessWithExitCode)

-- | Fetch policy, microseconds of spinning, transport.
data Way = Way !String !Int !String
  deriving (Eq)

wayName :: Way -> String
wayName (Way fetch spin transport) = fetch ++ (if spin > 0 then ", spinning" else ", sleeping") ++ (if transport == "tcp" then "" else ", " ++ transport)

-- | libfabric is compared with TCP where whole pages go: most bytes.
waysWith :: [String] -> [Way]
waysWith providers =
  [Way fetch spin "tcp" | fetch <- ["page", "range", "stamp", "adaptive"], spin <- [0, spinUs]]
    ++ [Way "page" spinUs ("ofi:" ++ provider) | provider <- providers]

spinUs :: Int
spinUs = 200

fetching :: Effort -> (String -> IO ()) -> IO Figures
fetching effort say = do
  program <- helperPath "maru-bench-dsm"
  providers <- providersHere
  let ways = waysWith providers
      sides = [Side (wayName way) [commandOf way] | way <- ways]
      commandOf (Way fetch spin transport) = ["one", fetch, show spin, transport, if effort == Quick then "2" else "6"]
      claims = concatMap claimsFor ways
  rounds <- runRounds effort say (runTool program . concat . sideProcesses) sides (const claims)
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
    rows rounds way = [[wayName way, text] ++ [maybe "-" (seconds . (1e-9 *) . summaryMedian) (summaryOf (number [what, q]) rounds (wayName way)) | q <- ["p50", "p90", "p99"]] | (what, text) <- [("one", "one by one"), ("batched", "each of 64")]]

-- | The bars of TCP; libfabric must not be slower than TCP.
claimsFor :: Way -> [Claim]
claimsFor way@(Way _ spin transport)
  | transport == "tcp" =
    [ single (name ++ ": one page, p50, us") (AtMost (if spin > 0 then 15 else 25)) (micro "one") name,
      single (name ++ ": a page of a batch of 64, p50, us") (AtMost 3) (micro "batched") name
    ]
  | otherwise =
    [ ratio (name ++ ": one page, p50, over that of TCP") (AtMost 1) (number ["one", "p50"]) name (wayName tcp),
      ratio (name ++ ": a page of a batch of 64, p50, over that of TCP") (AtMost 1) (number ["batched", "p50"]) name (wayName tcp)
    ]
  where
    name = wayName way
    tcp = Way "page" spinUs "tcp"
    micro what sample = maybe [] (pure . (/ 1000)) (number [what, "p50"] sample)

-- | Those of libfabric that are measured, where it has them.
providersHere :: IO [String]
providersHere = helperAt "maru-launch" >>= either (const (pure [])) ask
  where
    ask path = do
      (code, said, _) <- readProcessWithExitCode path ["--providers"] ""
      case (code, lines said) of
        (ExitSuccess, names : _) -> pure [p | p <- ["tcp;ofi_rxm", "net"], p `elem` separated names]
        (ExitFailure 69, _) -> pure []
        _ -> problem internal (path ++ " --providers failed")
    separated names = case break (== ',') names of
      (one, ',' : ' ' : rest) -> one : separated rest
      (one, _) -> [one]
