{-# LANGUAGE OverloadedStrings #-}

-- | @maru bench@: runs experiments and writes, for each, its raw data
-- (@NAME.json@, schema @maru-bench\/1@) and plots (@NAME.svg@, and @NAME.png@ where
-- @rsvg-convert@ is installed), and one report (@report.html@) that needs no other
-- file, and the same as data (@report.json@). An experiment that fails is a red line there, and the
-- command's status. An interrupt leaves all this of what was measured until then, a kill what was
-- written, and the next run goes on there ("Maru.Bench.Kept"). A kill leaves nothing
-- running (see "Maru.Cli.Reaper").
module Maru.Bench.Command
  ( benchCommand,

    -- * For tests
    chosen,
    fiveMinutes,
    untilEnded,
  )
where

import Control.Exception (SomeException, allowInterrupt, displayException, fromException, mask_, throwIO, try)
import Control.Monad (forM_, mfilter, unless, void, when)
import Data.Aeson (Value, object, (.=))
import Data.Bifunctor (first)
import qualified Data.ByteString.Lazy as Lazy
import Data.Either (lefts)
import Data.Function (on)
import Data.IORef
import Data.List (intercalate, isInfixOf, isPrefixOf, nubBy)
import Data.Maybe (isJust, isNothing, listToMaybe, mapMaybe)
import qualified Data.Text as Text
import qualified Data.Text.Encoding as Text
import Data.Time.Clock (getCurrentTime)
import Data.Time.Format.ISO8601 (iso8601Show)
import GHC.Clock (getMonotonicTime)
import Maru.Bench.Experiment
import Maru.Bench.Interrupt
import Maru.Bench.Kept
import Maru.Bench.Report
import Maru.Cli.Exit
import Maru.Cli.Host (machineJson, pageFacts)
import Maru.Cli.Installed (helperPath, installedBuild)
import Maru.Cli.Output
import Maru.Cli.Page
import Maru.Cli.Progress (leftOf)
import Maru.Cli.Reaper
import Maru.Control.Plot (svg)
import Options.Applicative hiding (internal)
import System.Directory (copyFile, findExecutable)
import System.Exit (ExitCode (..))
import System.FilePath (takeDirectory, (<.>), (</>))
import System.IO.Error (ioeGetErrorString)
import System.Process (readProcessWithExitCode)
import System.Timeout (timeout)

data Flags = Flags
  { flagQuick :: !Bool,
    flagOut :: !FilePath,
    flagList :: !Bool,
    flagFull :: !Bool,
    flagKept :: !(Maybe FilePath),
    flagNames :: ![String]
  }

benchCommand :: [Experiment] -> ParserInfo (IO ExitCode)
benchCommand known =
  info
    (bench known <$> flags <**> helper)
    ( progDesc "Measure, and write raw data, plots and one report"
        <> footer "Examples: maru bench --list   |   maru bench handover --quick --out figures"
    )
  where
    flags =
      Flags
        <$> switch (long "quick" <> help "Fewer repetitions: for a first look, not for publication")
        <*> strOption (long "out" <> metavar "DIR" <> value "maru-bench" <> help "Folder for data and report (default maru-bench)")
        <*> switch (long "list" <> help "List the experiments, or those that are named, and end")
        <*> switch (long "full" <> help "All experiments, at length: hours")
        <*> optional (strOption (long "kept" <> metavar "DIR" <> help "Folder of the runs that were kept (bench/results of the sources): what the figures cite is copied beside the report"))
        <*> many (strArgument (metavar "EXPERIMENT..." <> help "Which (default: those of the seeds' figures that five minutes allow); 'map' stands for every 'map/...'"))

bench :: [Experiment] -> Flags -> IO ExitCode
bench experiments flags
  | flagList flags = do
    listed <- either (problem usage) pure (chosen experiments (flagNames flags))
    mapM_ putStrLn (renderTable (Table [(L, "experiment"), (L, "what is measured")] [[experimentName e, experimentPurpose e] | e <- listed]))
    pure ExitSuccess
  | otherwise = do
    todo <- either (problem usage) pure (selected experiments flags)
    makeFolder (flagOut flags)
    -- First: a run that cannot have its figures' data measures nothing for nothing.
    cited <- maybe (pure InSources) (\from -> Beside keptFolder <$ copyCited from (flagOut flags </> keptFolder)) (flagKept flags)
    painter <- findExecutable "rsvg-convert"
    when (isNothing painter) (warn "plots as SVG only: rsvg-convert (Debian: librsvg2-bin) is not installed")
    program <- helperPath "maru-reaper"
    interrupts <- catchInterrupts
    started <- iso8601Show <$> getCurrentTime
    machine <- machineJson
    build <- installedBuild
    let run = Run (flagOut flags) (map (experimentName . fst) todo) (quickly flags) build
    before <- beginRun run
    done <- case before of
      Fresh -> pure []
      OtherBuild -> [] <$ warn ("another build of maru has begun this run in " ++ flagOut flags ++ "; all is measured anew")
      GoesOn note names -> names <$ warn ("going on with a run that was ended: " ++ show (length names) ++ " of " ++ plural (length todo) "experiment" ++ " done; remove " ++ note ++ " to begin anew")
    -- Interrupted only where it waits: between two waits nothing is lost that was measured.
    mask_ . withReaper program $ \reaper -> do
      begun <- getMonotonicTime
      kept <- newIORef done
      (outcomes, end) <- untilEnded (step interrupts reaper painter begun run kept (length todo)) (zip [0 ..] todo)
      let results = [shown | Right shown <- outcomes]
          page = flagOut flags </> "report.html"
      sparing interrupts . unless (null results && isJust end) $ do
        facts <- pageFacts (["maru", "bench"] ++ ["--quick" | flagQuick flags] ++ ["--full" | flagFull flags] ++ (if whole then [] else map shownName results))
        writePage page (htmlReport facts cited whole (lefts outcomes) results)
        writeJson (flagOut flags </> "report.json") (reportJson machine started results)
        saidTo end (putStrLn ("report: " ++ page))
      case end of
        Just (e, lost) -> when (isInterrupt e) (saidTo end (warn (endLine page results (snd <$> lost)))) >> throwIO e
        Nothing -> maybe ExitSuccess ExitFailure (listToMaybe (mapMaybe shownFailed results)) <$ endRun run
  where
    whole = null (flagNames flags)
    step interrupts reaper painter begun run kept count (n, (e, limit)) = do
      done <- readIORef kept
      old <- if experimentName e `elem` done then readKept (flagOut flags) e else pure Nothing
      spent <- subtract begun <$> getMonotonicTime
      case (old, limit) of
        (Just shown, _) -> pure (Right shown, Nothing)
        (Nothing, Just expected)
          | spent + fromIntegral expected > allowed ->
            (Left (experimentName e), Nothing) <$ warn (experimentName e ++ " is left out: " ++ show (max 0 (round (allowed - spent)) :: Int) ++ " s of the five minutes remain, and it takes " ++ show expected)
        _ -> do
          tellShare begun n count
          (measured, cut) <- measure interrupts reaper flags painter (allowed - spent <$ limit) e
          when (isNothing cut && either (const False) (isNothing . shownFailed) measured) $ do
            modifyIORef' kept (++ [experimentName e])
            sparing interrupts (readIORef kept >>= noteDone run)
          pure (measured, cut)
    endLine page results lost =
      "interrupted: "
        ++ intercalate
          "; "
          ( ["what was measured until then is in " ++ page | not (null results)]
              ++ ["nothing of " ++ experimentName (fst e) ++ " is kept" | Just e <- [lost]]
          )

-- | Below the report's folder.
keptFolder :: FilePath
keptFolder = "kept"

copyCited :: FilePath -> FilePath -> IO ()
copyCited from to = forM_ citedData $ \path -> do
  makeFolder (takeDirectory (to </> path))
  copied <- try (copyFile (from </> path) (to </> path))
  either (\e -> problem unavailable ("--kept " ++ from ++ ": " ++ path ++ ", which a figure cites, cannot be copied to " ++ to ++ ": " ++ ioeGetErrorString e)) pure copied

-- | The seconds of a run of which nothing was asked; the rest of the five minutes is for the page.
allowed :: Double
allowed = 285

-- | Without names and without @--full@ it is a first look.
quickly :: Flags -> Bool
quickly flags = flagQuick flags || (null (flagNames flags) && not (flagFull flags))

-- | With the seconds that each is expected to take, where the time is limited.
selected :: [Experiment] -> Flags -> Either String [(Experiment, Maybe Int)]
selected experiments flags
  | null (flagNames flags) && not (flagFull flags) = Right [(e, Just s) | (name, s) <- fiveMinutes, e <- experiments, experimentName e == name]
  | otherwise = (`zip` repeat Nothing) <$> chosen experiments (flagNames flags)

-- | What a run measures that nothing was asked of: experiments of the seeds' figures, and the seconds
-- that each takes with @--quick@ on two idle cores. The short ones come first: a machine that is not idle has
-- more of them that way.
fiveMinutes :: [(String, Int)]
fiveMinutes =
  [ ("map/seedlog", 5),
    ("map/calls", 5),
    ("handover", 2),
    ("dsm/access", 5),
    ("dsm/diff", 5),
    ("lock/mwrl", 15),
    ("boost/dedicated", 15),
    ("boost/polls", 15),
    ("map/stm", 25),
    ("map/fib", 20),
    ("map/curves", 60),
    ("dsm/fetch", 40)
  ]

-- | Where several are measured: how many are done, and how long the rest may take, if it goes on
-- like that.
tellShare :: Double -> Int -> Int -> IO ()
tellShare begun done all' = do
  now <- getMonotonicTime
  when (done > 0) $
    warn (show done ++ " of " ++ plural all' "experiment" ++ " done" ++ leftOf (fromIntegral done / fromIntegral all') (now - begun))

