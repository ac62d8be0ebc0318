-- | What a thread counts while it works at a structure: of each attempt of a transaction, also of
-- those that the run-time system throws away, how many variables it read and wrote.
--
-- Each thread has a tally of its own, which no other one touches until it has ended.
module Maru.Bench.Stm.Tally
  ( Tally,
    Count (..),
    newTally,
    bump,
    counted,
    readT,
    writeT,
    attempt,
  )
where

import Control.Concurrent.STM (STM, TVar, atomically, readTVar, writeTVar)
import Control.Monad (when)
import qualified Data.Vector.Unboxed.Mutable as M
import GHC.Conc (unsafeIOToSTM)

newtype Tally = Tally (M.IOVector Int)

data Count
  = -- | Transactions begun, those begun anew included.
    Attempts
  | Commits
  | Reads
  | Writes
  | -- | Writes less than three steps from where every operation begins: all others read there.
    TopWrites
  | -- | Operations that changed the set, by one element more or less.
    Grown
  | Shrunk
  deriving (Eq, Show, Enum, Bounded)

-- | With a cache line to itself, and more: 64 words.
newTally :: IO Tally
newTally = Tally <$> M.replicate 64 0

bump :: Tally -> Count -> IO ()
bump (Tally words') what = M.unsafeModify words' (+ 1) (24 + fromEnum what)
{-# INLINE bump #-}

counted :: Tally -> Count -> IO Int
counted (Tally words') what = M.read words' (24 + fromEnum what)

-- What is counted stays counted when the transaction is thrown away: that is what for.
bumpT :: Tally -> Count -> STM ()
bumpT tally = unsafeIOToSTM . bump tally
{-# INLINE bumpT #-}

readT :: Tally -> TVar a -> STM a
readT tally variable = bumpT tally Reads >> readTVar variable
{-# INLINE readT #-}

-- | @writeT tally depth@: so many steps from where every operation begins.
writeT :: Tally -> Int -> TVar a -> a -> STM ()
writeT tally depth variable new = do
  bumpT tally Writes
  when (depth < 3) (bumpT tally TopWrites)
  writeTVar variable $! new
{-# INLINE writeT #-}

-- | One transaction, counted at each attempt.
attempt :: Tally -> STM a -> IO a
attempt tally body = atomically (bumpT tally Attempts >> body) <* bump tally Commits
{-# INLINE attempt #-}
