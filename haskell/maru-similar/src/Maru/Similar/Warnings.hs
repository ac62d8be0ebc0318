{-# LANGUAGE OverloadedStrings #-}

-- | What a reader of a report must know besides its figures, in lines. Pure.
module Maru.Similar.Warnings
  ( aboutReport,
    aboutCorpus,
    counted,
    filesOrFolders,
  )
where

import Data.ByteString (ByteString)
import qualified Data.ByteString.Char8 as BC
import Data.List (group, sort)
import Data.Maybe (isJust)
import qualified Data.Vector as V
import Maru.Similar
import Maru.Similar.Output (printableName)

-- | What was guessed, and what the list of students did not find.
aboutCorpus :: Corpus -> [ByteString]
aboutCorpus corpus =
  [counted (length guessed) "file" <> " not in UTF-8; guessed: " <> BC.intercalate ", " [encodingName e <> " (" <> BC.pack (show (length same)) <> ")" | same@(e : _) <- group (sort guessed)] | not (null guessed)]
    ++ ["the list of students names what is not there: " <> someOf missing | not (null missing)]
  where
    guessed = map snd (corpusGuessed corpus)
    missing = corpusMissing corpus

-- | What is odd about submissions and pairs.
aboutReport :: Report -> [ByteString]
aboutReport report =
  concat
    [ warn (\s -> submissionErrors s > 0) "hold text that is not Java; compared all the same",
      warn (\s -> submissionNotJava s > 0) "hold a file without the shape of Java (prose, another language?); compared all the same",
      warn (\s -> submissionUnclosed s > 0) "hold a comment or text block that does not end; what follows it is compared as code",
      warn (\s -> submissionControls s > 0) "hold NUL or other control bytes; compared all the same",
      warn ((== Broken) . submissionParse) "do not parse without errors; compared all the same",
      warn ((== NotParsed) . submissionParse) "hold a file that is too large or too odd to be parsed; its structure is the lexer's" `onlyIf` isJust (configGrammar config),
      warn (\s -> submissionTokens s < least) ("have fewer than " <> BC.pack (show least) <> " tokens of their own: only equals are found"),
      [counted incomplete "pair" <> " repeat themselves too much to be compared wholly; their similarity is at least the one shown" | incomplete > 0]
    ]
  where
    config = reportConfig report
    least = configMinMatch config
    incomplete = incompletePairs (reportPairs report)
    onlyIf lines_ asked = if asked then lines_ else []
    warn odd_ what = case filter odd_ (V.toList (reportSubmissions report)) of
      [] -> []
      found -> [counted (length found) "submission" <> " " <> what <> ": " <> someOf (map submissionName found)]

someOf :: [ByteString] -> ByteString
someOf names = BC.intercalate ", " (map printableName (take 5 names)) <> (if length names > 5 then ", ..." else "")

filesOrFolders :: [LeftOut] -> ByteString
filesOrFolders missed = case length missed of
  1 -> "1 file or folder"
  n -> BC.pack (show n) <> " files or folders"

counted :: Int -> ByteString -> ByteString
counted n thing = BC.pack (show n) <> " " <> thing <> (if n == 1 then "" else "s")
