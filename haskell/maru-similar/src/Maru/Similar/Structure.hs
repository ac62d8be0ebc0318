{-# LANGUAGE BangPatterns #-}

-- | The skeleton of a program, from its tokens alone: what it does, in which
-- order; not how it is written.
--
-- Loops are one code, whatever their keyword; so are all ways to choose, and all
-- ways to assign. Types, modifiers, operators, parentheses, imports, annotations
-- and declarations without a value have no code. It needs no grammar, so it takes
-- broken programs, and any bytes.
module Maru.Similar.Structure
  ( Act (..),
    skeleton,
  )
where

import qualified Data.Vector.Unboxed as VU
import Maru.Similar.Token

-- | What a program does at a place.
data Act
  = Class
  | ClassEnd
  | Method
  | MethodEnd
  | Loop
  | Choose
  | Otherwise
  | Assigns
  | Apply
  | New
  | Return
  | Throw
  | Try
  | Catch
  | Finally
  | Break
  | Continue
  | Asserts
  | Synchronise
  | Lambda
  | -- | Arithmetic; this and the rest only from a tree.
    Computes
  | Compares
  | -- | @and@, @or@.
    Combines
  | Indexes
  deriving (Eq, Ord, Show, Enum, Bounded)

-- | What an open brace belongs to.
data Block = ClassBlock | MethodBlock | OtherBlock

-- | Where a reader of tokens is.
data Place = Place
  { -- | The token before.
    before :: !Kind,
    -- | What the next brace opens.
    opens :: !Block,
    -- | After @new@: its parenthesis applies nothing.
    creating :: !Bool,
    blocks :: ![Block]
  }

-- | The acts with the positions of their tokens; at most one a token. O(n).
skeleton :: Tokens -> [(Act, Int)]
skeleton ts = go (Place Semicolon OtherBlock False []) 0
  where
    n = tokenCount ts
    kindAt i = if i < n then tokenKind ts i else Error
    go !place !i
      | i >= n = []
      | kind == KwImport || kind == KwPackage = go place {before = Semicolon} (after (/= Semicolon) (i + 1) + 1)
      | kind == At && kindAt (i + 1) /= KwInterface = go place (afterAnnotation (i + 1))
      | otherwise = case act place kind (kindAt (i + 1)) of
        Just Loop | kind == KwWhile && endsDo i -> continue
        Just a -> (a, i) : continue
        Nothing -> continue
      where
        kind = kindAt i
        continue = go (step place kind (kindAt (i + 1))) (i + 1)
    after while i
      | i < n && while (kindAt i) = after while (i + 1)
      | otherwise = i
    -- The name, and arguments if there are.
    afterAnnotation i
      | kindAt end == ParenOpen = closings VU.! end
      | otherwise = end
      where
        end = after (\k -> k == Identifier || k == Dot) i
    -- The while of a do: nothing but a semicolon after its condition.
    endsDo i = kindAt (i + 1) == ParenOpen && kindAt (closings VU.! (i + 1)) == Semicolon
    closings = closingsOf ts

-- | Of each parenthesis that opens, where its end is behind: the number of tokens where it has none.
closingsOf :: Tokens -> VU.Vector Int
closingsOf ts = VU.replicate n n VU.// pairs [] [0 .. n - 1]
  where
    n = tokenCount ts
    pairs _ [] = []
    pairs open (i : more) = case (tokenKind ts i, open) of
      (ParenOpen, _) -> pairs (i : open) more
      (ParenClose, from : outer) -> (from, i + 1) : pairs outer more
      _ -> pairs open more

step :: Place -> Kind -> Kind -> Place
step place kind next = case kind of
  BraceOpen -> place' {opens = OtherBlock, creating = False, blocks = opened : blocks place}
  BraceClose -> place' {opens = OtherBlock, blocks = drop 1 (blocks place)}
  Semicolon -> place' {opens = OtherBlock, creating = False}
  KwNew -> place' {creating = True}
  BracketOpen -> place' {creating = False}
  ParenOpen -> place' {creating = False}
  Identifier | declaresMethod place kind next -> place' {opens = MethodBlock}
  _
    | opensClass place kind -> place' {opens = ClassBlock}
    | otherwise -> place'
  where
    place' = place {before = kind}
    opened = if before place == Assign || before place == BracketClose then OtherBlock else opens place

opensClass :: Place -> Kind -> Bool
opensClass place kind = kind `elem` [KwClass, KwInterface, KwEnum] && before place /= Dot

declaresMethod :: Place -> Kind -> Kind -> Bool
declaresMethod place kind next =
  kind == Identifier && next == ParenOpen && not (creating place) && (before place `elem` ends || (inClass && before place `elem` endsInClass))
  where
    inClass = case blocks place of
      ClassBlock : _ -> True
      _ -> False
    ends = [Identifier, BracketClose, KwInt, KwLong, KwDouble, KwFloat, KwBoolean, KwChar, KwByte, KwShort, KwVoid]
    -- Elsewhere a comparison, or a statement before a call; here a type, or what
    -- stands before a constructor.
    endsInClass = [Greater, KwPublic, KwPrivate, KwProtected, BraceOpen, BraceClose, Semicolon]

act :: Place -> Kind -> Kind -> Maybe Act
act place kind next = case kind of
  BraceClose -> case blocks place of
    ClassBlock : _ -> Just ClassEnd
    MethodBlock : _ -> Just MethodEnd
    _ -> Nothing
  Identifier
    | next /= ParenOpen || creating place -> Nothing
    | declaresMethod place kind next -> Just Method
    | otherwise -> Just Apply
  KwThis | next == ParenOpen -> Just Apply
  KwSuper | next == ParenOpen -> Just Apply
  KwSynchronized | next == ParenOpen -> Just Synchronise
  Question
    | before place `elem` [Less, Comma] -> Nothing -- a wildcard
    | otherwise -> Just Choose
  _
    | opensClass place kind -> Just Class
    | isAssignment kind -> Just Assigns
    | otherwise -> lookup kind plain
  where
    plain =
      [ (KwFor, Loop),
        (KwDo, Loop),
        (KwWhile, Loop),
        (KwIf, Choose),
        (KwCase, Choose),
        (KwDefault, Otherwise),
        (KwElse, Otherwise),
        (KwNew, New),
        (KwReturn, Return),
        (KwThrow, Throw),
        (KwTry, Try),
        (KwCatch, Catch),
        (KwFinally, Finally),
        (KwBreak, Break),
        (KwContinue, Continue),
        (KwAssert, Asserts),
        (Arrow, Lambda)
      ]

isAssignment :: Kind -> Bool
isAssignment kind = kind == Assign || kind == Increment || kind == Decrement || (kind >= PlusAssign && kind <= ShiftLeftAssign)
