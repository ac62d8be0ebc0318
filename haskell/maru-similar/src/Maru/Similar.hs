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
    module Maru.Similar.Config,

    -- * Steps
    ParallelMap,
    Prepared (..),
    Ready (..),
    Submission (..),
    Parse (..),
    prepare,
    Outcome,
    outcomePairs,
    comparePrepared,
    Report (..),
    assemble,

    -- * Pairs
    module Maru.Similar.Table,
    pairScore,
    leastTokens,

    -- * Reading
    module Maru.Similar.Corpus,
  )
where

import Data.ByteString (ByteString)
import Data.List (partition, sort)
import Data.Maybe (isNothing)
import qualified Data.Vector as V
import qualified Data.Vector.Unboxed as VU
import Maru.Similar.Analyse
import Maru.Similar.Config
import Maru.Similar.Corpus
import Maru.Similar.Match (Kind (..), PairScore (..), ViewScore (..))
import Maru.Similar.Normalise (Codes)
import Maru.Similar.Pairs
import Maru.Similar.Standing
import Maru.Similar.Table
import Maru.Similar.Weigh
import System.IO.Unsafe (unsafePerformIO)

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
    submissionControls :: !Int,
    -- | As the worst of its files. Of 'Seed', 'NotParsed'.
    submissionParse :: !Parse
  }
  deriving (Eq, Show)

-- | Submissions ready to be compared, by name.
data Prepared = Prepared
  { preparedSubmissions :: !(V.Vector Submission),
    preparedReady :: !Ready,
    preparedLeftOut :: ![LeftOut],
    preparedGuessed :: ![(ByteString, Encoding)]
  }

-- | By the mode.
data Ready
  = ReadyCodes !(V.Vector Codes)
  | -- | With what is usual in the collection, and the similarity from which pairs are
    -- looked at.
    ReadyWeighed !Weighed !(Maybe Standing) !Float

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
    -- | What is usual in the collection; 'Nothing' of a small one, and in 'Seed'.
    reportStanding :: !(Maybe Standing),
    reportPairs :: !PairTable
  }

-- | Lex and normalise all submissions, one task each. Those without a token are
-- left out.
prepare :: ParallelMap -> Config -> Corpus -> Prepared
prepare parallel config corpus =
  Prepared
    { preparedSubmissions = submissions,
      preparedReady = ready parallel config (isNothing (meeting submissions)) [(entryRole e, analysedCode a) | (e, a) <- full],
      preparedLeftOut = sort (corpusLeftOut corpus ++ concatMap (hollow . fst) void),
      preparedGuessed = corpusGuessed corpus
    }
  where
    submissions = V.fromList (map (uncurry describe) full)
    entries = corpusEntries corpus
    analysed = parallel (analyse config base) (map entrySources entries)
    (full, void) = partition (not . isVoid . snd) (zip entries analysed)
    isVoid a = codeLength (analysedCode a) == 0 && analysedExcluded a == 0
    hollow entry = [LeftOut (sourcePath s) "no code: only comments and white space" | s <- entrySources entry]
    base = baseOf config (corpusBase corpus)

-- | Index what is weighed, and see what is usual. Whether all may meet.
ready :: ParallelMap -> Config -> Bool -> [(Role, Code)] -> Ready
ready parallel config everybody codes = case configMode config of
  Seed -> ReadyCodes (V.fromList [c | (_, CodesOf c) <- codes])
  -- Before anything forks: workers that inherit a thunk would each make the index.
  Score -> weighed `seq` ReadyWeighed weighed usual start
  where
    weighed = unsafePerformIO (weigh [(role == Archive, v) | (role, ViewsOf v) <- codes])
    start = if everybody then startAt config (length codes) usual else realToFrac (configThreshold config)
    usual = standing (zip sample (parallel (against weighed (configRank config)) sample))
    sample = sampleOf (length codes)

-- | Where more pairs are to be expected than are reported, the similarity that a
-- quarter more than these have; so the others need not be kept. Only where all may meet: the
-- sample has pairs that are none, too.
startAt :: Config -> Int -> Maybe Standing -> Float
startAt config n usual
  | dropped <= 0 = asked
  | otherwise = max asked (maybe 0 (`quantile` dropped) usual)
  where
    asked = realToFrac (configThreshold config)
    pairs = fromIntegral (n * (n - 1) `div` 2) :: Double
    dropped = 1 - 1.25 * fromIntegral (configPairs config) / max 1 pairs

describe :: Entry -> Analysed -> Submission
describe entry a =
  Submission
    { submissionName = entryName entry,
      submissionStudents = entryStudents entry,
      submissionRole = entryRole entry,
      submissionPaths = map sourcePath (entrySources entry),
      submissionTokens = codeLength (analysedCode a),
      submissionExcluded = analysedExcluded a,
      submissionErrors = odErrors odd_,
      submissionUnclosed = odUnclosed odd_,
      submissionNotJava = odNotJava odd_,
      submissionControls = odControls odd_,
      submissionParse = analysedParse a
    }
  where
    odd_ = analysedOddities a

