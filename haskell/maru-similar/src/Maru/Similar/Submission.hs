-- | What is known of a submission besides its code.
module Maru.Similar.Submission
  ( Submission (..),
  )
where

import Data.ByteString (ByteString)
import Maru.Similar.Corpus.Students (Role)
import Maru.Similar.Language (Language)
import Maru.Similar.Views (Parse)

data Submission = Submission
  { submissionName :: !ByteString,
    -- | Whose it is; empty where nothing says so.
    submissionStudents :: ![ByteString],
    -- | 'Maru.Similar.Corpus.New' or 'Maru.Similar.Corpus.Archive'.
    submissionRole :: !Role,
    -- | Of its files, in the order that positions count them in.
    submissionPaths :: ![ByteString],
    -- | Of each of them.
    submissionLanguages :: ![Language],
    -- | Tokens compared.
    submissionTokens :: !Int,
    -- | Tokens that the base has too.
    submissionExcluded :: !Int,
    -- | Tokens that are not of their language, literals and comments that do not end, stretches of
    -- more names in a row than Java has.
    submissionErrors :: !Int,
    -- | Comments and text blocks that do not end; what follows them is compared.
    submissionUnclosed :: !Int,
    -- | Files that do not have the shape of Java ('Maru.Similar.Shape.notJava').
    submissionNotJava :: !Int,
    -- | Bytes that text does not have: NUL and other control bytes.
    submissionControls :: !Int,
    -- | As the worst of its files. Of 'Maru.Similar.Config.Seed', @ByTokens@.
    submissionParse :: !Parse
  }
  deriving (Eq, Show)
