-- | What the records between a forked worker and its coordinator say.
-- /Internal/.
module Maru.Backend.Process.Wire
  ( -- * Kinds of record
    Kind (..),
    kindWord,
    kindOf,
    filled,
    isFull,

    -- * Exceptions
    packException,
    packExceptionText,
    unpackException,
    unpackThrown,
    unpackExceptionText,
    OnlyCaller (..),

    -- * Bytes
    packBytes,
    packText,
    unpackText,
  )
where

import Control.Exception (Exception (..), SomeAsyncException (..), SomeException (..), evaluate)
import Control.Monad (join)
import qualified Data.Binary as Binary
import Data.Bits (clearBit, setBit, testBit)
import qualified Data.ByteString as Strict
import qualified Data.ByteString.Internal as Bytes (fromForeignPtr)
import qualified Data.ByteString.Lazy as Lazy
import qualified Data.ByteString.Unsafe as Unsafe
import Data.Maybe (fromMaybe)
import Data.Typeable (typeOf)
import Data.Word (Word16, Word32, Word64, Word8)
import Foreign (castPtr)
import GHC.IO.Exception (IOException (..))
import Maru.Failure (RemoteException (..), WorkerLost, exceptionText)
import Maru.Internal.Attempt (attempt, longestText)
import Maru.Native.Region (Packed (..), pack, unpack)
import Maru.Native.Rts (ShippedException (..), joinException, splitException)

-- | The index of a record is that of its (first) item.
data Kind
  = -- | Addresses of consecutive results: a word that counts them, then as many
    -- as it counts; its top bit says that no more will be filled in. The record
    -- is sent before it is filled, so that no result waits for its neighbours.
    Addresses
  | -- | One result, as a compact that must be relocated.
    Compacted
  | -- | One result, in the user's coding.
    Coded
  | -- | The item threw: see 'packException'.
    Threw
  | -- | The item cannot be finished in this worker (see "Maru.Native.Pen"), which
    -- has ended with this record. The chunk says why.
    Sealed
  | -- | The result cannot cross; the chunk says what it holds.
    Refused
  | -- | The worker leaves, its unfinished items are to be given to another.
    -- The chunk says why.
    Retired
  | -- | The worker's initialiser threw: see 'packException'.
    InitialiserThrew
  | -- | The worker's initialiser cannot be finished in it (see "Maru.Native.Pen"); it has
    -- ended with this record. The chunk says why.
    Unstarted
  | -- | The worker has passed its prologue: next is the user's initialiser.
    Ready
  | -- | The worker has passed its initialiser: next are items.
    Initialised
  | -- | The worker has found nothing left to claim: it needs its core no longer, and ends.
    Leaving
  deriving (Eq, Show, Enum, Bounded)

kindWord :: Kind -> Word16
kindWord = fromIntegral . (+ 1) . fromEnum

kindOf :: Word32 -> Maybe Kind
kindOf w
  | w >= 1 && fromIntegral w <= fromEnum (maxBound :: Kind) + 1 = Just (toEnum (fromIntegral w - 1))
  | otherwise = Nothing

-- | The first word of an 'Addresses' record: so many, and no more to come?
filled :: Int -> Bool -> Word64
filled n full = if full then setBit (fromIntegral n) 63 else fromIntegral n

-- | Inverse of 'filled'.
isFull :: Word64 -> (Int, Bool)
isFull w = (fromIntegral (clearBit w 63), testBit w 63)

-- | A value as bytes, or what in it cannot leave its process.
packBytes :: Bool -> a -> IO (Either String Strict.ByteString)
packBytes sharing x = do
  packed <- pack sharing x
  pure $ case packed of
    Packed memory n -> Right (Bytes.fromForeignPtr memory 0 n)
    Unpackable what -> Left what

-- The first byte of a packed exception.
textForm, plainForm, asyncForm, ownForm :: Word8
textForm = 0
plainForm = 1
asyncForm = 2
ownForm = 3

-- | An exception as bytes. Its type survives where the dictionary is a static
-- closure (every instance without a context of its own) and the payload is
-- plain data; else type name and text do.
packException :: SomeException -> IO Strict.ByteString
packException e = do
  typed <- attempt 200 (packTyped inner)
  maybe (packExceptionText e) (pure . Strict.cons form) (join typed)
  where
    -- An asynchronous type comes wrapped together with its dictionary, which
    -- cannot cross as data: it is wrapped again on arrival.
    (form, inner) = case fromException e of
      Just (SomeAsyncException x) -> (asyncForm, SomeException x)
      Nothing -> (plainForm, withoutHandle e)

