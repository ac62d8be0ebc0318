-- | The three views of a submission, from its files.
module Maru.Similar.Views
  ( Views (..),
    Parse (..),
    Lexed (..),
    lexed,
    viewsOf,
    gramLengths,
    recipe,
    Template,
    templateOf,
  )
where

import Data.Bifunctor (first)
import Data.Bits (xor)
import Data.ByteString (ByteString)
import qualified Data.ByteString as B
import Data.Function (on)
import qualified Data.IntMap.Strict as IntMap
import Data.List (groupBy, sortOn)
import qualified Data.Map.Strict as Map
import Data.Primitive.PrimArray
import Data.Word (Word32)
import Maru.Similar.Bare
import Maru.Similar.Corpus.Source (Source (..))
import Maru.Similar.Grammar
import Maru.Similar.Language
import Maru.Similar.Normalise
import Maru.Similar.Structure (Act, skeleton)
import Maru.Similar.Tiling
import Maru.Similar.Token (Tokens (..))

-- | The codes of one submission. Files meet at barriers, and what the template
-- has is a barrier, the same in each view.
data Views = Views
  { -- | What it does ("Maru.Similar.Structure").
    structureView :: !Codes,
    -- | Its tokens as they are spelled, but of names only which are the same, and nothing of those in
    -- the code of texts. What repeats itself but for names and values is cut.
    lexicalView :: !Codes,
    -- | Its tokens as they are spelled.
    namesView :: !Codes
  }
  deriving (Eq, Show)

-- | Where the structure view comes from.
data Parse
  = -- | From the syntax tree.
    Clean
  | -- | From a tree with places that are no program of the language.
    Broken
  | -- | From the tokens, for there is no grammar of the language.
    ByTokens
  | -- | There is none, for the file is too large or too odd: acts of tokens and of a tree cannot be
    -- compared.
    NotParsed
  deriving (Eq, Ord, Show, Enum, Bounded)

-- | Codes a gram: structure, lexical, names. Shorter ones survive more edits,
-- longer ones are rarer by chance.
gramLengths :: [Int]
gramLengths = [5, 5, 4]

-- | How views are made of programs with these grammars, as a number: what an index keeps can be
-- compared with views of the same recipe only. Another number whenever the codes of a program or its
-- grams change.
recipe :: Grammars -> Word32
recipe grammars = B.foldl' step 10 (foldMap grammarName grammars)
  where
    step h b = (h `xor` fromIntegral b) * 16777619

-- | Code that everybody was given, ready to be found.
data Template = Template !Int !Index

-- | Stretches of at least that many tokens count as the template's.
templateOf :: Int -> [Source] -> Template
templateOf m sources = Template m (index m (side m (joinWithBarriers [codesOf Structure bytes tokens | Lexed _ bytes tokens <- map lexed sources])))

-- | A file as its language reads it, with its tokens.
data Lexed = Lexed !Language !ByteString !Tokens

lexed :: Source -> Lexed
lexed (Source language _ bytes) = let r = readSource language bytes in Lexed language (readingText r) (readingTokens r)

-- | The views of all files with their tokens, how many tokens the template has, too, and how the
-- files were parsed: as the worst of them.
viewsOf :: Grammars -> Maybe Template -> [Lexed] -> (Views, Int, Parse)
viewsOf grammars template files =
  ( Views (joined structureView) (joined lexicalView) (joined namesView),
    sum [cut | (_, cut, _) <- each],
    maximum (Clean : [how | (_, _, how) <- each])
  )
  where
    each = map (viewsOfFile grammars template) files
    joined view = joinWithBarriers [view views | (views, _, _) <- each]

viewsOfFile :: Grammars -> Maybe Template -> Lexed -> (Views, Int, Parse)
viewsOfFile grammars template (Lexed language bytes tokens) =
  ( Views (finished structure) (collapseWith (excluding cut lexical) (excluding cut marked)) (finished (excluding cut names)),
    sum (map snd cut),
    how
  )
  where
    lexical = codesOf Structure bytes tokens
    names = codesOf Names bytes tokens
    -- In a text nothing says which words are names.
    marked = if language == AnyText then names else namesMarked (tokenFamily tokens) lexical (namelessTexts bytes tokens places names)
    cut = maybe [] (`stretches` lexical) template
    finished = collapseRepeats
    (structure, how) = case Map.lookup language grammars of
      Nothing -> (inFamily (actsBy False) (primArrayFromList (cutActs (map inTokens cut) (skeleton tokens))), ByTokens)
      Just g -> maybe (mempty, NotParsed) (first (inFamily (actsBy True)) . ofTree (map inTokens cut)) (parseBare language g bytes tokens)
    -- Those of a tree are not those of tokens, where only one language of a family has a grammar.
    actsBy tree = 2 * tokenFamily tokens + (if tree then 1 else 0)
    places = codedTokens tokens
    -- The first token and the one after the last, among all tokens.
    inTokens (from, n) = (at from, at (from + n - 1) + 1)
    at i = fromIntegral (indexPrimArray places i)

inFamily :: Word32 -> Codes -> Codes
inFamily of' = mapPrimArray (\c -> if isBarrier c then c else familyCode of' (fromIntegral c))

parseBare :: Language -> Grammar -> ByteString -> Tokens -> Maybe (Bare, Parsed)
parseBare language grammar bytes tokens = do
  text <- bare (layoutOf language) largestText bytes tokens
  (,) text <$> parse grammar (bareText text)

ofTree :: [(Int, Int)] -> (Bare, Parsed) -> (Codes, Parse)
ofTree cut (text, parsed) = (cutTree cut (tokenAt text) parsed, if parsedErrors parsed == 0 then Clean else Broken)

-- | What of the codes the template has: first and length, ascending, disjoint.
stretches :: Template -> Codes -> [(Int, Int)]
stretches (Template m base) codes = sortOn fst [(matchRight t, matchLength t) | t <- tilingTiles (tiles base (side m codes))]

-- | The acts outside the ranges, a barrier for each range.
cutActs :: [(Int, Int)] -> [(Act, Int)] -> [Word32]
cutActs ((from, end) : more) acts = map (act . fst) before ++ barrier : cutActs more (dropWhile ((< end) . snd) rest)
  where
    (before, rest) = span ((< from) . snd) acts
cutActs [] acts = map (act . fst) acts

-- | The acts outside the ranges of tokens, a barrier for each stretch of acts inside. A tree's acts
-- are not in the order of the text. The function knows the token of a byte.
cutTree :: [(Int, Int)] -> (Int -> Int) -> Parsed -> Codes
cutTree ranges tokenOf parsed
  | null ranges = generatePrimArray n kind
  | otherwise = primArrayFromList (concatMap outside (groupBy ((==) `on` inside) [0 .. n - 1]))
  where
    n = sizeofPrimArray (parsedActs parsed) `quot` 2
    kind i = indexPrimArray (parsedActs parsed) (2 * i)
    place i = tokenOf (fromIntegral (indexPrimArray (parsedActs parsed) (2 * i + 1)))
    starts = IntMap.fromList ranges
    inside i = maybe False ((> place i) . snd) (IntMap.lookupLE (place i) starts)
    outside is = if any inside (take 1 is) then [barrier] else map kind is

act :: Act -> Word32
act = fromIntegral . fromEnum
