{-# LANGUAGE OverloadedStrings #-}

-- | @maru bench@: runs experiments and writes, for each, its raw data
-- (@NAME.json@, schema @maru-bench\/1@) and plots (@NAME.svg@, and @NAME.png@ where
-- @rsvg-convert@ is installed), and one report (@report.html@) that needs no other
-- file. An interrupt leaves all this of what was measured until then. A kill leaves nothing
-- running (see "Maru.Cli.Reaper").
module Maru.Bench.Command
  ( benchCommand,

    -- * For tests
    htmlReport,
    chosen,
    untilEnded,
  )
where

import Control.Exception (SomeException, allowInterrupt, mask_, throwIO, try)
import Control.Monad (forM_, mfilter, unless, void, when)
import Data.Aeson (Value, object, (.=))
import Data.Bifunctor (first)
import qualified Data.ByteString.Lazy as Lazy
import Data.IORef
import Data.List (intercalate, isInfixOf, isPrefixOf)
import Data.Maybe (isJust, isNothing)
import qualified Data.Text as Text
import qualified Data.Text.Encoding as Text
import Data.Time.Clock (getCurrentTime)
import Data.Time.Format.ISO8601 (iso8601Show)
import GHC.Clock (getMonotonicTime)
import Maru.Bench.Experiment
import Maru.Bench.Interrupt
import Maru.Cli.Exit
import Maru.Cli.Host (machineJson, pageFacts)
import Maru.Cli.Installed (helperPath)
import Maru.Cli.Output
import Maru.Cli.Page
import Maru.Cli.Progress (leftOf)
import Maru.Cli.Reaper
import Maru.Control.Plot (escape, svg)
import Options.Applicative hiding (internal)
import System.Directory (findExecutable)
import System.Exit (ExitCode (..))
import System.FilePath ((<.>), (</>))
import System.Process (readProcessWithExitCode)

data Flags = Flags
  { flagQuick :: !Bool,
    flagOut :: !FilePath,
    flagList :: !Bool,
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
        <*> switch (long "list" <> help "List the experiments and end")
        <*> many (strArgument (metavar "EXPERIMENT..." <> help "Which (default: all); 'map' stands for every 'map/...'"))

bench :: [Experiment] -> Flags -> IO ExitCode
bench experiments flags
  | flagList flags = do
    mapM_ putStrLn (renderTable (Table [(L, "experiment"), (L, "what is measured")] [[experimentName e, experimentPurpose e] | e <- experiments]))
    pure ExitSuccess
  | otherwise = do
    todo <- either (problem usage) pure (chosen experiments (flagNames flags))
    makeFolder (flagOut flags)
    painter <- findExecutable "rsvg-convert"
    when (isNothing painter) (warn "plots as SVG only: rsvg-convert (Debian: librsvg2-bin) is not installed")
    program <- helperPath "maru-reaper"
    interrupts <- catchInterrupts
    -- Interrupted only where it waits: between two waits nothing is lost that was measured.
    mask_ . withReaper program $ \reaper -> do
      begun <- getMonotonicTime
      (results, end) <- untilEnded (\(n, e) -> tellShare begun n (length todo) >> measure interrupts reaper flags painter e) (zip [0 ..] todo)
      let page = flagOut flags </> "report.html"
      sparing interrupts . unless (null results && isJust end) $ do
        pageFacts (["maru", "bench"] ++ ["--quick" | flagQuick flags] ++ map (experimentName . fst) results) >>= \facts -> writePage page (htmlReport facts results)
        saidTo end (putStrLn ("report: " ++ page))
      case end of
        Just (e, lost) -> when (isInterrupt e) (saidTo end (warn (endLine page results (snd <$> lost)))) >> throwIO e
        Nothing -> pure ExitSuccess
  where
    endLine page results lost =
      "interrupted: "
        ++ intercalate
          "; "
          ( ["what was measured until then is in " ++ page | not (null results)]
              ++ ["nothing of " ++ experimentName e ++ " is kept" | Just e <- [lost]]
          )

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
-- before a slash stands for all that begin so. 'Left': which is unknown.
chosen :: [Experiment] -> [String] -> Either String [Experiment]
chosen experiments names
  | null names = Right experiments
  | otherwise = concat <$> traverse matching names
  where
    matching name = case filter (called name . experimentName) experiments of
      [] -> Left (unknown name)
      found -> Right found
    called name own = own == name || (name ++ "/") `isPrefixOf` own
    unknown name = "unknown experiment '" ++ name ++ "'; known: " ++ intercalate ", " (map experimentName experiments)

-- | The fourth argument: what makes a PNG of an SVG, if anything does. Also what interrupted it:
-- what was measured until then is written first.
measure :: Interrupts -> Reaper -> Flags -> Maybe FilePath -> Experiment -> IO ((Experiment, Figures), Maybe SomeException)
measure interrupts reaper flags painter experiment = do
  started <- getCurrentTime
  machine <- machineJson
  begun <- getMonotonicTime
  said <- newIORef ""
  -- An experiment may be interrupted where it says how far it is: not each of them waits.
  let say line = allowInterrupt >> writeIORef said line >> warn (name ++ ": " ++ line)
  found <- experimentRun experiment reaper (if flagQuick flags then Quick else Full) say
  ended <- getMonotonicTime
  -- An experiment in rounds has said last that it was interrupted.
  note <- mfilter ("interrupted after " `isInfixOf`) . Just <$> readIORef said
  let figures = found {figuresLine = maybe "" (++ ": ") note ++ figuresLine found}
  sparing interrupts $ do
    writeJson (flagOut flags </> fileName <.> "json") (document (iso8601Show started) (ended - begun) machine note figures)
    forM_ (zip plotNames (figuresPlots figures)) $ \(file, plot) -> do
      let drawing = flagOut flags </> file <.> "svg"
      writeTo drawing (text (svg plot))
      forM_ painter $ \program -> drawPng program drawing (flagOut flags </> file <.> "png")
    saidTo note (printFigures figures)
  (,) (experiment, figures) <$> interrupted interrupts
  where
    name = experimentName experiment
    -- No folder of its own for a room's experiments.
    fileName = map (\c -> if c == '/' then '-' else c) name
    plotNames = fileName : [fileName ++ "-" ++ show n | n <- [2 :: Int ..]]
    document started took machine note figures =
      object $
        [ "schema" .= ("maru-bench/1" :: String),
          "experiment" .= name,
          "started" .= started,
          "seconds" .= (took :: Double),
          "quick" .= flagQuick flags,
          "machine" .= (machine :: Value),
          "line" .= figuresLine figures,
          "data" .= figuresData figures
        ]
          ++ ["note" .= words' | Just words' <- [note :: Maybe String]]

-- | A picture that could not be made is said, and nothing else is lost by it.
drawPng :: FilePath -> FilePath -> FilePath -> IO ()
drawPng program drawing picture = do
  (status, _, said) <- readProcessWithExitCode program ["--zoom", "2", "--output", picture, drawing] ""
  when (status /= ExitSuccess) (warn (picture ++ ": " ++ unwords (lines said)))

text :: String -> Lazy.ByteString
text = Lazy.fromStrict . Text.encodeUtf8 . Text.pack

-- | One page: a line for each experiment, then its tables and plots.
htmlReport :: [(String, String)] -> [(Experiment, Figures)] -> String
htmlReport facts results =
  htmlPage (Heading "maru bench" found facts) $
    ["<div class=\"scroll\"><table><tr><th>experiment</th><th class=\"l\">result</th></tr>"]
      ++ ["<tr><td><a href=\"#" ++ escape name ++ "\">" ++ escape name ++ "</a></td><td class=\"l\">" ++ escape (figuresLine f) ++ "</td></tr>" | (x, f) <- results, let name = experimentName x]
      ++ ["</table></div>"]
      ++ concatMap one results
  where
    found = case results of
      [(_, f)] -> figuresLine f
      _ -> show (length results) ++ " experiments were measured; a line each says what was found."
    one (x, f) =
      ["<h2 id=\"" ++ escape (experimentName x) ++ "\">" ++ escape (experimentName x) ++ "</h2>", element "p" (experimentPurpose x)]
        ++ ["<div class=\"card\">" ++ svg plot ++ "</div>" | plot <- figuresPlots f]
        ++ concat [element "h3" title : htmlTable table | (title, table) <- figuresTables f]
