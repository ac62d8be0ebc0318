{-# LANGUAGE OverloadedStrings #-}

-- | Reports and programs without names, to be shared. Pure.
--
-- Names, students and paths go. What the programs call things and print stays: a reader may know
-- somebody by that.
module Maru.Similar.Anonymous
  ( anonymous,
    withoutComments,
  )
where

import Data.ByteString (ByteString)
import qualified Data.ByteString as B
import qualified Data.ByteString.Char8 as BC
import Data.List (sort)
import qualified Data.Map.Strict as Map
import qualified Data.Vector as V
import Data.Word (Word64)
import Maru.Similar
import Maru.Similar.Lexer.Java (lexJava)
import Maru.Similar.Token

-- | The same report, with new names for the submissions. They are numbered by a hash of what they
-- hold: the numbers do not follow the names. Equal contents are told apart by the old names' order.
anonymous :: (ByteString -> [Source]) -> Report -> Report
anonymous sources report =
  report
    { reportSubmissions = V.imap renamed submissions,
      reportLeftOut = [l {leftOutPath = "(hidden)"} | l <- reportLeftOut report],
      reportGuessed = [("(hidden)", e) | (_, e) <- reportGuessed report]
    }
  where
    submissions = reportSubmissions report
    numbers = Map.fromList (zip (sort (zip hashes [0 ..])) [1 :: Int ..])
    hashes = map (fingerprint . sources . submissionName) (V.toList submissions)
    number i = Map.findWithDefault 0 (hashOf i, i) numbers
    hashOf i = V.fromList hashes V.! i
    width = length (show (V.length submissions))
    students = Map.fromList (zip (sort (concatMap submissionStudents (V.toList submissions))) [1 :: Int ..])
    renamed i s =
      s
        { submissionName = "submission-" <> padded (number i),
          submissionStudents = ["student-" <> BC.pack (show (Map.findWithDefault 0 who students)) | who <- submissionStudents s],
          submissionPaths = ["file-" <> BC.pack (show n) | (n, _) <- zip [1 :: Int ..] (submissionPaths s)]
        }
    padded n = let digits = show n in BC.pack (replicate (width - length digits) '0' <> digits)

-- | FNV-1a of all that a submission holds.
fingerprint :: [Source] -> Word64
fingerprint = foldl (\h s -> B.foldl' step h (sourceBytes s)) 0xcbf29ce484222325
  where
    step h byte = (h * 0x100000001b3) + fromIntegral byte

-- | Each byte between two tokens, if it is no white space, becomes a dot: offsets stay.
withoutComments :: ByteString -> ByteString
withoutComments bytes = B.concat (go 0 [0 .. tokenCount tokens - 1])
  where
    tokens = lexJava bytes
    go at is = case is of
      [] -> [blank (B.drop at bytes)]
      i : more -> blank (slice at (tokenStart tokens i)) : slice (tokenStart tokens i) (tokenEnd tokens i) : go (tokenEnd tokens i) more
    slice from to = B.take (to - from) (B.drop from bytes)
    blank = B.map (\w -> if w > 32 then 46 else w)
