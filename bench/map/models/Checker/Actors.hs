-- | All pairs of the Java programs of a folder, in the seed's mode; prints how many tokens they share.
module Checker.Actors (main) where

import Control.Monad (forM_, replicateM, zipWithM_)
import qualified Data.ByteString.Char8 as Char8
import qualified Data.Vector.Unboxed as VU
import Maru (Backend (Shm))
import Maru.Actor
import Maru.Similar
import Maru.Similar.Pairs
import System.Environment (getArgs)

main :: IO ()
main = withMailbox $ \answers -> do
  corpus <- getArgs >>= readCorpus Nothing [] . map Char8.pack >>= either (fail . show) pure
  case preparedReady (prepare map seedConfig corpus) of
    ReadyCodes codes -> do
      let rows = compareAll map (configMinMatch seedConfig) 0 Nothing codes
      slaves <- replicateM 4 (spawn Shm (slave rows (address answers)))
      zipWithM_ (\i to -> send (actorAddress to) (Just i)) [0 .. length rows - 1] (cycle slaves)
      results <- replicateM (length rows) (receive answers)
      forM_ slaves $ \actor -> send (actorAddress actor) Nothing
      print (sum results)
    ReadyWeighed {} -> fail "not in this mode"

slave :: [Row] -> Address Int -> Mailbox (Maybe Int) -> IO ()
slave rows to inbox = receive inbox >>= maybe (pure ()) (\i -> send to (tokens (rows !! i)) >> slave rows to inbox)

tokens :: Row -> Int
tokens = sum . map fromIntegral . VU.toList . rowCells
