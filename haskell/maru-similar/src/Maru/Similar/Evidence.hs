-- | Where two submissions match, and why: for a reader who looks at a pair.
--
-- The tiles are those of 'Structure' codes with positions. A stretch that repeats itself is shown
-- whole, though it counts only once.
module Maru.Similar.Evidence
  ( Shown (..),
    evidence,
    Program,
    programOf,
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
import qualified Data.Vector.Unboxed as VU
import Data.Word (Word32, Word64)
import Maru.Similar.Corpus (Source (..))
import Maru.Similar.Language (Language, Reading (..), familyHead, readSource)
import Maru.Similar.Match hiding (Kind, Tile)
import qualified Maru.Similar.Match as Match
import Maru.Similar.Normalise
import Maru.Similar.Standing (sampleOf)
import Maru.Similar.Table (sortKeys)
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

-- | A submission ready to be looked at: its tokens that count, by position, one without a token
-- between two files. Some 40 bytes a token.
data Program = Program
  { programFiles :: !(V.Vector (Language, Reading)),
    -- | File and token of each position.
    programPlaces :: !(VU.Vector (Word32, Word32)),
    programSide :: !Side
  }

-- | Without template code (the first), which no tile has. The minimum match length must be at least 1.
-- The template is made ready once for all submissions. O(n), and what finding the template costs.
programOf :: Int -> [Source] -> [Source] -> Program
programOf m base = without . placed m
  where
    template = index m (programSide (placed m base))
    without p
      | null base = p
      -- In place, so that positions stay.
      | otherwise = p {programSide = side m (blotted (tilingTiles (tiles template (programSide p))) (sideCodes (programSide p)))}

placed :: Int -> [Source] -> Program
placed m sources = Program (V.fromList files) (VU.concat (intersperse (VU.singleton (0, 0)) (zipWith places [0 ..] files))) (side m (joinWithBarriers (map codes files)))
  where
    files = [(l, readSource l bytes) | Source l _ bytes <- sources]
    places n (_, r) = let coded = codedTokens (readingTokens r) in VU.generate (sizeofPrimArray coded) (\i -> (n, indexPrimArray coded i))
    codes (_, r) = codesOf Structure (readingText r) (readingTokens r)

-- | All tiles of two submissions, in the order of the left. Made with that minimum match length. As
-- costly as comparing the pair. Where nothing is known of others, none is rare.
evidence :: Int -> Map.Map Language Usual -> Program -> Program -> [Shown]
evidence m usual left right = zipWith3 Shown shown (moved shown) (map rare found)
  where
    found = sortOn matchLeft (tilingTiles (tiles (index m (programSide left)) (programSide right)))
    shown = map (tile left right) found
    rare t = maybe False (\u -> rareIn (sideCodes (programSide left)) u t) (Map.lookup (familyHead (languageAt (matchLeft t))) usual)
    languageAt i = let (l, _) = programFiles left V.! fileAt left i in l

fileAt, startAt, endAt :: Program -> Int -> Int
fileAt p i = fromIntegral (fst (programPlaces p VU.! i))
startAt = tokenAt (tokenStart . readingPlaces)
endAt = tokenAt (tokenEnd . readingPlaces)

tokenAt :: (Reading -> Int -> a) -> Program -> Int -> a
tokenAt what p i = what (snd (programFiles p V.! fileAt p i)) (fromIntegral (snd (programPlaces p VU.! i)))

textAt :: Program -> Int -> ByteString
textAt = tokenAt (\r -> spelledText (readingText r) (readingTokens r))

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
    own sources = let codes = joinWithBarriers [codesOf Structure (readingText r) (readingTokens r) | Source l _ bytes <- sources, let r = readSource l bytes] in stretchesOf k codes 0 (sizeofPrimArray codes)
    ascending = VU.modify sortKeys

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

blotted :: [Match] -> Codes -> Codes
blotted found codes = runPrimArray $ do
  out <- newPrimArray (sizeofPrimArray codes)
  copyPrimArray out 0 codes 0 (sizeofPrimArray codes)
  mapM_ (\t -> setPrimArray out (matchRight t) (matchLength t) barrier) found
  pure out

tile :: Program -> Program -> Match -> Match.Tile
tile left right (Match from to n) = Match.Tile (spanOf left from) (spanOf right to) n (reason left right [(from + k, to + k) | k <- [0 .. n - 1]])
  where
    -- Within one file: no tile has a barrier.
    spanOf p i = Span (fileAt p i) (startAt p i) (endAt p (i + n - 1) - startAt p i)

-- | The strongest that is true of the tokens at these positions.
reason :: Program -> Program -> [(Int, Int)] -> Reason
reason left right positions
  | all same positions = SameText
  | not (null literals) && all same literals = SameLiterals
  | oneToOne (map texts positions) = Renamed
  | otherwise = SameStructure
  where
    texts (i, j) = (textAt left i, textAt right j)
    same = uncurry (==) . texts
    literals = [at | at@(i, _) <- positions, tokenAt (tokenKind . readingTokens) left i `elem` [IntLiteral, FloatLiteral, CharLiteral, StringLiteral, TextBlock]]

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
