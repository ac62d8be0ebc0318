-- | The model and the view of @maru top@: whatever the terminal's size, the runs' names and the
-- keys, the screen is exactly full and the selected run is on it.
module TopTest (screens) where

import qualified Data.ByteString as Bytes
import qualified Data.ByteString.Char8 as Chars
import Data.Char (GeneralCategory (Format, LineSeparator, ParagraphSeparator, Surrogate), generalCategory, isAsciiUpper)
import qualified Data.Char
import Data.List (isInfixOf, isPrefixOf, sort)
import Data.Maybe (isJust)
import Data.String (fromString)
import Hedgehog hiding (Size)
import qualified Hedgehog.Gen as Gen
import qualified Hedgehog.Range as Range
import Maru.View.Columns
import Maru.View.Table (Align (..), Block (..), Table (..))
import Maru.View.Top.Draw
import Maru.View.Top.Keys
import Maru.View.Top.Model
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (assertBool, testCase, (@?=))
import Test.Tasty.Hedgehog (testPropertyNamed)

screens :: TestTree
screens = testGroup "top: screen" [widths, keyboard, models, examples]

-- | Its own name identifies it.
holds :: String -> Property -> TestTree
holds what = testPropertyNamed what (fromString what)

-- ---- text ---------------------------------------------------------------

-- | What a hostile user may call a program: marks, wide characters, what a terminal obeys.
name :: Gen String
name = Gen.string (Range.linear 0 40) (Gen.choice [Gen.alphaNum, Gen.element "마루한글日本\x1f3e0\x301\x20dd\x1160\ESC\a\n\x9b\x202e\x200b\xfeff\xdc80…é ", Gen.unicodeAll])

widths :: TestTree
widths =
  testGroup
    "columns"
    [ testCase "of a character" $
        map (columnsIn . pure) "a…é마日\x1f3e0\x301\x11a8" @?= [1, 1, 1, 2, 2, 2, 0, 0],
      testCase "cut off with a sign, never half a character" $ do
        map (`clip` "마루 house") [0, 1, 2, 3, 4, 5, 9, 10] @?= ["", "…", "…", "마…", "마…", "마루…", "마루 hou…", "마루 house"]
        map (`skip` "마루 ho") [0, 1, 2, 3, 9] @?= ["마루 ho", " 루 ho", "루 ho", "  ho", ""],
      testCase "three marks at most, none without a character" $
        tidy "\x301\&a\x301\x302\x303\x304\&b" @?= "a\x301\x302\x303\&b",
      holds "what is cut is as wide as there is room, or one less" . property $ do
        text <- tidy <$> forAll name
        width <- forAll (Gen.int (Range.linear 0 80))
        let wide = columnsIn (clip width text)
        assert (wide == min width (columnsIn text) || columnsIn text > width && wide == width - 1)
        assert (columnsIn (skip width text) <= max 0 (columnsIn text - width))
    ]

-- ---- keys ---------------------------------------------------------------

keyboard :: TestTree
keyboard =
  testGroup
    "keys"
    [ testCase "as terminals send them" $
        fst (keysIn (Chars.pack "j\ESC[A\ESCOB\ESC[5~\ESC[6~\ESC[1;5H\ESCOF\ESC[Z\t\r\DEL\ETX\ESCOP\ESC[15~\ESC[[E"))
          @?= [Letter 'j', ArrowUp, ArrowDown, PageUp, PageDown, Home, End, BackTab, Tab, Enter, Erase, Control 'c', Function 1, Function 5, Function 5],
      testCase "characters of several bytes" $
        keysIn (Bytes.pack [0xeb, 0xa3, 0xa8, 0xc3]) @?= ([Letter '루'], Bytes.pack [0xc3]),
      testCase "an escape alone waits, then is the key" $ do
        keysIn (Chars.pack "\ESC") @?= ([], Chars.pack "\ESC")
        settled (Chars.pack "\ESC") @?= [Escape]
        settled (Chars.pack "\ESC[") @?= [Escape, Letter '['],
      holds "in pieces as at once; little is kept" . property $ do
        bytes <- forAll (Gen.bytes (Range.linear 0 200))
        at <- forAll (Gen.int (Range.linear 0 200))
        let (first, begun) = keysIn (Bytes.take at bytes)
            (second, left) = keysIn (begun <> Bytes.drop at bytes)
        (first ++ second, left) === keysIn bytes
        assert (Bytes.length left <= 64)
    ]

