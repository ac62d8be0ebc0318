{-# LANGUAGE OverloadedStrings #-}

-- | Languages of programs: which files are theirs, and how a text becomes tokens. A language is one
-- row of the table here, and where it has a grammar one of @grammar\/languages@ and of
-- @scripts\/grammars.txt@.
module Maru.Similar.Language
  ( Language (..),
    languages,
    languageNamed,
    languageName,
    languageTitle,
    languageOf,
    languageWhere,
    withDialects,
    byContent,
    hasGrammar,
    Layout (..),
    layoutOf,
    family,
    familyHead,
    familiesOf,
    Reading (..),
    readSource,
    lexSource,
    controlBytes,
    binary,
  )
where

import Data.Bits (setBit)
import Data.ByteString (ByteString)
import qualified Data.ByteString as B
import qualified Data.ByteString.Char8 as BC
import Data.Char (toLower)
import Data.List (find, foldl', zip4)
import qualified Data.Map.Strict as Map
import Data.Word (Word32, Word64, Word8)
import Maru.Similar.Lexer.Bytes (wordStart)
import Maru.Similar.Lexer.Generic (lexGeneric)
import Maru.Similar.Lexer.Idle
import Maru.Similar.Lexer.Java (lexJava, lexUnescaped)
import Maru.Similar.Lexer.Preprocess
import Maru.Similar.Lexer.Rewrite
import Maru.Similar.Lexer.Style
import Maru.Similar.Lexer.Texts
import Maru.Similar.Lexer.Unescape
import Maru.Similar.Shape (notJava)
import Maru.Similar.Token (Habits (..), Hole (..), Tokens, noHabits, tokenCount, tokenText)

data Language
  = Java
  | C
  | Cpp
  | Python
  | JavaScript
  | TypeScript
  | -- | TypeScript with elements.
    Tsx
  | Kotlin
  | Go
  | Rust
  | Haskell
  | CSharp
  | Php
  | Ruby
  | Swift
  | Scala
  | Lua
  | R
  | Sql
  | -- | Any other, whatever it is; only where that is asked for.
    AnyText
  deriving (Eq, Ord, Show, Enum, Bounded)

-- | What there is to know of one.
data Traits = Traits
  { -- | As on the command line; that of its grammar, too.
    name :: !String,
    -- | As people write it.
    title :: !ByteString,
    -- | Of names of its files, in small letters.
    endings :: ![ByteString],
    -- | Programs of one family can be compared.
    first :: !Language,
    -- | Whether scripts/grammars.txt has a grammar of it.
    grammar :: !Bool,
    -- | 'Nothing': Java.
    style :: !(Maybe Style)
  }

traits :: Language -> Traits
traits language = case language of
  Java -> Traits "java" "Java" [".java"] Java True Nothing
  C -> Traits "c" "C" [".c", ".h"] C True (Just cFamily)
  Cpp -> Traits "cpp" "C++" [".cpp", ".cc", ".cxx", ".hpp", ".hh", ".hxx", ".h"] C True (Just cFamily)
  Python -> Traits "python" "Python" [".py"] Python True (Just plainStyle {lineComments = ["#"], quotes = [long "\"\"\"", long "'''", short "\"", short "'"], preambles = [line "import", Preamble "from" "(" Nothing], lineJoins = True, keywords = pythonWords, habits = withCode "{" '}' ofLines})
  JavaScript -> Traits "javascript" "JavaScript" [".js", ".mjs", ".cjs", ".jsx"] JavaScript True (Just script {keywords = scriptWords, habits = withCode "${" '}' ofLines})
  TypeScript -> Traits "typescript" "TypeScript" [".ts", ".mts", ".cts"] JavaScript True (Just script {keywords = scriptWords <> typeWords, habits = withCode "${" '}' ofLines, elements = False})
  Tsx -> Traits "tsx" "TSX" [".tsx"] JavaScript True (Just script {keywords = scriptWords <> typeWords, habits = withCode "${" '}' ofLines})
  Kotlin -> Traits "kotlin" "Kotlin" [".kt", ".kts"] Kotlin True (Just nestedC {quotes = map (holed "${" '}') [Quote "\"\"\"" "\"\"\"" False True Nothing, short "\""], preambles = [line "import", line "package"], quotedNames = [('`', '`')], keywords = kotlinWords, habits = withDollars "${" '}' ofLines})
  Go -> Traits "go" "Go" [".go"] Go True (Just cLike {quotes = [Quote "`" "`" False True Nothing, short "\""], preambles = [Preamble "import" "(" Nothing, line "package"], keywords = goWords, habits = ofLines})
  Rust -> Traits "rust" "Rust" [".rs"] Rust True (Just nestedC {quotes = [long "\""], raws = [rawRust], preambles = [Preamble "use" "{" Nothing], keywords = rustWords, habits = withCode "{" '}' noHabits})
  Haskell -> Traits "haskell" "Haskell" [".hs"] Haskell True (Just plainStyle {lineComments = ["--"], dashes = True, blockComments = [Comment "{-" "-}" True], quotes = [short "\""], quotedChars = True, wordBytes = [39], preambles = [Preamble "import" "(" Nothing, Preamble "module" "(" (Just "where")], keywords = haskellWords, habits = ofLines})
  CSharp -> Traits "csharp" "C#" [".cs"] CSharp False (Just cLike {quotes = [short "\""], raws = [rawCSharp], preambles = [line "using"], keywords = cWords <> cppWords <> csharpWords, habits = withCode "{" '}' noHabits})
  Php -> Traits "php" "PHP" [".php"] Php False (Just cLike {lineComments = ["//", "#"], noComments = ["#["], quotes = [long "\"", long "'"], heredocs = Just heredocPhp, quotedChars = False, preambles = [Preamble "use" "{" Nothing, line "namespace"], islands = Just (["<?php", "<?="], "?>"), keywords = phpWords, habits = withDollars "{" '}' folds})
  Ruby -> Traits "ruby" "Ruby" [".rb"] Ruby False (Just plainStyle {lineComments = ["#"], lastLine = Just "__END__", quotes = [holed "#{" '}' (long "\""), long "'"], heredocs = Just heredocRuby, patterns = True, percents = True, pages = [("=begin", "=end")], preambles = [line "require", line "require_relative"], lineJoins = True, keywords = rubyWords, habits = withCode "#{" '}' ofLines})
  Swift -> Traits "swift" "Swift" [".swift"] Swift False (Just nestedC {quotes = map (holed "\\(" ')') [long "\"\"\"", short "\""], raws = [rawSwift], preambles = [line "import"], quotedNames = [('`', '`')], keywords = swiftWords, habits = withCode "\\(" ')' ofLines})
  Scala -> Traits "scala" "Scala" [".scala", ".sc"] Scala False (Just nestedC {quotes = map (holed "${" '}') [Quote "\"\"\"" "\"\"\"" False True Nothing, short "\""], preambles = [Preamble "import" "{" Nothing, line "package"], quotedNames = [('`', '`')], keywords = scalaWords, habits = withDollars "${" '}' ofLines})
  Lua -> Traits "lua" "Lua" [".lua"] Lua False (Just plainStyle {lineComments = ["--"], raws = [rawLua "--", rawLua ""], quotes = [short "\"", short "'"], keywords = luaWords, habits = ofLines})
  R -> Traits "r" "R" [".r"] R False (Just plainStyle {lineComments = ["#"], quotes = [long "\"", long "'"], raws = [rawR], wordBytes = [46], quotedNames = [('`', '`')], keywords = rWords, habits = ofLines})
  Sql -> Traits "sql" "SQL" [".sql"] Sql False (Just plainStyle {lineComments = ["--"], startComments = ["#"], noComments = ["#>"], blockComments = [Comment "/*" "*/" False], quotes = [Quote "'" "'" False True Nothing, Quote "\"" "\"" False True Nothing], quotedNames = [('`', '`'), ('[', ']')], dollars = True, keywords = sqlWords, habits = folds})
  AnyText -> Traits "text" "text" [""] AnyText False (Just cLike {lineComments = ["//", "#!"], links = True, quotedChars = False, keywords = anyWords})

-- | With their names.
languages :: [(String, Language)]
languages = [(languageName l, l) | l <- [minBound ..]]

languageNamed :: String -> Maybe Language
languageNamed = (`Map.lookup` byName)

byName :: Map.Map String Language
byName = Map.fromList languages

languageName :: Language -> String
languageName = name . traits

languageTitle :: Language -> ByteString
languageTitle = title . traits

-- | Of a file, by its name. A header is one of C until it is read ('byContent').
languageOf :: ByteString -> Maybe Language
languageOf path = find (`hasName` path) (init [minBound ..])

-- | Of a file where a language was asked for: that, or one that goes with it.
languageWhere :: Language -> ByteString -> Maybe Language
languageWhere asked path = find (`hasName` path) (withDialects asked)

-- | A language, and those that are meant where it is asked for.
withDialects :: Language -> [Language]
withDialects language = language : [Tsx | language == TypeScript]

hasName :: Language -> ByteString -> Bool
hasName language path = any (`ends` path) (endings (traits language))

-- | Whatever the case: a file of Windows may be @A.JAVA@.
ends :: ByteString -> ByteString -> Bool
ends ending path = BC.map toLower (B.drop (B.length path - B.length ending) path) == ending

-- | What a file that its name says is of the language holds: a header that uses what C does not have
-- is one of C++. O(n).
byContent :: Language -> ByteString -> ByteString -> Language
byContent C path text | ".h" `ends` path && any ofCpp (zip4 ("" : spelled) spelled (drop 1 spelled) (drop 2 spelled)) = Cpp
  where
    spelled = let ts = lexSource C text in map (tokenText text ts) [0 .. tokenCount ts - 1] ++ ["", ""]
    ofCpp (before, a, b, c) = case a of
      -- In C it may be the name of a structure.
      "class" -> before `notElem` ["struct", "union"] && isName b && c `elem` ["{", ":", ";", "final"]
      "namespace" -> b == "{" || isName b && c == "{"
      "template" -> b == "<"
      "::" -> isName b
      "virtual" -> isName b || b == "~"
      _ -> a `elem` ["public", "private", "protected"] && b == ":" || "using namespace" `B.isPrefixOf` a
    isName = B.any wordStart . B.take 1
byContent language _ _ = language

hasGrammar :: Language -> Bool
hasGrammar = grammar . traits

-- | What of the layout its grammar has to see.
data Layout
  = Free
  | -- | Which tokens touch, which share a line, and how far lines are indented.
    Lines
  | -- | Where in its line each token stands.
    Columns
  deriving (Eq, Show)

layoutOf :: Language -> Layout
layoutOf language = case language of
  Java -> Free
  Haskell -> Columns
  _ -> Lines

-- | A number for those whose programs can be compared; that of Java is 0. At most 63.
family :: Language -> Word32
family = fromIntegral . fromEnum . familyHead

-- | The language that a family is called by.
familyHead :: Language -> Language
familyHead = first . traits

-- | A bit for each family.
familiesOf :: [Language] -> Word64
familiesOf = foldl' (\bits l -> setBit bits (fromIntegral (family l))) 0

-- | A source as its language reads it: what is written in several ways is written in one, and what
-- means nothing is left out.
data Reading = Reading
  { readingText :: !ByteString,
    -- | Of that text.
    readingTokens :: !Tokens,
    -- | The same, where they stand in the source.
    readingPlaces :: !Tokens
  }

-- | Of any bytes. Linear time.
readSource :: Language -> ByteString -> Reading
readSource language source = Reading text tokens (relocated rewritten written)
  where
    rewritten = rewrite source (editsOf language source)
    written = let ts = Map.findWithDefault lexUnescaped language lexers (rewrittenText rewritten) in withoutIdle language (rewrittenText rewritten) ts
    (text, tokens) = respelled (maybe [] spellings (style (traits language))) (rewrittenText rewritten) written

-- | All tokens that mean something. Linear time.
lexSource :: Language -> ByteString -> Tokens
lexSource language = readingPlaces . readSource language

-- | What stands for something else wherever it stands.
editsOf :: Language -> ByteString -> [Edit]
editsOf language
  | language == Java = escapes
  | language `elem` [JavaScript, TypeScript, Tsx, CSharp] = wordEscapes
  | language `elem` [C, Cpp] = joins
  | otherwise = const []

-- | Without groups that the preprocessor skips, and without empty statements.
withoutIdle :: Language -> ByteString -> Tokens -> Tokens
withoutIdle language text ts
  | language `elem` [C, Cpp] = withoutEmpty (withoutRanges (skippedGroups text ts) ts)
  | language `elem` [Java, CSharp, Php, Sql] = withoutEmpty ts
  | otherwise = ts

-- | Each is made once.
lexers :: Map.Map Language (ByteString -> Tokens)
lexers = Map.fromList [(l, lexGeneric s (family l)) | l <- [minBound ..], Just s <- [style (traits l)]]

-- | How many bytes no text has: controls other than white space, and than the
-- Ctrl-Z that may end a program. O(n).
controlBytes :: ByteString -> Int
controlBytes = B.foldl' (\n w -> if control w then n + 1 else n) 0
  where
    control :: Word8 -> Bool
    control w = w < 9 || (w > 13 && w < 32 && w /= 26) || w == 127

-- | Whether a text with control bytes is no program: one that has them in a comment or a literal
-- is. Of Java the tokens say it; else one of twenty is too much.
binary :: Language -> ByteString -> Bool
binary language text
  | controls == 0 = False
  | language == Java = notJava (lexJava text)
  | otherwise = 20 * controls > B.length text
  where
    controls = controlBytes text

-- How they are written ------------------------------------------------------------

-- | Within a line, and of several, both with escapes.
short, long :: ByteString -> Quote
short mark = Quote mark mark True False Nothing
long mark = Quote mark mark True True Nothing

-- | Capitals do not count; a line ends a statement.
folds, ofLines :: Habits
folds = noHabits {habitFolds = True}
ofLines = noHabits {habitLines = True}

-- | With code in texts, between those; and with names behind a dollar.
withCode, withDollars :: ByteString -> Char -> Habits -> Habits
withCode open close plain = plain {habitHole = Just (Hole open (fromIntegral (fromEnum close)) False)}
withDollars open close plain = plain {habitHole = Just (Hole open (fromIntegral (fromEnum close)) True)}

-- | With code in it, to that bracket.
holed :: ByteString -> Char -> Quote -> Quote
holed open close quote = quote {quoteHole = Just (open, close)}

-- | Of one line.
line :: ByteString -> Preamble
line word = Preamble word "" Nothing

cLike, cFamily, nestedC, script :: Style
cLike = plainStyle {lineComments = ["//"], blockComments = [Comment "/*" "*/" False], quotes = [short "\""], quotedChars = True}

-- | A header does not say which of the two it is.
cFamily = cLike {raws = [rawCpp], spellings = digraphs, preambles = [line "#include", line "%:include", line "using"], keywords = cWords <> cppWords}

nestedC = cLike {blockComments = [Comment "/*" "*/" True]}

script = cLike {quotes = [holed "${" '}' (long "`"), short "\"", short "'"], quotedChars = False, patterns = True, elements = True, preambles = [Preamble "import" "{" Nothing]}

cWords, cppWords, csharpWords, pythonWords, scriptWords, typeWords, kotlinWords, goWords, rustWords, haskellWords :: ByteString
cWords = "auto break case char const continue default do double else enum extern float for goto if inline int long register return short signed sizeof static struct switch typedef union unsigned void volatile while"
cppWords = " bool catch class constexpr delete explicit export false final friend mutable namespace new noexcept nullptr operator override private protected public template this throw true try typename using virtual"
csharpWords = " abstract as async await base decimal event foreach get in interface internal is lock null object out params partial readonly ref sealed set string var where yield"
pythonWords = "and as assert async await break class continue def del elif else except finally for from global if import in is lambda match case None nonlocal not or pass raise return True False try while with yield"
scriptWords = "async await break case catch class const continue debugger default delete do else export extends false finally for function if import in instanceof let new null of return static super switch this throw true try typeof undefined var void while with yield"
typeWords = " abstract any as boolean declare enum implements interface is keyof namespace never number private protected public readonly string type unknown"
kotlinWords = "as break by catch class companion continue data do else enum false finally for fun if in interface is null object open override package private protected public return sealed super this throw true try typealias val var when while"
goWords = "break case chan const continue default defer else fallthrough false for func go goto if interface map nil package range return select struct switch true type var"
rustWords = "as async await break const continue crate dyn else enum extern false fn for if impl in let loop match mod move mut pub ref return self Self static struct super trait true type unsafe use where while"
haskellWords = "case class data deriving do else forall if import in infix infixl infixr instance let module newtype of otherwise then type where"

phpWords, rubyWords, swiftWords, scalaWords, luaWords, rWords, sqlWords, anyWords :: ByteString
phpWords = "abstract and array as break case catch class clone const continue declare default do echo else elseif extends false final finally fn for foreach function global if implements include instanceof interface match namespace new null or print private protected public require return static switch throw trait true try use var while yield"
rubyWords = "and begin break case class def do else elsif end ensure false for if in module next nil not or redo rescue retry return self super then true undef unless until when while yield"
swiftWords = "as break case catch class continue default defer do else enum extension fallthrough false for func guard if import in init inout is let nil private protocol public repeat return self static struct switch throw throws true try var where while"
scalaWords = "abstract case catch class def do else extends false final finally for if implicit import lazy match new null object override package private protected return sealed super this throw trait true try type val var while with yield"
luaWords = "and break do else elseif end false for function goto if in local nil not or repeat return then true until while"
rWords = "break else FALSE for function if in Inf NA NaN next NULL repeat return TRUE while"
sqlWords = "alter and as asc begin between by case create delete desc distinct drop else end exists from full group having in index inner insert into is join key left like limit not null on or order outer primary references right select set table then union unique update values view when where with"
anyWords = "begin break case catch class const continue def default do done elif else elsif end enum except false finally fn for foreach func function fun if import in interface let match module new nil null package pass private protected public raise return static struct switch then throw true try until unless var void when while yield"
