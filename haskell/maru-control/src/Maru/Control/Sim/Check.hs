-- | What a simulator is held to: figures beside the bars that they hold or miss.
module Maru.Control.Sim.Check
  ( Check (..),
    Kind (..),
    Bound (..),
    holds,
  )
where

-- | One figure beside what is expected of it.
data Check = Check
  { checkName :: !String,
    checkKind :: !Kind,
    checkBound :: !Bound,
    checkValue :: !Double,
    -- | What the source says, as text; empty when it says nothing.
    checkPublished :: !String
  }
  deriving (Eq, Show)

-- | How far the model was made for this figure.
data Kind
  = -- | Fitted to it.
    Calibrated
  | -- | Its costs were chosen with this in mind.
    Assumed
  | -- | Not looked at when the model was made.
    Predicted
  deriving (Eq, Show)

data Bound = Between !Double !Double | AtLeast !Double | AtMost !Double
  deriving (Eq, Show)

holds :: Check -> Bool
holds check = case checkBound check of
  Between low high -> low <= checkValue check && checkValue check <= high
  AtLeast low -> checkValue check >= low
  AtMost high -> checkValue check <= high
