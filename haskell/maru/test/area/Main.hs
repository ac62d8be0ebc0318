{-# LANGUAGE OverloadedStrings #-}
{-# OPTIONS_GHC -fno-cse -fno-full-laziness #-}

-- | How large the allocation areas of workers become: the rules as properties, and real workers. Of a
-- program whose user chose a size (+RTS -A…) they keep it: the suite runs with one, too.
module Main (main) where

import Control.Exception (bracket, evaluate)
import Data.Foldable (foldl')
import qualified Data.Map.Strict as Map
import Data.Maybe (fromMaybe)
import Data.Version (makeVersion)
import Hedgehog
import qualified Hedgehog.Gen as Gen
import qualified Hedgehog.Range as Range
import Maru
import Maru.Internal.Area
import Maru.Native.Rts (allocArea)
import System.Environment (setEnv, unsetEnv)
import System.IO.Unsafe (unsafePerformIO)
import System.Info (compilerVersion)
import System.Posix.Directory (createDirectory, removeDirectory)
import System.Posix.Files (removeLink)
import System.Posix.Temp (mkdtemp)
import Test.Tasty (TestTree, defaultMain, testGroup)
import Test.Tasty.HUnit (assertBool, testCase, (@?=))
import Test.Tasty.Hedgehog (testPropertyNamed)

main :: IO ()
main = do
  born <- allocArea
  let ours = born == if compilerVersion < makeVersion [9, 2] then mib else 4 * mib
  defaultMain $
    testGroup
      "allocation areas"
      [ testGroup
          "the rules"
          [ testPropertyNamed "a collector that takes little leaves the size as it is" "idle" idle,
            testPropertyNamed "it grows while that pays, to 16 MiB" "paying" paying,
            testPropertyNamed "beyond 16 MiB only where most of the time goes there" "most" mostly,
            testPropertyNamed "a step that spares nothing is taken back, and not tried again" "useless" useless,
            testPropertyNamed "never more than is allowed, nor less than at birth" "allowed" allowed,
            testPropertyNamed "where collections are many the first ones say nothing" "first" firstOnes,
            testPropertyNamed "where they are rare and dear it grows at once" "rare" rare
          ],
        testGroup (if ours then "real workers, by default" else "real workers, of a size that the user chose") (realWorkers ours born),
        testGroup (if ours then "a caller, by default" else "a caller, of a size that the user chose") (caller ours born)
      ]

-- The rules ----------------------------------------------------------------------

mib :: Int
mib = 1024 * 1024

-- | The sizes at 400 looks, of a process whose collector takes that share of the time by size.
sizes :: Int -> (Int -> Double) -> [Int]
sizes most share = go (400 :: Int) birth (newArea birth)
  where
    birth = Look 0 0 0 mib
    go 0 _ _ = []
    go n before area =
      let size = lookArea before
          now = Look (lookCpuNs before + 10000000) (lookCollectorNs before + round (share size * 10000000)) (lookCollections before + 4) size
          (wanted, area') = stepArea most now area
       in size : go (n - 1) now {lookArea = fromMaybe size wanted} area'

-- | By half, at least, of what it was at a quarter of the size.
falling :: Double -> Int -> Double
falling at1 size = at1 / sqrt (fromIntegral size / fromIntegral mib)

idle, paying, mostly, useless, allowed, firstOnes, rare :: Property
idle = property $ do
  share <- forAll (Gen.double (Range.linearFrac 0 0.049))
  sizes (64 * mib) (const share) === replicate 400 mib
paying = property $ do
  share <- forAll (Gen.double (Range.linearFrac 0.21 0.5))
  last (sizes (64 * mib) (falling share)) === 16 * mib
mostly = property $ do
  share <- forAll (Gen.double (Range.linearFrac 0.51 0.9))
  let large size = if size < 64 * mib then share + 0.05 / (fromIntegral size / fromIntegral mib) else share - 0.3
  last (sizes (64 * mib) large) === 64 * mib
useless = property $ do
  share <- forAll (Gen.double (Range.linearFrac 0.051 0.5))
  let all' = sizes (64 * mib) (const share)
  annotateShow all'
  assert (length (filter (> mib) all') < 10)
  drop 20 all' === replicate 380 mib
allowed = property $ do
  most <- forAll (Gen.int (Range.linear (2 * mib) (64 * mib)))
  shares <- forAll (Gen.list (Range.singleton 7) (Gen.double (Range.linearFrac 0 0.95)))
  let all' = sizes most (\size -> shares !! (size `div` (10 * mib)))
  assert (all (<= most) all' && all (>= mib) all')
firstOnes = property $ do
  share <- forAll (Gen.double (Range.linearFrac 0.06 0.99))
  many <- forAll (Gen.int (Range.linear 3 9))
  let first = seen many share
      (wanted, area) = stepArea (64 * mib) first (newArea (seen 0 0))
      (wanted', _) = stepArea (64 * mib) first {lookCpuNs = 30000000, lookCollections = 20} area
  (wanted, wanted') === (Nothing, Nothing)
rare = property $ do
  share <- forAll (Gen.double (Range.linearFrac 0.06 0.99))
  few <- forAll (Gen.int (Range.linear 1 2))
  fst (stepArea (64 * mib) (seen few share) (newArea (seen 0 0))) === Just (if share > 0.25 then 16 * mib else 4 * mib)

-- | After so many collections that took that share of 10 ms.
seen :: Int -> Double -> Look
seen collections share = Look (if collections == 0 then 0 else 10000000) (round (share * 10000000)) (fromIntegral collections) mib

-- Real workers -------------------------------------------------------------------

realWorkers :: Bool -> Int -> [TestTree]
realWorkers ours born =
  [ testCase "of one that collects much" $ do
      areas <- mapped options collecting
      if ours then assertBool (show areas) (maximum areas > born) else areas @?= map (const born) items,
    testCase "of one that collects little it stays" $ do
      areas <- mapped options fleeting
      areas @?= map (const born) items,
    testCase "it is at most a quarter of a worker's bound" $ do
      areas <- mapped options {memoryMiB = Just 64} collecting
      assertBool (show areas) (maximum areas <= max born (8 * mib)),
    testCase "nor more than a quarter of its share of the machine's memory" $ do
      areas <- withMemory 16 (mapped options collecting)
      assertBool (show areas) (maximum areas <= max born (2 * mib)),
    testCase "a map inside an item begins with the item's" $ do
      areas <- mapped options (\k -> let own = collecting k in own `seq` if parMapWith options (areaAfter . (+ own)) [1, 2] == [own, own] then own else -1)
      assertBool (show areas) (minimum areas >= born)
  ]
  where
    options = defaultOptions {backend = Shm, workers = Workers 2, chunking = Fixed 1}
    mapped how f = do
      let them = parMapWith how f items
      them <$ evaluate (sum them)

-- | Whose items are evaluated there at first.
caller :: Bool -> Int -> [TestTree]
caller ours born =
  [ testCase "it grows while a first item is evaluated whose collections are dear, until there are workers" $ do
      let areas = parMapWith options building [1 .. 8]
      first <- evaluate (head areas)
      _ <- evaluate (sum areas)
      after <- allocArea
      (first, after) @?= (if ours then 16 * mib else born, born),
    testCase "it grows while that is evaluated, to the end of a list that needs no workers" $ do
      let areas = parMapWith options building [1]
      first <- evaluate (head areas)
      length areas @?= 1
      after <- allocArea
      (first, after) @?= (if ours then 16 * mib else born, born),
    testCase "where collections cost little it stays" $ do
      first <- evaluate (head (parMapWith options fleeting [1 .. 8]))
      first @?= born
  ]
  where
    options = defaultOptions {backend = Auto, workers = Workers 2}

-- | On a machine of so many MiB.
withMemory :: Int -> IO a -> IO a
withMemory mebibytes = bracket described forgotten . const
  where
    described = do
      root <- mkdtemp "/tmp/maru-area-"
      createDirectory (root <> "/proc") 0o700
      writeFile (root <> "/proc/meminfo") ("MemTotal: " <> show (mebibytes * 1024) <> " kB\n")
      root <$ setEnv "MARU_TOPOLOGY" root
    forgotten root = do
      unsetEnv "MARU_TOPOLOGY"
      removeLink (root <> "/proc/meminfo")
      removeDirectory (root <> "/proc")
      removeDirectory root

items :: [Int]
items = [1 .. 60]

-- | This process's area once that is evaluated.
areaAfter :: Int -> Int
areaAfter x = unsafePerformIO (evaluate x >> allocArea)
{-# NOINLINE areaAfter #-}

-- | Some milliseconds, much of them the collector's where the area is small.
collecting :: Int -> Int
collecting k = areaAfter (Map.foldl' (+) 0 (foldl' (\m i -> Map.insert ((i * 7919) `mod` 20011) (i + k) m) Map.empty [1 .. 20000]))

-- | Lists that all live to the end.
building :: Int -> Int
building k = areaAfter (sum (map sum lists) + sum (map length lists))
  where
    lists = [[i * j + k | j <- [1 .. 350]] | i <- [1 .. 350]]

-- | As long, with some garbage that dies young.
fleeting :: Int -> Int
fleeting k = areaAfter (spin (12000000 :: Int) k + sum (map (length . show) [k .. k + 2000]))
  where
    spin 0 x = x
    spin n x = spin (n - 1) (x * 6364136223846793005 + 1442695040888963407)