-- ---- models -------------------------------------------------------------

data Step = Keys ![Key] | Size !Int !Int | Seen ![Run]
  deriving (Show)

step :: Gen Step
step =
  Gen.frequency
    [ (6, Keys <$> Gen.list (Range.linear 1 6) key),
      (2, Size <$> Gen.int (Range.linear 1 250) <*> Gen.int (Range.linear 1 80)),
      (1, Size <$> Gen.int (Range.linear 1 12) <*> Gen.int (Range.linear 1 8)),
      (3, Seen <$> runs)
    ]

key :: Gen Key
key =
  Gen.choice
    [ Gen.element [ArrowUp, ArrowDown, ArrowLeft, ArrowRight, PageUp, PageDown, Home, End, Enter, Tab, BackTab, Escape, Erase, Control 'u', Control 'z', Other],
      Function <$> Gen.int (Range.linear 0 12),
      Letter <$> Gen.element "jkgG/?hsSrPTN123456789i<\x1f3e0",
      Letter <$> Gen.unicodeAll
    ]

runs :: Gen [Run]
runs = do
  pids <- Gen.list (Range.linear 0 25) (Gen.int (Range.linear 1 99))
  mapM run (foldr (\p seen -> if p `elem` seen then seen else p : seen) [] pids)

run :: Int -> Gen Run
run pid =
  Run (pid, Just (pid + 1)) (pid + 1)
    <$> Gen.element ["running", "starting", "ended", "own"]
    <*> Gen.maybe (Gen.double (Range.linearFrac 0 1e7))
    <*> Gen.maybe (Gen.double (Range.linearFrac 0 200))
    <*> Gen.int (Range.linear 0 5000)
    <*> name
    <*> Gen.list (Range.linear 0 3) ((,) <$> Gen.element ["map", "lock", "steer"] <*> Gen.list (Range.linear 0 2) block)
    <*> Gen.list (Range.linear 0 6) name
  where
    block = Gen.choice [Line <$> name, (\cells -> Tabular (Table [(L, "name"), (R, "n")] [[c, show (length c)] | c <- cells])) <$> Gen.list (Range.linear 0 12) name]

-- | Each model that the steps lead to, the first one first.
after :: [Step] -> [Model]
after = scanl one (start ["map", "lock", "steer"] [('i', "all lines"), ('<', "less")])
  where
    one m s = case s of
      Keys keys -> foldl (\m' k -> fst (pressed k m')) m keys
      Size width height -> resized width height m
      Seen runs' -> looked runs' m

textOf :: [Span] -> String
textOf line = concat [text | Span _ text <- line]

