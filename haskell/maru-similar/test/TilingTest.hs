module TilingTest (tests) where

import Data.List (sortOn)
import Data.Primitive.PrimArray (primArrayToList, sizeofPrimArray)
import qualified Data.Set as Set
import Data.Word (Word32)
import Maru.Similar.Normalise
import Maru.Similar.Pairs (leastFor)
import Maru.Similar.Score (score, similarity)
import Maru.Similar.Tiling
import Snippets
import System.Timeout (timeout)
import Test.QuickCheck hiding (property)
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit hiding (assert)

tests :: TestTree
tests =
  testGroup
    "Tiling"
    [ property "tiles are those of the plain algorithm" 3000 sameAsPlain,
      property "coverage is the sum of the tiles, pair by pair" 500 sameCoverage,
      property "no tiles cover more than the bound says" 3000 boundHolds,
      property "what cannot reach the least is not tiled, all else is" 1000 leastIsKept,
      property "fewer tokens than the least for a threshold are below it" 1000 leastForThreshold,
      testCase "an example by hand" $
        -- abcd is longest; then only ef is left, of length 2.
        tilesOf 2 [1, 2, 3, 4, 5, 6] [5, 6, 1, 2, 3, 4] @?= [Match 0 2 4, Match 4 0 2],
      testCase "what is shorter than the minimum is no tile" $ tilesOf 5 [1, 2, 3, 4] [1, 2, 3, 4] @?= [],
      testCase "a barrier matches nothing" $
        tilesOf 2 [1, 2, barrier, 3, 4] [1, 2, barrier, 3, 4] @?= [Match 0 0 2, Match 3 3 2],
      testCase "too much repetition ends in time, and says so" workIsBounded,
      property "repeats are cut, the rest is kept" 500 collapses
    ]

tilesOf :: Int -> [Word32] -> [Word32] -> [Tile]
tilesOf m a b = tilingTiles (tiles (index m (side m (codes a))) (side m (codes b)))

-- | Sequences with much in common: blocks from a small stock.
data Case = Case Int [Word32] [Word32]
  deriving (Show)

instance Arbitrary Case where
  arbitrary = Case <$> choose (1, 6) <*> stretch <*> stretch
    where
      stretch = do
        n <- choose (0, 12)
        concat <$> vectorOf n (frequency [(3, elements stock), (2, (: []) <$> choose (0, 3)), (1, pure [barrier])])
      stock = [[0, 1, 2, 3, 4, 5], [1, 2, 3], [2, 2, 2, 2, 2], [0, 1, 0, 1], [5, 4, 3, 2, 1]]
  shrink (Case m a b) = [Case m a' b | a' <- shrinkList (const []) a] ++ [Case m a b' | b' <- shrinkList (const []) b]

sameAsPlain :: Case -> Property
sameAsPlain (Case m a b) = tilesOf m a b === plain m a b

sameCoverage :: Int -> [Case] -> Property
sameCoverage seed cases = map covered found === [sum (map matchLength (tilesOf m a b)) | b <- bs]
  where
    m = 1 + abs seed `mod` 6
    a = concat [x | Case _ x _ <- take 1 cases]
    bs = [y | Case _ _ y <- cases]
    found = coverages (index m (side m (codes a))) (map ((,) 0 . side m . codes) bs)

boundHolds :: Case -> Property
boundHolds (Case m a b) = counterexample (show (true, bound)) (bound >= true)
  where
    true = sum (map matchLength (plain m a b))
    bound = mostCovered (index m (side m (codes a))) (side m (codes b))

leastIsKept :: Case -> Property
leastIsKept (Case m a b) = forAll (choose (0, 1 + true)) $ \least ->
  case coverages ix [(least, other), (0, other)] of
    [some, whole] -> covered whole === true .&&. (covered some === if mostCovered ix other < least then 0 else true)
    _ -> counterexample "two" False
  where
    true = sum (map matchLength (plain m a b))
    ix = index m (side m (codes a))
    other = side m (codes b)

leastForThreshold :: Property
leastForThreshold = forAll ((,,) <$> choose (0, 1) <*> choose (1, 400) <*> choose (1, 400)) $ \(threshold, l, r) ->
  let reached m = similarity (score m l r) >= threshold
   in conjoin [counterexample (show m) (not (reached m)) | m <- [0 .. leastFor threshold l r - 1]]

-- | Greedy string tiling as it is defined: scan everything for the longest free
-- match (the earliest of these), mark it, again.
plain :: Int -> [Word32] -> [Word32] -> [Tile]
plain m a b = go Set.empty Set.empty
  where
    na = length a
    nb = length b
    go markedA markedB = case sortOn (negate . matchLength) candidates of
      best : _ -> best : go (mark (matchLeft best) best markedA) (mark (matchRight best) best markedB)
      [] -> []
      where
        candidates = [Match i j n | i <- [0 .. na - 1], j <- [0 .. nb - 1], let n = run i j, n >= m]
        run i j = length (takeWhile free (zip [i .. na - 1] [j .. nb - 1]))
        free (i, j) = a !! i == b !! j && a !! i /= barrier && i `Set.notMember` markedA && j `Set.notMember` markedB
    mark from t = Set.union (Set.fromList [from .. from + matchLength t - 1])

-- | Five thousand tokens of two kinds without any order, one of them much the rarer: half as many
-- steps more than the bound.
workIsBounded :: Assertion
workIsBounded = do
  done <- timeout 60000000 (pure $! complete (head' (coverages (index 9 (noise 1)) [(0, noise 2)])))
  done @?= Just False
  where
    noise seed = side 9 (codes (take 5000 (map bit (iterate step seed))))
    step x = (x * 1103515245 + 12345) `mod` 2147483648 :: Integer
    bit x = if x `div` 65536 `mod` 8 == 0 then 1 else 0
    head' cs = case cs of
      c : _ -> c
      [] -> Coverage 0 True

-- | A table of numbers between two stretches of code.
collapses :: Positive Int -> [Word32] -> Property
collapses (Positive n) before =
  conjoin
    [ counterexample "short" (collapseRepeats (codes plainCode) === codes plainCode),
      counterexample "long" (sizeofPrimArray (collapseRepeats (codes long)) <= 2 * length before' + repeatsKept + longestPeriod),
      counterexample "once" (take (length before') (sequenceOf long) === before')
    ]
  where
    before' = zipWith (\i w -> (w `mod` 50) * 1000 + i) [100 ..] (take 100 before)
    plainCode = before' ++ concat (replicate 20 [7, 8])
    long = before' ++ concat (replicate (100 + n * 50) [7, 8]) ++ before'
    sequenceOf = primArrayToList . collapseRepeats . codes
