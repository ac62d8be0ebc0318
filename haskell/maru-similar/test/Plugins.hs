-- | Grammars that were built. What needs one says so and does nothing where it is absent; with
-- @MARU_GRAMMARS=required@ that of Java has to be there.
module Plugins
  ( withGrammar,
    pluginOf,
    actsIn,
    bareOf,
  )
where

import Data.ByteString (ByteString)
import Data.Primitive.PrimArray
import Maru.Similar.Bare
import Maru.Similar.Grammar
import Maru.Similar.Language
import Maru.Similar.Structure (Act)
import System.Environment (lookupEnv)
import System.FilePath ((</>))
import Test.Tasty.HUnit

pluginOf :: String -> FilePath
pluginOf language = "../../build/lib/maru/grammars" </> language ++ ".so"

withGrammar :: Language -> (Grammar -> IO ()) -> IO ()
withGrammar language use = do
  opened <- openGrammar (languageName language) (pluginOf (languageName language))
  required <- (== Just "required") <$> lookupEnv "MARU_GRAMMARS"
  case opened of
    Right grammar -> use grammar
    Left why | required && language == Java -> assertFailure (why ++ " (MARU_GRAMMARS=required)")
    Left why -> putStrLn ("\nskipped: " ++ why)

actsIn :: Parsed -> [Act]
actsIn p = [toEnum (fromIntegral (indexPrimArray (parsedActs p) i)) | i <- [0, 2 .. sizeofPrimArray (parsedActs p) - 1]]

-- | As its grammar is given a program; empty where it is too large.
bareOf :: Language -> ByteString -> ByteString
bareOf language text = maybe mempty bareText (bare (layoutOf language) largestText text (lexSource language text))