-- | A terminal that has hung up may have interrupted us: that nobody hears it is no failure then.
saidTo :: Maybe end -> IO () -> IO ()
saidTo end = if isJust end then void . orNothing else id

-- | One after the other; with what ended them before their time, if anything did, and of whom there
-- is no result then. The second result is that of an action which has ended well all the same.
untilEnded :: (a -> IO (b, Maybe SomeException)) -> [a] -> IO ([b], Maybe (SomeException, Maybe a))
untilEnded _ [] = pure ([], Nothing)
untilEnded act (x : xs) = do
  outcome <- try (act x)
  case outcome of
    Left e -> pure ([], Just (e, Just x))
    Right (y, Just e) -> pure ([y], Just (e, Nothing))
    Right (y, Nothing) -> first (y :) <$> untilEnded act xs

-- | The experiments of those names, all if there are none; the part of a name
-- before a slash stands for all that begin so. Each comes once. 'Left': which is unknown.
chosen :: [Experiment] -> [String] -> Either String [Experiment]
chosen experiments names
  | null names = Right experiments
  | otherwise = nubBy ((==) `on` experimentName) . concat <$> traverse matching names
  where
    matching name = case filter (called name . experimentName) experiments of
      [] -> Left (unknown name)
      found -> Right found
    called name own = own == name || (name ++ "/") `isPrefixOf` own
    unknown name = "unknown experiment '" ++ name ++ "'; known: " ++ intercalate ", " (map experimentName experiments)

