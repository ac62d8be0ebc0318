-- | Tokens of one source file, as unboxed arrays: 9 bytes a token.
module Maru.Similar.Token
  ( -- * Kinds
    Kind (..),

    -- * Token arrays
    Tokens (..),
    tokenCount,
    tokenKind,
    tokenStart,
    tokenEnd,
    tokenText,
    Habits (..),
    noHabits,
    Hole (..),
  )
where

import Data.ByteString (ByteString)
import qualified Data.ByteString as B
import Data.Vector.Unboxed (Vector)
import qualified Data.Vector.Unboxed as VU
import Data.Word (Word32, Word8)

-- | What a token is. Contextual keywords (@var@, @record@, @yield@, ...) are
-- identifiers: whether they are more depends on grammar, not on spelling.
data Kind
  = -- | A run of bytes that cannot start any token.
    Error
  | Identifier
  | IntLiteral
  | FloatLiteral
  | CharLiteral
  | StringLiteral
  | TextBlock
  | KwTrue
  | KwFalse
  | KwNull
  | KwAbstract
  | KwAssert
  | KwBoolean
  | KwBreak
  | KwByte
  | KwCase
  | KwCatch
  | KwChar
  | KwClass
  | KwConst
  | KwContinue
  | KwDefault
  | KwDo
  | KwDouble
  | KwElse
  | KwEnum
  | KwExtends
  | KwFinal
  | KwFinally
  | KwFloat
  | KwFor
  | KwGoto
  | KwIf
  | KwImplements
  | KwImport
  | KwInstanceof
  | KwInt
  | KwInterface
  | KwLong
  | KwNative
  | KwNew
  | KwPackage
  | KwPrivate
  | KwProtected
  | KwPublic
  | KwReturn
  | KwShort
  | KwStatic
  | KwStrictfp
  | KwSuper
  | KwSwitch
  | KwSynchronized
  | KwThis
  | KwThrow
  | KwThrows
  | KwTransient
  | KwTry
  | KwVoid
  | KwVolatile
  | KwWhile
  | KwUnderscore
  | ParenOpen
  | ParenClose
  | BraceOpen
  | BraceClose
  | BracketOpen
  | BracketClose
  | Semicolon
  | Comma
  | Dot
  | Ellipsis
  | At
  | ColonColon
  | Assign
  | Greater
  | Less
  | Not
  | Complement
  | Question
  | Colon
  | Arrow
  | Equal
  | GreaterEqual
  | LessEqual
  | NotEqual
  | AndAnd
  | OrOr
  | Increment
  | Decrement
  | Plus
  | Minus
  | Star
  | Slash
  | And
  | Or
  | Xor
  | Percent
  | ShiftLeft
  | PlusAssign
  | MinusAssign
  | StarAssign
  | SlashAssign
  | AndAssign
  | OrAssign
  | XorAssign
  | PercentAssign
  | ShiftLeftAssign
  | -- | A word or a sign that Java does not have: compared by its spelling.
    Mark
  | -- | A line that says which code of others is used ("Maru.Similar.Lexer.Generic"): not compared.
    Preamble
  deriving (Eq, Ord, Show, Enum, Bounded)

-- | All tokens of a source, in order, without overlap. What lies between two
-- tokens is white space and comments.
data Tokens = Tokens
  { -- | 'fromEnum' of the 'Kind'.
    tokenKinds :: !(Vector Word8),
    -- | Offset of the first byte.
    tokenStarts :: !(Vector Word32),
    -- | Offset after the last byte.
    tokenEnds :: !(Vector Word32),
    -- | How much is wrong with the source: 'Error' tokens, and literals and
    -- comments that do not end.
    tokenErrors :: !Int,
    -- | Of those, comments and text blocks that do not end: what follows is
    -- taken as code.
    tokenUnclosed :: !Int,
    -- | 'Maru.Similar.Language.family': tokens of two families are never the same.
    tokenFamily :: !Word32,
    tokenHabits :: !Habits
  }
  deriving (Eq, Show)

-- | What its languages take for the same.
data Habits = Habits
  { -- | Words in capitals and in small letters.
    habitFolds :: !Bool,
    -- | A semicolon, and the end of a line.
    habitLines :: !Bool,
    -- | Whatever the names in the code of a text.
    habitHole :: !(Maybe Hole)
  }
  deriving (Eq, Show)

noHabits :: Habits
noHabits = Habits False False Nothing

-- | Where code stands in texts.
data Hole = Hole
  { -- | Not empty; its last byte and the closing one come in pairs in the code.
    holeOpens :: !ByteString,
    holeCloses :: !Word8,
    -- | A name behind a dollar is code, too.
    holeDollar :: !Bool
  }
  deriving (Eq, Show)

tokenCount :: Tokens -> Int
tokenCount = VU.length . tokenKinds

-- | The index must be in @[0, tokenCount)@.
tokenKind :: Tokens -> Int -> Kind
tokenKind ts i = toEnum (fromIntegral (tokenKinds ts VU.! i))

-- | Offset of the first byte.
tokenStart :: Tokens -> Int -> Int
tokenStart ts i = fromIntegral (tokenStarts ts VU.! i)

-- | Offset after the last byte.
tokenEnd :: Tokens -> Int -> Int
tokenEnd ts i = fromIntegral (tokenEnds ts VU.! i)

-- | A slice of the source that the tokens were made from.
tokenText :: ByteString -> Tokens -> Int -> ByteString
tokenText source ts i = slice (tokenStart ts i) (tokenEnd ts i) source

slice :: Int -> Int -> ByteString -> ByteString
slice from to = B.take (to - from) . B.drop from
