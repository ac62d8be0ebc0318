{-# LANGUAGE ExistentialQuantification #-}
{-# LANGUAGE OverloadedStrings #-}
{-# LANGUAGE RankNTypes #-}

-- | The law: the outcomes are those of @map@, whatever is chosen.
module Law (tests) where

import Control.Monad.IO.Class (liftIO)
import Data.Binary (Binary)
import qualified Data.ByteString as ByteString
import Data.Either (fromRight)
import Data.Foldable (for_)
import Data.List (sortOn)
import qualified Data.Map.Strict as Map
import Data.String (fromString)
import qualified Data.Text as Text
import qualified Data.Vector.Storable as Storable
import Hedgehog
import qualified Hedgehog.Gen as Gen
import qualified Hedgehog.Range as Range
import Maru (parTree)
import Maru.Codec
import Maru.Internal.Engine
import Maru.Options
import Subject
import Test.Tasty (TestTree)
import Test.Tasty.HUnit (testCase, (@?=))
import Test.Tasty.Hedgehog (testPropertyNamed)

-- | A function, its inputs and the codecs for its results.
data Case = forall a b. (Show a, Show b, Eq b) => Case String (Gen a) (a -> b) [(String, Codec b)]

cases :: [Case]
cases =
  [ Case "Int" int (* 3) every,
    Case "Integer" int (\n -> toInteger n ^ (20 :: Int)) every,
    Case "Double" int (\n -> sqrt (fromIntegral (abs n)) :: Double) every,
    Case "Bool" int even every,
    Case "()" int (const ()) every,
    Case "[Int]" short (\n -> [1 .. n]) every,
    Case "String" short show every,
    Case "Maybe (Either Int String)" int (\n -> if even n then Nothing else Just (if n > 0 then Left n else Right (show n))) every,
    Case "(Int, [Bool], Char)" short (\n -> (n, replicate n (odd n), 'x')) every,
    Case "Map Int String" short (\n -> Map.fromList [(k, show k) | k <- [1 .. n]]) every,
    Case "Text" short (`Text.replicate` "\955x") every,
    Case "ByteString" short (`ByteString.replicate` 7) (("raw bytes", rawBytes) : every),
    Case "Storable.Vector Int" short (`Storable.generate` negate) [("storable", storable)]
  ]
  where
    int = Gen.int (Range.linear (-1000) 1000)
    short = Gen.int (Range.linear 0 40)

every :: (Binary b, Show b, Read b) => [(String, Codec b)]
every = [("binary", binary), ("show and read", showRead)]

-- | What the law must not depend on.
data Choice = Choice
  { chunks :: Chunking,
    count :: Int,
    order :: Order,
    ahead :: Maybe Int
  }
  deriving (Show)

choiceGen :: Gen Choice
choiceGen =
  Choice
    <$> Gen.element (Guided : map Fixed [1, 2, 3, 7, 64])
    <*> Gen.int (Range.linear 1 8)
    <*> Gen.element [Ordered, Unordered]
    <*> Gen.element [Nothing, Nothing, Just 1, Just 2, Just 5, Just 100]

-- | Shown as it is, without quotes and escapes.
newtype Bare = Bare String

instance Show Bare where
  show (Bare text) = text

instance Read Bare where
  readsPrec _ text = [(Bare text, "")]

-- | A tree of problems: a number, and parts.
data Tree = Tree Int [Tree] deriving (Show)

treeGen :: Gen Tree
treeGen = Gen.recursive Gen.choice [flip Tree [] <$> Gen.int (Range.linear 0 99)] [Tree <$> Gen.int (Range.linear 0 99) <*> Gen.list (Range.linear 0 5) treeGen]

onTwo :: Backend -> Options
onTwo b = defaultOptions {backend = b, workers = Workers 2}

-- | The first player wins from so many sticks: one to three are taken, the last one loses.
nim :: Options -> Int -> Int -> Int
nim options n = parTree options n (\s -> if s < 1 then [] else [s - k | k <- [1 .. 3], k <= s]) (\s rs -> if s == 0 then 1 else negate (minimum rs))

-- | Ways to place queens on a board.
queens :: Options -> Int -> Int -> Int
queens options n size = parTree options n split join []
  where
    split qs = if length qs == size then [] else [q : qs | q <- [1 .. size], safe q qs]
    safe q qs = and [q /= c && abs (q - c) /= d | (d, c) <- zip [1 ..] qs]
    join qs [] = fromEnum (length qs == size)
    join _ rs = sum rs

tests :: Backend -> TestTree
tests b =
  named ["law: equals map for every chunk size, worker count, order, window and codec"] $
    [ testPropertyNamed ("results of type " <> name) (fromString name) $
        withTests (fromIntegral (times b 40)) (property (equalsMap b gen f codecs))
      | Case name gen f codecs <- cases
    ]
      <> [ testCase "the empty list" $ do
             none <- outcomesOf b (job not [])
             length none @?= 0,
           testCase "show and read of any text" $ do
             let texts = ["a\255", "\256\955\8217", "\1114111\0", "\55296"]
             shown <- valuesOf b (job Bare texts) {jobCodec = Just showRead}
             [text | Bare text <- shown] @?= texts,
           testCase "chunks and windows as large as numbers go" $
             for_ [(Fixed maxBound, Nothing), (Guided, Just maxBound), (Fixed maxBound, Just maxBound)] $ \(size, most) ->
               for_ [[], [1 .. 50]] $ \xs ->
                 within 20 (valuesOf b (job (+ 1) xs) {jobOptions = defaultOptions {chunking = size, window = most}}) >>= (@?= map (+ 1) (xs :: [Int])),
           testCase "a single item" $ valuesOf b (job not [True]) >>= (@?= [False]),
           testCase "more workers than items" $ valuesOf b (jobOn 8 (+ 1) [1 :: Int, 2]) >>= (@?= [2, 3]),
           testCase "thousands of items" $
             let xs = [1 .. times b 20000] in valuesOf b (job (+ 1) xs) >>= (@?= map (+ 1) xs),
           testCase "a result of five megabytes of bytes" $ do
             big <- valuesOf b (job (ByteString.replicate 5000000) [1, 2])
             map (\s -> (ByteString.length s, ByteString.foldl' (\n w -> n + fromIntegral w) (0 :: Int) s)) big
               @?= [(5000000, 5000000), (5000000, 10000000)],
           testCase "a result that is a list of 200 000 numbers" $ do
             big <- valuesOf b (job (\n -> [n .. n + 200000]) [1 :: Int, 2, 3])
             map sum big @?= map (\n -> sum [n .. n + 200000]) [1, 2, 3],
           testCase "a parallel map inside f" $ do
             nested <- valuesOf b (job (\n -> effect (valuesOf b (job (* n) [1 .. 20]))) [1 .. 6 :: Int])
             nested @?= [map (* n) [1 .. 20] | n <- [1 .. 6]],
           testCase "two maps consumed in turns" $
             withRun b (job (+ 1) [1 .. 500 :: Int]) $ \one ->
               withRun b (job (+ 2) [1 .. 500 :: Int]) $ \two ->
                 map (fromRight 0 . outcomeResult) (concat (zipWith (\x y -> [x, y]) (outcomes one) (outcomes two)))
                   @?= concat [[n + 1, n + 2] | n <- [1 .. 500]]
         ]
      <> if b == Mpi -- for functions that travel
        then []
        else
          [ testPropertyNamed "parTree is a recursion" "tree" . withTests (fromIntegral (times b 20)) . property $ do
              t <- forAll treeGen
              n <- forAll (Gen.int (Range.linear 0 30))
              let parts (Tree _ ts) = ts
                  listed (Tree k _) rs = k : concat rs
                  recursion u = listed u (map recursion (parts u))
              parTree (onTwo b) n parts listed t === recursion t,
            testCase "parTree: queens, and a game of two, however much is split" $
              for_ [1, 5, 60] $ \n -> do
                queens (onTwo b) n 6 @?= 4
                map (nim (onTwo b) n) [1 .. 9] @?= [-1, 1, 1, 1, -1, 1, 1, 1, -1]
          ]

equalsMap :: (Show a, Show b, Eq b) => Backend -> Gen a -> (a -> b) -> [(String, Codec b)] -> PropertyT IO ()
equalsMap b gen f codecs = do
  choice <- forAll choiceGen
  xs <- forAll (Gen.list (Range.linear 0 100) gen)
  codec <- forAllWith (maybe "no codec" fst) (Gen.element (Nothing : map Just codecs))
  got <-
    liftIO . outcomesOf b $
      (jobOn (count choice) f xs)
        { jobOrder = order choice,
          jobCodec = snd <$> codec,
          jobOptions = defaultOptions {chunking = chunks choice, window = ahead choice}
        }
  let indices = map outcomeIndex got
  case order choice of
    Ordered -> indices === [0 .. length xs - 1]
    Unordered -> sortOn id indices === [0 .. length xs - 1]
  values <- evalEither (traverse outcomeResult' (sortOn outcomeIndex got))
  values === map f xs
  assert (all ((>= -1) . outcomeWorker) got)
  where
    outcomeResult' = either (Left . show) Right . outcomeResult