-- | The fourth argument: what makes a PNG of an SVG, if anything does; then how many seconds it has,
-- if they are limited. 'Left': its name, if it was not done by then, which a slow machine is no failure
-- for. Also what interrupted it: what was measured until then is written first.
measure :: Interrupts -> Reaper -> Flags -> Maybe FilePath -> Maybe Double -> Experiment -> IO (Either String Shown, Maybe SomeException)
measure interrupts reaper flags painter limit experiment = do
  started <- getCurrentTime
  machine <- machineJson
  begun <- getMonotonicTime
  said <- newIORef ""
  -- An experiment may be interrupted where it says how far it is: not each of them waits.
  let say line = allowInterrupt >> writeIORef said line >> warn (name ++ ": " ++ line)
  outcome <- try (finding (within (experimentRun experiment reaper (if quickly flags then Quick else Full) say)))
  case outcome of
    Left e -> failed e
    Right (Left e) -> throwIO e
    Right (Right Nothing) -> (Left name, Nothing) <$ warn (name ++ " is left out: it was not done when the five minutes were over; by name it may take longer")
    Right (Right (Just found)) -> do
      ended <- getMonotonicTime
      -- An experiment in rounds has said last that it was interrupted.
      note <- mfilter ("interrupted after " `isInfixOf`) . Just <$> readIORef said
      let figures = found {figuresLine = maybe "" (++ ": ") note ++ figuresLine found}
      sparing interrupts $ do
        writeJson (file <.> "json") (document (iso8601Show started) (ended - begun) machine note figures)
        forM_ (zip (drawingsOf file (length (figuresPlots figures))) (figuresPlots figures)) $ \(base, plot) -> do
          let drawing = base <.> "svg"
          writeTo drawing (text (svg plot))
          forM_ painter $ \program -> drawPng program drawing (base <.> "png")
        saidTo note (printFigures figures)
      (,) (Right (shownOf experiment figures)) <$> interrupted interrupts
  where
    name = experimentName experiment
    file = fileOf (flagOut flags) name
    within act = maybe (Just <$> act) (\s -> timeout (round (s * 1e6)) act) limit
    failed e = do
      let (status, line) = maybe (internal, unwords (lines (displayException e))) (\(Problem s l) -> (s, l)) (fromException e)
      warn line
      pure (Right (Shown name (experimentPurpose experiment) line [] [] (Just status)), Nothing)
    document started took machine note figures =
      object $
        [ "schema" .= ("maru-bench/1" :: String),
          "experiment" .= name,
          "started" .= started,
          "seconds" .= (took :: Double),
          "quick" .= quickly flags,
          "machine" .= (machine :: Value),
          "line" .= figuresLine figures,
          "data" .= figuresData figures,
          "shown" .= keptTables (figuresTables figures),
          "plots" .= length (figuresPlots figures)
        ]
          ++ ["note" .= words' | Just words' <- [note :: Maybe String]]

-- | A picture that could not be made is said, and nothing else is lost by it.
drawPng :: FilePath -> FilePath -> FilePath -> IO ()
drawPng program drawing picture = do
  (status, _, said) <- readProcessWithExitCode program ["--zoom", "2", "--output", picture, drawing] ""
  when (status /= ExitSuccess) (warn (picture ++ ": " ++ unwords (lines said)))

text :: String -> Lazy.ByteString
text = Lazy.fromStrict . Text.encodeUtf8 . Text.pack
