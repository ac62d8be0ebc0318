{-# LANGUAGE StaticPointers #-}

-- | Functions that travel without @static@: as they are, with all that they have taken from
-- around them. /Experimental/: it needs @MARU_CLOSURES=1@ in each process of the program.
--
-- > import Maru
-- > import Maru.Cluster
-- > import Maru.Cluster.Closure
-- >
-- > main :: IO ()
-- > main = withCluster $ do
-- >   base <- readLn
-- >   print (sum (parMapClosure defaultOptions (\\n -> base + n * n) [1 .. 100 :: Int]))
--
-- > MARU_CLOSURES=1 MARU_HOSTS=hosts ./program
--
-- The function's closure is walked and copied: functions, unevaluated values, data, what they share,
-- and circles. What is static crosses by its address. So it takes one program, at one address, and a
-- GHC whose layout maru knows.
module Maru.Cluster.Closure
  ( parMapClosure,
  )
where

import Control.Exception (throw, throwIO)
import Control.Monad (unless)
import Data.Binary (Binary)
import qualified Data.ByteString as Bytes
import qualified Data.ByteString.Internal as Internal
import qualified Data.ByteString.Lazy as Lazy
import qualified Data.ByteString.Unsafe as Unsafe
import Data.Foldable (for_)
import Foreign (castPtr)
import Maru.Cluster (parMapOnWith)
import Maru.Cluster.Remote (Remote, remoteVia)
import Maru.Codec
import Maru.Failure (Unavailable (..))
import Maru.Native.Letter (closuresRefused, keepsConstants, landLetter, packClosure)
import Maru.Options (Options)
import System.IO.Unsafe (unsafePerformIO)

-- | @parMapClosure options f xs@ is @map f xs@, on the processes that 'Maru.Cluster.parMapOn'
-- takes; the law is the same. The function crosses once a call and process, which evaluates it then,
-- once. What else is not evaluated in it, each worker evaluates: evaluate first what is dear.
--
-- A top-level constant is not sent: each process has its own. So has it a global variable that is
-- made by 'unsafePerformIO'. An unboxed mutable array travels as a copy.
--
-- __Source__: the closure as the garbage collector sees it (@cbits\/rts\/copy.c@).
--
-- __Failure__: 'Unavailable', which 'Maru.Cluster.withCluster' makes one line and status 69, when the
-- list is demanded. It names what cannot travel (an @MVar@, @IORef@, @Handle@, @ForeignPtr@ or @Ptr@
-- to memory of this process, a thread, a @StablePtr@, what another thread is evaluating, or was when it
-- was interrupted) and the way that leads there. Also: more than 16 MiB; @MARU_CLOSURES=1@ is not set; a program that is linked with
-- @-dynamic@ or @-pie@, built for profiling, or by a GHC that maru was not checked with. A number among
-- a function's variables that happens to be an address of this process's memory is taken for one.
-- Not noticed: a @StablePtr@ that the compiler has unpacked among them, which is a small number there.
--
-- __Cost__: a walk over all that the function holds, and as many bytes to each process.
parMapClosure :: (Binary a, Binary b) => Options -> (a -> b) -> [a] -> [b]
parMapClosure options f xs =
  map ofBytes (parMapOnWith options (static applied) (f `seq` Sealed (toBytes . f . ofBytes)) (map toBytes xs))

{- HLINT ignore Sealed "Use newtype instead of data" -}

-- | Any function, between bytes. No newtype: a process evaluates it to this when it has come, before it
-- forks workers.
data Sealed = Sealed !(Bytes.ByteString -> Bytes.ByteString)

applied :: Remote Sealed Bytes.ByteString Bytes.ByteString
applied = remoteVia Codec {encode = unsafePerformIO . leave, decode = Right . unsafePerformIO . arrive} rawBytes rawBytes (\(Sealed f) -> f)

toBytes :: Binary a => a -> Bytes.ByteString
toBytes = Lazy.toStrict . encode binary

ofBytes :: Binary a => Bytes.ByteString -> a
ofBytes = either (throw . userError . ("maru: cannot be decoded: " <>)) id . decode binary

leave :: Sealed -> IO Lazy.ByteString
leave f = do
  refused <- closuresRefused
  for_ refused (\why -> throwIO (unavailable why "name the function, and use parMapOnWith"))
  needConstants
  packed <- packClosure f
  case packed of
    Left why -> throwIO (unavailable ("it holds " <> why) "give that to the function otherwise, or use parMapOnWith")
    Right (bytes, size) -> pure (Lazy.fromStrict (Internal.fromForeignPtr bytes 0 size))

arrive :: Bytes.ByteString -> IO Sealed
arrive bytes = do
  needConstants
  -- A copy is aligned.
  landed <- Unsafe.unsafeUseAsCStringLen (Bytes.copy bytes) (\(at, size) -> landLetter (castPtr at) size)
  maybe (throwIO (unavailable "its bytes are none of this program's" "")) pure landed

needConstants :: IO ()
needConstants = do
  keeps <- keepsConstants
  unless keeps (throwIO (unavailable "MARU_CLOSURES=1 is not set" "set it where each process of the program is started"))

unavailable :: String -> String -> Unavailable
unavailable = Unavailable "this closure on other processes"
