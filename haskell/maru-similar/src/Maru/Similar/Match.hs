-- | What a comparison says of a pair: plain strict data, for whatever shows it.
--
-- Positions are bytes of a file as it was compared (decoded), so that a report
-- can cut them out of the same text.
module Maru.Similar.Match
  ( -- * Pairs
    PairScore (..),
    ViewScore (..),
    Kind (..),

    -- * Where they match
    Span (..),
    Tile (..),
    Reason (..),
    reasonName,
  )
where

-- | How similar two submissions are in one view. Each in [0, 1].
data ViewScore = ViewScore
  { -- | The share of both that is common.
    viewAverage :: !Double,
    -- | The share of the smaller that is common.
    viewMaximum :: !Double
  }
  deriving (Eq, Show)

-- | What a pair looks like.
data Kind
  = -- | Of similar size: a whole copy, if it is one.
    Whole
  | -- | One is a part of the other, if it is a copy.
    Embedded
  deriving (Eq, Show, Enum, Bounded)

-- | A compared pair; submissions by their position in the report.
data PairScore = PairScore
  { pairScoreLeft :: !Int,
    pairScoreRight :: !Int,
    -- | The views; those that the mode does not have are 'Nothing'.
    pairScoreStructure :: !(Maybe ViewScore),
    pairScoreLexical :: !(Maybe ViewScore),
    pairScoreNames :: !(Maybe ViewScore),
    -- | Ranks whole copies: the quadratic mean of the views' averages.
    pairScoreWhole :: !Double,
    -- | Ranks embedded copies: the quadratic mean of the views' maxima.
    pairScoreEmbedded :: !Double,
    -- | What pairs are ranked by, unless asked otherwise: both mixed, by the size of the smaller.
    pairScoreSimilarity :: !Double,
    pairScoreKind :: !Kind,
    -- | The smaller has too few tokens for a verdict.
    pairScoreTooShort :: !Bool,
    -- | How far above the other pairs of both sides: robust z-score. 'Nothing' in a small
    -- collection, for which there is nothing to compare with.
    pairScoreZ :: !(Maybe Double),
    -- | How many pairs of independent work are expected at this similarity or
    -- above, in the whole collection. An estimate; 'Nothing' in a small one.
    pairScoreInnocentAbove :: !(Maybe Double)
  }
  deriving (Eq, Show)

-- | A stretch of a file.
data Span = Span
  { -- | Position of the file in its submission.
    spanFile :: !Int,
    -- | Offset of the first byte.
    spanStart :: !Int,
    -- | At least 1.
    spanBytes :: !Int
  }
  deriving (Eq, Ord, Show)

-- | A stretch that both sides share.
data Tile = Tile
  { tileLeft :: !Span,
    tileRight :: !Span,
    -- | Tokens of the view in which it was found.
    tileTokens :: !Int,
    tileReason :: !Reason
  }
  deriving (Eq, Show)

-- | Why a stretch counts, the strongest that is true.
data Reason
  = -- | The same text, but for layout and comments.
    SameText
  | -- | Other names; the same literals, of which there is at least one.
    SameLiterals
  | -- | Other names or values, in the same pattern: each always stands for the same other.
    Renamed
  | -- | The same sequence of token classes.
    SameStructure
  deriving (Eq, Ord, Show, Enum, Bounded)

-- | For reports: @same text@, @same literals@, @renamed@, @same structure@.
reasonName :: Reason -> String
reasonName r = case r of
  SameText -> "same text"
  SameLiterals -> "same literals"
  Renamed -> "renamed"
  SameStructure -> "same structure"
