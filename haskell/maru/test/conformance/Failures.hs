{-# OPTIONS_GHC -fno-cse -fno-full-laziness #-}

-- | What f or the input throws: where it arrives and as what.
module Failures (tests) where

import Control.Concurrent (forkIO, newEmptyMVar, takeMVar)
import Control.Exception
import Control.Monad (forM_, when)
import Data.IORef
import Data.Maybe (isJust)
import Data.Typeable (typeOf)
import Maru.Codec
import Maru.Failure
import Maru.Internal.Engine
import Maru.Options
import Subject
import System.Environment (lookupEnv, setEnv, unsetEnv)
import System.Exit (ExitCode (..))
import System.Mem (performMajorGC)
import Test.Tasty (TestTree)
import Test.Tasty.HUnit (Assertion, assertBool, assertFailure, testCase, (@?=))

-- | A user's own type, with contents.
data Odd = Odd Int [String] deriving (Eq, Show)

instance Exception Odd

-- | A user's own asynchronous type.
data Nudge = Nudge deriving (Eq, Show)

instance Exception Nudge where
  toException = asyncExceptionToException
  fromException = asyncExceptionFromException

tests :: Backend -> TestTree
tests b =
  named
    ["failures"]
    [ named
        ["an exception of f keeps its type and contents, and disturbs no other item"]
        [ testCase "ErrorCall" $ kept b (ErrorCall "no"),
          testCase "ArithException" $ kept b DivideByZero,
          testCase "a user's type with contents" $ kept b (Odd 3 ["a", "b"]),
          testCase "maru's own type" $ kept b (Untransferable 3 "mine"),
          testCase "ExitCode" $ kept b (ExitFailure 3),
          testCase "ExitSuccess" $ kept b ExitSuccess,
          testCase "ThreadKilled, thrown by f itself" $ kept b ThreadKilled,
          testCase "StackOverflow" $ kept b StackOverflow,
          testCase "a user's asynchronous type, thrown by f itself" $ kept b Nudge
        ],
      testCase "an IOException of f keeps its text" $ do
        os <- outcomesOf b (job (\n -> if n == 3 then effect (length <$> readFile "/nonexistent/maru") else n) [0 .. 9])
        case [(outcomeIndex o, e) | o <- os, Left e <- [outcomeResult o]] of
          [(3, e)] | Just io <- fromException e -> show (io :: IOException) @?= "/nonexistent/maru: openFile: does not exist (No such file or directory)"
          other -> assertFailure (show other),
      testCase "what evaluation inside f throws (pattern, division, missing case) is kept" $ do
        os <- outcomesOf b (job (\n -> 100 `div` n) [-2 .. 2 :: Int])
        [either (Left . typeName) Right (outcomeResult o) | o <- os]
          @?= [Right (-50), Right (-100), Left "ArithException", Right 100, Right 50],
      testCase "each of many exceptions belongs to its own index" $ do
        os <- outcomesOf b (job (\n -> if odd n then throw (Odd n []) else n) [0 .. 99])
        forM_ os $ \o -> case outcomeResult o of
          Right n -> (n, even n) @?= (outcomeIndex o, True)
          Left e -> fromException e @?= Just (Odd (outcomeIndex o) []),
      testCase "the first exception by index is what a map throws" $ do
        got <- try (valuesOf b (jobOn 4 (\n -> if n >= 5 then throw (Odd n []) else n) [0 .. 50]))
        either (\(Odd n _) -> n) length got @?= 5,
      testCase "an exception deep inside a result is the item's: results are in normal form" $ do
        os <- outcomesOf b (job (\n -> [n, if n == 1 then throw (Odd n []) else n]) [0, 1, 2])
        [either (const Nothing) Just (outcomeResult o) | o <- os] @?= [Just [0, 0], Nothing, Just [2, 2]],
      testCase "a codec's own failure is the item's" $ do
        os <- outcomesOf b (job id [0 .. 4 :: Int]) {jobCodec = Just picky}
        map (either (const Nothing) Just . outcomeResult) os @?= [Just 0, Just 1, Nothing, Nothing, Just 4]
        let texts = [displayException e | o <- os, Left e <- [outcomeResult o]]
        assertBool (show texts) (any (elem '3') texts && not (any null texts)),
      testCase "items that are stuck for ever throw what a map would, and disturb neither others nor the consumer" . when (b /= Mpi) $ do
        told <- newIORef Nothing
        let stuck :: Int -> Int
            stuck n
              | n `mod` 5 == 3 = let xs = [head xs + n, xs !! (1 + n)] in xs !! (n - n)
              | n `mod` 5 == 4 = effect (newEmptyMVar >>= takeMVar)
              | otherwise = n
            ends = [Left "NonTermination", Left "BlockedIndefinitelyOnMVar"]
            seen :: Outcome Int -> IO (Either SomeException Int)
            seen = try . either throwIO evaluate . outcomeResult
        -- Nobody has its number: that would keep it. It looks at the values, too: forked workers leave stuck items to it.
        _ <- forkIO $ outcomesOf b (job stuck [0 .. 11]) >>= mapM seen >>= writeIORef told . Just
        eventually "the map ends" 20 $ performMajorGC >> isJust <$> readIORef told
        values <- readIORef told
        map (either (Left . typeName) Right) (concat values)
          @?= (Right <$> [0, 1, 2]) <> ends <> (Right <$> [5, 6, 7]) <> ends <> (Right <$> [10, 11]),
      testCase "all items fail" $ do
        os <- outcomesOf b (job (\n -> throw (Odd n []) :: ()) [0 .. 20])
        [fromException e | o <- os, Left e <- [outcomeResult o]] @?= [Just (Odd n []) | n <- [0 .. 20]],
      named
        ["the input's spine throws at its place, after every outcome before it"]
        [ testCase (show order' <> ", after " <> show n) $ spine b order' n
          | order' <- [Ordered, Unordered],
            n <- [0, 1, 30]
        ],
      named
        ["the initialiser"]
        -- It does not travel.
        [ t
          | b /= Mpi,
            t <- initialiser b
        ]
    ]

initialiser :: Backend -> [TestTree]
initialiser b =
  [ testCase "has run in every worker before its first item" $ do
      unsetEnv "MARU_TEST_READY"
      let options = defaultOptions {initialise = setEnv "MARU_TEST_READY" "yes"}
      marks <- valuesOf b (job (\n -> effect (n `seq` lookupEnv "MARU_TEST_READY")) [1 .. 20 :: Int]) {jobOptions = options}
      marks @?= replicate 20 (Just "yes")
      -- Processes have an environment of their own.
      here <- lookupEnv "MARU_TEST_READY"
      here @?= (if inProcess b then Just "yes" else Nothing)
      unsetEnv "MARU_TEST_READY",
    testCase "runs once per worker" $ do
      calls <- newIORef (0 :: Int)
      let options = defaultOptions {initialise = atomicModifyIORef' calls (\n -> (n + 1, ()))}
          readCalls n = effect (n `seq` readIORef calls)
      seen <- withRun b (jobOn 3 readCalls [1 .. 50 :: Int]) {jobOptions = options} $ \running -> do
        values <- mapM (either throwIO pure . outcomeResult) (outcomes running)
        started <- reportWorkersStarted <$> report running
        pure (zip values (repeat (if inProcess b then started else 1)))
      assertBool (show seen) (all (\(n, most) -> n >= 1 && n <= most) seen),
    testCase "that throws fails the map at item 0 with what it threw" $ do
      got <- try (valuesOf b (job (+ 1) [1 .. 5 :: Int]) {jobOptions = defaultOptions {initialise = throwIO (Odd 7 [])}})
      got @?= Left (Odd 7 [])
  ]

-- | Throws at index 5 of 20.
kept :: (Exception e, Eq e) => Backend -> e -> Assertion
kept b e = forM_ [Ordered, Unordered] $ \order' -> do
  os <- within 20 (outcomesOf b (job (\n -> if n == 5 then throw e else n) [0 .. 19]) {jobOrder = order'})
  [(outcomeIndex o, fromException x) | o <- os, Left x <- [outcomeResult o]] @?= [(5, Just e)]
  length [() | o <- os, Right n <- [outcomeResult o], n == outcomeIndex o] @?= 19

spine :: Backend -> Order -> Int -> Assertion
spine b order' n = do
  let inputs = [0 .. n - 1] <> throw (Odd 9 ["spine"])
  withRun b (job id inputs) {jobOrder = order'} $ \running -> do
    first <- within 5 (evaluate (length (take n (outcomes running))))
    first @?= n
    again <- try (within 5 (evaluate (length (outcomes running))))
    again @?= Left (Odd 9 ["spine"])
    -- For ever.
    oncemore <- try (evaluate (length (outcomes running)))
    oncemore @?= Left (Odd 9 ["spine"])

-- | Encoding fails for 2, decoding for 3.
picky :: Codec Int
picky =
  Codec
    { encode = \n -> if n == 2 then throw (Odd n []) else encode showRead n,
      decode = \bytes -> case decode showRead bytes of
        Right 3 -> Left "3 is refused"
        other -> other
    }

typeName :: SomeException -> String
typeName (SomeException e) = show (typeOf e)
