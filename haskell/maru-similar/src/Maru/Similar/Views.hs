-- | The three views of a submission, from its files.
module Maru.Similar.Views
  ( Views (..),
    viewsOf,
    gramLengths,
    recipe,
    Template,
    templateOf,
  )
where

import Data.ByteString (ByteString)
import Data.List (sortOn)
import Data.Primitive.PrimArray
import Data.Word (Word32)
import Maru.Similar.Lexer.Java (lexJava)
import Maru.Similar.Normalise
import Maru.Similar.Structure (Act, skeleton)
import Maru.Similar.Tiling
import Maru.Similar.Token (Tokens)

-- | The codes of one submission. Files meet at barriers, and what the template
-- has is a barrier, the same in each view.
data Views = Views
  { -- | What it does ("Maru.Similar.Structure").
    structureView :: !Codes,
    -- | Its tokens; names and values by class.
    lexicalView :: !Codes,
    -- | Its tokens as they are spelled.
    namesView :: !Codes
  }
  deriving (Eq, Show)

-- | Codes a gram: structure, lexical, names. Shorter ones survive more edits,
-- longer ones are rarer by chance.
gramLengths :: [Int]
gramLengths = [5, 8, 4]

-- | How views are made of programs, as a number: what an index keeps can be compared with views of
-- the same recipe only. Another number whenever the codes of a program or its grams change.
recipe :: Word32
recipe = 1

-- | Code that everybody was given, ready to be found.
data Template = Template !Int !Index

-- | Stretches of at least that many tokens count as the template's.
templateOf :: Int -> [ByteString] -> Template
templateOf m sources = Template m (index m (side m (joinWithBarriers [codesOf Structure s (lexJava s) | s <- sources])))

-- | The views of all files with their tokens, and how many tokens the template has, too.
viewsOf :: Maybe Template -> [(ByteString, Tokens)] -> (Views, Int)
viewsOf template files = (Views (joined structureView) (joined lexicalView) (joined namesView), sum (map snd each))
  where
    each = map (uncurry (viewsOfFile template)) files
    joined view = joinWithBarriers (map (view . fst) each)

viewsOfFile :: Maybe Template -> ByteString -> Tokens -> (Views, Int)
viewsOfFile template bytes tokens =
  (Views (finished structure) (finished (excluding cut lexical)) (finished (excluding cut names)), sum (map snd cut))
  where
    lexical = codesOf Structure bytes tokens
    names = codesOf Names bytes tokens
    cut = maybe [] (`stretches` lexical) template
    finished = collapseRepeats
    structure = primArrayFromList (cutActs (map inTokens cut) (skeleton tokens))
    places = codedTokens tokens
    -- The first token and the one after the last, among all tokens.
    inTokens (first, n) = (at first, at (first + n - 1) + 1)
    at i = fromIntegral (indexPrimArray places i)

-- | What of the codes the template has: first and length, ascending, disjoint.
stretches :: Template -> Codes -> [(Int, Int)]
stretches (Template m base) codes = sortOn fst [(matchRight t, matchLength t) | t <- tilingTiles (tiles base (side m codes))]

-- | The acts outside the ranges, a barrier for each range.
cutActs :: [(Int, Int)] -> [(Act, Int)] -> [Word32]
cutActs ((first, end) : more) acts = map (act . fst) before ++ barrier : cutActs more (dropWhile ((< end) . snd) rest)
  where
    (before, rest) = span ((< first) . snd) acts
cutActs [] acts = map (act . fst) acts

act :: Act -> Word32
act = fromIntegral . fromEnum
