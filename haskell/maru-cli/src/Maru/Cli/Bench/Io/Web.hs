-- | Web servers: nginx and Apache httpd under wrk, and the latter under JMeter.
module Maru.Cli.Bench.Io.Web
  ( nginx,
    httpd,
    jmeter,

    -- * For tests
    ratePerSecond,
    samplesPerSecond,
  )
where

import Control.Monad (forM, forM_)
import Data.List (isInfixOf)
import Maru.Cli.Bench.Io.Workload
import Maru.Cli.Exit
import System.Directory
import System.FilePath ((</>))
import Text.Read (readMaybe)

nginx :: Workload
nginx =
  Workload
    { workloadName = "nginx",
      workloadPurpose = "nginx, one worker: files of 4 KiB and 256 KiB, by wrk",
      workloadNeeds = [Need "nginx" "nginx-light", Need "wrk" "wrk"],
      workloadPrepare = pages,
      workloadMeasure = \folder launch span' -> do
        port <- freePort
        writeFile (folder </> "nginx.conf") (configuration folder port)
        withServer folder launch ["nginx", "-p", folder, "-c", folder </> "nginx.conf"] port (pure True) (fetches folder port span'),
      workloadAnswers = True,
      workloadPasses = True
    }
  where
    configuration folder port =
      unlines $
        ["daemon off; user root; worker_processes 1; pid nginx.pid; error_log nginx.log;", "events { worker_connections 256; }", "http { access_log off;"]
          ++ [kind ++ "_temp_path " ++ folder </> kind ++ ";" | kind <- ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]]
          ++ ["server { listen 127.0.0.1:" ++ show port ++ "; root " ++ folder </> "pages" ++ "; } }"]

httpd :: Workload
httpd =
  Workload
    { workloadName = "httpd",
      workloadPurpose = "Apache httpd, event, without sendfile: files of 4 KiB and 256 KiB, by wrk",
      workloadNeeds = [Need "apache2" "apache2", Need "wrk" "wrk"],
      workloadPrepare = pages,
      workloadMeasure = \folder launch span' -> withHttpd folder launch (\port -> fetches folder port span'),
      workloadAnswers = True,
      workloadPasses = False
    }

