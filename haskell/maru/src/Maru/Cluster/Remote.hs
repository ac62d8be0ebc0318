-- | Functions that travel: a pointer that each process of one program resolves. /Internal/.
module Maru.Cluster.Remote
  ( Remote (..),
    remote,
    remoteWith,
    remoteVia,
    Call (..),
    callOf,
    resolve,
  )
where

import Data.Binary (Binary (..))
import qualified Data.ByteString as Bytes
import qualified Data.ByteString.Lazy as Lazy
import GHC.StaticPtr (StaticKey, StaticPtr, deRefStaticPtr, staticKey, unsafeLookupStaticPtr)
import Maru.Codec (Codec (..), binary)
import Maru.Options

-- | A function of @a@ to @b@ with an environment @e@, and how each of them crosses. Give it a name
-- at the top level, for @static@ takes what is closed:
--
-- > collatz :: Remote () Int Int
-- > collatz = remote steps
data Remote e a b = Remote !(Codec e) !(Codec a) !(Codec b) (e -> a -> b)

-- | A function alone.
remote :: (Binary a, Binary b) => (a -> b) -> Remote () a b
remote = remoteWith . const

-- | A function with an environment, which crosses once a call and process, not once an item. What
-- the function makes of it before it takes an item is made once a process, too:
--
-- > search :: Remote [String] String [Int]
-- > search = remoteWith (\texts -> let index = build texts in index `seq` find index)
remoteWith :: (Binary e, Binary a, Binary b) => (e -> a -> b) -> Remote e a b
remoteWith = remoteVia binary binary binary

-- | The same by codecs of yours.
remoteVia :: Codec e -> Codec a -> Codec b -> (e -> a -> b) -> Remote e a b
remoteVia = Remote

-- | What a peer has to know of a call.
data Call = Call
  { callKey :: !StaticKey,
    callEnvironment :: !Bytes.ByteString,
    -- | 'Nothing': as many as the peer has cores.
    callWorkers :: !(Maybe Int),
    callPolicy :: !Policy,
    callChunking :: !Chunking,
    callMemory :: !(Maybe Int)
  }

instance Binary Call where
  put c = put (callKey c, callEnvironment c, callWorkers c, policyCode (callPolicy c), chunkingCode (callChunking c), callMemory c)
  get = (\(k, e, n, p, s, m) -> Call k e n (policyOf p) (chunkingOf s) m) <$> get

policyCode :: Policy -> Int
policyCode p = case p of
  Retry n -> n
  Skip -> -1
  Fail -> -2

policyOf :: Int -> Policy
policyOf n
  | n >= 0 = Retry n
  | n == -1 = Skip
  | otherwise = Fail

chunkingCode :: Chunking -> Int
chunkingCode c = case c of
  Guided -> 0
  Fixed n -> n

chunkingOf :: Int -> Chunking
chunkingOf n = if n == 0 then Guided else Fixed n

-- | Evaluates the environment as far as its codec does.
callOf :: Options -> StaticPtr (Remote e a b) -> e -> Call
callOf options pointer environment =
  Call
    { callKey = staticKey pointer,
      callEnvironment = Lazy.toStrict (encode codec environment),
      callWorkers = case workers options of
        Workers n -> Just n
        WorkersAuto -> Nothing,
      callPolicy = policy options,
      callChunking = chunking options,
      callMemory = memoryMiB options
    }
  where
    Remote codec _ _ _ = deRefStaticPtr pointer

-- | The function of that name in this process; its type is what the coordinator's was, for both run
-- one program.
resolve :: StaticKey -> IO (Maybe (Remote e a b))
resolve key = fmap deRefStaticPtr <$> unsafeLookupStaticPtr key
