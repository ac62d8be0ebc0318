{-# LANGUAGE OverloadedStrings #-}

-- | The books of a call on peers: whatever happens to them, no item is lost and none comes twice.
module Ledgers (tests) where

import Control.Monad (foldM)
import Data.List (sort)
import Hedgehog
import qualified Hedgehog.Gen as Gen
import qualified Hedgehog.Range as Range
import Maru.Cluster.Ledger
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.Hedgehog (testPropertyNamed)

-- | What happens; numbers are taken by what there is.
data Event = Offered Int | Took Int Int | Answered Int Int | Died Int
  deriving (Show)

events :: Gen [Event]
events =
  Gen.list (Range.linear 0 200) . Gen.choice $
    [ Offered <$> Gen.int (Range.linear 1 10),
      Took <$> peer <*> Gen.int (Range.linear 1 5),
      Answered <$> peer <*> Gen.int (Range.linear 0 300),
      Died <$> peer
    ]
  where
    peer = Gen.int (Range.linear 0 4)

-- | Offered so far, answered or given up.
data Seen = Seen Int [Int] (Ledger Int)

step :: Seen -> Event -> PropertyT IO Seen
step (Seen offered settled l) event = case event of
  Offered n -> pure (Seen (offered + n) settled (offer [(i, i * i) | i <- [offered .. offered + n - 1]] l))
  Took p n -> do
    let before = waiting l
        (got, l') = take' p n l
    length got === min n before
    waiting l' === before - length got
    pure (Seen offered settled l')
  Answered p i -> do
    let (entry, l') = done p i l
    case entry of
      Nothing -> pure ()
      Just e -> do
        entryIndex e === i
        entryItem e === i * i
        assert (i `notElem` settled)
    pure (Seen offered (maybe settled ((: settled) . entryIndex) entry) l')
  Died p -> do
    let had = atPeer p l
        (hopeless, l') = lost 3 p l
    atPeer p l' === 0
    waiting l' === waiting l + had - length hopeless
    assert (all ((== 4) . entryLosses) hopeless)
    pure (Seen offered (map entryIndex hopeless <> settled) l')

tests :: TestTree
tests =
  testGroup
    "the books"
    [ testPropertyNamed "each item is settled once, whatever dies" "ledger" . withTests 500 . property $ do
        happened <- forAll events
        Seen offered settled l <- foldM step (Seen 0 [] noEntries) happened
        isOver l === False
        let (rest, empty) = drain (close l)
        sort (settled <> map entryIndex rest) === [0 .. offered - 1]
        isOver empty === True
        isOver (close l) === null rest,
      testPropertyNamed "what a lost peer had is the next that is taken" "again" . withTests 100 . property $ do
        n <- forAll (Gen.int (Range.linear 1 20))
        k <- forAll (Gen.int (Range.linear 1 n))
        let (had, l) = take' 0 k (offer [(i, i) | i <- [0 .. n - 1]] noEntries)
            (_, l') = lost 3 0 l
        map entryIndex (fst (take' 1 k l')) === map entryIndex had
    ]
