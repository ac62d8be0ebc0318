-- | What a task makes of a submission: its code, ready to be compared, and what
-- is odd about it.
module Maru.Similar.Analyse
  ( Base,
    baseOf,
    Analysed (..),
    Code (..),
    analyse,
    isVoid,
    describe,
    Oddities (..),
    Parse (..),
  )
where

import Data.List (sortOn)
import Maru.Similar.Config
import Maru.Similar.Corpus (Entry (..), Source (..), controlBytes)
import Maru.Similar.Language (Language (Java))
import Maru.Similar.Normalise hiding (Code)
import Maru.Similar.Shape
import Maru.Similar.Submission
import Maru.Similar.Tiling
import Maru.Similar.Token (tokenErrors, tokenUnclosed)
import Maru.Similar.Views

-- | Template code.
data Base = NoBase | Tiled !Index | Seen !Template

-- | One for all submissions.
baseOf :: Config -> [Source] -> Base
baseOf _ [] = NoBase
baseOf config sources = case configMode config of
  Seed -> Tiled (index m (side m (codesOfAll config (map lexed sources))))
  Score -> Seen (templateOf m sources)
  where
    m = configMinMatch config

-- | What is compared: by the mode, codes or views.
data Code
  = CodesOf !Codes
  | ViewsOf !Views

-- | Tokens that count. O(n).
codeLength :: Code -> Int
codeLength code = case code of
  CodesOf c -> ownLength c
  ViewsOf v -> ownLength (lexicalView v)

-- | Plain data, so that it can cross to another process.
data Analysed = Analysed
  { analysedCode :: !Code,
    -- | Tokens that the base has, too.
    analysedExcluded :: !Int,
    analysedParse :: !Parse,
    analysedOddities :: !Oddities
  }

-- | Neither code of its own nor the template's.
isVoid :: Analysed -> Bool
isVoid a = codeLength (analysedCode a) == 0 && analysedExcluded a == 0

-- | What is wrong with the files of a submission: tokens that are not of its language,
-- comments without an end, files of Java that are none, control bytes.
data Oddities = Oddities {odErrors :: !Int, odUnclosed :: !Int, odNotJava :: !Int, odControls :: !Int}

instance Semigroup Oddities where
  Oddities a b c d <> Oddities a' b' c' d' = Oddities (a + a') (b + b') (c + c') (d + d')

instance Monoid Oddities where
  mempty = Oddities 0 0 0 0

-- | The code of all sources. Linear but for finding what is the base's.
analyse :: Config -> Base -> [Source] -> Analysed
analyse config base sources = Analysed code excluded how (foldMap oddities files)
  where
    files = map lexed sources
    (code, excluded, how) = case configMode config of
      Score -> let (views, cut, worst) = viewsOf (configGrammars config) (templateIn base) files in (ViewsOf views, cut, worst)
      Seed -> (CodesOf own, ownLength codes - ownLength own, ByTokens)
    codes = codesOfAll config files
    own = case base of
      Tiled b -> withoutBase config codes b
      _ -> codes

templateIn :: Base -> Maybe Template
templateIn base = case base of
  Seen t -> Just t
  _ -> Nothing

codesOfAll :: Config -> [Lexed] -> Codes
codesOfAll config files = joinWithBarriers [normalise (configView config) bytes tokens | Lexed _ bytes tokens <- files]

-- | Without what tiles with the base.
withoutBase :: Config -> Codes -> Index -> Codes
withoutBase config codes base = excluding (sortOn fst ranges) codes
  where
    ranges = [(matchRight t, matchLength t) | t <- tilingTiles (tiles base (side m codes))]
    m = configMinMatch config

oddities :: Lexed -> Oddities
oddities (Lexed language bytes tokens) =
  Oddities
    { odErrors = tokenErrors tokens + (if language == Java then shapeStretches (shapeOf tokens) else 0),
      odUnclosed = tokenUnclosed tokens,
      odNotJava = fromEnum (language == Java && notJava tokens),
      odControls = controlBytes bytes
    }

-- | All that is known of it.
describe :: Entry -> Analysed -> Submission
describe entry a =
  Submission
    { submissionName = entryName entry,
      submissionStudents = entryStudents entry,
      submissionRole = entryRole entry,
      submissionPaths = map sourcePath (entrySources entry),
      submissionLanguages = map sourceLanguage (entrySources entry),
      submissionTokens = codeLength (analysedCode a),
      submissionExcluded = analysedExcluded a,
      submissionErrors = odErrors odd_,
      submissionUnclosed = odUnclosed odd_,
      submissionNotJava = odNotJava odd_,
      submissionControls = odControls odd_,
      submissionParse = analysedParse a
    }
  where
    odd_ = analysedOddities a
