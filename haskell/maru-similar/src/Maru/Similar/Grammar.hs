-- | Grammars: plug-ins that say what a program does, from its syntax tree.
--
-- A grammar is a shared library that @scripts\/grammars@ builds (@grammar\/grammar.h@ is its
-- contract). It is opened once, before anything forks, and never closed. What cannot be opened is
-- said in one line, and the lexer takes its place ("Maru.Similar.Structure").
module Maru.Similar.Grammar
  ( Grammar,
    Grammars,
    grammarName,
    openGrammar,
    openGrammars,
    wholeFamilies,
    Parsed (..),
    parse,
    largestText,
  )
where

import Control.Exception (IOException, try)
import Data.Bifunctor (first)
import Data.ByteString (ByteString)
import qualified Data.ByteString as B
import qualified Data.ByteString.Char8 as BC
import qualified Data.ByteString.Unsafe as BU
import Data.Int (Int64)
import Data.List (intercalate)
import Data.Map.Strict (Map)
import qualified Data.Map.Strict as Map
import Data.Primitive.PrimArray (PrimArray, newPrimArray, unsafeFreezePrimArray)
import Data.Primitive.Ptr (copyPtrToMutablePrimArray)
import Data.Tuple (swap)
import Data.Word (Word32)
import Foreign.C.Error (Errno (..), errnoToIOError)
import Foreign.C.String (CString)
import Foreign.C.Types
import Foreign.Marshal.Alloc
import Foreign.Ptr
import Foreign.Storable
import Maru.Similar.Grammar.Elf (wholeLibrary)
import Maru.Similar.Language (Language, familyHead, hasGrammar, languageName)
import System.IO.Error (ioeGetErrorString)
import System.IO.Unsafe (unsafePerformIO)
import System.Posix.DynamicLinker

-- | An open plug-in; immutable, and the same in forked processes.
data Grammar = Grammar
  { -- | Name and version, and the hashes of its runtime and of the walker: another name, other acts.
    grammarName :: !ByteString,
    grammarWalk :: !(FunPtr Walk),
    grammarFree :: !(FunPtr (Ptr Word32 -> IO ())),
    grammarRules :: !(Ptr ())
  }
  deriving (Eq, Show)

-- | Those at hand.
type Grammars = Map Language Grammar

type Walk = Ptr () -> CString -> Word32 -> Ptr (Ptr Word32) -> Ptr Word32 -> IO Int64

-- | Of a text: its acts, and how many places are no program of the language.
data Parsed = Parsed
  { -- | An act, and the offset of its byte, in turns.
    parsedActs :: !(PrimArray Word32),
    parsedErrors :: !Int
  }
  deriving (Eq, Show)

-- | The door that this module opens.
door :: Word32
door = 2

-- | Bytes of the largest text that is parsed, but for blanks (@MARU_GRAMMAR_LARGEST@).
largestText :: Int
largestText = 60000

-- | That of a language. Or why not, in a few words that name the path.
openGrammar :: String -> FilePath -> IO (Either String Grammar)
openGrammar language path = do
  whole <- wholeLibrary path
  case whole of
    Left why -> pure (Left (path ++ ": " ++ why))
    Right () -> either (Left . refused) (first ((path ++ ": ") ++)) <$> (try (dlopen path [RTLD_NOW, RTLD_LOCAL] >>= opened language) :: IO (Either IOException (Either String Grammar)))
  where
    -- Of the linker's words, which name the path.
    refused e = unwords (words (ioeGetErrorString e))

-- | Those of some languages, by a finder of what is below the prefix; and of each other one why there
-- is none.
openGrammars :: (FilePath -> IO FilePath) -> [Language] -> IO (Grammars, Map Language String)
openGrammars find languages' = swap . Map.mapEither id . Map.fromList <$> mapM one (filter hasGrammar languages')
  where
    one l = (,) l <$> (find ("grammars/" ++ languageName l ++ ".so") >>= openGrammar (languageName l))

-- | Without those of a family of which one is absent, and why: acts of tokens and acts of a tree
-- cannot be compared, and programs of one family are.
wholeFamilies :: (Grammars, Map Language String) -> (Grammars, Map Language String)
wholeFamilies (found, absent) = (whole, absent <> Map.mapWithKey (\l _ -> "it is left out, for there is none of " ++ missing l) torn)
  where
    (torn, whole) = Map.partitionWithKey (\l _ -> any (related l) (Map.keys absent)) found
    related l l' = familyHead l == familyHead l'
    missing l = intercalate ", " [languageName l' | l' <- Map.keys absent, related l l']

opened :: String -> DL -> IO (Either String Grammar)
opened language library = do
  version <- dlsym library "maru_grammar_door" >>= callNumber
  if version /= door
    then pure (Left ("it is made for another maru (door " ++ show version ++ ", not " ++ show door ++ ")"))
    else do
      name <- dlsym library "maru_grammar_name" >>= callText >>= B.packCString
      abi <- dlsym library "maru_grammar_abi" >>= callNumber
      walk <- dlsym library "maru_grammar_walk"
      free_ <- dlsym library "maru_grammar_free"
      open <- dlsym library "maru_grammar_open"
      alloca $ \out -> do
        failure <- callOpen open out
        case () of
          _
            | BC.takeWhile (/= ' ') name /= BC.pack ("tree-sitter-" ++ language) -> pure (Left ("it is " ++ BC.unpack name))
            | failure == 0 -> Right . Grammar name walk free_ <$> peek out
            | otherwise -> pure (Left (BC.unpack name ++ " has ABI " ++ show abi ++ ", which its runtime does not take: " ++ reason failure))
  where
    reason failure = ioeGetErrorString (errnoToIOError "" (Errno (negate failure)) Nothing Nothing)

-- | 'Nothing': it is too large, or no program by far. Depends on the text alone. O(n).
parse :: Grammar -> ByteString -> Maybe Parsed
parse grammar text
  | B.length text >= 4 * 1024 * 1024 * 1024 || B.length (B.filter (\w -> w /= 9 && w /= 32) text) > largestText = Nothing
  | otherwise = unsafePerformIO $
    BU.unsafeUseAsCStringLen text $ \(bytes, n) -> alloca $ \acts -> alloca $ \errors -> do
      found <- callWalk (grammarWalk grammar) (grammarRules grammar) bytes (fromIntegral n) acts errors
      if found < 0
        then pure Nothing
        else do
          at <- peek acts
          out <- newPrimArray (2 * fromIntegral found)
          copyPtrToMutablePrimArray out 0 at (2 * fromIntegral found)
          callFree (grammarFree grammar) at
          Just <$> (Parsed <$> unsafeFreezePrimArray out <*> (fromIntegral <$> peek errors))

foreign import ccall "dynamic" callNumber :: FunPtr (IO Word32) -> IO Word32

foreign import ccall "dynamic" callText :: FunPtr (IO CString) -> IO CString

foreign import ccall "dynamic" callOpen :: FunPtr (Ptr (Ptr ()) -> IO CInt) -> Ptr (Ptr ()) -> IO CInt

foreign import ccall safe "dynamic" callWalk :: FunPtr Walk -> Walk

foreign import ccall "dynamic" callFree :: FunPtr (Ptr Word32 -> IO ()) -> Ptr Word32 -> IO ()
