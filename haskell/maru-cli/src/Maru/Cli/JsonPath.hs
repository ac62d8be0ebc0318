-- | Values by their place in JSON.
module Maru.Cli.JsonPath
  ( at,
    number,
  )
where

import Data.Aeson (FromJSON, Result (..), Value (..), fromJSON)
import Data.Aeson.Key (fromText)
import qualified Data.Aeson.KeyMap as KeyMap
import Data.Text (Text)

-- | The value at a path of keys.
at :: FromJSON a => [Text] -> Value -> Maybe a
at [] v = case fromJSON v of
  Success x -> Just x
  Error _ -> Nothing
at (k : ks) (Object o) = KeyMap.lookup (fromText k) o >>= at ks
at _ _ = Nothing

-- | 'at' for numbers.
number :: [Text] -> Value -> Maybe Double
number = at
