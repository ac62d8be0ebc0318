{-# LANGUAGE OverloadedStrings #-}
{-# LANGUAGE RankNTypes #-}

-- | Which submissions of a collection are similar?
--
-- > Right corpus <- readCorpus Nothing [] ["submissions"]
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
    pairsAhead,
    comparePrepared,
    Found,
    collect,
    Report (..),
    assemble,
    assembled,

    -- * Pairs
    module Maru.Similar.Table,
    pairScore,
    leastTokens,

    -- * Reading
    module Maru.Similar.Corpus,
  )
where

import Control.Monad (foldM)
import Data.Bifunctor (first)
import Data.Bits (popCount, (.&.), (.|.))
import Data.ByteString (ByteString)
import Data.Functor.Identity (runIdentity)
import Data.List (foldl', partition, sort)
import Data.Maybe (fromMaybe)
import qualified Data.Vector as V
import qualified Data.Vector.Unboxed as VU
import Maru.Similar.Analyse
import Maru.Similar.Archive
import Maru.Similar.Config
import Maru.Similar.Corpus
import Maru.Similar.Language (familiesOf)
import Maru.Similar.Match (Kind (..), PairScore (..), ViewScore (..))
import Maru.Similar.Normalise (Codes)
import Maru.Similar.Pairs
import Maru.Similar.Standing
import Maru.Similar.Submission
import Maru.Similar.Table
import Maru.Similar.Weigh
import System.IO.Unsafe (unsafePerformIO)

-- | Submissions ready to be compared.
data Prepared = Prepared
  { -- | New ones first, those of an index last.
    preparedSubmissions :: !(V.Vector Submission),
    -- | How many of them are new: the first ones.
    preparedNew :: !Int,
    -- | How many were read: all before those of an index.
    preparedRead :: !Int,
    -- | Which may meet, where it is said of any whose it is: not two of one student.
    preparedMeet :: !(Maybe (Int -> Int -> Bool)),
    -- | Their programs.
    preparedSources :: Int -> [Source],
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
    -- | What is left by position elsewhere points here.
    reportSubmissions :: !(V.Vector Submission),
    -- | The first so many were read; those of an index follow.
    reportRead :: !Int,
    reportLeftOut :: ![LeftOut],
    -- | Sources that are not UTF-8, by path.
    reportGuessed :: ![(ByteString, Encoding)],
    -- | How many pairs were compared, reported or not.
    reportCompared :: !Int,
    -- | How many pairs were not: two of one student, two of the archive, two in languages that
    -- cannot be compared.
    reportApart :: !Int,
    -- | What is usual in the collection; 'Nothing' of a small one, and in 'Seed'.
    reportStanding :: !(Maybe Standing),
    reportPairs :: !PairTable
  }

-- | Lex and normalise all submissions, one task each. Those without a token are
-- left out. Throws 'BadPath' when the index turns out to be damaged.
prepare :: ParallelMap -> Config -> Corpus -> Prepared
prepare parallel config corpus =
  Prepared
    { preparedSubmissions = V.fromList read' V.++ V.generate (maybe 0 archiveCount archive) kept,
      preparedNew = new,
      preparedRead = length read',
      preparedMeet = meet,
      preparedSources = \i -> maybe (oldSources (i - length read')) (entrySources . fst) (full V.!? i),
      preparedReady = ready parallel config archive new meet [analysedCode a | (_, a) <- V.toList full],
      preparedLeftOut = sort (corpusLeftOut corpus ++ concatMap (hollow . fst) void),
      preparedGuessed = corpusGuessed corpus
    }
  where
    archive = corpusArchive corpus
    read' = map (uncurry describe) (V.toList full)
    kept = maybe (const (error "no archive")) archiveSubmission archive
    oldSources i = maybe [] (`archiveSources` i) archive
    new = length (filter ((== New) . submissionRole) read')
    meet = meeting read' archive
    entries = corpusEntries corpus
    analysed = parallel (analyse config base) (map entrySources entries)
    (full, void) = first V.fromList (partition (not . isVoid . snd) (zip entries analysed))
    hollow entry = [LeftOut (sourcePath s) "no code: only comments and white space" | s <- entrySources entry]
    base = baseOf config (corpusBase corpus)

-- | Index what is weighed, and see what is usual. How many are new, and which may meet.
ready :: ParallelMap -> Config -> Maybe Archive -> Int -> Maybe (Int -> Int -> Bool) -> [Code] -> Ready
ready parallel config archive new meet codes = case configMode config of
  Seed -> ReadyCodes (V.fromList [c | CodesOf c <- codes])
  -- Before anything forks: workers that inherit a thunk would each make the index.
  Score -> weighed `seq` ReadyWeighed weighed usual (startAt config pairs usual)
  where
    weighed = unsafePerformIO (maybe id (readingArchive . archivePath) archive (weigh older new [v | ViewsOf v <- codes]))
    older = (\a -> Older (archiveStore a) (archivePlaces (length codes) a)) <$> archive
    usual = standing (fromMaybe (\_ _ -> True) meet) (zip sample (parallel (against weighed (configRank config)) sample))
    sample = sampleOf new
    pairs = sum (map (rowLength meet (weighedCount weighed)) [0 .. new - 1])

-- | Where more pairs are to be expected than are reported, the similarity that a
-- quarter more than these have; so the others need not be kept. Of so many pairs.
startAt :: Config -> Int -> Maybe Standing -> Float
startAt config pairs usual
  | dropped <= 0 = asked
  | otherwise = max asked (maybe 0 (`quantile` dropped) usual)
  where
    asked = realToFrac (configThreshold config)
    dropped = 1 - 1.25 * fromIntegral (configPairs config) / max 1 (fromIntegral pairs) :: Double

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

-- | Of each new one with all that follow it: so many pairs are compared, but for those that may not meet. (Two of
-- an archive do not.)
pairsAhead :: Prepared -> Double
pairsAhead prepared = new * (all' - 1) - new * (new - 1) / 2
  where
    new = fromIntegral (preparedNew prepared)
    all' = fromIntegral (V.length (preparedSubmissions prepared))

-- | All pairs that may meet, in tasks of some rows; produced as the map produces. Where more pairs
-- are compared than are reported, a task leaves out those that cannot be: see 'waves'.
comparePrepared :: ParallelMap -> Config -> Prepared -> [Outcome]
comparePrepared parallel config prepared = case preparedReady prepared of
  ReadyCodes codes -> map OutcomeRow (compareAll parallel (configMinMatch config) (configThreshold config) (meetInRows prepared) codes)
  ReadyWeighed weighed _ start -> zipWith OutcomeCells (map (pairsOf weighed) blocks) (waves rank (configPairs config) start (parallel . block weighed) blocks)
    where
      blocks = blocksOf weighed
  where
    rank = configRank config
    block weighed from rows = maybe id allowed (preparedMeet prepared) (compareBlock weighed rank from rows)
    pairsOf weighed (from, to) = sum [rowLength (preparedMeet prepared) (weighedCount weighed) i | i <- [from .. to - 1]]

-- | @waves rank most from compare blocks@: blocks compared in waves, each twice as long as the one
-- before. Of two pairs that are as similar the earlier one counts. So what follows once so many are found
-- must be more similar than the least of the best, and where whole classes hand in the same, nothing is. What
-- is left out depends on the blocks alone, not on the map.
waves :: Rank -> Int -> Float -> (Float -> [block] -> [Cells]) -> [block] -> [Cells]
waves rank most from compared = next (8 :: Int) (noBar from)
  where
    next _ _ [] = []
    next size bar blocks = passed (compared (leastOf bar) now) bar
      where
        (now, later) = splitAt size blocks
        passed (cells : more) b = let b' = raised rank most b cells in cells : (b' `seq` passed more b')
        passed [] b = next (2 * size) b later

-- | Without the pairs that are none.
allowed :: (Int -> Int -> Bool) -> Cells -> Cells
allowed meets cells
  | length kept == cellCount cells = cells
  | otherwise = pickCells kept cells
  where
    kept = [i | i <- [0 .. cellCount cells - 1], uncurry meets (cellSides cells i)]

-- | With how many of so many submissions a new one is compared in its row: with all later ones that
-- it may meet.
rowLength :: Maybe (Int -> Int -> Bool) -> Int -> Int -> Int
rowLength meets n i = case meets of
  Nothing -> n - i - 1
  Just may -> length (filter (may i) [i + 1 .. n - 1])

-- | Which pairs there are, where not all are: by 'preparedMeet', and no two old ones.
meetInRows :: Prepared -> Maybe (Int -> Int -> Bool)
meetInRows prepared
  | preparedNew prepared == V.length (preparedSubmissions prepared) = preparedMeet prepared
  | otherwise = Just (\i j -> min i j < preparedNew prepared && maybe True (\meet -> meet i j) (preparedMeet prepared))

-- | Not two of one student, and not two that share no family of languages. 'Nothing': all do.
meeting :: [Submission] -> Maybe Archive -> Maybe (Int -> Int -> Bool)
meeting read' archive = case (all (null . submissionStudents) read', popCount (foldl' (.|.) (maybe 0 archiveFamilies archive) (map families read')) <= 1) of
  (True, True) -> Nothing
  (True, False) -> Just related
  (False, True) -> Just strangers
  (False, False) -> Just (\i j -> related i j && strangers i j)
  where
    strangers i j = not (any (`elem` (students V.! i)) (students V.! j))
    related i j = languages' VU.! i .&. languages' VU.! j /= 0
    families = familiesOf . submissionLanguages
    languages' = VU.fromList (map families read' ++ [families (archiveSubmission a i) | Just a <- [archive], i <- [0 .. archiveCount a - 1]])
    students = V.fromList (map submissionStudents read') V.++ V.generate (maybe 0 archiveCount archive) old
    old i = case archive of
      Just a | archiveOwned a -> submissionStudents (archiveSubmission a i)
      _ -> []

-- | What is reported of the outcomes so far, and for how many pairs they stand.
data Found = Found !Int ![Row] !Best

-- | Outcomes in their order, each forgotten but for what is reported of it. Is told for how many
-- pairs they stand.
collect :: Monad m => Config -> (Int -> m ()) -> [Outcome] -> m Found
collect config tell = foldM next (Found 0 [] noneYet)
  where
    next (Found n rows best) part = found `seq` (found <$ tell sofar)
      where
        sofar = n + outcomePairs part
        found = case part of
          OutcomeRow row -> row `seq` Found sofar (row : rows) best
          OutcomeCells _ cells -> Found sofar rows (addBlock (configRank config) (configPairs config) best cells)

-- | The report of all outcomes.
assembled :: Config -> Prepared -> [Outcome] -> Report
assembled config prepared = assemble config prepared . runIdentity . collect config (const (pure ()))

assemble :: Config -> Prepared -> Found -> Report
assemble config prepared (Found compared rows best) =
  Report
    { reportConfig = config,
      reportSubmissions = submissions,
      reportRead = preparedRead prepared,
      reportLeftOut = preparedLeftOut prepared,
      reportGuessed = preparedGuessed prepared,
      reportCompared = compared,
      reportApart = n * (n - 1) `div` 2 - compared,
      reportStanding = case preparedReady prepared of
        ReadyWeighed _ usual _ -> usual
        ReadyCodes _ -> Nothing,
      reportPairs = case configMode config of
        Seed -> tiledTable (configThreshold config) (VU.convert (V.map submissionTokens submissions)) (reverse rows)
        Score -> weighedTable (configRank config) (configPairs config) best
    }
  where
    submissions = preparedSubmissions prepared
    n = V.length submissions

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
      pairScoreTooShort = min (tokens left) (tokens right) < leastTokens,
      pairScoreZ = reportStanding report >>= \s -> zScore s left right (pairSimilarity pair),
      pairScoreInnocentAbove = (\s -> innocentAbove s (reportCompared report) (pairSimilarity pair)) <$> reportStanding report
    }
  where
    left = pairLeft pair
    right = pairRight pair
    tokens i = submissionTokens (reportSubmissions report V.! i)
    (structure, lexical, names) = case pairEvidence pair of
      Shared s l m -> (Just s, Just l, Just m)
      Tiles {} -> (Nothing, Just (ViewScore (pairWhole pair) (pairEmbedded pair)), Nothing)
