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
    operatorsOf,
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
import Maru.Similar.Mutate.Pieces
import Maru.Similar.Mutate.Statements
import Maru.Similar.Token
import System.Random.SplitMix (SMGen, mkSMGen, splitSMGen)

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
  | -- | @int x = 1;@ becomes @int x; x = 1;@.
    SplitDeclarations
  | -- | @x += y;@ becomes @x = x + y;@.
    ExpandAssignments
  | -- | Both ways of an @if@ change places.
    InvertConditions
  | -- | Output that nobody asked for.
    InsertPrints
  | -- | Statements that change nothing, everywhere.
    InsertMuch
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
  SplitDeclarations -> "split-declarations"
  ExpandAssignments -> "assignments"
  InvertConditions -> "conditions"
  InsertPrints -> "prints"
  InsertMuch -> "statements"

-- | What is done to a copy of that strength, 1 to 6: more from one to the next.
--
-- 1 comments and layout; 2 names; 3 order of methods, unused variables; 4 forms of loops, steps,
-- comparisons and expressions; 5 forms of declarations, assignments and conditions, output; 6
-- statements everywhere.
operatorsOf :: Int -> [Operator]
operatorsOf strength = [op | (least, op) <- steps, least <= strength]
  where
    steps =
      [(2, Rename), (1, StripComments), (1, Layout), (3, DeadDeclarations), (3, MethodSwap), (4, ForToWhile)]
        ++ [(4, CompoundIncrement), (4, ExtraParentheses), (4, FlipComparisons), (5, SplitDeclarations)]
        ++ [(5, ExpandAssignments), (5, InvertConditions), (5, InsertPrints), (6, InsertMuch)]

-- | Whether the normalised tokens stay the same.
tokenNeutral :: Operator -> Bool
tokenNeutral op = op `elem` [Rename, StripComments, Layout]

-- | Apply the operators in the given order.
mutate :: Word64 -> [Operator] -> ByteString -> ByteString
mutate seed ops source = foldl step source (zip ops (generators (mkSMGen seed)))
  where
    step text (op, gen) = render (operate op gen (pieces text))

-- | Some operators of strength 4 at most, at least one, in their usual order.
someOperators :: Word64 -> [Operator]
someOperators seed = case [op | (op, True) <- zip usual (coins 2 gen)] of
  [] -> [pick gen' usual]
  ops -> ops
  where
    (gen, gen') = splitSMGen (mkSMGen seed)
    usual = [minBound .. FlipComparisons]

generators :: SMGen -> [SMGen]
generators gen = this : generators rest
  where
    (this, rest) = splitSMGen gen

operate :: Operator -> SMGen -> Pieces -> Pieces
operate op gen = case op of
  Rename -> onPieces (rename gen)
  StripComments -> \(Pieces ps end) ->
    Pieces [p {pieceGap = withoutComments (pieceGap p)} | p <- ps] (withoutComments end)
  Layout -> onPieces (layOut gen)
  DeadDeclarations -> onPieces (insertDead gen)
  MethodSwap -> onPieces (shuffleMethods gen)
  ForToWhile -> onPieces forToWhile
  CompoundIncrement -> onPieces (rewrite (coins 2 gen) increment)
  ExtraParentheses -> onPieces (rewrite (coins 2 gen) parenthesise)
  FlipComparisons -> onPieces (rewrite (coins 2 gen) flipComparison)
  SplitDeclarations -> onPieces (splitDeclarations gen)
  ExpandAssignments -> onPieces (rewrite (coins 2 gen) expandAssignment)
  InvertConditions -> onPieces (invertConditions (coins 2 gen))
  InsertPrints -> onPieces (insertPrints gen)
  InsertMuch -> onPieces (insertMuch gen)

-- Rename ----------------------------------------------------------------------

rename :: SMGen -> [Piece] -> [Piece]
rename gen ps = [p {pieceText = Map.findWithDefault (pieceText p) (pieceText p) names} | p <- ps]
  where
    names = Map.fromList (zip (Set.toAscList (declared ps)) fresh)
    fresh = filter (`Set.notMember` used) [style <> BC.pack (show n) | n <- [1 :: Int ..]]
    used = Set.fromList (map pieceText ps)
    style = pick gen ["v", "item", "temp", "my", "value", "obj"]

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
