-- Quicker to compile, and no slower where it counts: what is tested is optimised.
{-# OPTIONS_GHC -O0 #-}

-- | The kernels against a plain model.
module WeighTest (tests) where

import Control.Monad (forM_)
import Data.Bits ((.&.))
import Data.List (nub, partition, sortOn)
import qualified Data.Map.Strict as Map
import qualified Data.Set as Set
import qualified Data.Vector.Unboxed as VU
import Data.Word (Word32)
import Maru.Similar.Config
import Maru.Similar.Match (ViewScore (..))
import Maru.Similar.Normalise (barrier)
import Maru.Similar.Table
import Maru.Similar.Views
import Maru.Similar.Weigh
import Snippets
import System.IO.Unsafe (unsafePerformIO)
import Test.QuickCheck hiding (property, total, (.&.))
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit

tests :: TestTree
tests =
  testGroup
    "Weigh"
    [ property "each pair is what the model says" 150 sameAsModel,
      property "any cut into blocks gives the same pairs" 100 anyBlocks,
      property "the threshold leaves out just what is below it" 100 thresholded,
      property "one against all says the same as the pairs" 100 sameAgainst,
      property "old submissions meet new ones only, each pair once" 100 oldApart,
      property "the blocks are all rows, once" 100 allRows,
      property "the best of blocks are those of all, and never many more" 200 bestOfBlocks,
      testCase "equals are 1 however short, others 0" $ do
        let pairs = cellsOf ByBoth 0 [(False, same [1, 2]), (False, same [1, 2]), (False, same [3])]
        map cellBoth pairs @?= [1, 0, 0],
      testCase "other names are equal where each stands for one, and only there" $ do
        let named xs = (False, same (map name xs))
            pairs = cellsOf ByBoth 0 [named [0, 1, 0, 2, 1, 0], named [7, 3, 7, 5, 3, 7], named [7, 3, 7, 5, 5, 7]]
        [(cellLeft c, cellRight c) | c <- pairs, cellBoth c == 1] @?= [(0, 1)],
      testCase "names of two families are never equal" $ do
        let named = map (+ 0x82000000)
            pairs = cellsOf ByBoth 0 [(False, same (map name [0, 1, 0])), (False, same (named [0, 1, 0])), (False, same (named [5, 3, 5]))]
        [(cellLeft c, cellRight c, cellBoth c) | c <- pairs] @?= [(0, 1, 0), (0, 2, 0), (1, 2, 1)],
      testCase "nothing at all is similar to nothing" $
        map cellBoth (cellsOf ByBoth 0 [(False, same []), (False, same [])]) @?= [0],
      testCase "what repeats without end counts 255 times" $ do
        let often n = same (concat (replicate n [1, barrier]))
            pairs = cellsOf ByBoth 0 [(False, often 400), (False, often 255), (False, often 100), (False, often 400)]
        [(cellLeft c, cellRight c) | c <- pairs, cellBoth c == 1] @?= [(0, 1), (0, 3), (1, 3)],
      testCase "many submissions share a gram" $ do
        -- All of a class have it: worth little, but equal is equal.
        let pairs = cellsOf ByBoth 0 (replicate 40 (False, same [1 .. 20]))
        length pairs @?= 780
        forM_ pairs $ \c -> cellBoth c @?= 1,
      testCase "what most of a class copied from one, each with a disguise of its own, is above all else" $ do
        let disguised i = concat [[100 * b + 1 .. 100 * b + 10] ++ [10000 * i + b] | b <- [1 .. 10]]
            -- Two at a time have a stretch in common.
            independent i = [10000 * i .. 10000 * i + 100] ++ [5000 + 20 * (i `div` 2) .. 5007 + 20 * (i `div` 2)]
            pairs = cellsOf ByBoth 0 [(False, same (if i <= 16 then disguised i else independent i)) | i <- [1 .. 24]]
            (copies, others) = partition ((< 16) . cellRight) pairs
        length copies @?= 120
        assertBool "a copy is below independent work" (minimum (map cellBoth copies) > maximum (map cellBoth others))
    ]
  where
    same s = Views (codes s) (codes s) (codes s)

-- | A code of which counts only where it is again.
name :: Word32 -> Word32
name = (+ 0x80000000)

-- | Submissions with much in common; some old.
newtype Class = Class [(Bool, [[Word32]])]
  deriving (Show)

instance Arbitrary Class where
  arbitrary = do
    n <- choose (1, 24)
    Class <$> vectorOf n ((,) <$> frequency [(3, pure False), (1, pure True)] <*> vectorOf 3 sequence')
    where
      sequence' = choose (0, 8) >>= \k -> concat <$> vectorOf k (frequency [(6, elements stock), (2, (: []) <$> choose (0, 3)), (2, (: []) . name <$> choose (0, 3)), (1, pure [name 0x2000000, name 0x2000001]), (1, pure [barrier])])
      stock = [[name 0, 1, name 1, 2, name 0], [name 2, 1, name 3, 2, name 2], [1 .. 9], [4 .. 14], [7, 7, 7, 7, 7, 7, 7], [1, 2, 1, 2, 1, 2], [20 .. 31]]
  shrink (Class c) = [Class c' | c' <- shrinkList (const []) c, not (null c')]

submissionsOf :: Class -> [(Bool, Views)]
submissionsOf (Class c) = [(old, views v) | (old, v) <- c]
  where
    views v = case map codes v of
      [s, l, n] -> Views s l n
      _ -> Views mempty mempty mempty

allNew :: Class -> Class
allNew (Class c) = Class [(False, v) | (_, v) <- c]

weighed :: [(Bool, Views)] -> Weighed
weighed submissions = unsafePerformIO (weigh Nothing (length (filter (not . fst) newFirst)) (map snd newFirst))
  where
    newFirst = uncurry (++) (partition (not . fst) submissions)

cellsOf :: Rank -> Float -> [(Bool, Views)] -> [Cell]
cellsOf rank threshold submissions = concatMap (cellList . compareBlock w rank threshold) (blocksOf w)
  where
    w = weighed submissions

cellList :: Cells -> [Cell]
cellList cells = map (cellAt cells) [0 .. cellCount cells - 1]

-- The model -------------------------------------------------------------------

type Grams = Map.Map [Word32] Int

gramsOf :: Int -> [Word32] -> Grams
gramsOf k s = Map.map (min 255) $ Map.fromListWith (+) [(map (numbered g) g, 1) | part <- stretches s, g <- windows part]
  where
    stretches xs = case break (== barrier) xs of
      (part, _ : rest) -> part : stretches rest
      (part, []) -> [part]
    -- A name is its family, and as many as there are other names before it first comes.
    numbered window code
      | code < name 0 = code
      | otherwise = name (code .&. 0x7e000000 + fromIntegral (length (nub [c | c <- takeWhile (/= code) window, c >= name 0])))
    windows part = [take k (drop i part) | not (null part), i <- [0 .. max 0 (length part - k)]]

worth :: Int -> Int -> Double
worth n exact
  | n >= 16 && having > n - n `div` 8 = 20
  | otherwise = fromIntegral (floor (1024 * (log ((1 + fromIntegral n / others) / 2) + 0.05 + 5 / fromIntegral n) + 0.5 :: Double) + 20 :: Int)
  where
    others = fromIntegral (max 1 (having - 1)) :: Double
    -- Its upper six bits.
    having = let low = head [b | b <- iterate (* 2) 1, exact `div` b < 64] in exact `div` low * low

-- | Average and maximum of each pair, in one view.
model :: Int -> [[Word32]] -> Map.Map (Int, Int) (Double, Double)
model k sequences =
  Map.fromList
    [ ((i, j), (over (2 * mass g h) (worthOf g + worthOf h), over (mass g h) (min (worthOf g) (worthOf h))))
      | (i, g) <- zip [0 ..] grams,
        (j, h) <- zip [0 ..] grams,
        i < j
    ]
  where
    n = length sequences
    grams = map (gramsOf k) sequences
    values = Map.map (worth n) (Map.unionsWith (+) (map (Map.map (const 1)) grams))
    worthOf = sum . Map.elems . Map.intersectionWith (\v c -> v * fromIntegral c) values
    mass g h = worthOf (Map.intersectionWith min g h)
    over a b = if b > 0 then a / b else 0

sameAsModel :: Class -> Property
sameAsModel given =
  conjoin
    [ counterexample (show ((cellLeft c, cellRight c), got, expected)) (close got expected)
      | c <- pairs,
        (m, got) <- zip models [cellStructure c, cellLexical c, cellNames c],
        let expected = Map.findWithDefault (-1, -1) (cellLeft c, cellRight c) m
    ]
    .&&. (length pairs === n * (n - 1) `div` 2)
  where
    Class class' = allNew given
    pairs = cellsOf ByBoth 0 (submissionsOf (Class class'))
    models = [model k [v | (_, s) <- class', v <- take 1 (drop at s)] | (at, k) <- zip [0 ..] gramLengths]
    n = length class'
    close (ViewScore a m) (a', m') = abs (a - a') < 1e-6 && abs (m - m') < 1e-6

anyBlocks :: Class -> Property
anyBlocks given = forAll (choose (1, 5)) $ \size ->
  let w = weighed (submissionsOf given)
      n = weighedRows w
   in concatMap (cellList . compareBlock w ByBoth 0) [(i, min n (i + size)) | i <- [0, size .. n - 1]] === concatMap (cellList . compareBlock w ByBoth 0) (blocksOf w)

thresholded :: Class -> Property
thresholded given = forAll ((,) <$> choose (0, 1) <*> elements [minBound ..]) $ \(t, rank) ->
  let ranked c = case rank of
        ByBoth -> cellBoth c
        ByWhole -> cellWhole c
        ByEmbedded -> cellEmbedded c
   in cellsOf rank t (submissionsOf given) === filter ((>= realToFrac t) . ranked) (cellsOf rank 0 (submissionsOf given))

sameAgainst :: Class -> Property
sameAgainst given = conjoin [VU.toList (against w ByBoth i) === [value i j | j <- [0 .. n - 1]] | i <- [0 .. n - 1]]
  where
    w = weighed (submissionsOf (allNew given))
    n = weighedCount w
    pairs = Map.fromList [((cellLeft c, cellRight c), realToFrac (cellBoth c)) | c <- concatMap (cellList . compareBlock w ByBoth 0) (blocksOf w)]
    value i j = if i == j then 1 else Map.findWithDefault (-1) (min i j, max i j) pairs

oldApart :: Class -> Property
oldApart given@(Class c) = (Set.fromList sides === expected) .&&. (length sides === Set.size expected)
  where
    sides = [(cellLeft p, cellRight p) | p <- cellsOf ByBoth 0 (submissionsOf given)]
    olds = map fst (sortOn fst c)
    expected = Set.fromList [(i, j) | (i, o) <- zip [0 ..] olds, (j, o') <- zip [0 ..] olds, i < j, not (o && o')]

allRows :: Class -> Property
allRows given = concat [[a .. b - 1] | (a, b) <- blocksOf w] === [0 .. weighedRows w - 1]
  where
    w = weighed (submissionsOf given)

bestOfBlocks :: Class -> Property
bestOfBlocks given = forAll ((,) <$> choose (1, 40) <*> choose (1, 3)) $ \(most, size) ->
  let w = weighed (submissionsOf given)
      blocks = [compareBlock w ByBoth 0 (i, min (weighedRows w) (i + size)) | i <- [0, size .. weighedRows w - 1]]
      steps = scanl (addBlock ByBoth most) noneYet blocks
      every = sortOn (\c -> (negate (cellBoth c), cellLeft c, cellRight c)) (concatMap cellList blocks)
      best = [(pairLeft p, pairRight p, pairSimilarity p) | p <- pairList (weighedTable ByBoth most (last steps))]
   in (best === [(cellLeft c, cellRight c, cellBoth c) | c <- take most every]) .&&. all ((<= most + most `div` 8) . bestCount) steps
