-- | How a thread waits: the names of the policies, without the waiting. See "Maru.Wait".
module Maru.Wait.Policy
  ( Policy (..),
    policyName,
    policyNamed,
  )
where

-- | The same list as everywhere: @maru run --wait@, @MARU_WAIT@, @maru\/wait.h@.
data Policy
  = -- | Spins while that has been paying, then as 'Coop'. The default.
    Adaptive
  | -- | Burns the core.
    Spin
  | -- | Spins shortly, then gives way between two looks.
    Yield
  | -- | Sleeps at once; the sender wakes.
    Block
  | -- | Spins shortly, then sleeps.
    SpinBlock
  | -- | Spins shortly, lowers the thread's own priority and spins on.
    SpinLower
  | -- | The same, giving way between two looks.
    LowerYield
  | -- | Looks every 50 µs.
    SleepPoll
  | -- | Sleeps unknown to the sender; the next waiter looks for it.
    Coop
  | -- | Spins in the job's own time slot of @maru boost@, else sleeps.
    Gang
  | -- | Sleeps at once and is due at once when the message arrives.
    Dcs
  deriving (Eq, Ord, Show, Enum, Bounded)

-- | As on the command line: @spin-block@.
policyName :: Policy -> String
policyName policy = case policy of
  Adaptive -> "adaptive"
  Spin -> "spin"
  Yield -> "yield"
  Block -> "block"
  SpinBlock -> "spin-block"
  SpinLower -> "spin-lower"
  LowerYield -> "lower-yield"
  SleepPoll -> "sleep-poll"
  Coop -> "coop"
  Gang -> "gang"
  Dcs -> "dcs"

-- | The policy of that name; 'Nothing' when there is none.
policyNamed :: String -> Maybe Policy
policyNamed name = lookup name [(policyName p, p) | p <- [minBound .. maxBound]]
