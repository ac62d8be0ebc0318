{-# OPTIONS_GHC -fno-cse -fno-full-laziness #-}

-- | Random pure values with odd effects inside, and what they come to.
module Term
  ( Term (..),
    Limits (..),
    terms,
    randoms,
    value,
    kills,
    stuck,
    shares,
    Shared,
    share,
  )
where

import Control.Concurrent
import Control.Concurrent.STM
import Control.Exception
import Control.Monad
import Data.Bits (shiftR, xor)
import Data.IORef
import Data.List (unfoldr)
import Data.Maybe (fromMaybe)
import Data.Word (Word64)
import Foreign.C (CInt (..), CUInt (..))
import GHC.Conc (par, pseq)
import System.IO.Unsafe (unsafePerformIO)
import System.Timeout (timeout)

{- HLINT ignore "Evaluate" -}
-- the signature chooses the exception
{- HLINT ignore "Use lambda-case" -}
{- HLINT ignore "Use >=>" -}

foreign import ccall safe "usleep" c_sleep :: CUInt -> IO CInt

foreign import ccall unsafe "usleep" c_hold :: CUInt -> IO CInt

foreign import ccall unsafe "raise" c_raise :: CInt -> IO CInt

-- | A number, or what it takes to get one.
data Term
  = Number Int
  | Work Int
  | Sum Term Term
  | -- | Both at once, by a spark.
    Par Term Term
  | -- | Whatever it throws is -1.
    CatchAll Term
  | Throws Int
  | DividesByZero
  | -- | A deadline that comes: -2.
    TooLate
  | -- | One that does not.
    InTime Term
  | -- | Kills itself; caught, -3.
    KillsItself
  | Masked Term
  | -- | In a thread of its own.
    Forked Term
  | Transaction Term
  | Sleeps
  | -- | With the capability held.
    Holds
  | -- | A value that a thread of the caller is computing.
    Uses Int
  | -- | Ends its process by this signal.
    Dies Int
  | Loops
  | Deadlocks
  | -- | -4.
    CatchesDeadlock
  deriving (Show)

data Limits = Limits
  { -- | In a thousand terms.
    limitStuck :: !Int,
    limitDying :: !Int,
    -- | Values that are shared.
    limitShared :: !Int
  }

-- Random terms ---------------------------------------------------------------

-- | Without end, the same for the same seed.
terms :: Limits -> Word64 -> [Term]
terms limits = unfoldr (Just . term limits)

-- | Four numbers, none of which says anything of another.
randoms :: Word64 -> (Int, Int, Int, Int)
randoms s0 = (a, b, c, d)
  where
    (a, s1) = next s0
    (b, s2) = next s1
    (c, s3) = next s2
    (d, _) = next s3

-- | splitmix64.
next :: Word64 -> (Int, Word64)
next s0 = (fromIntegral ((z2 `xor` (z2 `shiftR` 31)) `shiftR` 1), s)
  where
    s = s0 + 0x9e3779b97f4a7c15
    z1 = (s `xor` (s `shiftR` 30)) * 0xbf58476d1ce4e5b9
    z2 = (z1 `xor` (z1 `shiftR` 27)) * 0x94d049bb133111eb

term :: Limits -> Word64 -> (Term, Word64)
term limits s0
  | odds < limitStuck limits = around [Loops, Deadlocks, CatchesDeadlock] s1
  | odds < limitStuck limits + limitDying limits = around [Dies 6, Dies 9, Dies 11] s1
  | otherwise = plain limits 3 s1
  where
    (n, s1) = next s0
    odds = n `mod` 1000

-- | One of these, somewhere where it is evaluated and where nothing is caught.
around :: [Term] -> Word64 -> (Term, Word64)
around cores s0 = case k `mod` 4 of
  0 -> (core, s2)
  1 -> (Sum (Number 1) core, s2)
  2 -> (Masked core, s2)
  _ -> (Par (Work 3) core, s2)
  where
    (k, s1) = next s0
    (c, s2) = next s1
    core = cores !! (c `mod` length cores)

plain :: Limits -> Int -> Word64 -> (Term, Word64)
plain limits depth s0
  | depth == 0 || k `mod` 3 == 0 = (leaves !! (leaf `mod` length leaves), s2)
  | otherwise = case leaf `mod` 8 of
    0 -> (Sum a b, s4)
    1 -> (Par a b, s4)
    2 -> (CatchAll a, s3)
    3 -> (CatchAll (Par a b), s4)
    4 -> (InTime a, s3)
    5 -> (Masked a, s3)
    6 -> (Forked a, s3)
    _ -> (Transaction a, s3)
  where
    (k, s1) = next s0
    (leaf, s2) = next s1
    (a, s3) = plain limits (depth - 1) s2
    (b, s4) = plain limits (depth - 1) s3
    leaves =
      [Number (leaf `mod` 100), Work (leaf `mod` 50), Work 300, Throws (leaf `mod` 7), DividesByZero, TooLate, KillsItself, Sleeps, Holds]
        <> [Uses (leaf `mod` limitShared limits) | limitShared limits > 0]

-- | Does it end its process? Only 'around' makes such.
kills :: Term -> Bool
kills = anywhere $ \t -> case t of Dies _ -> True; _ -> False

-- | Does it wait for ever?
stuck :: Term -> Bool
stuck = anywhere $ \t -> case t of Loops -> True; Deadlocks -> True; CatchesDeadlock -> True; _ -> False

-- | Does it need a value that the caller is computing?
shares :: Term -> Bool
shares = anywhere $ \t -> case t of Uses _ -> True; _ -> False

anywhere :: (Term -> Bool) -> Term -> Bool
anywhere p t =
  p t || case t of
    Sum a b -> anywhere p a || anywhere p b
    Par a b -> anywhere p a || anywhere p b
    CatchAll a -> anywhere p a
    InTime a -> anywhere p a
    Masked a -> anywhere p a
    Forked a -> anywhere p a
    Transaction a -> anywhere p a
    _ -> False

-- What the caller computes meanwhile ------------------------------------------

-- | Values that threads of the caller are computing.
type Shared = [Int]

-- | The first in a foreign call, the second in a sleep, the third by arithmetic.
share :: IO Shared
share = do
  values <- forM [0 .. 2] $ \k -> newIORef k >>= \r -> pure (effect (readIORef r >>= slowly))
  forM_ values (forkIO . void . evaluate)
  values <$ yield
  where
    slowly k = do
      case k of
        0 -> void (c_sleep 150000)
        1 -> threadDelay 150000
        _ -> void (evaluate (work 100000 k))
      pure (1000 + k)

-- Values -----------------------------------------------------------------------

effect :: IO a -> a
effect = unsafePerformIO
{-# NOINLINE effect #-}

-- | As pure as the others that the user gives to a map.
value :: Shared -> Term -> Int
value shared t = effect (run shared t)
{-# NOINLINE value #-}

work :: Int -> Int -> Int
work n = go (100 * n)
  where
    go :: Int -> Int -> Int
    go 0 x = x `mod` 1000
    go k x = go (k - 1) (x * 6364136223846793005 + 1442695040888963407)
{-# NOINLINE work #-}

caught :: Int -> IO Int -> IO Int
caught instead act = act `catch` \e -> const (pure instead) (e :: SomeException)

run :: Shared -> Term -> IO Int
run shared t = case t of
  Number n -> pure n
  Work n -> evaluate (work n n)
  Sum a b -> (+) <$> self a <*> self b
  Par a b -> let x = value shared a; y = value shared b in evaluate (x `par` (y `pseq` (x + y)))
  CatchAll a -> caught (-1) (self a)
  Throws n -> throwIO (userError (show n))
  DividesByZero -> evaluate (1 `div` length (show t) `div` 0)
  TooLate -> fromMaybe (-2) <$> timeout 20000 (newEmptyMVar >>= takeMVar)
  InTime a -> timeout 600000000 (self a) >>= maybe (throwIO (userError "ten minutes")) pure
  KillsItself -> caught (-3) (myThreadId >>= killThread >> pure 0)
  Masked a -> mask $ \restore -> restore (self a)
  Forked a -> do
    box <- newEmptyMVar
    _ <- forkIO (try (self a) >>= putMVar box)
    takeMVar box >>= either (throwIO :: SomeException -> IO Int) pure
  Transaction a -> do
    box <- newTVarIO Nothing
    _ <- forkIO (try (self a) >>= atomically . writeTVar box . Just)
    atomically (readTVar box >>= maybe retry pure) >>= either (throwIO :: SomeException -> IO Int) pure
  Sleeps -> 5 <$ threadDelay 3000
  Holds -> 6 <$ c_hold 2000
  Uses k -> evaluate (cycle shared !! k)
  Dies signal -> fromIntegral <$> c_raise (fromIntegral signal)
  Loops -> do
    later <- newIORef 0
    let x = effect (readIORef later)
    writeIORef later (x + 1)
    evaluate x
  Deadlocks -> newEmptyMVar >>= takeMVar
  CatchesDeadlock -> (newEmptyMVar >>= takeMVar) `catch` \e -> const (pure (-4)) (e :: BlockedIndefinitelyOnMVar)
  where
    self = run shared
