-- | @wordcount FILE...@ prints the five commonest words of all files together.
module Main (main) where

import Data.Char (isAlpha, toLower)
import Data.Foldable (for_)
import Data.List (sortOn)
import qualified Data.Map.Strict as Map
import Data.Ord (Down (..))
import qualified Data.Text as Text
import qualified Data.Text.IO as Text
import Maru
import System.Environment (getArgs)

main :: IO ()
main = do
  -- Read here, not in the workers: they inherit memory, not open files.
  texts <- getArgs >>= traverse Text.readFile
  let total = Map.unionsWith (+) (parMap count texts)
  for_ (take 5 (sortOn (Down . snd) (Map.toList total))) $ \(word, n) ->
    putStrLn (Text.unpack word <> " " <> show n)

count :: Text.Text -> Map.Map Text.Text Int
count text = Map.fromListWith (+) [(word, 1) | word <- Text.split (not . isAlpha) (Text.map toLower text), not (Text.null word)]
