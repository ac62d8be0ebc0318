-- | How the coordinator and a peer prove to each other that they belong to one job. /Internal/.
--
-- > peer -> coordinator   a fresh nonce
-- > coordinator -> peer   a fresh nonce
-- > peer -> coordinator   its card, with a proof
-- > coordinator -> peer   a verdict, with a proof
--
-- A proof is the HMAC-SHA-256, by the job's secret, of the prover's role, both nonces and what it
-- says. So the secret is never sent, and a proof says nothing in another connection or in the other
-- direction. Not proved: what comes afterwards. A process that can write into the connection can
-- speak for a peer.
module Maru.Cluster.Greeting
  ( Card (..),
    Verdict (..),
    greetCoordinator,
    greetPeer,
    greetingSeconds,
  )
where

import Data.Binary (Binary (..))
import qualified Data.Binary as Binary
import qualified Data.ByteString as Bytes
import qualified Data.ByteString.Lazy as Lazy
import Data.Maybe (fromMaybe)
import Maru.Cluster.Frame
import Maru.Native.Ranks (freshBytes, proof)
import System.Timeout (timeout)

-- | What a peer says of itself.
data Card = Card
  { cardRank :: !Int,
    cardWorkers :: !Int,
    -- | See 'Maru.Native.Ranks.program' and 'Maru.Native.Ranks.layout'.
    cardProgram :: !Bytes.ByteString,
    cardLayout :: !Bytes.ByteString
  }

instance Binary Card where
  put (Card r n p l) = put (r, n, p, l)
  get = (\(r, n, p, l) -> Card r n p l) <$> get

-- | What the coordinator says to it.
data Verdict
  = -- | Whether code lies at the same addresses in both.
    Welcome !Bool
  | -- | It runs another program.
    OtherProgram
  | -- | It is not expected.
    Superfluous
  deriving (Eq, Show)

instance Binary Verdict where
  put (Welcome alike) = put (0 :: Int, alike)
  put OtherProgram = put (1 :: Int, False)
  put Superfluous = put (2 :: Int, False)
  get = of' <$> get
    where
      of' :: (Int, Bool) -> Verdict
      of' (0, alike) = Welcome alike
      of' (1, _) = OtherProgram
      of' _ = Superfluous

-- | The peer's side, within so many seconds, or while the wire lasts. 'Left': why not; then the wire is
-- of no use.
greetCoordinator :: Maybe Int -> Bytes.ByteString -> Card -> Wire -> IO (Either String Verdict)
greetCoordinator patience secret card wire = maybe id (\s -> inTime s (Left ("it does not answer in " <> show s <> " s"))) patience $ do
  mine <- freshBytes nonceBytes
  say wire mine
  hear wire (Left "it hung up before it said anything: it has ended, or has no room") $ \theirs ->
    if Bytes.length theirs /= nonceBytes
      then pure (Left stranger)
      else do
        say wire (signed secret "peer" mine theirs card)
        hear wire (Left "it hung up: it has ended, or knows another secret") $ \verdict -> pure (maybe (Left stranger) Right (checked secret "coordinator" mine theirs verdict))
  where
    stranger = "it does not know the job's secret"

-- | The coordinator's side, within so many seconds: what it makes of a card that is proved. 'Nothing': a
-- stranger, who is told nothing.
greetPeer :: Int -> Bytes.ByteString -> (Card -> IO Verdict) -> Wire -> IO (Maybe (Card, Verdict))
greetPeer seconds secret judge wire = inTime seconds Nothing $
  hear wire Nothing $ \theirs -> do
    mine <- freshBytes nonceBytes
    if Bytes.length theirs /= nonceBytes
      then pure Nothing
      else do
        say wire mine
        hear wire Nothing $ \bytes -> case checked secret "peer" theirs mine bytes of
          Nothing -> pure Nothing
          Just card -> do
            verdict <- judge card
            say wire (signed secret "coordinator" theirs mine verdict)
            pure (Just (card, verdict))

nonceBytes, proofBytes :: Int
nonceBytes = 32
proofBytes = 32

-- | For processes that answer as soon as they are asked.
greetingSeconds :: Int
greetingSeconds = 30

inTime :: Int -> r -> IO r -> IO r
inTime seconds late = fmap (fromMaybe late) . timeout (seconds * 1000000)

say :: Wire -> Bytes.ByteString -> IO ()
say wire = sendFrame wire . Frame Greets 0 0

hear :: Wire -> r -> (Bytes.ByteString -> IO r) -> IO r
hear wire none next = do
  frame <- nextShort wire
  case frame of
    Just (Frame Greets _ _ bytes) -> next bytes
    _ -> pure none

-- | The peer's nonce comes first.
proofOf :: Bytes.ByteString -> String -> Bytes.ByteString -> Bytes.ByteString -> Bytes.ByteString -> Bytes.ByteString
proofOf secret role peers coordinators body =
  proof secret (Lazy.toStrict (Binary.encode ("maru: a peer joins", role, peers, coordinators)) <> body)

signed :: Binary a => Bytes.ByteString -> String -> Bytes.ByteString -> Bytes.ByteString -> a -> Bytes.ByteString
signed secret role peers coordinators x = proofOf secret role peers coordinators body <> body
  where
    body = Lazy.toStrict (Binary.encode x)

checked :: Binary a => Bytes.ByteString -> String -> Bytes.ByteString -> Bytes.ByteString -> Bytes.ByteString -> Maybe a
checked secret role peers coordinators bytes
  | not (sameBytes (proofOf secret role peers coordinators body) given) = Nothing
  | otherwise = case Binary.decodeOrFail (Lazy.fromStrict body) of
    Right (rest, _, x) | Lazy.null rest -> Just x
    _ -> Nothing
  where
    (given, body) = Bytes.splitAt proofBytes bytes

-- | Takes as long wherever they differ: what is compared are sums of both.
sameBytes :: Bytes.ByteString -> Bytes.ByteString -> Bool
sameBytes one other = proof key one == proof key other
  where
    key = Bytes.take 32 (one <> other)
