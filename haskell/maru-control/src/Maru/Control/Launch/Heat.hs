-- | Which shared pages cost what, from what the nodes of a job tell
-- (native/dsm/heat.h): per allocation site, and which pages are shared falsely.
-- Pure.
module Maru.Control.Launch.Heat
  ( Told (..),
    Page (..),
    Sharing (..),
    sharingName,
    Heat (..),
    told,
    faultReasons,
    sitesOfPages,
    pagesByHeat,
    heats,
    verdict,
  )
where

import Data.Bits (popCount, (.|.))
import Data.List (sortOn)
import qualified Data.Map.Strict as Map
import Data.Ord (Down (..))
import Data.Word (Word64)
import Numeric (readHex)
import Numeric.Natural (Natural)
import Text.Read (readMaybe)

-- | One line of a node's.
data Told
  = -- | Number, read faults, write faults, lines of 64 bytes that the node changed.
    ToldPage !Int !Int !Int !Int !Word64
  | -- | Offset, size, name.
    ToldSite !Natural !Natural !String
  | -- | A node, and its nanoseconds: in all, computing, waiting for pages, for locks and the like, for barriers.
    ToldNode !Int !Double !Double !Double !Double !Double
  | -- | A node, and of its waits for pages, for locks and the like, for barriers: how many; the longest, in nanoseconds.
    ToldWaits !Int ![(Int, Double)]
  | -- | A node, and its faults by reason, as 'faultReasons' names them.
    ToldFaults !Int ![Int]
  | -- | A node, and a kind of message that it sent: how many, and their bytes.
    ToldSent !Int !String !Integer !Integer
  | -- | A node, a lock: how often it took it, without a message; nanoseconds from request to grant, the longest.
    ToldLock !Int !String !Integer !Integer !Double !Double
  | -- | A node, a lock, the node that held it when it was asked for: how often; nanoseconds, the longest.
    ToldBehind !Int !String !Int !Integer !Double !Double
  deriving (Eq, Show)

-- | A line: the node's number, then its words.
told :: String -> Either String Told
told line = case words line of
  [node, "page", number, reads', writes, lines'] ->
    maybe broken Right $
      ToldPage <$> readMaybe node <*> readMaybe number <*> readMaybe reads' <*> readMaybe writes <*> hex lines'
  [node, "node", wall, computing, fetches, locks, barriers] ->
    maybe broken Right $
      ToldNode <$> readMaybe node <*> readMaybe wall <*> readMaybe computing <*> readMaybe fetches <*> readMaybe locks <*> readMaybe barriers
  node : "waits" : figures@[_, _, _, _, _, _] ->
    maybe broken Right (ToldWaits <$> readMaybe node <*> (pairs =<< mapM readMaybe figures))
  node : "faults" : figures@[_, _, _, _] -> maybe broken Right (ToldFaults <$> readMaybe node <*> mapM readMaybe figures)
  [node, "sent", kind, messages, bytes] -> maybe broken Right (ToldSent <$> readMaybe node <*> pure kind <*> readMaybe messages <*> readMaybe bytes)
  [node, "lock", name, taken, kept, waited, longest] ->
    maybe broken Right (ToldLock <$> readMaybe node <*> pure name <*> readMaybe taken <*> readMaybe kept <*> readMaybe waited <*> readMaybe longest)
  [node, "behind", name, holder, times, waited, longest] ->
    maybe broken Right (ToldBehind <$> readMaybe node <*> pure name <*> readMaybe holder <*> readMaybe times <*> readMaybe waited <*> readMaybe longest)
  _ : "site" : offset : size : name@(_ : _) ->
    maybe broken Right (ToldSite <$> readMaybe offset <*> readMaybe size <*> pure (unwords name))
  _ -> broken
  where
    broken = Left ("not a line about a page: " ++ take 80 line)
    pairs (count : longest : rest) = ((truncate (count :: Double), longest) :) <$> pairs rest
    pairs rest = if null rest then Just [] else Nothing
    hex digits = case readHex digits of
      [(value, "")] -> Just value
      _ -> Nothing