models :: TestTree
models =
  testGroup
    "models"
    [ holds "a view is exactly full, never wider, and a terminal obeys nothing in it" . property $ do
        steps <- forAll (Gen.list (Range.linear 1 12) step)
        corner <- forAll name
        mapM_ (full corner) (after steps),
      holds "the selected run is in view" . property $ do
        steps <- forAll (Gen.list (Range.linear 1 12) step)
        mapM_ inView (after steps),
      holds "the selection stays on its run while that is there" . property $ do
        steps <- forAll (Gen.list (Range.linear 1 10) step)
        more <- forAll runs
        let m = last (after steps)
            next = looked more m
        if modelSelected m `elem` map (Just . runKey) (shownRuns next)
          then modelSelected next === modelSelected m
          else isJust (modelSelected next) === not (null (shownRuns next)),
      holds "every run that the filter passes can be reached by the arrow" . property $ do
        steps <- forAll (Gen.list (Range.linear 1 10) step)
        seen <- forAll runs
        let m = fst (pressed Home (looked seen (last (after steps)) {modelMode = Listing}))
            way = take (length (shownRuns m)) (iterate (fst . pressed ArrowDown) m)
        map modelSelected way === map (Just . runKey) (shownRuns m),
      holds "a filter loses no run that has the text, and shows none without" . property $ do
        seen <- forAll runs
        word <- forAll (Gen.string (Range.linear 1 2) Gen.alphaNum)
        let m = foldl (\m' c -> fst (pressed (Letter c) m')) (looked seen (start [] [])) ('/' : word)
            has r = any (isInfixOf' word) [runWords r, show (runNumber r), runIs r] || any (isInfixOf' word . fst) (runRooms r)
        sort (map runKey (shownRuns m)) === sort (map runKey (filter has seen))
    ]
  where
    isInfixOf' word text = lower word `isInfixOf` lower text
    lower = map (\c -> if isAsciiUpper c then succ' c else c)
    succ' c = toEnum (fromEnum c + 32)

full :: String -> Model -> PropertyT IO ()
full corner m = do
  let (width, height) = modelSize m
      lines' = view corner m
  annotateShow (width, height, modelMode m)
  length lines' === height
  mapM_ (\line -> diff (columnsIn (textOf line)) (<=) width) lines'
  mapM_ (assert . all harmless . textOf) lines'
  where
    harmless c = c >= ' ' && c /= '\DEL' && generalCategory c `notElem` [Data.Char.Control, Format, LineSeparator, ParagraphSeparator, Surrogate]

inView :: Model -> PropertyT IO ()
inView m = case modelSelected m of
  Nothing -> [] === [() | modelMode m /= Helping, _ <- shownRuns m]
  Just chosen
    | modelMode m == Helping -> success
    | otherwise -> do
      let marked = [map textOf' line | line <- view "" m, Span Chosen ('>' : _) <- take 1 line]
          number = [show (runNumber r) | r <- modelRuns m, runKey r == chosen]
      length marked === 1
      -- The narrowest screens have room for the command alone.
      if fst (modelSize m) < 24 then success else assert (all (\n -> any ((n `isInfixOf`) . concat) marked) number)
  where
    textOf' (Span _ text) = text

-- ---- examples -----------------------------------------------------------

examples :: TestTree
examples =
  testGroup
    "examples"
    [ testCase "the sort's column is marked, and s goes on" $ do
        assertBool "CPU% is not marked" (any ("CPU%▼" `isInfixOf`) (drawn begun))
        assertBool "PROCS is not marked" (any ("PROCS▼" `isInfixOf`) (drawn (press [Letter 's'])))
        assertBool "not turned" (any ("PROCS▲" `isInfixOf`) (drawn (press [Letter 's', Letter 'r']))),
      testCase "the keys are in the last line" $ do
        assertBool "no keys" ("q quit  ? help" `isPrefixOf` last (drawn begun))
        assertBool "no keys of help" ("Esc back" `isPrefixOf` last (drawn (press [Letter '?']))),
      testCase "the help fits 80 x 24" $
        assertBool "cut off" (any ("draw the screen again" `isInfixOf`) (drawn (press [Letter '?']))),
      testCase "keys of rooms are for the selected run" $ do
        snd (pressed (Letter '<') (press [ArrowDown])) @?= [ForRoom '<' (Just (2, Nothing))]
        snd (pressed (Letter '<') (press [Letter '/'])) @?= [],
      testCase "q and F10 quit, q in a filter is text" $ do
        snd (pressed (Letter 'q') begun) @?= [Quit]
        snd (pressed (Function 10) (press [Letter '/'])) @?= [Quit]
        modelFilter (press [Letter '/', Letter 'q']) @?= "q",
      testCase "a run that ends leaves the selection on its line" $ do
        let m = press [ArrowDown]
        modelSelected (looked (filter ((/= (2, Nothing)) . runKey) three) m) @?= Just (3, Nothing)
        modelSelected (looked [] m) @?= Nothing
    ]
  where
    three = [plainRun 1 0.9, plainRun 2 0.5, plainRun 3 0.1]
    begun = looked three (start ["map"] [('<', "less")])
    press = foldl (\m k -> fst (pressed k m)) begun
    drawn = map textOf . view ""
    plainRun pid cpu = Run (pid, Nothing) pid "running" (Just 61) (Just cpu) 2 ("./load " ++ show pid) [] []
