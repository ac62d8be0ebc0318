-- | The page of a comparison: the most similar pairs, and how similar all of them are. Pure.
module Maru.Cli.Similar.Page
  ( similarPage,
  )
where

import Data.ByteString (ByteString)
import qualified Data.IntMap.Strict as IntMap
import Data.List (foldl')
import qualified Data.Text as Text
import Data.Text.Encoding (decodeUtf8)
import qualified Data.Vector as V
import qualified Data.Vector.Unboxed as VU
import Maru.Cli.Output (Align (..), Table (..), plural)
import Maru.Cli.Page
import Maru.Control.Plot (Axis (..), Plot (..), Point (..), Scale (..), Series (..), svg)
import Maru.Similar
import Maru.Similar.Match (ViewScore (..))
import Maru.Similar.Output (printableName)

-- | Facts ('Maru.Cli.Host.pageFacts'), how many pairs to list, the outcome.
similarPage :: [(String, String)] -> Int -> Report -> String
similarPage facts top report =
  htmlPage (Heading "maru similar" found facts) $
    tiles
      [ (show (V.length (reportSubmissions report)), "submissions"),
        (show (reportCompared report), "pairs compared"),
        (show (pairCount table), "pairs reported"),
        (show (configMinMatch (reportConfig report)), "tokens of the shortest match that counts")
      ]
      ++ element "h2" ("The most similar pairs" ++ (if pairCount table > top then " (" ++ show top ++ " of " ++ show (pairCount table) ++ ")" else "")) :
    htmlTable (Table [(R, "similarity"), (L, "one"), (L, "other"), (R, evidence), (R, "tokens of one"), (R, "of the other")] (map row shown))
      ++ ["<h2>How similar the pairs are</h2>", "<div class=\"card\">" ++ svg (histogram (map scoreAt [0 .. pairCount table - 1])) ++ "</div>"]
      ++ section "Left out" [name path ++ ": " ++ name why | LeftOut path why <- reportLeftOut report]
  where
    table = reportPairs report
    shown = take top (pairList table)
    lengths = reportLengths report
    scoreOf = pairSimilarity
    -- By number: a list of all pairs would be held for as long as it is needed twice.
    scoreAt = scoreOf . pairAt table
    high = length (takeWhile ((>= 0.8) . scoreAt) [0 .. pairCount table - 1])
    found = case shown of
      [] | reportCompared report == 0 -> "There is nothing to compare: one submission only."
      [] -> "No pair is at or above the threshold."
      pair : _ -> "The most similar are " ++ of' (pairLeft pair) ++ " and " ++ of' (pairRight pair) ++ ", " ++ percent (scoreOf pair) ++ "; " ++ plural high "pair" ++ " at 80 % or more."
    row pair =
      [ percent (scoreOf pair),
        of' (pairLeft pair),
        of' (pairRight pair),
        shared (pairEvidence pair),
        show (lengths VU.! pairLeft pair),
        show (lengths VU.! pairRight pair)
      ]
    evidence = case configMode (reportConfig report) of
      Seed -> "tokens in common"
      Score -> "structure, lexical, names"
    shared e = case e of
      Tiles n whole -> (if whole then "" else "at least ") ++ show n
      Shared s l n -> unwords [percent (viewAverage v) | v <- [s, l, n]]
    of' i = name (submissionName (reportSubmissions report V.! i))

-- | A name must not steer what shows it.
name :: ByteString -> String
name = Text.unpack . decodeUtf8 . printableName

-- | Rounded down, so that 100 % is said of nothing less.
percent :: Double -> String
percent x = show (floor (x * 100 + 1e-9) :: Int) ++ " %"

-- | Pairs in twentieths.
histogram :: [Double] -> Plot
histogram scores =
  Plot
    "Pairs by similarity, in steps of 5 %"
    (Axis "similarity, %" Linear)
    (Axis "pairs" Logarithmic)
    [Series "pairs" [Point x n n n | (i, count) <- IntMap.toList counts, let x = 5 * fromIntegral i + 2.5; n = fromIntegral count]]
  where
    counts = foldl' (\m s -> IntMap.insertWith (+) (min 19 (floor (20 * s))) (1 :: Int) m) IntMap.empty scores
