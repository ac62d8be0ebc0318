{-# LANGUAGE OverloadedStrings #-}

-- | Tuned settings, as files: what a tuner found for one command, applied by
-- @maru run \@NAME@. JSON of schema @maru-profile/1@ below
-- @$XDG_CONFIG_HOME/maru/profiles@ (else @~/.config/maru/profiles@).
module Maru.Cli.Profile
  ( Profile (..),
    profileFlags,
    profilePath,
    readProfile,
    encodeProfile,
    decodeProfile,
  )
where

import Data.Aeson
import Data.Aeson.Types (Parser, parseEither)
import qualified Data.ByteString.Lazy as Lazy
import Data.List (partition)
import qualified Data.Map.Strict as Map
import Maru.Cli.Exit
import Maru.Cli.WholeFile (readWithin)
import System.Directory (XdgDirectory (XdgConfig), doesPathExist, getXdgDirectory)
import System.FilePath ((<.>), (</>))

data Profile = Profile
  { profileName :: !String,
    -- | The tuner that made it.
    profileTuner :: !String,
    profileEnvironment :: ![(String, String)],
    profileLine :: !String,
    -- | The measurements behind it.
    profileEvidence :: !Value
  }
  deriving (Eq, Show)

-- | What it sets in the program's environment, and the flags that it adds to @maru run@: words of
-- its variable @MARU_RUN_FLAGS@, which the program does not get.
profileFlags :: Profile -> ([(String, String)], [String])
profileFlags profile = (others, concatMap (words . snd) flags)
  where
    (flags, others) = partition ((== "MARU_RUN_FLAGS") . fst) (profileEnvironment profile)

schema :: String
schema = "maru-profile/1"

-- | A name that has a slash is a path.
profilePath :: String -> IO FilePath
profilePath name
  | '/' `elem` name = pure name
  | otherwise = getXdgDirectory XdgConfig ("maru" </> "profiles" </> name <.> "json")

-- | Ends with status 65 if the file is not a profile, of 1 MiB at most, or cannot be read.
readProfile :: String -> IO Profile
readProfile name = do
  path <- profilePath name
  readWithin 1 path >>= either (refuse path) pure . (>>= decodeProfile)
  where
    refuse path why = do
      there <- doesPathExist path
      problem badInput ("cannot use profile " ++ path ++ ": " ++ why ++ (if there then "" else "; maru tune writes one where a setting gains"))

encodeProfile :: Profile -> Value
encodeProfile p =
  object
    [ "schema" .= schema,
      "name" .= profileName p,
      "tuner" .= profileTuner p,
      "environment" .= Map.fromList (profileEnvironment p),
      "line" .= profileLine p,
      "evidence" .= profileEvidence p
    ]

decodeProfile :: Lazy.ByteString -> Either String Profile
decodeProfile bytes = eitherDecode bytes >>= parseEither (withObject "profile" fields)
  where
    fields o = do
      version <- o .: "schema"
      if version == schema then profile o else fail ("schema is " ++ version ++ ", not " ++ schema)
    profile :: Object -> Parser Profile
    profile o =
      Profile <$> o .: "name" <*> o .: "tuner" <*> (Map.toList <$> o .: "environment")
        <*> o .: "line"
        <*> o .: "evidence"
