-- | Where two submissions match, and why: for a reader who looks at a pair.
--
-- The tiles are those of 'Structure' codes with positions. A stretch that repeats itself is shown
-- whole, though it counts only once.
module Maru.Similar.Evidence
  ( Shown (..),
    evidence,
    Usual,
    usualIn,
  )
where

import Data.Bits (shiftR, xor)
import Data.ByteString (ByteString)
import Data.List (intersperse, sortOn)
import qualified Data.Map.Strict as Map
import Data.Primitive.PrimArray
import qualified Data.Set as Set
import qualified Data.Vector as V
import qualified Data.Vector.Algorithms.Intro as Intro
import qualified Data.Vector.Unboxed as VU
import Data.Word (Word64)
import Maru.Similar.Corpus (Source (..))
import Maru.Similar.Language (Language, familyHead, lexSource)
import Maru.Similar.Match hiding (Kind, Tile)
import qualified Maru.Similar.Match as Match
import Maru.Similar.Normalise
import Maru.Similar.Standing (sampleOf)
import Maru.Similar.Tiling
import Maru.Similar.Token

-- | A tile, whether it stands in another order than the tiles around it, and whether hardly any other
-- submission of its family of languages has it.
data Shown = Shown
  { shownTile :: !Match.Tile,
    shownMoved :: !Bool,
    shownRare :: !Bool
  }
  deriving (Eq, Show)

-- | A token with where it stands.
data Placed = Placed
  { placedSpan :: !Span,
    placedKind :: !Kind,
    placedText :: !ByteString
  }

-- | All tiles of two submissions, in the order of the left; template code (the first) is in none.
-- The minimum match length must be at least 1. As costly as comparing the pair. Where nothing is
-- known of others, none is rare.
evidence :: Int -> Map.Map Language Usual -> [Source] -> [Source] -> [Source] -> [Shown]
evidence m usual base left right = zipWith3 Shown tiles_ (moved tiles_) (map rare found)
  where
    (lefts, leftCodes) = own left
    (rights, rightCodes) = own right
    found = sortOn matchLeft (tilingTiles (tiles (index m (side m leftCodes)) (side m rightCodes)))
    tiles_ = map shown found
    rare t = maybe False (\u -> rareIn leftCodes u t) (Map.lookup (languageAt (matchLeft t)) usual)
    languageAt i = leftLanguages V.! spanFile (placedSpan (lefts V.! i))
    leftLanguages = V.fromList (map (familyHead . sourceLanguage) left)
    shown t = tile (V.slice (matchLeft t) (matchLength t) lefts) (V.slice (matchRight t) (matchLength t) rights)
    own sources = let (tokens, codes) = placed sources in (tokens, maybe codes (without codes) template)
    template = if null base then Nothing else Just (index m (side m (snd (placed base))))
    -- In place, so that positions stay.
    without codes t = blotted (tilingTiles (tiles t (side m codes))) codes

-- | Which stretches some submissions of a family of languages have, each counted once a submission.
data Usual = Usual
  { -- | Tokens of a stretch.
    usualLength :: !Int,
    usualCount :: !Int,
    -- | Hashes, ascending.
    usualStretches :: !(VU.Vector Word64)
  }

-- | By families of languages, from a sample of the submissions that have one: what each of these
-- holds, by its number (a submission without a source says nothing), and their languages. Of fewer
-- than ten, which say little, there is none. The minimum match length. O(n log n) of the sample.
usualIn :: Int -> (Int -> [Source]) -> [[Language]] -> Map.Map Language Usual
usualIn m own languages' = Map.mapMaybeWithKey sampled having
  where
    having = fmap reverse . Map.fromListWith (++) $ [(l, [i]) | (i, ls) <- zip [0 ..] languages', l <- Set.toList (Set.fromList (map familyHead ls))]
    sampled l numbers = usualOf m (filter (not . null) [filter ((== l) . familyHead . sourceLanguage) (own (places V.! i)) | i <- sampleOf (V.length places)])
      where
        places = V.fromList numbers

usualOf :: Int -> [[Source]] -> Maybe Usual
usualOf m submissions
  | length submissions < 10 = Nothing
  | otherwise = Just (Usual k (length submissions) (ascending (VU.concat (map (VU.uniq . ascending . own) submissions))))
  where
    k = min 9 m
    own sources = let codes = joinWithBarriers [codesOf Structure bytes (lexSource l bytes) | Source l _ bytes <- sources] in stretchesOf k codes 0 (sizeofPrimArray codes)
    ascending = VU.modify Intro.sort

-- | Of the codes from that position on, so many: the hash of each stretch in them, but over barriers.
stretchesOf :: Int -> Codes -> Int -> Int -> VU.Vector Word64
stretchesOf k codes from n = VU.filter (/= none) (VU.generate (max 0 (n - k + 1)) (\i -> hash (from + i) (from + i + k) 0xcbf29ce484222325))
  where
    none = maxBound
    hash :: Int -> Int -> Word64 -> Word64
    hash i end h
      | i == end = h `shiftR` 1
      | isBarrier c = none
      | otherwise = hash (i + 1) end ((h `xor` fromIntegral c) * 0x9e3779b97f4a7c15 `xor` (h `shiftR` 29))
      where
        c = indexPrimArray codes i

-- | Whether most stretches of a tile are in two of these submissions at most, or in one of 32 more: the
-- two of the pair may be among them.
rareIn :: Codes -> Usual -> Match -> Bool
rareIn codes usual t = 2 * VU.length (VU.filter ((<= 2 + usualCount usual `quot` 32) . having) stretches') > VU.length stretches'
  where
    stretches' = stretchesOf (usualLength usual) codes (matchLeft t) (matchLength t)
    having h = firstAbove (> h) - firstAbove (>= h)
    firstAbove is = search 0 (VU.length (usualStretches usual))
      where
        search lo hi
          | lo >= hi = lo
          | is (usualStretches usual VU.! mid) = search lo mid
          | otherwise = search (mid + 1) hi
          where
            mid = (lo + hi) `quot` 2

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
