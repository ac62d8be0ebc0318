{-# LANGUAGE OverloadedStrings #-}

-- | What a reader is told beside the results: what was left out, guessed, odd. As lines, the first
-- of each kind without what comes before it. Pure.
module Maru.Similar.Told
  ( Line (..),
    toldLeftOut,
    toldRead,
    toldReport,
    toldExtended,
    nothingUsable,
    counted,
  )
where

import Data.ByteString (ByteString)
import qualified Data.ByteString.Char8 as BC
import Data.Function (on)
import Data.List (group, groupBy, nub, sort, sortOn)
import qualified Data.Map.Strict as Map
import qualified Data.Vector as V
import Maru.Similar
import Maru.Similar.Extend (Extended (..))
import Maru.Similar.Language (familyHead, languageTitle)
import Maru.Similar.Output (printableName)

-- | A warning, or what belongs to the one before.
data Line = Warning !ByteString | More !ByteString
  deriving (Eq, Show)

-- | Whether names are hidden.
toldLeftOut :: Bool -> [LeftOut] -> [Line]
toldLeftOut hidden all'
  | null missed = []
  | hidden = [Warning (filesOrFolders missed <> " left out (no names: --anonymous)")]
  | otherwise =
    Warning (filesOrFolders missed <> " left out:") :
    [More (printableName path <> ": " <> why) | LeftOut path why <- take shown missed]
      ++ [More ("and " <> BC.pack (show (length missed - shown)) <> " more; --json names them all") | length missed > shown]
  where
    missed = filter ((/= "excluded") . leftOutReason) all'
    shown = 5

-- | What was guessed, and what the list of students did not find. Whether names are hidden.
toldRead :: Bool -> Corpus -> [Line]
toldRead hidden corpus =
  [ Warning (counted (length guessed) "file" <> " not in UTF-8; guessed: " <> BC.intercalate ", " [encodingName e <> " (" <> BC.pack (show (length same)) <> ")" | same@(e : _) <- group (sort guessed)])
    | not (null guessed)
  ]
    ++ [Warning (counted (length headers) "header" <> " (.h) taken for C++ by what " <> (if length headers == 1 then "it holds" else "they hold") <> (if hidden then "" else ": " <> someOf headers)) | not (null headers)]
    ++ [Warning ("the list of students names what is not there: " <> (if hidden then counted (length missing) "name" else someOf missing)) | not (null missing)]
  where
    guessed = map snd (corpusGuessed corpus)
    headers = corpusHeaders corpus
    missing = corpusMissing corpus

-- | What is odd about submissions, by the names of the report; those of an index were told of when
-- they came into it.
toldReport :: Report -> [Line]
toldReport report =
  concat
    [ warn submissionErrors "holds" "hold" "text that is not in its language; compared all the same",
      warn submissionNotJava "holds" "hold" "a file without the shape of Java (prose, another language?); compared all the same",
      warn submissionUnclosed "holds" "hold" "a comment or text block that does not end; what follows it is compared as code",
      warn submissionControls "holds" "hold" "NUL or other control bytes; compared all the same",
      warn (\s -> fromEnum (submissionParse s == Broken)) "does" "do" "not parse without errors; compared all the same",
      warn (\s -> fromEnum (submissionParse s == NotParsed)) "holds" "hold" "a file that is too large or too odd to be parsed; its structure does not count",
      warn (\s -> if submissionTokens s < least then 1 else 0) "has" "have" ("fewer than " <> BC.pack (show least) <> " own tokens: only equals are found"),
      [Warning ("several languages: only submissions of one are compared with each other (" <> BC.intercalate ", " [title same <> " " <> BC.pack (show (length same)) | same <- kinds] <> ")") | severalFamilies],
      [Warning (counted incomplete "pair" <> verb incomplete " repeats itself" " repeat themselves" <> " too much to be compared wholly; the similarity is at least the one shown") | incomplete > 0]
    ]
  where
    submissions = V.toList (V.take (reportRead report) (reportSubmissions report))
    -- By family, as those of its languages are called that are there. Those of an index count.
    kinds = groupBy ((==) `on` fst) (sortOn fst (concatMap (Map.toList . Map.fromListWith (++) . map (\l -> (familyHead l, [l])) . submissionLanguages) (V.toList (reportSubmissions report))))
    severalFamilies = length kinds > 1
    title = BC.intercalate "/" . map languageTitle . nub . sort . concatMap snd
    least = configMinMatch (reportConfig report)
    incomplete = incompletePairs (reportPairs report)
    warn :: (Submission -> Int) -> ByteString -> ByteString -> ByteString -> [Line]
    warn odd' one many what = case [submissionName s | s <- submissions, odd' s > 0] of
      [] -> []
      names -> [Warning (counted (length names) "submission" <> " " <> verb (length names) one many <> " " <> what <> ": " <> someOf names)]
    verb n one many = if n == 1 then one else many :: ByteString

-- | What became of an index.
toldExtended :: ByteString -> Extended -> ([Line], ByteString)
toldExtended folder e =
  ( [Warning ("the index has another submission of that name: " <> printableName a <> " is " <> printableName b) | (a, b) <- extendedRenamed e]
      ++ [Warning (counted (length twins) "new submission" <> " also under another name in the index, the same to the byte; added all the same: " <> someOf twins) | not (null twins)],
    printableName folder <> ": " <> counted (extendedAll e) "submission" <> "; " <> BC.pack (show (extendedAdded e)) <> " new"
      <> (if extendedKnown e > 0 then ", " <> BC.pack (show (extendedKnown e)) <> " known before" else "")
      <> (if extendedOwners e > 0 then ", " <> BC.pack (show (extendedOwners e)) <> " of these with other owners now" else "")
      <> "\n"
  )
  where
    twins = [a <> " is " <> b | (a, b) <- extendedTwins e]

-- | Of the language that was asked for.
nothingUsable :: Maybe Language -> [ByteString] -> [LeftOut] -> ByteString
nothingUsable asked given missed =
  BC.intercalate ", " (map printableName given) <> ": no " <> maybe "" ((<> " ") . languageTitle) asked <> "submission found" <> because
  where
    because = case missed of
      [] -> "; a submission is a source file (--lang says of which language), or a folder or archive that holds some"
      _ -> " (" <> filesOrFolders missed <> " left out, see above)"

someOf :: [ByteString] -> ByteString
someOf names = BC.intercalate ", " (map printableName (take 5 names)) <> (if length names > 5 then ", ..." else "")

filesOrFolders :: [LeftOut] -> ByteString
filesOrFolders missed = case length missed of
  1 -> "1 file or folder"
  n -> BC.pack (show n) <> " files or folders"

counted :: Int -> ByteString -> ByteString
counted n thing = BC.pack (show n) <> " " <> thing <> (if n == 1 then "" else "s")
