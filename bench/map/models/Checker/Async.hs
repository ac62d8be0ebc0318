-- | All pairs of the Java programs of a folder, in the seed's mode; prints how many tokens they share.
module Checker.Async (main) where

import Control.Concurrent.Async (mapConcurrently)
import Control.Exception (evaluate)
import qualified Data.ByteString.Char8 as Char8
import qualified Data.Vector.Unboxed as VU
import Maru.Similar
import Maru.Similar.Pairs
import System.Environment (getArgs)
import System.IO.Unsafe (unsafePerformIO)

main :: IO ()
main = do
  corpus <- getArgs >>= readCorpus Nothing [] . map Char8.pack >>= either (fail . show) pure
  case preparedReady (prepare map seedConfig corpus) of
    ReadyCodes codes -> print (sum (map tokens (compareAll (\f -> unsafePerformIO . mapConcurrently (evaluate . f)) (configMinMatch seedConfig) 0 Nothing codes)))
    ReadyWeighed {} -> fail "not in this mode"

tokens :: Row -> Int
tokens = sum . map fromIntegral . VU.toList . rowCells
