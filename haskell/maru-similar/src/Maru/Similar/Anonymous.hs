{-# LANGUAGE OverloadedStrings #-}

-- | Reports and programs without names, to be shared. Pure.
--
-- Names, students and paths go. What the programs call things and print stays: a reader may know
-- somebody by that.
module Maru.Similar.Anonymous
  ( shuffled,
    anonymous,
    withoutComments,
  )
where

import qualified Data.ByteString as B
import qualified Data.ByteString.Char8 as BC
import Data.List (foldl', sort, sortOn)
import qualified Data.Map.Strict as Map
import qualified Data.Vector as V
import Maru.Similar
import Maru.Similar.Archive (archiveShuffled)
import Maru.Similar.Fingerprint
import Maru.Similar.Language (lexSource)
import Maru.Similar.Token

-- | The same submissions in an order that does not follow their names: by a hash of what they hold,
-- then of their names. What is made of it has no trace of the names but in names.
shuffled :: Corpus -> Corpus
shuffled corpus = corpus {corpusEntries = sortOn key (corpusEntries corpus), corpusArchive = archiveShuffled hashOf <$> corpusArchive corpus}
  where
    key e = (entryRole e, fingerprint (map sourceBytes (entrySources e)), hashOf (entryName e))

-- | The same report, with new names: submissions and students are numbered in the report's order
-- ('shuffled').
anonymous :: Report -> Report
anonymous report =
  report
    { reportSubmissions = V.imap renamed submissions,
      reportLeftOut = sort [l {leftOutPath = "(hidden)"} | l <- reportLeftOut report],
      reportGuessed = sort [("(hidden)", e) | (_, e) <- reportGuessed report]
    }
  where
    submissions = reportSubmissions report
    width = length (show (V.length submissions))
    students = foldl' (\known who -> Map.insertWith (\_ old -> old) who (Map.size known + 1) known) Map.empty (concatMap submissionStudents (V.toList submissions))
    renamed i s =
      s
        { submissionName = "submission-" <> padded (i + 1),
          submissionStudents = ["student-" <> BC.pack (show n) | n <- sort [Map.findWithDefault 0 who students | who <- submissionStudents s]],
          submissionPaths = ["file-" <> BC.pack (show n) | (n, _) <- zip [1 :: Int ..] (submissionPaths s)]
        }
    padded n = let digits = show n in BC.pack (replicate (width - length digits) '0' <> digits)

-- | Each byte between two tokens, if it is no white space, becomes a dot: offsets stay.
withoutComments :: Source -> Source
withoutComments source = source {sourceBytes = B.concat (go 0 [0 .. tokenCount tokens - 1])}
  where
    bytes = sourceBytes source
    tokens = lexSource (sourceLanguage source) bytes
    go at is = case is of
      [] -> [blank (B.drop at bytes)]
      i : more -> blank (slice at (tokenStart tokens i)) : slice (tokenStart tokens i) (tokenEnd tokens i) : go (tokenEnd tokens i) more
    slice from to = B.take (to - from) (B.drop from bytes)
    blank = B.map (\w -> if w > 32 then 46 else w)
