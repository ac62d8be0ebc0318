-- | The lock room: which waiter gets a contended lock next.
module Maru.Cli.Room.Lock
  ( lockRoom,
    LockFacts (..),
    decideLock,
    afterLock,
    judgeMutexes,
  )
where

import Control.Exception (IOException, try)
import Control.Monad (guard)
import Data.Aeson (Value (Null))
import Data.Char (isAlphaNum, isAscii, isDigit)
import Data.Foldable (toList)
import Data.List (intercalate, isInfixOf, isPrefixOf, isSuffixOf, stripPrefix, tails)
import Data.Map.Strict (Map)
import qualified Data.Map.Strict as Map
import Data.Maybe (fromMaybe, isJust, isNothing, listToMaybe, mapMaybe)
import Maru.Cli.Exit
import Maru.Cli.Installed (commandPath, libraryAt, notInstalled, unloadable)
import Maru.Cli.Output (plural)
import Maru.Cli.Profile (profileFlags, readProfile)
import Maru.Cli.Readers (splitOn)
import Maru.Cli.Room
import Maru.Cli.Room.Lock.Overlay
import Maru.Cli.Room.Lock.Profile
import Maru.Cli.Room.Lock.Sim (lockSimulator)
import Maru.Cli.Room.Lock.Tune (lockTuner)
import Maru.Control.LockProfile (LockReport (..))
import Maru.Native.BoardView (Board (..))
import Maru.Native.LockProfile (lockProfileBytes)
import Maru.Native.Probe (overlayLocks, probeOverlay)
import Maru.View.Lock (profileJson, profileLines)
import Maru.View.Lock.Page
import Options.Applicative
import System.Environment (getEnvironment, lookupEnv)
import System.Exit (ExitCode (..))
import System.Process (CreateProcess (env), proc, readCreateProcessWithExitCode)
import System.Timeout (timeout)

lockRoom :: Room
lockRoom =
  (room "lock" "hand-overs of a lock between sockets")
    { roomRun = Just (RunPlug lockFlags lockFacts (\facts _ -> decideLock facts)),
      roomAfter = afterLock,
      roomTop = Just (pure overlayPage),
      roomSimulators = [lockSimulator],
      roomTuners = [lockTuner],
      roomChecks = [Check "mutexes" mutexes]
    }

-- ---- doctor -------------------------------------------------------------

-- | A program is started under the library, which says where it cannot serve this C library.
mutexes :: IO Finding
mutexes = libraryAt "libmaru-lock.so" >>= either (pure . lacking . notInstalled) tried
  where
    lacking why = Finding Doubtful why ""
    tried library = maybe (started library) (pure . lacking . ("no program can have a queue: " ++)) (unloadable library)
    started library = do
      program <- commandPath
      others <- filter ((`notElem` ["LD_PRELOAD", "MARU_LOCK", "MARU_BOARD"]) . fst) <$> getEnvironment
      before <- lookupEnv "LD_PRELOAD"
      let libraries = intercalate ":" (library : toList before)
          under = (proc program ["--version"]) {env = Just ([("LD_PRELOAD", libraries), ("MARU_LOCK", "fifo")] ++ others)}
      answered <- timeout 20000000 (try (readCreateProcessWithExitCode under ""))
      pure $ case answered of
        Nothing -> lacking "a program under libmaru-lock.so gave no answer in 20 s"
        Just (Left e) -> lacking ("no program can be started under libmaru-lock.so: " ++ show (e :: IOException))
        Just (Right (status, _, said)) -> judgeMutexes status said

-- | From the status of such a program, and what it said.
judgeMutexes :: ExitCode -> String -> Finding
judgeMutexes status said = case (status, mapMaybe (behind "keeps glibc's mutexes as they are: ") (lines said)) of
  (ExitSuccess, []) -> Finding Good "queues can be laid over this C library's (--lock)" ""
  (ExitSuccess, why : _) -> Finding Doubtful ("--lock leaves them as they are: " ++ why) needed
  _ -> Finding Doubtful ("no program starts under libmaru-lock.so" ++ concatMap (": " ++) (take 1 (lines said))) needed
  where
    needed = "it needs glibc 2.34 or later"
    behind mark line = listToMaybe [drop (length mark) more | more <- tails line, mark `isPrefixOf` more]

