-- | Whether fewer or more nodes would help a job, and which node should be the home of what, from
-- what its nodes tell (native/dsm/heat.h). Pure.
--
-- The model. On @n@ nodes a node computed @C@ seconds on the mean, waited @F@ for pages, @L@ for
-- locks and the like and @B@ at barriers. On @m@ nodes, 2 or more, the computing is divided evenly,
-- each node fetches as before, and waits for locks in proportion to the nodes that want them: @T(m)
-- = C n \/ m + F + L m \/ n + B@; one node alone computes only, @T(1) = C n@. It does not know how
-- a program's sharing changes with its number of nodes: it says where to try, not what will be.
module Maru.Control.Launch.Advice
  ( advice,
    predicted,
  )
where

import Data.List (maximumBy, minimumBy, sortOn)
import qualified Data.Map.Strict as Map
import Data.Ord (Down (..), comparing)
import Maru.Control.Launch.Heat (Told (..), sitesOfPages)
import Text.Printf (printf)

-- | A line each.
advice :: [Told] -> [String]
advice lines' = case [(w, c, f, l, b) | ToldNode _ w c f l b <- lines'] of
  [] -> ["none: the program did not end by maru_dsm_exit on every node"]
  nodes -> shares nodes : number nodes ++ placement lines' ++ [watched | length nodes > 1]
  where
    watched = "that was with accesses watched, to know all this; without a report nodes of one host have one memory, and fetch no pages"

type Node = (Double, Double, Double, Double, Double)

mean :: (Node -> Double) -> [Node] -> Double
mean of' nodes = sum (map of' nodes) / fromIntegral (length nodes)

-- | Of the time of a node: in all, computing, pages, locks, barriers.
means :: [Node] -> Node
means nodes = (m (\(x, _, _, _, _) -> x), m (\(_, x, _, _, _) -> x), m (\(_, _, x, _, _) -> x), m (\(_, _, _, x, _) -> x), m (\(_, _, _, _, x) -> x))
  where
    m of' = mean of' nodes

shares :: [Node] -> String
shares nodes = printf "%d nodes, of %.3f s: %.0f %% computing, %.0f %% waiting for pages, %.0f %% for locks, %.0f %% at barriers, %.0f %% without a processor" (length nodes) (1e-9 * w) (of' c) (of' f) (of' l) (of' b) (of' (lacking nodes))
  where
    (w, c, f, l, b) = means nodes
    of' x = if w > 0 then 100 * x / w else 0

-- | What neither computes nor waits.
lacking :: [Node] -> Double
lacking nodes = max 0 (w - c - f - l - b)
  where
    (w, c, f, l, b) = means nodes

-- | The time on so many nodes, by the model.
predicted :: [(Double, Double, Double, Double, Double)] -> Int -> Double
predicted nodes m
  | m == 1 = c * n
  | otherwise = c * n / fromIntegral m + f + l * fromIntegral m / n + b
  where
    n = fromIntegral (length nodes)
    (_, c, f, l, b) = means nodes

number :: [Node] -> [String]
number nodes
  | n == 1 = ["one node says nothing of what fetching would cost; run it on two"]
  | here <= 0 = []
  | otherwise = verdict : alone ++ [printf "processors lacked for %.0f %% of the time: fewer nodes on a host, or more processors" (100 * lacking nodes / w) | w > 0, lacking nodes > 0.2 * w]
  where
    n = length nodes
    (w, _, _, _, _) = means nodes
    here = predicted nodes n
    best = minimumBy (comparing (predicted nodes)) (1 : [m | m <- [n `div` 2, n, 2 * n, 4 * n], m >= 2, m <= 256])
    part m = predicted nodes m / here
    gains m = m /= n && part m <= 0.9
    would m = printf "%d %s would take about %.2f of the time" m (if m == 1 then "node" else "nodes") (part m)
    verdict
      | gains best = would best
      | otherwise = "the number of nodes is about right"
    -- Where more are best, those that there are may be slower than one all the same.
    alone = [would 1 | best /= 1, gains 1]

-- | The five hottest sites whose faults are mostly one node's, or each of whose pages is mostly one
-- node's.
placement :: [Told] -> [String]
placement lines' = concatMap place (take 5 (sortOn (Down . total . snd) (Map.toList bySite)))
  where
    sites = sitesOfPages lines'
    bySite = Map.fromListWith (Map.unionWith (Map.unionWith (+))) [(site, Map.singleton page (Map.singleton node (reads' + writes))) | ToldPage node page reads' writes _ <- lines', site <- sites page]
    total = sum . concatMap Map.elems . Map.elems
    place (site, pages)
      | total pages < 100 = []
      | 10 * top > 6 * total pages = [printf "node %d should be the home of %s: %d of its %d faults are that node's" who site top (total pages)]
      | 10 * own > 6 * total pages = [printf "each page of %s should be at home at the node that uses it most: %d of its %d faults are such" site own (total pages)]
      | otherwise = []
      where
        (who, top) = maximumBy (comparing snd) (Map.toList (Map.unionsWith (+) (Map.elems pages)))
        own = sum [maximum (Map.elems users) | users <- Map.elems pages]
