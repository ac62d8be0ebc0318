{-# LANGUAGE OverloadedStrings #-}

-- | @maru similar@: which submissions of a collection are copies of each other?
--
-- Exit status: 0 done (also with a single submission: nothing to compare), 1 a pair above
-- @--fail-above@, 64 usage. 65 a path that cannot be used or nothing usable in it; 69 an output
-- that cannot be written.
module Maru.Cli.Similar
  ( similarCommand,
  )
where

import Control.Exception (Exception, evaluate, throwIO, try)
import Control.Monad (forM_, join, unless, when)
import Data.ByteString (ByteString)
import qualified Data.ByteString as B
import Data.ByteString.Builder (Builder, hPutBuilder)
import qualified Data.ByteString.Char8 as BC
import qualified Data.ByteString.Lazy as BL
import Data.Char (isAscii, isPrint)
import Data.List (sortOn)
import qualified Data.Map.Strict as Map
import Data.Maybe (isJust, isNothing)
import qualified Data.Set as Set
import qualified Data.Vector as V
import Maru (parMapWith)
import Maru.Cli.Exit (badInput, reason, unavailable, usage)
import Maru.Cli.Host (pageFacts)
import Maru.Cli.Output (wantsColour)
import Maru.Cli.Progress (withProgress)
import Maru.Cli.Similar.Generate (generateCommand)
import Maru.Cli.Similar.Index (indexCommand)
import Maru.Cli.Similar.Page (Asked (..), shownNames, similarPage)
import Maru.Cli.Similar.Settings
import Maru.Cli.WholeFile (replaceFile)
import qualified Maru.Options as Maru
import Maru.Similar
import Maru.Similar.Anonymous (anonymous, shuffled, withoutComments)
import Maru.Similar.Archive (fitting)
import Maru.Similar.Digits (printedScore)
import Maru.Similar.Evidence (evidence, programOf, usualIn)
import Maru.Similar.Output
import Maru.Similar.Told
import qualified Maru.View.Similar as View
import Options.Applicative
import System.Environment (getArgs)
import System.Exit (ExitCode (..))
import System.IO
import System.IO.Error (isResourceVanishedError)
import System.Posix.ByteString (RawFilePath)

-- | The subcommand, for the command's 'hsubparser'.
similarCommand :: Mod CommandFields (IO ExitCode)
similarCommand =
  command "similar" $
    info
      (hsubparser (generateCommand <> indexCommand) <|> similar <$> settings)
      ( progDesc "Find the submissions of a collection that are copies of each other"
          <> footer "Examples: maru similar submissions/   |   maru similar export.zip --base handout/ --html report.html   |   maru similar --lang python labs/   |   maru similar this-year/ --archive last-years/ --students list.csv   |   Status: 0, 1 a pair above --fail-above, 64 usage, 65 bad input, 69 cannot write."
      )

similar :: Settings -> IO ExitCode
similar s = orStopped $ do
  options <- mapOptions s
  when (mode s == Seed && (isJust (rankFlag s) || isJust (mostPairs s))) $
    stop usage "--rank and --pairs do not go with --mode seed: it ranks all pairs at or above --threshold"
  when (mode s == Seed && isJust (indexFolder s)) $
    stop usage "--index does not go with --mode seed: an index has no text to tile; use --archive"
  when (maybe False (< threshold s) (failAbove s)) $
    stop usage "--fail-above is below --threshold: pairs between the two are not reported"
  when (length (filter (== Just "-") [csvFile s, jsonFile s, htmlFile s]) > 1) $
    stop usage "only one of --csv, --json and --html can go to standard output"
  -- Only those that are needed: to open a plug-in is to run its code, which may end the run.
  forIndex <- traverse (const (configOf s (languagesAsked s))) (indexFolder s)
  wanted <- collectionAsked (foldMap (configGrammars . fst) forIndex) s
  verdicts <- verdictsIn (verdictsFile s)
  corpus <- withProgress "reading" (\tell -> readCollection wanted {collectionTell = tell}) >>= either badPath pure
  mapM_ (fitting (minMatch s) (corpusBase corpus)) (corpusArchive corpus)
  (config, without) <- maybe (configOf s (Set.toList (languagesAtHand corpus))) pure forIndex
  compareCorpus s options config without (collectionPaths wanted) verdicts corpus

-- | Of a file that is not too large to be one.
verdictsIn :: Maybe FilePath -> IO [View.Verdict]
verdictsIn Nothing = pure []
verdictsIn (Just file) = do
  (name, bytes) <- smallFile "these are no verdicts" file
  -- The reason may quote the file.
  either (\why -> stop badInput (name <> ": these are no verdicts: " <> shortly why)) pure (View.readVerdicts (BL.fromStrict bytes))
  where
    shortly why = BC.pack (map (\c -> if isPrint c && isAscii c then c else '?') (take 120 why))

compareCorpus :: Settings -> Maru.Options -> Config -> Map.Map Language String -> [RawFilePath] -> [View.Verdict] -> Corpus -> IO ExitCode
compareCorpus s options config without given verdicts read' = do
  let corpus = if namesHidden s then shuffled read' else read'
      prepared = prepare (parMapWith options) config corpus
      submissions = preparedSubmissions prepared
  mapM_ say (toldLeftOut (namesHidden s) (preparedLeftOut prepared) ++ toldRead (namesHidden s) corpus)
  if preparedNew prepared == 0 && isJust (corpusArchive corpus) || V.null submissions
    then stop badInput (nothingUsable (language s) given (preparedLeftOut prepared))
    else do
      withoutGrammars without corpus
      let all' = max 1 (pairsAhead prepared)
      when (mode s == Seed && all' > manyTiled) $
        say (Warning (BC.pack (show (round all' :: Integer)) <> " pairs: --mode seed tiles each of them and keeps 4 bytes of it, " <> BC.pack (show (ceiling (4e-9 * all') :: Integer)) <> " GB; the default --mode score keeps the most similar (--pairs)"))
      found <- withProgress "comparing" (\tell -> collect config (tell . (/ all') . fromIntegral) (comparePrepared (parMapWith options) config prepared))
      let report = assemble config prepared found
      mapM_ say (toldReport (if namesHidden s then anonymous report else report))
      shown <- toShow s verdicts corpus (preparedSources prepared) report
      written <- try (writeAll s shown)
      case written of
        Right () -> verdict s report
        Left (NotWritten what why) -> stop unavailable (what <> ": cannot be written: " <> why)

-- | Pairs of @--mode seed@ from which on a user is told what they cost: minutes at least, and 400 MB.
manyTiled :: Double
manyTiled = 1e8

-- | Whether a pipeline goes on.
verdict :: Settings -> Report -> IO ExitCode
verdict s report = case failAbove s of
  Just bound | n <- above bound, n > 0 -> ExitFailure 1 <$ complain (counted n "pair" <> " at " <> BC.pack (show bound) <> " or more (--fail-above)")
  _ -> pure ExitSuccess
  where
    -- As it is printed: what is kept in 32 bits is a little more or less.
    above bound = length (takeWhile ((>= bound) . printedScore . similarityAt pairs) [0 .. pairCount pairs - 1])
    pairs = reportPairs report

-- Outputs ---------------------------------------------------------------------

-- | A report with all that is shown beside it.
data ToShow = ToShow !Report !Asked

-- | Bytes of a pair that a reader looks at.
mostShown :: Int
mostShown = 4 * 1024 * 1024

-- | The programs of the first pairs and where those match; under other names where that is asked.
toShow :: Settings -> [View.Verdict] -> Corpus -> (Int -> [Source]) -> Report -> IO ToShow
toShow s verdicts corpus own report = do
  arguments <- getArgs
  facts <- if isNothing (htmlFile s) then pure [] else pageFacts ("maru" : arguments)
  found <- if isNothing (htmlFile s) && isNothing (jsonFile s) then pure V.empty else withProgress "matching" (`evidenceOf` pairs)
  pure (ToShow shown (Asked (if namesHidden s then [] else facts) known sources (join . (found V.!?))))
  where
    shown = if namesHidden s then anonymous report else report
    pairs = take (min 5000 (max 200 (top s))) (pairList (reportPairs report))
    sources i = if namesHidden s then map withoutComments (own i) else own i
    evidenceOf tell = fmap V.fromList . mapM (located tell) . zip [1 ..]
    located tell (n, pair) = do
      let sides = (own (pairLeft pair), own (pairRight pair))
          found = evidence minLength usual (programs V.! pairLeft pair) (programs V.! pairRight pair)
          small = bytesOf (uncurry (++) sides) <= mostShown
      when small $ evaluate (foldr seq () found)
      (if small then Just found else Nothing) <$ tell (fromIntegral (n :: Int) / fromIntegral (length pairs))
    minLength = configMinMatch (reportConfig report)
    -- Each is made when the first of its pairs is looked at.
    programs = V.generate (V.length (reportSubmissions report)) (programOf minLength (corpusBase corpus) . own)
    usual = usualIn minLength (\i -> let held = own i in if bytesOf held <= mostShown then held else []) (map submissionLanguages (V.toList (reportSubmissions report)))
    bytesOf = sum . map (B.length . sourceBytes)
    -- Verdicts go by names: those of others than these submissions are left out.
    known = if namesHidden s then sortOn View.verdictLeft (sortOn View.verdictRight (map withoutNote renumbered)) else renumbered
    -- Which of two names was the first would tell their order.
    withoutNote (View.Verdict l r word _) = View.Verdict (min l r) (max l r) word mempty
    renumbered = [v {View.verdictLeft = l, View.verdictRight = r} | v <- verdicts, Just l <- [renamed (View.verdictLeft v)], Just r <- [renamed (View.verdictRight v)]]
    renamed name = Map.lookup name renames
    names = V.toList . shownNames
    renames = Map.fromList (zip (names report) (names shown))

-- | What could not be written, and why.
data NotWritten = NotWritten !ByteString !ByteString
  deriving (Show)

instance Exception NotWritten

-- | The table goes to standard output unless something else does.
writeAll :: Settings -> ToShow -> IO ()
writeAll s (ToShow report asked) = do
  forM_ (csvFile s) (writeTo (csv report))
  forM_ (jsonFile s) (writeTo (jsonWith (askedEvidence asked) report))
  forM_ (htmlFile s) (writeTo (similarPage asked report))
  unless (Just "-" `elem` [csvFile s, jsonFile s, htmlFile s]) $ do
    colour <- wantsColour stdout
    writeTo (table (TableStyle colour) (top s) report) "-"

-- | Standard output that cannot be written is for the shell of all subcommands to say.
writeTo :: Builder -> FilePath -> IO ()
writeTo content "-" = hSetBinaryMode stdout True >> hPutBuilder stdout content >> hFlush stdout
writeTo content file = do
  result <- try (replaceFile file (`hPutBuilder` content))
  case result of
    Right () -> pure ()
    Left e
      -- Nobody reads a named pipe any more.
      | isResourceVanishedError e -> throwIO e
      | otherwise -> do
        name <- printableName <$> rawPath file
        throwIO (NotWritten name (BC.pack (reason e)))