jmeter :: Workload
jmeter =
  httpd
    { workloadName = "httpd-jmeter",
      workloadPurpose = "Apache httpd, the same: files of 4 KiB, by 16 threads of JMeter",
      workloadNeeds = [Need "apache2" "apache2", Need "jmeter" "jmeter", Need "/usr/share/jmeter/lib/ext/ApacheJMeter_http.jar" "jmeter-http"],
      workloadMeasure = \folder launch (Span warm measured) -> withHttpd folder launch $ \port -> do
        let file = (folder </>)
        removePathForcibly (file "samples")
        writeFile (file "plan.jmx") (plan port [("warm", warm), ("measured", measured)])
        words' <- said folder (Launch [] (file "jmeter.log")) (30 + warm + measured) ["jmeter", "-n", "-t", file "plan.jmx", "-l", file "samples", "-j", file "jmeter.messages", "-Jjmeter.save.saveservice.output_format=csv"]
        samples <- readFile (file "samples")
        case samplesPerSecond samples of
          Just rate -> pure [("files/s", rate)]
          Nothing -> problem unavailable ("JMeter did not get its pages: " ++ unwords (lines words'))
    }

-- | While it runs, on the port.
withHttpd :: FilePath -> Launch -> (Int -> IO a) -> IO a
withHttpd folder launch action = do
  port <- freePort
  writeFile (folder </> "httpd.conf") (configuration port)
  withServer folder launch ["apache2", "-d", folder, "-f", folder </> "httpd.conf", "-DFOREGROUND"] port (pure True) (action port)
  where
    configuration port =
      unlines
        [ "ServerName localhost",
          "PidFile httpd.pid",
          "ErrorLog httpd.log",
          "LoadModule mpm_event_module /usr/lib/apache2/modules/mod_mpm_event.so",
          "LoadModule authz_core_module /usr/lib/apache2/modules/mod_authz_core.so",
          "Listen 127.0.0.1:" ++ show port,
          "DocumentRoot " ++ folder </> "pages",
          "EnableSendfile Off",
          "EnableMMAP Off",
          "User www-data",
          "Group www-data",
          "StartServers 1"
        ]

pages :: FilePath -> IO ()
pages folder = do
  createDirectory (folder </> "pages")
  writeFile (folder </> "pages" </> "small") (replicate 4096 's')
  writeFile (folder </> "pages" </> "large") (replicate 262144 'l')

fetches :: FilePath -> Int -> Span -> IO [(String, Double)]
fetches folder port (Span warm measured) = do
  forM_ [("small", 2), ("large", 3)] $ \(page, fifths) -> wrk page (fifths / 5 * warm)
  forM ["small", "large"] $ \page -> do
    text <- wrk page measured
    case ratePerSecond text of
      Just rate | not ("Non-2xx" `isInfixOf` text) -> pure (page ++ " files/s", rate)
      _ -> problem unavailable ("wrk did not get its pages: " ++ unwords (lines text))
  where
    wrk page time = said folder (Launch [] (folder </> "wrk.log")) time ["wrk", "-t1", "-c16", "-d" ++ seconds time ++ "s", "http://127.0.0.1:" ++ show port ++ "/" ++ page]

-- | Of wrk's words.
ratePerSecond :: String -> Maybe Double
ratePerSecond text = case [w | l <- lines text, ["Requests/sec:", w] <- [words l]] of
  [w] -> readMaybe w
  _ -> Nothing

-- | A test plan: each group of threads fetches the small page under its own name for so many seconds,
-- one group after the other.
plan :: Int -> [(String, Double)] -> String
plan port groups =
  unlines $
    [ "<jmeterTestPlan version=\"1.2\" properties=\"2.6\" jmeter=\"2.13\"><hashTree>",
      "<TestPlan guiclass=\"TestPlanGui\" testclass=\"TestPlan\" testname=\"plan\">" ++ bool "TestPlan.functional_mode" False ++ bool "TestPlan.serialize_threadgroups" True ++ "</TestPlan><hashTree>"
    ]
      ++ concatMap group groups
      ++ ["</hashTree></hashTree></jmeterTestPlan>"]
  where
    group (name, time) =
      [ "<ThreadGroup guiclass=\"ThreadGroupGui\" testclass=\"ThreadGroup\" testname=\"" ++ name ++ "\">",
        "<elementProp name=\"ThreadGroup.main_controller\" elementType=\"LoopController\" guiclass=\"LoopControlPanel\" testclass=\"LoopController\" testname=\"loop\">" ++ bool "LoopController.continue_forever" False ++ "<intProp name=\"LoopController.loops\">-1</intProp></elementProp>",
        text "ThreadGroup.on_sample_error" "continue" ++ text "ThreadGroup.num_threads" "16" ++ text "ThreadGroup.ramp_time" "0" ++ bool "ThreadGroup.scheduler" True ++ text "ThreadGroup.duration" (seconds time) ++ text "ThreadGroup.delay" "0",
        "</ThreadGroup><hashTree>",
        "<HTTPSamplerProxy guiclass=\"HttpTestSampleGui\" testclass=\"HTTPSamplerProxy\" testname=\"" ++ name ++ "\">",
        "<elementProp name=\"HTTPsampler.Arguments\" elementType=\"Arguments\"><collectionProp name=\"Arguments.arguments\"/></elementProp>",
        text "HTTPSampler.domain" "127.0.0.1" ++ text "HTTPSampler.port" (show port) ++ text "HTTPSampler.protocol" "http" ++ text "HTTPSampler.path" "/small" ++ text "HTTPSampler.method" "GET" ++ bool "HTTPSampler.use_keepalive" True,
        "</HTTPSamplerProxy><hashTree/></hashTree>"
      ]
    text name value = "<stringProp name=\"" ++ name ++ "\">" ++ value ++ "</stringProp>"
    bool name value = "<boolProp name=\"" ++ name ++ "\">" ++ (if value then "true" else "false") ++ "</boolProp>"

-- | Of JMeter's table of samples (milliseconds since the epoch, how long, name, status, …): those that were
-- measured; 'Nothing': there are none, or not all got their page.
samplesPerSecond :: String -> Maybe Double
samplesPerSecond text = case unzip [(begin, ok) | l <- lines text, (time : _ : "measured" : status : _) <- [fields l], Just begin <- [readMaybe time], let ok = status == "200"] of
  (times@(_ : _), oks) | and oks, maximum times > minimum times -> Just (1000 * fromIntegral (length times) / (maximum times - minimum times))
  _ -> Nothing
  where
    fields l = case break (== ',') l of
      (word, _ : more) -> word : fields more
      (word, []) -> [word]