-- | Why a node asked for a page, in the order of 'ToldFaults'.
faultReasons :: [String]
faultReasons = ["first", "changed", "written", "home"]

-- | 'Falsely': several nodes changed it, no line of it two of them.
data Sharing = Unshared | Truly | Falsely
  deriving (Eq, Ord, Show)

-- | As reports spell it.
sharingName :: Sharing -> String
sharingName kind = case kind of
  Unshared -> "none"
  Truly -> "true"
  Falsely -> "false"

data Page = Page
  { pageNumber :: !Int,
    pageReads :: !Int,
    pageWrites :: !Int,
    -- | Nodes that changed something.
    pageWriters :: !Int,
    pageSharing :: !Sharing,
    -- | What lies on it.
    pageSites :: ![String]
  }
  deriving (Eq, Show)

pageSize :: Natural
pageSize = 4096

-- | The hottest first.
pagesByHeat :: [Told] -> [Page]
pagesByHeat lines' = sortOn (Down . faults) (map page (Map.toList byPage))
  where
    byPage = Map.fromListWith (++) [(number, [(r, w, l)]) | ToldPage _ number r w l <- lines']
    starts = siteIndex lines'
    page (number, nodes) =
      let written = [l | (_, _, l) <- nodes, l /= 0]
       in Page
            { pageNumber = number,
              pageReads = sum [r | (r, _, _) <- nodes],
              pageWrites = sum [w | (_, w, _) <- nodes],
              pageWriters = length written,
              pageSharing = sharing written,
              pageSites = sitesOn starts number
            }
    faults p = pageReads p + pageWrites p

sharing :: [Word64] -> Sharing
sharing written
  | length written < 2 = Unshared
  | popCount (foldr (.|.) 0 written) == sum (map popCount written) = Falsely
  | otherwise = Truly

-- | By offset; every node tells of the same allocations.
siteIndex :: [Told] -> Map.Map Natural (Natural, String)
siteIndex lines' = Map.fromList [(offset, (size, name)) | ToldSite offset size name <- lines']

-- | What lies on a page.
sitesOfPages :: [Told] -> Int -> [String]
sitesOfPages = sitesOn . siteIndex

sitesOn :: Map.Map Natural (Natural, String) -> Int -> [String]
sitesOn starts number = Map.keys (Map.fromList [(name, ()) | (_, name) <- before ++ within])
  where
    from = fromIntegral number * pageSize
    within = Map.elems (Map.takeWhileAntitone (< from + pageSize) (Map.dropWhileAntitone (< from) starts))
    before = [site | Just (offset, site@(size, _)) <- [Map.lookupLT from starts], offset + size > from]

-- | What was allocated at one site.
data Heat = Heat
  { heatSite :: !String,
    heatBytes :: !Natural,
    heatPages :: !Int,
    heatReads :: !Int,
    heatWrites :: !Int,
    heatTruly :: !Int,
    heatFalsely :: !Int
  }
  deriving (Eq, Show)

-- | The hottest first.  A page of several sites counts for each.
heats :: [Told] -> [Heat]
heats lines' = sortOn (\h -> Down (heatReads h + heatWrites h)) (map heat (Map.toList bytes))
  where
    bytes = Map.fromListWith (+) [(name, size) | (size, name) <- Map.elems (siteIndex lines')]
    bySite = Map.fromListWith (++) [(name, [p]) | p <- pagesByHeat lines', name <- pageSites p]
    heat (name, size) =
      let its = Map.findWithDefault [] name bySite
          count kind = length (filter ((== kind) . pageSharing) its)
       in Heat
            { heatSite = name,
              heatBytes = size,
              heatPages = length its,
              heatReads = sum (map pageReads its),
              heatWrites = sum (map pageWrites its),
              heatTruly = count Truly,
              heatFalsely = count Falsely
            }

-- | One line.
verdict :: [Heat] -> String
verdict [] = "no shared page was asked for"
verdict (h : _) =
  "hottest: "
    ++ heatSite h
    ++ ", "
    ++ show (heatReads h + heatWrites h)
    ++ " faults on "
    ++ show (heatPages h)
    ++ " pages, "
    ++ show (heatFalsely h)
    ++ " of them shared falsely"
