{-# LANGUAGE OverloadedStrings #-}
{-# LANGUAGE RankNTypes #-}

-- | Which submissions of a collection are similar?
--
-- > Right corpus <- readCorpus LanguageAuto [] ["submissions"]
-- > let prepared = prepare map defaultConfig corpus
-- >     report = assemble defaultConfig prepared (comparePrepared map defaultConfig prepared)
--
-- The map is a parameter: any that equals 'map' gives the same report, to the
-- byte.
module Maru.Similar
  ( -- * Options
    Config (..),
    defaultConfig,

    -- * Steps
    ParallelMap,
    Prepared (..),
    Submission (..),
    prepare,
    comparePrepared,
    Row,
    Report (..),
    assemble,

    -- * Reading
    module Maru.Similar.Corpus,
  )
where

import Data.ByteString (ByteString)
import Data.List (partition, sort, sortOn)
import qualified Data.Vector as V
import qualified Data.Vector.Unboxed as VU
import Maru.Similar.Corpus
import Maru.Similar.Lexer.Java (lexJava)
import Maru.Similar.Normalise
import Maru.Similar.Pairs
import Maru.Similar.Shape
import Maru.Similar.Tiling
import Maru.Similar.Token (Tokens, tokenErrors, tokenUnclosed)

data Config = Config
  { configView :: !View,
    -- | Tokens of the shortest match that counts, at least 1.
    configMinMatch :: !Int,
    -- | Pairs below this similarity are not reported.
    configThreshold :: !Double
  }
  deriving (Eq, Show)

-- | 'Structure', 9 tokens, all pairs.
defaultConfig :: Config
defaultConfig = Config Structure 9 0

-- | What is known of a submission besides its code.
data Submission = Submission
  { submissionName :: !ByteString,
    -- | Whose it is; empty where nothing says so.
    submissionStudents :: ![ByteString],
    -- | 'New' or 'Archive'.
    submissionRole :: !Role,
    -- | Of its files, in the order that positions count them in.
    submissionPaths :: ![ByteString],
    -- | Tokens compared.
    submissionTokens :: !Int,
    -- | Tokens that the base has too.
    submissionExcluded :: !Int,
    -- | Tokens that are not Java, literals and comments that do not end, stretches of
    -- more names in a row than Java has.
    submissionErrors :: !Int,
    -- | Comments and text blocks that do not end; what follows them is compared.
    submissionUnclosed :: !Int,
    -- | Files that do not have the shape of Java ('notJava').
    submissionNotJava :: !Int,
    -- | Bytes that text does not have: NUL and other control bytes.
    submissionControls :: !Int
  }
  deriving (Eq, Show)

-- | Submissions ready to be compared, by name.
data Prepared = Prepared
  { preparedSubmissions :: !(V.Vector Submission),
    preparedCodes :: !(V.Vector Codes),
    preparedLeftOut :: ![LeftOut],
    preparedGuessed :: ![(ByteString, Encoding)]
  }

-- | Everything that is reported.
data Report = Report
  { reportConfig :: !Config,
    -- | By name; what is left by position elsewhere points here.
    reportSubmissions :: !(V.Vector Submission),
    -- | Of each submission, tokens compared.
    reportLengths :: !(VU.Vector Int),
    reportLeftOut :: ![LeftOut],
    -- | Sources that are not UTF-8, by path.
    reportGuessed :: ![(ByteString, Encoding)],
    -- | How many pairs were compared, reported or not.
    reportCompared :: !Int,
    -- | How many pairs were not: two of one student, two of the archive.
    reportApart :: !Int,
    reportPairs :: !PairTable
  }

-- | What a task makes of a submission. Plain data, so that it can cross to
-- another process.
data Analysed = Analysed
  { analysedCodes :: !Codes,
    analysedExcluded :: !Int,
    analysedOddities :: !Oddities
  }

-- | What is wrong with the files of a submission, as in 'Submission'.
data Oddities = Oddities {odErrors :: !Int, odUnclosed :: !Int, odNotJava :: !Int, odControls :: !Int}

instance Semigroup Oddities where
  Oddities a b c d <> Oddities a' b' c' d' = Oddities (a + a') (b + b') (c + c') (d + d')

instance Monoid Oddities where
  mempty = Oddities 0 0 0 0

-- | Lex and normalise all submissions, one task each. Those without a token are
-- left out.
prepare :: ParallelMap -> Config -> Corpus -> Prepared
prepare parallel config corpus =
  Prepared
    { preparedSubmissions = V.fromList (map (uncurry describe) full),
      preparedCodes = V.fromList (map (analysedCodes . snd) full),
      preparedLeftOut = sort (corpusLeftOut corpus ++ concatMap (hollow . fst) void),
      preparedGuessed = corpusGuessed corpus
    }
  where
    entries = corpusEntries corpus
    analysed = parallel (analyse config base) (map entrySources entries)
    (full, void) = partition (not . isVoid . snd) (zip entries analysed)
    isVoid a = ownLength (analysedCodes a) == 0 && analysedExcluded a == 0
    hollow entry = [LeftOut (sourcePath s) "no code: only comments and white space" | s <- entrySources entry]
    base = baseIndex config (corpusBase corpus)

describe :: Entry -> Analysed -> Submission
describe entry a =
  Submission
    { submissionName = entryName entry,
      submissionStudents = entryStudents entry,
      submissionRole = entryRole entry,
      submissionPaths = map sourcePath (entrySources entry),
      submissionTokens = ownLength (analysedCodes a),
      submissionExcluded = analysedExcluded a,
      submissionErrors = odErrors odd_,
      submissionUnclosed = odUnclosed odd_,
      submissionNotJava = odNotJava odd_,
      submissionControls = odControls odd_
    }
  where
    odd_ = analysedOddities a

baseIndex :: Config -> [Source] -> Maybe Index
baseIndex _ [] = Nothing
baseIndex config sources = Just (index m (side m (fst (lexAll config sources))))
  where
    m = configMinMatch config

-- | The code of all sources, and how much is wrong with them.
lexAll :: Config -> [Source] -> (Codes, Oddities)
lexAll config sources = (joinWithBarriers (map fst each), foldMap snd each)
  where
    each = map one sources
    one (Source _ bytes) = (normalise (configView config) bytes tokens, oddities bytes tokens)
      where
        tokens = lexJava bytes

oddities :: ByteString -> Tokens -> Oddities
oddities bytes tokens =
  Oddities
    { odErrors = tokenErrors tokens + shapeStretches (shapeOf tokens),
      odUnclosed = tokenUnclosed tokens,
      odNotJava = fromEnum (notJava tokens),
      odControls = controlBytes bytes
    }

analyse :: Config -> Maybe Index -> [Source] -> Analysed
analyse config base sources = Analysed own (ownLength codes - ownLength own) odd_
  where
    (codes, odd_) = lexAll config sources
    own = maybe codes (withoutBase config codes) base

-- | Without what tiles with the base.
withoutBase :: Config -> Codes -> Index -> Codes
withoutBase config codes base = excluding (sortOn fst ranges) codes
  where
    ranges = [(matchRight t, matchLength t) | t <- tilingTiles (tiles base (side m codes))]
    m = configMinMatch config

-- | All pairs that may meet, one task per submission; produced as the map produces.
comparePrepared :: ParallelMap -> Config -> Prepared -> [Row]
comparePrepared parallel config prepared = compareAll parallel (configMinMatch config) (meeting (preparedSubmissions prepared)) (preparedCodes prepared)

-- | Which pairs there are ('mayMeet'); 'Nothing': all.
meeting :: V.Vector Submission -> Maybe (Int -> Int -> Bool)
meeting submissions
  | V.all (\s -> submissionRole s == New && null (submissionStudents s)) submissions = Nothing
  | otherwise = Just (\i j -> mayMeet (terms V.! i) (terms V.! j))
  where
    terms = V.map (\s -> (submissionRole s, submissionStudents s)) submissions

assemble :: Config -> Prepared -> [Row] -> Report
assemble config prepared rows =
  Report
    { reportConfig = config,
      reportSubmissions = submissions,
      reportLengths = lengths,
      reportLeftOut = preparedLeftOut prepared,
      reportGuessed = preparedGuessed prepared,
      reportCompared = sum (map (VU.length . rowRights) rows),
      reportApart = n * (n - 1) `div` 2 - sum (map (VU.length . rowRights) rows),
      reportPairs = rankPairs (configThreshold config) lengths rows
    }
  where
    submissions = preparedSubmissions prepared
    n = V.length submissions
    lengths = VU.convert (V.map submissionTokens submissions)
