-- | Where two submissions match, and why: for a reader who looks at a pair.
--
-- The tiles are those of 'Structure' codes with positions. A stretch that repeats itself is shown
-- whole, though it counts only once.
module Maru.Similar.Evidence
  ( Shown (..),
    evidence,
  )
where

import Data.ByteString (ByteString)
import Data.List (intersperse, sortOn)
import qualified Data.Map.Strict as Map
import Data.Primitive.PrimArray
import qualified Data.Set as Set
import qualified Data.Vector as V
import Maru.Similar.Corpus (Source (..))
import Maru.Similar.Language (lexSource)
import Maru.Similar.Match hiding (Kind, Tile)
import qualified Maru.Similar.Match as Match
import Maru.Similar.Normalise
import Maru.Similar.Tiling
import Maru.Similar.Token

-- | A tile, and whether it stands in another order than the tiles around it.
data Shown = Shown
  { shownTile :: !Match.Tile,
    shownMoved :: !Bool
  }
  deriving (Eq, Show)

-- | A token with where it stands.
data Placed = Placed
  { placedSpan :: !Span,
    placedKind :: !Kind,
    placedText :: !ByteString
  }

-- | All tiles of two submissions, in the order of the left; template code (the first) is in none.
-- The minimum match length must be at least 1. As costly as comparing the pair.
evidence :: Int -> [Source] -> [Source] -> [Source] -> [Shown]
evidence m base left right = zipWith Shown tiles_ (moved tiles_)
  where
    (lefts, leftCodes) = own left
    (rights, rightCodes) = own right
    found = tilingTiles (tiles (index m (side m leftCodes)) (side m rightCodes))
    tiles_ = sortOn Match.tileLeft (map shown found)
    shown t = tile (V.slice (matchLeft t) (matchLength t) lefts) (V.slice (matchRight t) (matchLength t) rights)
    own sources = let (tokens, codes) = placed sources in (tokens, maybe codes (without codes) template)
    template = if null base then Nothing else Just (index m (side m (snd (placed base))))
    -- In place, so that positions stay.
    without codes t = blotted (tilingTiles (tiles t (side m codes))) codes

-- | Tokens and their codes; a barrier with an empty token between files.
placed :: [Source] -> (V.Vector Placed, Codes)
placed sources = (V.concat (intersperse between (map fst each)), joinWithBarriers (map snd each))
  where
    each = zipWith file [0 ..] sources
    between = V.singleton (Placed (Span 0 0 0) Error mempty)
    file n (Source language _ bytes) = (V.fromList (map (one . fromIntegral) (primArrayToList (codedTokens tokens))), codesOf Structure bytes tokens)
      where
        tokens = lexSource language bytes
        one i = Placed (Span n (tokenStart tokens i) (tokenEnd tokens i - tokenStart tokens i)) (tokenKind tokens i) (tokenText bytes tokens i)

blotted :: [Match] -> Codes -> Codes
blotted found codes = runPrimArray $ do
  out <- newPrimArray (sizeofPrimArray codes)
  copyPrimArray out 0 codes 0 (sizeofPrimArray codes)
  mapM_ (\t -> setPrimArray out (matchRight t) (matchLength t) barrier) found
  pure out

tile :: V.Vector Placed -> V.Vector Placed -> Match.Tile
tile left right = Match.Tile (spanOf left) (spanOf right) (V.length left) (reason (zip (V.toList left) (V.toList right)))
  where
    -- Within one file: no tile has a barrier.
    spanOf = V.foldl1' (\(Span f from _) (Span _ start size) -> Span f from (start + size - from)) . V.map placedSpan

-- | The strongest that is true.
reason :: [(Placed, Placed)] -> Reason
reason tokens
  | all same tokens = SameText
  | not (null literals) && all same literals = SameLiterals
  | oneToOne (map texts tokens) = Renamed
  | otherwise = SameStructure
  where
    texts (a, b) = (placedText a, placedText b)
    same = uncurry (==) . texts
    literals = [pair | pair@(a, _) <- tokens, placedKind a `elem` [IntLiteral, FloatLiteral, CharLiteral, StringLiteral, TextBlock]]

-- | Whether each always stands for the same other, both ways.
oneToOne :: (Ord a, Ord b) => [(a, b)] -> Bool
oneToOne pairs = Set.size (Set.map fst different) == n && Set.size (Set.map snd different) == n
  where
    different = Set.fromList pairs
    n = Set.size different

-- | Of tiles in the order of the left: which are not among the heaviest ones that are in one order
-- on both sides. O(n log n).
moved :: [Match.Tile] -> [Bool]
moved found = map (`Set.notMember` stay) [0 .. length found - 1]
  where
    stay = maybe Set.empty (Set.fromList . snd . snd) (Map.lookupMax (foldl next Map.empty (zip [0 ..] found)))
    -- By where it ends on the right: the heaviest chain to there. Weights grow with the key.
    next chains (n, t) = Map.insert at (weight, n : chain) (dropped at weight chains)
      where
        at = (spanFile (tileRight t), spanStart (tileRight t))
        (before, chain) = maybe (0, []) snd (Map.lookupLT at chains)
        weight = before + tileTokens t :: Int
    dropped at weight chains = case Map.lookupGE at chains of
      Just (key, (w, _)) | w <= weight -> dropped at weight (Map.delete key chains)
      _ -> chains