-- ---- run ----------------------------------------------------------------

-- | The lock, whether to profile, and functions that the profile looks past, which turn it on.
type LockFlags = (Maybe String, Bool, Maybe String)

lockFlags :: Parser LockFlags
lockFlags =
  (,,) <$> lockFlag
    <*> switch (long "lock-profile" <> help "Record who waits for which mutex where (alone: of glibc's own mutexes); so does --lock with --report FILE.html")
    <*> optional (strOption (long "lock-profile-skip" <> metavar "NAME,..." <> help "So does this: the place is the caller of these functions (wrappers of pthread_mutex_lock)"))

lockFlag :: Parser (Maybe String)
lockFlag =
  optional . strOption $
    long "lock" <> metavar "NAME[:K=V,...]|@PROFILE"
      <> help "Who gets a contended mutex of the command next: cna, fifo, shfl, malthusian, pass, or what maru tune lock found; keys deadline, handoff_range, ..."
      <> completer (listIOCompleter (map fst <$> overlayLocks))

-- | What the decision needs; none of it is looked up unless the flag is given.
data LockFacts = LockFacts
  { -- | Each with its keys.
    factLocks :: ![(String, [String])],
    -- | From where on the flag is wrong.
    factWrong :: !(Maybe Int),
    -- | 'Left': where it is not.
    factLibrary :: !(Either FilePath FilePath),
    -- | The lock, as given or understood.
    factLock :: !String,
    factProfiled :: !Bool,
    -- | Functions that the profile looks past.
    factSkip :: !(Maybe String)
  }

lockFacts :: Asked -> LockFlags -> IO (Maybe LockFacts)
lockFacts asked (given, alone, skip) = do
  -- To be profiled is no other lock than the one that a profile has.
  lock <- mapM fromProfile (given <|> (guard wanted >> lockIn (askedFlags asked)))
  if isNothing lock && not wanted then pure Nothing else factsOf asked lock wanted skip
  where
    wanted = alone || isJust skip

-- | What @\@NAME@ stands for; other locks are themselves.
fromProfile :: String -> IO String
fromProfile text = case text of
  '@' : name -> readProfile name >>= maybe (problem badInput ("profile " ++ name ++ " sets no lock; maru tune lock makes one")) pure . lockIn . snd . profileFlags
  _ -> pure text

-- | Of several the last.
lockIn :: [String] -> Maybe String
lockIn flags = listToMaybe (reverse [lock | ("--lock", lock) <- zip flags (drop 1 flags)])

factsOf :: Asked -> Maybe String -> Bool -> Maybe String -> IO (Maybe LockFacts)
factsOf asked lock wanted skip = do
  library <- libraryAt (if profiled then "libmaru-lock-profile.so" else "libmaru-lock.so")
  Just
    <$> ( LockFacts <$> overlayLocks <*> probeOverlay text <*> pure library
            <*> pure text
            <*> pure profiled
            <*> pure skip
        )
  where
    text = fromMaybe "pass" lock
    profiled = wanted || askedPage asked