-- | The outcome of a task.
data Outcome
  = OutcomeRow !Row
  | -- | How many pairs it stands for.
    OutcomeCells !Int !Cells

-- | How many pairs were compared for it, reported or not.
outcomePairs :: Outcome -> Int
outcomePairs part = case part of
  OutcomeRow row -> VU.length (rowRights row)
  OutcomeCells n _ -> n

-- | All pairs that may meet, in tasks of some rows; produced as the map produces.
comparePrepared :: ParallelMap -> Config -> Prepared -> [Outcome]
comparePrepared parallel config prepared = case preparedReady prepared of
  ReadyCodes codes -> map OutcomeRow (compareAll parallel (configMinMatch config) meets codes)
  ReadyWeighed weighed _ start -> zipWith OutcomeCells (map (pairsOf weighed) blocks) (parallel (block weighed start) blocks)
    where
      blocks = blocksOf weighed
  where
    meets = meeting (preparedSubmissions prepared)
    block weighed start rows = maybe id allowed meets (compareBlock weighed (configRank config) start rows)
    pairsOf weighed (from, to) = sum [rowLength meets (weighedCount weighed) (preparedSubmissions prepared) i | i <- [from .. to - 1]]

-- | Without the pairs that are none.
allowed :: (Int -> Int -> Bool) -> Cells -> Cells
allowed meets cells
  | length kept == cellCount cells = cells
  | otherwise = pickCells kept cells
  where
    kept = [i | i <- [0 .. cellCount cells - 1], uncurry meets (cellSides cells i)]

-- | With how many submissions one is compared in its row.
rowLength :: Maybe (Int -> Int -> Bool) -> Int -> V.Vector Submission -> Int -> Int
rowLength meets n submissions i = case meets of
  Nothing -> n - i - 1
  Just may
    | isOld i -> 0
    | otherwise -> length [() | j <- [0 .. n - 1], j /= i, j > i || isOld j, may i j]
  where
    isOld j = submissionRole (submissions V.! j) == Archive

-- | Which pairs there are ('mayMeet'); 'Nothing': all.
meeting :: V.Vector Submission -> Maybe (Int -> Int -> Bool)
meeting submissions
  | V.all (\s -> submissionRole s == New && null (submissionStudents s)) submissions = Nothing
  | otherwise = Just (\i j -> mayMeet (terms V.! i) (terms V.! j))
  where
    terms = V.map (\s -> (submissionRole s, submissionStudents s)) submissions

assemble :: Config -> Prepared -> [Outcome] -> Report
assemble config prepared parts =
  Report
    { reportConfig = config,
      reportSubmissions = submissions,
      reportLengths = lengths,
      reportLeftOut = preparedLeftOut prepared,
      reportGuessed = preparedGuessed prepared,
      reportCompared = compared,
      reportApart = n * (n - 1) `div` 2 - compared,
      reportStanding = case preparedReady prepared of
        ReadyWeighed _ usual _ -> usual
        ReadyCodes _ -> Nothing,
      reportPairs = case configMode config of
        Seed -> tiledTable (configThreshold config) lengths [row | OutcomeRow row <- parts]
        Score -> weighedTable (configRank config) (configPairs config) [cells | OutcomeCells _ cells <- parts]
    }
  where
    submissions = preparedSubmissions prepared
    n = V.length submissions
    lengths = VU.convert (V.map submissionTokens submissions)
    compared = sum (map outcomePairs parts)

-- | Below this many tokens nothing can be told of a submission.
leastTokens :: Int
leastTokens = 60

-- | All that can be said of a reported pair.
pairScore :: Report -> Pair -> PairScore
pairScore report pair =
  PairScore
    { pairScoreLeft = left,
      pairScoreRight = right,
      pairScoreStructure = structure,
      pairScoreLexical = lexical,
      pairScoreNames = names,
      pairScoreWhole = pairWhole pair,
      pairScoreEmbedded = pairEmbedded pair,
      pairScoreSimilarity = pairSimilarity pair,
      pairScoreKind = if pairEmbedded pair - pairWhole pair >= 0.2 then Embedded else Whole,
      pairScoreTooShort = min (reportLengths report VU.! left) (reportLengths report VU.! right) < leastTokens,
      pairScoreZ = (\s -> zScore s left right (pairSimilarity pair)) <$> reportStanding report,
      pairScoreInnocentAbove = (\s -> innocentAbove s (reportCompared report) (pairSimilarity pair)) <$> reportStanding report
    }
  where
    left = pairLeft pair
    right = pairRight pair
    (structure, lexical, names) = case pairEvidence pair of
      Shared s l m -> (Just s, Just l, Just m)
      Tiles {} -> (Nothing, Just (ViewScore (pairWhole pair) (pairEmbedded pair)), Nothing)