-- | For a process whose code lies elsewhere in memory: of an item that was lost what is known of it; of
-- others type name and text. A text takes little memory, and an emulated machine its time.
packExceptionText :: SomeException -> IO Strict.ByteString
packExceptionText e = fromMaybe (described "(its text throws, or has no end)") <$> attempt 5000 (evaluate packed)
  where
    packed = maybe (described (take longestText (exceptionText e))) (coded ownForm) (fromException e :: Maybe WorkerLost)
    described text = coded textForm (typeName e, text)
    coded form = Strict.cons form . Lazy.toStrict . Binary.encode

typeName :: SomeException -> String
typeName (SomeException x) = show (typeOf x)

packTyped :: SomeException -> IO (Maybe Strict.ByteString)
packTyped e = do
  shipped <- splitException e
  case shipped of
    TextOnly -> pure Nothing
    Typed dictionary payload -> do
      packed <- packBytes True payload
      pure $ case packed of
        Left _ -> Nothing
        Right bytes -> Just (Lazy.toStrict (Binary.encode dictionary) <> bytes)

-- | Inverse, in the coordinator. Index and worker are for the text form.
unpackException :: Int -> Int -> Strict.ByteString -> IO SomeException
unpackException index worker bytes = either id id <$> unpackThrown index worker bytes

-- | The same: what was thrown there, or on the left what maru says of it.
unpackThrown :: Int -> Int -> Strict.ByteString -> IO (Either SomeException SomeException)
unpackThrown index worker bytes = case Strict.uncons bytes of
  Just (form, rest) | form `elem` [plainForm, asyncForm] -> do
    let (address, body) = Strict.splitAt 8 rest
        aligned = Strict.copy body
    value <- Unsafe.unsafeUseAsCStringLen aligned $ \(p, n) -> unpack (castPtr p) n
    case value of
      Just payload -> Right . rewrap form <$> joinException (Binary.decode (Lazy.fromStrict address) :: Word64) payload
      Nothing -> pure (Left (lost "an exception" "(it could not be relocated)"))
  Just (form, _) | form == ownForm -> pure (Right told)
  _ -> pure (Left told)
  where
    told = unpackExceptionText index worker bytes
    lost ty text = toException (RemoteException index worker ty text)
    rewrap form (SomeException x)
      | form == asyncForm = toException (SomeAsyncException x)
      | otherwise = SomeException x

-- | The same of bytes that may be anything. Typed ones would be taken as the heap's: they are damaged.
unpackExceptionText :: Int -> Int -> Strict.ByteString -> SomeException
unpackExceptionText index worker bytes = case Strict.uncons bytes of
  Just (form, rest)
    | form == ownForm, Just lost <- decoded rest -> toException (lost :: WorkerLost)
    | form == textForm, Just told <- decoded rest -> remote told
    | otherwise -> remote ("an exception", "(its record is damaged)")
  Nothing -> remote ("an exception", "(its record is empty)")
  where
    remote = toException . uncurry (RemoteException index worker)
    decoded :: Binary.Binary a => Strict.ByteString -> Maybe a
    decoded rest
      | Strict.length rest <= 8 * longestText, Right (_, _, x) <- Binary.decodeOrFail (Lazy.fromStrict rest) = Just x
      | otherwise = Nothing

-- A Handle is a pair of MVars, which cannot cross; the message can.
withoutHandle :: SomeException -> SomeException
withoutHandle e = case fromException e of
  Just io -> toException io {ioe_handle = Nothing}
  Nothing -> e

-- | Thrown to whoever demands a result in a process that the program forked from
-- the one that started the map. (A worker seals its item instead.)
data OnlyCaller = OnlyCaller

instance Show OnlyCaller where
  show OnlyCaller = "maru: the result of a parallel map was demanded in another process than the one that started it; demand it before forking"

instance Exception OnlyCaller

packText :: String -> Strict.ByteString
packText = Lazy.toStrict . Binary.encode

unpackText :: Strict.ByteString -> String
unpackText bytes = case Binary.decodeOrFail (Lazy.fromStrict bytes) of
  Right (_, _, text) -> text
  Left _ -> "(a damaged message)"
