-- | Files of sections that know whether they are whole (@cbits\/store.h@). A thin shell.
--
-- What goes wrong is an 'IOError' of the file, or 'Unusable'.
module Maru.Similar.Store
  ( -- * Reading
    Store,
    Unusable (..),
    openStore,
    storeCount,
    storeBytes,
    readSection,
    withStore,
    StorePtr,
    checked,
    eOVERFLOW,

    -- * Writing
    Writer,
    withWriter,
    putSection,
    putView,
    mergeView,
    finish,
    Section (..),
  )
where

import Control.Exception (Exception, bracket, throwIO)
import Control.Monad (when, (>=>))
import Control.Monad.Primitive (touch)
import Data.ByteString (ByteString)
import qualified Data.ByteString.Internal as B
import qualified Data.ByteString.Unsafe as B
import Data.Primitive.PrimArray
import qualified Data.Vector.Storable as VS
import Data.Word (Word32, Word64)
import Foreign.C.Error
import Foreign.C.Types
import Foreign.ForeignPtr
import Foreign.Marshal.Alloc
import Foreign.Marshal.Array
import Foreign.Ptr
import Foreign.Storable
import Maru.Similar.Normalise (Codes)
import System.Posix.Types (Fd)

data StorePtr

newtype Store = Store (ForeignPtr StorePtr)

-- | Why a file cannot be used.
data Unusable
  = Foreign
  | -- | Of another version, or of views that are made in another way.
    OtherVersion
  | Damaged
  deriving (Eq, Show)

instance Exception Unusable

data Section = HeadFirst | Heads | TextFirst | Texts
  deriving (Eq, Enum, Show)

-- | A negative errno as an exception.
checked :: Integral a => a -> IO ()
checked r = when (r < 0) $ throwIO' (Errno (negate (fromIntegral r)))
  where
    throwIO' e
      | e == eBADMSG = throwIO Damaged
      | e == eNOEXEC = throwIO Foreign
      | e == ePROTONOSUPPORT = throwIO OtherVersion
      | otherwise = throwIO (errnoToIOError "the index" e Nothing Nothing)

-- | More than the numbers of a file can count. Linux's number; the base library has none.
eOVERFLOW :: Errno
eOVERFLOW = Errno 75

-- | Of views of that recipe. Takes the descriptor.
openStore :: Word32 -> Fd -> IO Store
openStore recipe fd = alloca $ \out -> do
  c_open (fromIntegral fd) recipe out >>= checked
  Store <$> (peek out >>= newForeignPtr c_close)

storeCount :: Store -> IO Int
storeCount store = withStore store (fmap fromIntegral . c_submissions)

storeBytes :: Store -> Section -> IO Int
storeBytes store section = withStore store (\p -> fromIntegral <$> c_bytes p (fromIntegral (fromEnum section)))

-- | So many bytes from an offset on.
readSection :: Store -> Section -> Int -> Int -> IO ByteString
readSection store section offset size
  | offset < 0 || size < 0 = throwIO Damaged
  | otherwise = do
    most <- storeBytes store section
    -- Before room is made for them.
    when (size > most) $ throwIO Damaged
    withStore store $ \p -> B.create size (c_read p (fromIntegral (fromEnum section)) (fromIntegral offset) (fromIntegral size) >=> checked)

withStore :: Store -> (Ptr StorePtr -> IO a) -> IO a
withStore (Store p) = withForeignPtr p

data WriterPtr

newtype Writer = Writer (Ptr WriterPtr)

-- | A writer into a file of so many submissions, of views of that recipe; the descriptor stays the
-- caller's.
withWriter :: Word32 -> Fd -> Int -> (Writer -> IO a) -> IO a
withWriter recipe fd n = bracket new free'
  where
    new = do
      w <- c_writer (fromIntegral fd) recipe (fromIntegral n)
      when (w == nullPtr) $ checked (negate (let Errno e = eNOMEM in e))
      pure (Writer w)
    free' (Writer w) = c_writer_free w

-- | Append to a section; one section after the other.
putSection :: Writer -> Section -> ByteString -> IO ()
putSection (Writer w) section bytes =
  B.unsafeUseAsCStringLen bytes $ \(p, n) -> c_put w (fromIntegral (fromEnum section)) p (fromIntegral n) >>= checked

-- | A view of all submissions, of grams of so many codes.
putView :: Writer -> Int -> Int -> [Codes] -> IO ()
putView (Writer w) view k codes =
  withArray (map fromIntegral starts) $ \offsets -> do
    joined <- newPinnedPrimArray (last starts)
    sequence_ [copyPrimArray joined at c 0 (sizeofPrimArray c) | (at, c) <- zip starts codes]
    done <- c_view w (fromIntegral view) (mutablePrimArrayContents joined) offsets (fromIntegral k)
    touch joined
    checked done
  where
    starts = scanl (+) 0 (map sizeofPrimArray codes)

-- | A view of several files as one, each with the places of its submissions, ascending.
mergeView :: Writer -> Int -> [(Store, VS.Vector Word32)] -> IO ()
mergeView (Writer w) view sources = go sources [] []
  where
    go ((store, places) : more) ps qs = withStore store $ \p -> VS.unsafeWith places $ \q -> go more (p : ps) (q : qs)
    go [] ps qs = withArrayLen (reverse ps) $ \n stores -> withArray (reverse qs) $ \places ->
      c_merge w (fromIntegral view) stores places (fromIntegral n) >>= checked

-- | Whole and on the disk.
finish :: Writer -> IO ()
finish (Writer w) = c_finish w >>= checked

foreign import ccall safe "maru_similar_store_open"
  c_open :: CInt -> Word32 -> Ptr (Ptr StorePtr) -> IO CInt

foreign import ccall "&maru_similar_store_close" c_close :: FunPtr (Ptr StorePtr -> IO ())

foreign import ccall unsafe "maru_similar_store_submissions" c_submissions :: Ptr StorePtr -> IO Word32

foreign import ccall unsafe "maru_similar_store_bytes" c_bytes :: Ptr StorePtr -> CInt -> IO Word64

foreign import ccall safe "maru_similar_store_read"
  c_read :: Ptr StorePtr -> CInt -> Word64 -> Word64 -> Ptr a -> IO CInt

foreign import ccall safe "maru_similar_writer_new"
  c_writer :: CInt -> Word32 -> Word32 -> IO (Ptr WriterPtr)

foreign import ccall safe "maru_similar_writer_free" c_writer_free :: Ptr WriterPtr -> IO ()

foreign import ccall safe "maru_similar_writer_put"
  c_put :: Ptr WriterPtr -> CInt -> Ptr a -> Word64 -> IO CInt

foreign import ccall safe "maru_similar_writer_view"
  c_view :: Ptr WriterPtr -> CInt -> Ptr Word32 -> Ptr Word64 -> Word32 -> IO CInt

foreign import ccall safe "maru_similar_writer_merge"
  c_merge :: Ptr WriterPtr -> CInt -> Ptr (Ptr StorePtr) -> Ptr (Ptr Word32) -> Word32 -> IO CInt

foreign import ccall safe "maru_similar_writer_finish" c_finish :: Ptr WriterPtr -> IO CInt
