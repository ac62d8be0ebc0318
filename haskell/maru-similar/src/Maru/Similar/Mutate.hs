{-# LANGUAGE OverloadedStrings #-}

-- | Copies of a Java source, disguised as a student would disguise them: for
-- tests and for timing corpora. Each operator works on tokens, and at the places
-- where it applies flips a coin. Deterministic by seed.
--
-- The results read like Java and keep its nesting, and nearly always compile;
-- that is not promised.
module Maru.Similar.Mutate
  ( Operator (..),
    allOperators,
    operatorName,
    tokenNeutral,
    mutate,
    someOperators,
  )
where

import Data.ByteString (ByteString)
import qualified Data.ByteString as B
import qualified Data.ByteString.Char8 as BC
import Data.Char (isSpace)
import Data.List (sortOn)
import qualified Data.Map.Strict as Map
import qualified Data.Set as Set
import Data.Word (Word64)
import Maru.Similar.Lexer.Java (lexJava)
import Maru.Similar.Token
import System.Random.SplitMix (SMGen, mkSMGen, nextWord64, splitSMGen)

data Operator
  = -- | Other names for what the source declares.
    Rename
  | StripComments
  | -- | Other white space.
    Layout
  | -- | Variables that nobody uses.
    DeadDeclarations
  | -- | Methods in another order.
    MethodSwap
  | -- | @for@ becomes @while@.
    ForToWhile
  | -- | @x++@ becomes @x += 1@.
    CompoundIncrement
  | -- | Parentheses around whole expressions.
    ExtraParentheses
  | -- | @a < b@ becomes @b > a@.
    FlipComparisons
  deriving (Eq, Ord, Show, Enum, Bounded)

allOperators :: [Operator]
allOperators = [minBound .. maxBound]

operatorName :: Operator -> ByteString
operatorName op = case op of
  Rename -> "rename"
  StripComments -> "comments"
  Layout -> "layout"
  DeadDeclarations -> "dead-declarations"
  MethodSwap -> "method-swap"
  ForToWhile -> "for-to-while"
  CompoundIncrement -> "increment"
  ExtraParentheses -> "parentheses"
  FlipComparisons -> "comparisons"

-- | Whether the normalised tokens stay the same.
tokenNeutral :: Operator -> Bool
tokenNeutral op = op `elem` [Rename, StripComments, Layout]

-- | Apply the operators in the given order.
mutate :: Word64 -> [Operator] -> ByteString -> ByteString
mutate seed ops source = foldl step source (zip ops (generators (mkSMGen seed)))
  where
    step text (op, gen) = render (operate op gen (pieces text))

-- | Some operators, at least one, in their usual order.
someOperators :: Word64 -> [Operator]
someOperators seed = case [op | (op, True) <- zip allOperators (coins 2 gen)] of
  [] -> [toEnum (fromIntegral (fst (nextWord64 gen') `mod` fromIntegral (length allOperators)))]
  ops -> ops
  where
    (gen, gen') = splitSMGen (mkSMGen seed)

generators :: SMGen -> [SMGen]
generators gen = this : generators rest
  where
    (this, rest) = splitSMGen gen

words64 :: SMGen -> [Word64]
words64 gen = w : words64 gen'
  where
    (w, gen') = nextWord64 gen

-- | 'True' once in @n@.
coins :: Word64 -> SMGen -> [Bool]
coins n = map ((== 0) . (`mod` n)) . words64

-- | A token and what lies before it.
data Piece = Piece
  { pieceGap :: !ByteString,
    pieceKind :: !Kind,
    pieceText :: !ByteString
  }

-- | The pieces of a source, and what follows the last.
data Pieces = Pieces ![Piece] !ByteString

pieces :: ByteString -> Pieces
pieces source = Pieces (zipWith piece (0 : ends) indices) (B.drop (last (0 : ends)) source)
  where
    tokens = lexJava source
    indices = [0 .. tokenCount tokens - 1]
    ends = map (tokenEnd tokens) indices
    piece from i =
      Piece
        (B.take (tokenStart tokens i - from) (B.drop from source))
        (tokenKind tokens i)
        (tokenText source tokens i)

render :: Pieces -> ByteString
render (Pieces ps end) = B.concat (concat [[pieceGap p, pieceText p] | p <- ps] ++ [end])

-- | The pieces of a fragment of Java.
fragment :: ByteString -> [Piece]
fragment text = ps
  where
    Pieces ps _ = pieces text

kinds :: [Piece] -> [Kind]
kinds = map pieceKind

-- | The next kind; 'Error' at the end.
headKind :: [Piece] -> Kind
headKind ps = case ps of
  p : _ -> pieceKind p
  [] -> Error

onPieces :: ([Piece] -> [Piece]) -> Pieces -> Pieces
onPieces f (Pieces ps end) = Pieces (f ps) end

operate :: Operator -> SMGen -> Pieces -> Pieces
operate op gen = case op of
  Rename -> onPieces (rename gen)
  StripComments -> \(Pieces ps end) ->
    Pieces [p {pieceGap = withoutComments (pieceGap p)} | p <- ps] (withoutComments end)
  Layout -> onPieces (layOut gen)
  DeadDeclarations -> onPieces (addDead gen)
  MethodSwap -> onPieces (shuffleMethods gen)
  ForToWhile -> onPieces forToWhile
  CompoundIncrement -> onPieces (rewrite (coins 2 gen) increment)
  ExtraParentheses -> onPieces (rewrite (coins 2 gen) parenthesise)
  FlipComparisons -> onPieces (rewrite (coins 2 gen) flipComparison)

-- | A local change: what precedes, what follows; where it applies, what to write
-- instead and what is left.
type Rule = Kind -> [Piece] -> Maybe ([Piece], [Piece])

-- | Apply a rule from left to right; each place that it fits costs a coin.
rewrite :: [Bool] -> Rule -> [Piece] -> [Piece]
rewrite tosses rule = go tosses Semicolon
  where
    go _ _ [] = []
    go flips before ps@(p : rest) = case (rule before ps, flips) of
      (Just (new, rest'), True : flips') -> new ++ go flips' (pieceKind (last (p : new))) rest'
      (Just _, _ : flips') -> p : go flips' (pieceKind p) rest
      _ -> p : go flips (pieceKind p) rest

-- Rename ----------------------------------------------------------------------

rename :: SMGen -> [Piece] -> [Piece]
rename gen ps = [p {pieceText = Map.findWithDefault (pieceText p) (pieceText p) names} | p <- ps]
  where
    names = Map.fromList (zip (Set.toAscList (declared ps)) fresh)
    fresh = filter (`Set.notMember` used) [style <> BC.pack (show n) | n <- [1 :: Int ..]]
    used = Set.fromList (map pieceText ps)
    style = pick gen ["v", "item", "temp", "my", "value", "obj"]

pick :: SMGen -> [a] -> a
pick gen choices = choices !! fromIntegral (fst (nextWord64 gen) `mod` fromIntegral (length choices))

-- | Names that stand where a declaration has its name, and that are never a
-- member of something else.
declared :: [Piece] -> Set.Set ByteString
declared ps = (Set.fromList names `Set.difference` foreignMembers) `Set.difference` Set.fromList ["main", "args"]
  where
    names = [pieceText p | (before, p, after) <- zip3 (Semicolon : kinds ps) ps (drop 1 (kinds ps) ++ [Error]), isName before p after]
    isName before p after = pieceKind p == Identifier && before `elem` typeEnds && after `elem` nameEnds
    typeEnds = [Identifier, Greater, BracketClose, KwInt, KwLong, KwDouble, KwFloat, KwBoolean, KwChar, KwByte, KwShort, KwVoid]
    nameEnds = [Assign, Semicolon, Comma, ParenOpen, ParenClose, Colon]
    foreignMembers = Set.fromList [pieceText c | (a, b, c) <- zip3 ps (drop 1 ps) (drop 2 ps), pieceKind b == Dot, pieceKind a /= KwThis]

-- White space and comments ----------------------------------------------------

withoutComments :: ByteString -> ByteString
withoutComments gap = case B.breakSubstring "/" gap of
  (before, after)
    | B.null after -> gap
    | "//" `B.isPrefixOf` after -> before <> withoutComments (BC.dropWhile (/= '\n') after)
    | otherwise -> before <> " " <> withoutComments (B.drop 2 (snd (B.breakSubstring "*/" (B.drop 2 after))))

layOut :: SMGen -> [Piece] -> [Piece]
layOut gen = zipWith3 change (coins 3 gen) (False : coins 2 gen)
  where
    unit = pick gen ["\t", "  ", "        "]
    change toss toss' p
      | not (BC.all isSpace gap) = p
      | BC.elem '\n' gap = p {pieceGap = "\n" <> B.concat (replicate depth unit)}
      | pieceKind p == BraceOpen && toss' = p {pieceGap = "\n"}
      | B.null gap && toss && pieceKind p `elem` [ParenOpen, ParenClose, Semicolon, Comma] = p {pieceGap = " "}
      | otherwise = p
      where
        gap = pieceGap p
        depth = (B.length (BC.takeWhileEnd (/= '\n') gap) + 3) `div` 4

-- Statements ------------------------------------------------------------------

-- | With its nesting before it: braces, parentheses.
nested :: [Piece] -> [(Int, Int, Piece)]
nested = go 0 0
  where
    go _ _ [] = []
    go braces parens (p : ps) =
      (braces, parens, p) : case pieceKind p of
        BraceOpen -> go (braces + 1) parens ps
        BraceClose -> go (braces - 1) parens ps
        ParenOpen -> go braces (parens + 1) ps
        ParenClose -> go braces (parens - 1) ps
        _ -> go braces parens ps

addDead :: SMGen -> [Piece] -> [Piece]
addDead gen ps = concat (zipWith3 place (nested ps) (drop 1 (kinds ps) ++ [Error]) choices)
  where
    choices = zip3 (coins 4 gen) (words64 gen) [1 :: Int ..]
    place (braces, parens, p) next (toss, w, n)
      | toss && pieceKind p == Semicolon && braces >= 2 && parens == 0 && goesOn next = p : dead w n
      | otherwise = [p]
    goesOn next = next `notElem` [BraceClose, KwCase, KwDefault, KwElse, Error]
    dead w n = case w `mod` 3 of
      0 -> fragment ("\n        int unused" <> number n <> " = " <> number (fromIntegral (w `mod` 97)) <> ";")
      1 -> fragment ("\n        String note" <> number n <> " = \"step " <> number n <> "\";")
      _ -> fragment ("\n        boolean flag" <> number n <> " = false;")
    number = BC.pack . show

-- | The methods of the outermost class, in another order.
shuffleMethods :: SMGen -> [Piece] -> [Piece]
shuffleMethods gen ps = before ++ refill members shuffled ++ after
  where
    (before, inside) = splitAt (length (takeWhile (\(d, _, _) -> d == 0) (nested ps))) ps
    (body, after) = splitAt (length (takeWhile (\(d, _, _) -> d >= 0) (nested inside)) - 1) inside
    members = splitMembers body
    methods = filter isMethod members
    shuffled = map snd (sortOn fst (zip (words64 gen) methods))
    refill (m : ms) (s : ss)
      | isMethod m = s ++ refill ms ss
      | otherwise = m ++ refill ms (s : ss)
    refill ms _ = concat ms

isMethod :: [Piece] -> Bool
isMethod member = ParenClose `elem` signature && BraceOpen `elem` kinds member && not (any (`elem` signature) [Assign, KwClass, KwInterface, KwEnum])
  where
    signature = takeWhile (/= BraceOpen) (kinds member)

-- | Each ends with its semicolon or closing brace.
splitMembers :: [Piece] -> [[Piece]]
splitMembers [] = []
splitMembers ps = member : splitMembers rest
  where
    (member, rest) = splitAt (1 + length (takeWhile (not . ends) (nested ps))) ps
    ends (braces, parens, p) =
      (pieceKind p == Semicolon && braces == 0 && parens == 0)
        || (pieceKind p == BraceClose && braces <= 1)

-- | Up to where the bracket that is open at the beginning closes: inside, and
-- from the closing bracket.
untilClosed :: Kind -> Kind -> [Piece] -> Maybe ([Piece], [Piece])
untilClosed open close = go (0 :: Int) []
  where
    go _ _ [] = Nothing
    go depth inside ps@(p : rest)
      | pieceKind p == close && depth == 0 = Just (reverse inside, ps)
      | pieceKind p == close = go (depth - 1) (p : inside) rest
      | pieceKind p == open = go (depth + 1) (p : inside) rest
      | otherwise = go depth (p : inside) rest

forToWhile :: [Piece] -> [Piece]
forToWhile ps = case ps of
  loop : open : rest
    | pieceKind loop == KwFor,
      pieceKind open == ParenOpen,
      Just (header, _ : brace : inner) <- untilClosed ParenOpen ParenClose rest,
      pieceKind brace == BraceOpen,
      Just (body, close : rest') <- untilClosed BraceOpen BraceClose inner,
      [initial, condition, step] <- splitOn Semicolon header,
      Comma `notElem` kinds (initial ++ step),
      KwContinue `notElem` kinds body,
      not (null condition) ->
      concat
        [ [loop {pieceKind = BraceOpen, pieceText = "{"}],
          initial,
          [semicolon | not (null initial)],
          fragment " while (",
          condition,
          fragment ") {",
          forToWhile body,
          step,
          [semicolon | not (null step)],
          [close],
          fragment " }",
          forToWhile rest'
        ]
  p : rest -> p : forToWhile rest
  [] -> []
  where
    semicolon = Piece "" Semicolon ";"

splitOn :: Kind -> [Piece] -> [[Piece]]
splitOn kind ps = case break ((== kind) . pieceKind) ps of
  (part, _ : rest) -> part : splitOn kind rest
  (part, []) -> [part]

increment :: Rule
increment before ps = case ps of
  name : op : rest
    | pieceKind name == Identifier,
      Just sign <- lookup (pieceKind op) [(Increment, " +="), (Decrement, " -=")],
      before `elem` [Semicolon, BraceOpen, BraceClose, ParenClose],
      headKind rest `elem` [Semicolon, ParenClose] ->
      Just (name : fragment (sign <> " 1"), rest)
  _ -> Nothing

parenthesise :: Rule
parenthesise before ps = case ps of
  first : _
    | before == KwReturn || before == Assign,
      (value, rest) <- break ((== Semicolon) . pieceKind) ps,
      not (null value),
      headKind rest == Semicolon,
      not (any (`elem` kinds value) [BraceOpen, BraceClose, Comma, Arrow, Assign]),
      balanced value ->
      Just (Piece (pieceGap first) ParenOpen "(" : first {pieceGap = ""} : drop 1 value ++ fragment ")", rest)
  _ -> Nothing
  where
    balanced value = null [() | (_, parens, p) <- nested value, parens == 0, pieceKind p == ParenClose]

flipComparison :: Rule
flipComparison before ps = case ps of
  left : op : right : rest
    | simple left && simple right,
      Just flipped <- lookup (pieceKind op) mirrored,
      before `elem` [ParenOpen, AndAnd, OrOr, Semicolon, KwReturn, Assign],
      headKind rest `elem` [ParenClose, AndAnd, OrOr, Semicolon, Question] ->
      Just ([right {pieceGap = pieceGap left}, op {pieceKind = fst flipped, pieceText = snd flipped}, left {pieceGap = pieceGap right}], rest)
  _ -> Nothing
  where
    simple p = pieceKind p `elem` [Identifier, IntLiteral, FloatLiteral]
    mirrored =
      [ (Less, (Greater, ">")),
        (Greater, (Less, "<")),
        (LessEqual, (GreaterEqual, ">=")),
        (GreaterEqual, (LessEqual, "<=")),
        (Equal, (Equal, "==")),
        (NotEqual, (NotEqual, "!="))
      ]
