{-# LANGUAGE OverloadedStrings #-}

-- | @maru doctor@: what of maru works on this machine, and what to do about
-- the rest.
module Maru.Cli.Doctor
  ( doctorCommand,

    -- * For tests
    examine,
    doctorTable,
    doctorStatus,
  )
where

import Control.Exception (SomeException, fromException, try)
import Data.Aeson (Value, object, (.=))
import Maru.Cli.Exit
import Maru.Cli.Host (hostChecks)
import Maru.Cli.Output
import Maru.Cli.Room
import Maru.Failure (exceptionText)
import Options.Applicative hiding (internal)
import System.Exit (ExitCode (..))
import System.IO (stdout)

doctorCommand :: [Room] -> Mod CommandFields (IO ExitCode)
doctorCommand rooms =
  command "doctor" $
    info
      (doctor rooms <$> jsonTo)
      ( progDesc "Say what works on this machine and what to do about the rest"
          <> footer "Examples: maru doctor   |   maru doctor --json=doctor.json   |   Status: 0, or 69 when something needed is missing."
      )

doctor :: [Room] -> JsonTo -> IO ExitCode
doctor rooms json = do
  results <- mapM examine ([("host", c) | c <- hostChecks] ++ [(roomName r, c) | r <- rooms, c <- roomChecks r])
  colour <- wantsColour stdout
  if json == Just "-" then pure () else mapM_ putStrLn (doctorTable colour results)
  mapM_ (`writeJson` doctorJson results) json
  pure (doctorStatus (map snd results))

type Result = ((String, String), Finding)

-- | Runs a check; an exception is a finding: what is missing here, or a defect.
examine :: (String, Check) -> IO Result
examine (room', check) = do
  outcome <- try (checkRun check >>= \f -> length (findingDetail f) `seq` pure f)
  pure ((room', checkName check), either crashed id outcome)
  where
    crashed e = case fromException e of
      Just (Problem _ line) -> Finding Bad line ""
      Nothing -> defect e
    defect e = Finding Bad (unwords (lines (exceptionText (e :: SomeException)))) "report this as a defect"

-- | Remedies stand below what they are for.
doctorTable :: Bool -> [Result] -> [String]
doctorTable colour results = case renderTable (Table heads rows) of
  [] -> []
  headLine : body -> headLine : concat (zipWith withRemedy results body) ++ ["", summary]
  where
    heads = [(L, "room"), (L, "check"), (L, "answer"), (L, "")]
    rows = [[r, name, levelName (findingLevel f), findingDetail f] | ((r, name), f) <- results]
    withRemedy (_, f) text =
      paintLevel f text : ["          -> " ++ findingRemedy f | findingLevel f /= Good, not (null (findingRemedy f))]
    paintLevel f = case findingLevel f of
      Good -> id
      Doubtful -> paint colour Yellow
      Bad -> paint colour Red
    count level = length (filter ((== level) . findingLevel . snd) results)
    summary
      | count Bad > 0 = show (count Bad) ++ " missing, " ++ show (count Doubtful) ++ " doubtful"
      | count Doubtful > 0 = "maru works here, with less in " ++ plural (count Doubtful) "respect"
      | otherwise = "all of maru works here"

levelName :: Level -> String
levelName level = case level of
  Good -> "ok"
  Doubtful -> "warn"
  Bad -> "fail"

doctorJson :: [Result] -> Value
doctorJson results =
  object
    [ "schema" .= ("maru-doctor/1" :: String),
      "checks"
        .= [ object
               [ "room" .= r,
                 "check" .= name,
                 "answer" .= levelName (findingLevel f),
                 "detail" .= findingDetail f,
                 "remedy" .= findingRemedy f
               ]
             | ((r, name), f) <- results
           ]
    ]

doctorStatus :: [Finding] -> ExitCode
doctorStatus findings
  | any ((== Bad) . findingLevel) findings = ExitFailure unavailable
  | otherwise = ExitSuccess
