-- | @\/etc\/maru\/boost.conf@: what the administrator of a machine grants root's @maru boost@.
-- One setting a line, @#@ begins a comment:
--
-- > boost fifo
-- > cap 50
-- > users ann,bob
-- > groups hpc
module Maru.Cli.Room.Wait.BoostConf
  ( BoostConf (..),
    parseConf,
    readConf,
    percent,
    oneOf,
    means,
    namesOf,
    userNumber,
    groupNumber,
  )
where

import Control.Exception (IOException, try)
import Control.Monad (foldM)
import Data.Bits ((.&.))
import Data.Char (isDigit, isSpace)
import Data.List (intercalate)
import Maru.Cli.Exit
import Maru.Cli.Readers (splitOn)
import System.IO.Error (isDoesNotExistError)
import System.Posix.Files
import System.Posix.User

data BoostConf = BoostConf
  { -- | How threads are raised, where the command does not say.
    confBy :: !(Maybe String),
    confCap :: !(Maybe Int),
    -- | Whose runs are looked after; both empty: everybody's.
    confUsers :: ![String],
    confGroups :: ![String]
  }
  deriving (Eq, Show)

-- | 'Left': the line, and what is wrong with it. Each setting once.
parseConf :: String -> Either (Int, String) BoostConf
parseConf text = foldM line (BoostConf Nothing Nothing [] []) (zip [1 ..] (lines text))
  where
    line conf (number, written) = either (\why -> Left (number, why)) Right (setting conf (words (takeWhile (/= '#') written)))
    setting conf ws = case ws of
      [] -> Right conf
      ["boost", how] | Nothing <- confBy conf -> (\by -> conf {confBy = Just by}) <$> oneOf means how
      ["cap", n] | Nothing <- confCap conf -> (\cap -> conf {confCap = Just cap}) <$> percent n
      ["users", list] | [] <- confUsers conf -> (\names -> conf {confUsers = names}) <$> namesOf list
      ["groups", list] | [] <- confGroups conf -> (\names -> conf {confGroups = names}) <$> namesOf list
      _ -> Left ("'" ++ unwords ws ++ "' is no setting (boost, cap, users, groups: each once, with one value)")

means :: [String]
means = ["gently", "fifo", "nice", "none"]

oneOf :: [String] -> String -> Either String String
oneOf known name
  | name `elem` known = Right name
  | otherwise = Left ("'" ++ name ++ "' is none of " ++ intercalate ", " known)

percent :: String -> Either String Int
percent text
  | not (null text), length text <= 3, all isDigit text, read text <= (100 :: Int) = Right (read text)
  | otherwise = Left ("'" ++ text ++ "' is not 0 to 100")

-- | @ann,bob@.
namesOf :: String -> Either String [String]
namesOf text
  | any (\name -> null name || any isSpace name) names || length names > 64 = Left ("'" ++ text ++ "' is no list of 1 to 64 names with commas between")
  | otherwise = Right names
  where
    names = splitOn ',' text

-- | For root, if it is there. Ends the command, status 69, where the file is wrong, or could be
-- another user's words.
readConf :: FilePath -> FilePath -> IO (Maybe BoostConf)
readConf folder name = do
  root <- (== 0) <$> getEffectiveUserID
  -- Only what has no such name is not there: a link that leads nowhere is one.
  there <- either (not . isDoesNotExistError) (const True) <$> try (getSymbolicLinkStatus file)
  if root && there then Just <$> whole else pure Nothing
  where
    file = folder ++ "/" ++ name
    whole = do
      mapM_ trusted [folder, file]
      content <- try (readFile file >>= \text -> length text `seq` pure text)
      either unreadable parsed content
    unreadable e = problem unavailable ("cannot read " ++ file ++ ": " ++ reason (e :: IOException))
    parsed text = case parseConf text of
      Right conf -> pure conf
      Left (number, why) -> problem unavailable (file ++ ", line " ++ show number ++ ": " ++ why)
    trusted path = do
      status <- try (getFileStatus path)
      case status of
        Left e -> unreadable e
        Right s
          | fileOwner s /= 0 || fileMode s .&. (groupWriteMode + otherWriteMode) /= 0 ->
            problem unavailable (path ++ " can be written by others than root: maru boost does not obey it; chown root, chmod go-w")
          | otherwise -> pure ()

-- | Of a name, or of a number.
userNumber, groupNumber :: String -> IO (Either String Integer)
userNumber = numberOf "user" (fmap (toInteger . userID) . getUserEntryForName)
groupNumber = numberOf "group" (fmap (toInteger . groupID) . getGroupEntryForName)

numberOf :: String -> (String -> IO Integer) -> String -> IO (Either String Integer)
numberOf what look name
  | all isDigit name && length name <= 10 = pure (Right (read name))
  | otherwise = either (const (Left ("there is no " ++ what ++ " '" ++ name ++ "'"))) Right <$> (try (look name) :: IO (Either IOException Integer))
