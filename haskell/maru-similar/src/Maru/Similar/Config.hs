-- | What a comparison is asked for.
module Maru.Similar.Config
  ( Config (..),
    Mode (..),
    modeName,
    Rank (..),
    rankName,
    defaultConfig,
    seedConfig,
  )
where

import Maru.Similar.Grammar (Grammars)
import Maru.Similar.Language (Language)
import Maru.Similar.Normalise (View (..))

-- | How pairs are compared.
data Mode
  = -- | By what they share in three views, weighed by how rare it is in the
    -- collection.
    Score
  | -- | By the tokens that common stretches cover ("Maru.Similar.Tiling"), in one
    -- view, every pair tiled.
    Seed
  deriving (Eq, Show, Enum, Bounded)

modeName :: Mode -> String
modeName mode = case mode of
  Score -> "score"
  Seed -> "seed"

-- | What pairs are ranked by, and what the threshold is for. 'Seed' knows 'ByBoth'
-- only.
data Rank
  = -- | Whole and embedded copies alike.
    ByBoth
  | -- | Whole copies: the share of both that is common.
    ByWhole
  | -- | One as a part of the other: the share of the smaller that is common.
    ByEmbedded
  deriving (Eq, Show, Enum, Bounded)

rankName :: Rank -> String
rankName rank = case rank of
  ByBoth -> "both"
  ByWhole -> "whole"
  ByEmbedded -> "embedded"

data Config = Config
  { configMode :: !Mode,
    -- | Of 'Seed'; 'Score' has all views.
    configView :: !View,
    -- | Tokens of the shortest match that counts, at least 1.
    configMinMatch :: !Int,
    -- | Pairs below this similarity are not reported.
    configThreshold :: !Double,
    configRank :: !Rank,
    -- | How many pairs are reported at most, the most similar; at least 1. 'Seed'
    -- reports all.
    configPairs :: !Int,
    -- | Of the structure view; of a language without one it is the lexer's.
    configGrammars :: !Grammars,
    -- | Asked for; 'Nothing': as names of files say. For the report only.
    configLanguage :: !(Maybe Language)
  }
  deriving (Eq, Show)

-- | 'Score', 'Structure', 9 tokens, no threshold, both, 500 000 pairs: all of 1000
-- submissions.
defaultConfig :: Config
defaultConfig = Config Score Structure 9 0 ByBoth 500000 mempty Nothing

-- | Every pair tiled, all pairs.
seedConfig :: Config
seedConfig = defaultConfig {configMode = Seed}