-- | The facts say what was asked for.
decideLock :: Maybe LockFacts -> Either Refusal Part
decideLock Nothing = Right mempty
decideLock (Just facts)
  | Nothing <- keys = Left (Misused ("no lock '" ++ name ++ "' can be laid over a program's mutexes; there are " ++ intercalate ", " (map fst (factLocks facts))))
  | Just wrong <- factWrong facts = Left (Misused (misread name text wrong (concat keys)))
  | Just names <- factSkip facts, not (all isFunction (splitOn ',' names)) = Left (Misused ("--lock-profile-skip takes names of functions, separated by commas, not '" ++ names ++ "'"))
  | Left path <- factLibrary facts = Left (Unavailable (notInstalled path))
  | otherwise =
    Right
      mempty
        { partEnvironment = ("MARU_LOCK", text) : [("MARU_LOCK_SKIP", names) | Just names <- [factSkip facts]],
          partPreload = toList (factLibrary facts),
          partNeeding = [if name == "pass" && factProfiled facts then "--lock-profile" else "--lock"],
          partBoardRoom = if factProfiled facts then lockProfileBytes else 0,
          partExplain =
            ["who waits for which mutex where is recorded: some nanoseconds for each acquisition, said in the report" | factProfiled facts]
              ++ queueing
        }
  where
    text = factLock facts
    name = takeWhile (/= ':') text
    keys = lookup name (factLocks facts)
    isFunction n = not (null n) && all (\c -> isAscii c && (isAlphaNum c || c == '_')) n
    queueing
      | name == "pass" = ["mutexes are glibc's as ever: nothing queues for them, what is left to glibc is counted"]
      | otherwise =
        [ "threads that find a mutex taken queue for it by '" ++ name ++ "'",
          "robust mutexes, those with priorities and those shared between processes are left to glibc: they use the room that the queue needs, or need the kernel; how many there were is said at the end"
        ]

-- | From where on the text is wrong, and what would be right there.
misread :: String -> String -> Int -> [String] -> String
misread name text wrong keys = "--lock " ++ text ++ ": not understood from '" ++ rest ++ "' on; " ++ right
  where
    (before, rest) = splitAt wrong text
    right = case [takes | (key, takes) <- valuesOf (takeWhile (/= ',') rest), key `elem` keys, (key ++ "=") `isSuffixOf` before] of
      takes : _ -> takes
      [] | null keys -> name ++ " has no keys"
      [] -> name ++ " has KEY=VALUE of " ++ intercalate ", " keys

-- | What each key takes, told to a user that gave something else.
valuesOf :: String -> [(String, String)]
valuesOf given =
  [ ("deadline", aTime),
    ("spin", aTime ++ ", and none with wait=spin or wait=block"),
    ("handoff_range", aRange),
    ("shuffle_reduction", aRange),
    ("max_bypass", "it takes a number"),
    ("passes", "it takes a number from 1 to 4294967295"),
    ("wait", "it takes adaptive, spin, block or spin-block")
  ]
  where
    aRange = "it takes a power of two from 1 to 65536"
    number = if not (null given) && all isDigit given then given else "25"
    aTime = "it takes a time with a unit: " ++ number ++ "ns, " ++ number ++ "us or " ++ number ++ "ms"

-- | Also that nothing came of it.
afterLock :: Map String String -> Board -> IO (Maybe Afterwards)
afterLock planned board = case overlayOf board of
  Just overlay -> do
    profile <- readReport True (boardPath board)
    -- Where only a profile was asked for, there is no overlay to speak of.
    let told = (if Map.lookup "MARU_LOCK" planned == Just "pass" && isJust profile then [] else [overlayLine overlay, pastLine overlay, leftLine overlay]) ++ uncounted board
    pure . Just $
      Afterwards
        (told ++ maybe [] (profileSaid overlay) profile)
        (withProfile (profileJson True <$> profile) (overlayJson overlay))
        (maybe [] (lockSection told) profile)
  Nothing
    | "MARU_LOCK" `Map.member` planned -> pure (Just (Afterwards (uncounted board ++ ["no process of the run showed itself: where the library was not loaded, mutexes were glibc's"]) Null []))
    | otherwise -> pure Nothing
  where
    profileSaid overlay profile
      | null (lockProcesses profile) = ("profile: none of " ++ plural (fromIntegral (overlayProcesses overlay)) "process" ++ " with the library took a mutex") : drop 1 (profileLines profile)
      | otherwise = profileLines profile

-- | Processes that could not map the board, which they say in its log (@bootstrap.c@).
uncounted :: Board -> [String]
uncounted board = take 3 lines' ++ ["so it is with " ++ plural more "more process" | more > 0]
  where
    lines' = [line | Just line <- map (stripPrefix "lock: ") (boardLines board), "process " `isPrefixOf` line, " is not counted" `isInfixOf` line]
    more = length lines' - 3
