-- | The programs of the seed's second table print the same by every model, and are as long as the
-- table says.
module Main (main) where

import qualified Checker.Actors
import qualified Checker.Async
import qualified Checker.Eval
import qualified Checker.Maru
import qualified Checker.Plain
import Data.Char (isSpace, toLower)
import Data.List (isPrefixOf)
import qualified Fibs.Actors
import qualified Fibs.Async
import qualified Fibs.Eval
import qualified Fibs.Maru
import qualified Fibs.Plain
import qualified Matrix.Actors
import qualified Matrix.Async
import qualified Matrix.Eval
import qualified Matrix.Maru
import qualified Matrix.Plain
import qualified Sum.Actors
import qualified Sum.Async
import qualified Sum.Eval
import qualified Sum.Maru
import qualified Sum.Plain
import System.Environment (getArgs, getExecutablePath, withArgs)
import System.Process (readProcess)
import System.Timeout (timeout)
import Test.Tasty (defaultMain, testGroup)
import Test.Tasty.HUnit (assertBool, testCase, (@?=))

main :: IO ()
main = do
  arguments <- getArgs
  case arguments of
    "run" : program : model : rest | Just act <- lookup (program, model) table -> withArgs rest act
    _ -> defaultMain (testGroup "models" (map agreeing programs ++ [testCase "are as long as the table says" counted]))
  where
    agreeing program = testCase (map toLower program ++ " is the same by every model") $ do
      answers <- mapM (printed program) models
      assertBool "prints nothing" (not (any null answers))
      answers @?= map (const (concat (take 1 answers))) models
    counted = do
      wanted <- mapM (\p -> mapM (fmap (show . linesOf) . readFile . source p) models) programs
      page <- readFile "map/models/README.md"
      let rows = [map (filter (not . isSpace)) (cells row) | row <- lines page, any ((`isPrefixOf` row) . ("| `" ++) . map toLower) programs]
      map (take (length models) . drop 1) rows @?= wanted
    source p m = "map/models/" ++ p ++ "/" ++ m ++ ".hs"
    cells row = case break (== '|') (drop 1 row) of
      (cell, rest@(_ : _)) -> cell : cells rest
      _ -> []

-- | In a process of its own: some of them fork.
printed :: String -> String -> IO String
printed program model = do
  self <- getExecutablePath
  found <- timeout 60000000 (readProcess self (["run", program, model] ++ ["../examples/corpus" | program == "Checker"]) "")
  maybe (fail (program ++ " by " ++ model ++ " did not end in a minute")) pure found

-- | Without blank ones, comments and the module's own.
linesOf :: String -> Int
linesOf text = length [l | l <- map (dropWhile isSpace) (lines text), not (null l), not ("--" `isPrefixOf` l), not ("module " `isPrefixOf` l)]

programs, models :: [String]
programs = ["Sum", "Fibs", "Matrix", "Checker"]
models = ["Plain", "Eval", "Maru", "Async", "Actors"]

table :: [((String, String), IO ())]
table =
  [ (("Sum", "Plain"), Sum.Plain.main),
    (("Sum", "Eval"), Sum.Eval.main),
    (("Sum", "Maru"), Sum.Maru.main),
    (("Sum", "Async"), Sum.Async.main),
    (("Sum", "Actors"), Sum.Actors.main),
    (("Fibs", "Plain"), Fibs.Plain.main),
    (("Fibs", "Eval"), Fibs.Eval.main),
    (("Fibs", "Maru"), Fibs.Maru.main),
    (("Fibs", "Async"), Fibs.Async.main),
    (("Fibs", "Actors"), Fibs.Actors.main),
    (("Matrix", "Plain"), Matrix.Plain.main),
    (("Matrix", "Eval"), Matrix.Eval.main),
    (("Matrix", "Maru"), Matrix.Maru.main),
    (("Matrix", "Async"), Matrix.Async.main),
    (("Matrix", "Actors"), Matrix.Actors.main),
    (("Checker", "Plain"), Checker.Plain.main),
    (("Checker", "Eval"), Checker.Eval.main),
    (("Checker", "Maru"), Checker.Maru.main),
    (("Checker", "Async"), Checker.Async.main),
    (("Checker", "Actors"), Checker.Actors.main)
  ]
