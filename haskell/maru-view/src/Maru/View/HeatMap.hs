-- | Which node asked for which pages, as one picture: a row a node, a column a run of pages. Pure.
module Maru.View.HeatMap
  ( heatMap,
    Cell (..),
    cells,
  )
where

import qualified Data.Map.Strict as Map
import Maru.Control.Launch.Heat (Told (..))
import Maru.Control.Plot (escape)

-- | A node's faults on the pages from one number to another.
data Cell = Cell
  { cellNode :: !Int,
    cellColumn :: !Int,
    cellFrom :: !Int,
    cellTo :: !Int,
    cellFaults :: !Int
  }
  deriving (Eq, Show)

-- | At most so many columns, in the order of pages; each of as many pages, all of which some node
-- asked for. Only cells with faults.
cells :: Int -> [Told] -> [Cell]
cells most told =
  [ Cell node column from to faults
    | ((node, column), faults) <- Map.toList (Map.fromListWith (+) counted),
      faults > 0,
      Just (from, to) <- [Map.lookup column ends]
  ]
  where
    asked = Map.keys (Map.fromList [(page, ()) | ToldPage _ page _ _ _ <- told])
    each = max 1 ((length asked + most - 1) `div` most)
    columns = Map.fromDistinctAscList (zip asked (concatMap (replicate each) [0 ..]))
    ends = Map.fromListWith (\(f, t) (f', t') -> (min f f', max t t')) [(column, (page, page)) | (page, column) <- Map.toList columns]
    counted = [((node, column), r + w) | ToldPage node page r w _ <- told, Just column <- [Map.lookup page columns]]

-- | Its lines; none where no page was asked for. The more faults, the stronger: by the logarithm.
heatMap :: (Int -> [String]) -> [Told] -> [String]
heatMap sitesOn told
  | null shown = []
  | otherwise =
    ["<h2>Pages by node</h2><p class=\"note\">" ++ escape legend ++ "</p><div class=\"card\">", open]
      ++ [label node row | (node, row) <- zip nodes [0 ..]]
      ++ map rect shown
      ++ ["</svg></div>"]
  where
    shown = cells 160 told
    nodes = Map.keys (Map.fromList ([(cellNode c, ()) | c <- shown] ++ [(n, ()) | ToldNode n _ _ _ _ _ <- told]))
    rows = Map.fromList (zip nodes [0 :: Int ..])
    width = 1 + maximum (map cellColumn shown)
    hottest = maximum (map cellFaults shown)
    legend = "Each column is a run of pages that some node asked for, in the order of addresses. The strongest cell is " ++ show hottest ++ " faults."
    open = "<svg viewBox=\"0 0 1000 " ++ show (height * length nodes) ++ "\" role=\"img\" aria-label=\"faults by node and page\">"
    label node row = "<text x=\"0\" y=\"" ++ show (row * height + 13) ++ "\">node " ++ show node ++ "</text>"
    across = 930 / fromIntegral width :: Double
    rect c =
      "<rect class=\"wait\" x=\""
        ++ place (65 + across * fromIntegral (cellColumn c))
        ++ "\" y=\""
        ++ show (height * Map.findWithDefault 0 (cellNode c) rows)
        ++ "\" width=\""
        ++ place (max 0.5 (across - 0.4))
        ++ "\" height=\""
        ++ show (height - 2)
        ++ "\" fill-opacity=\""
        ++ place (strength (cellFaults c))
        ++ "\"><title>"
        ++ escape (said c)
        ++ "</title></rect>"
    strength n = 0.15 + 0.85 * logBase 2 (1 + fromIntegral n) / logBase 2 (1 + fromIntegral hottest) :: Double
    said c = "node " ++ show (cellNode c) ++ ", pages " ++ show (cellFrom c) ++ " to " ++ show (cellTo c) ++ ": " ++ show (cellFaults c) ++ " faults; " ++ unwords (take 3 (sitesOn (cellFrom c)))
    place x = show (fromIntegral (round (100 * x) :: Int) / 100 :: Double)

height :: Int
height = 18
