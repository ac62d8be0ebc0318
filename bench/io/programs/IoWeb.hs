-- | Web servers: nginx and Apache httpd under wrk, and Apache under JMeter, the load of seed 2.
module IoWeb
  ( nginx,
    httpd,
    httpdJmeter,

    -- * For tests
    ratePerSecond,
    jmeterRate,
  )
where

import Control.Monad (forM, forM_)
import Data.List (isInfixOf)
import IoWorkload
import Maru.Cli.Exit
import System.Directory (createDirectory, makeAbsolute)
import System.Environment (lookupEnv)
import System.FilePath ((</>))
import Text.Read (readMaybe)

nginx :: Workload
nginx =
  Workload
    { workloadName = "nginx",
      workloadPurpose = "nginx, one worker: files of 4 KiB and 256 KiB, by wrk",
      workloadNeeds = [Need "nginx" "nginx-light", Need "wrk" "wrk"],
      workloadPrepare = const pages,
      workloadMeasure = \folder launch span' -> do
        port <- freePort
        writeFile (folder </> "nginx.conf") (configuration folder port)
        withServer folder launch ["nginx", "-p", folder, "-c", folder </> "nginx.conf"] port (pure True) (fetches launch folder port span'),
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
  apache
    "httpd"
    "Apache httpd, event, without sendfile: files of 4 KiB and 256 KiB, by wrk"
    [Need "wrk" "wrk"]
    fetches

httpdJmeter :: Workload
httpdJmeter =
  apache
    "httpd-jmeter"
    "The same by JMeter: 16 users, each on a connection that stays"
    [Need "java" "default-jre-headless", Given jmeterHome "bin/ApacheJMeter.jar" ("scripts/jmeter fetches JMeter, " ++ jmeterHome ++ " says where it is")]
    fetchesJmeter

jmeterHome :: String
jmeterHome = "MARU_JMETER"

-- | Under the load of that program.
apache :: String -> String -> [Need] -> (Launch -> FilePath -> Int -> Span -> IO [(String, Double)]) -> Workload
apache name purpose clients load =
  Workload
    { workloadName = name,
      workloadPurpose = purpose,
      workloadNeeds = Need "apache2" "apache2" : clients,
      workloadPrepare = const pages,
      workloadMeasure = \folder launch span' -> do
        port <- freePort
        writeFile (folder </> "httpd.conf") (configuration folder port)
        withServer folder launch ["apache2", "-d", folder, "-f", folder </> "httpd.conf", "-DFOREGROUND"] port (pure True) (load launch folder port span'),
      workloadAnswers = True,
      workloadPasses = False
    }
  where
    configuration folder port =
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

fetches :: Launch -> FilePath -> Int -> Span -> IO [(String, Double)]
fetches launch folder port (Span warm measured) = do
  forM_ [("small", 2), ("large", 3)] $ \(page, fifths) -> wrk page (fifths / 5 * warm)
  forM ["small", "large"] $ \page -> do
    text <- wrk page measured
    case ratePerSecond text of
      Just rate | not ("Non-2xx" `isInfixOf` text) -> pure (page ++ " files/s", rate)
      _ -> problem unavailable ("wrk did not get its pages: " ++ unwords (lines text))
  where
    wrk page time = said folder (plainly (launchReaper launch) (folder </> "wrk.log")) time ["wrk", "-t1", "-c16", "-d" ++ seconds time ++ "s", "http://127.0.0.1:" ++ show port ++ "/" ++ page]

-- | Of wrk's words.
ratePerSecond :: String -> Maybe Double
ratePerSecond text = case [w | l <- lines text, ["Requests/sec:", w] <- [words l]] of
  [w] -> readMaybe w
  _ -> Nothing

-- JMeter's machine compiles what runs often: its first seconds are slow, in each run of it.
fetchesJmeter :: Launch -> FilePath -> Int -> Span -> IO [(String, Double)]
fetchesJmeter launch folder port (Span warm measured) =
  forM ["small", "large"] $ \page -> do
    let time = warm + measured
    home <- maybe (problem internal (jmeterHome ++ " is not set")) makeAbsolute =<< lookupEnv jmeterHome
    writeFile (folder </> "plan.jmx") (jmeterPlan port page 16 (read (seconds time)))
    text <- said folder (plainly (launchReaper launch) (folder </> "jmeter.log")) time ["java", "-jar", home </> "bin" </> "ApacheJMeter.jar", "-n", "-d", home, "-t", "plan.jmx", "-j", folder </> "jmeter.own", "-Jjmeterengine.nongui.port=0"]
    case jmeterRate text of
      Just (rate, 0) -> pure (page ++ " files/s", rate)
      _ -> problem unavailable ("JMeter did not get its pages: " ++ unwords (lines text))

-- | Files a second and errors of all, of JMeter's last summary of the whole run.
jmeterRate :: String -> Maybe (Double, Int)
jmeterRate text = case [(after "=" (drop 2 summary), after "Err:" summary) | summary@("summary" : "=" : _) <- map words (lines text)] of
  [] -> Nothing
  found -> case last found of
    (rate : _, errors : _) -> (,) <$> readMaybe (takeWhile (/= '/') rate) <*> readMaybe errors
    _ -> Nothing
  where
    after word = drop 1 . dropWhile (/= word)

-- | A test plan: users that fetch one page again and again for so many seconds.
jmeterPlan :: Int -> String -> Int -> Int -> String
jmeterPlan port page users time =
  concat
    [ "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<jmeterTestPlan version=\"1.2\" properties=\"2.8\"><hashTree>",
      element "TestPlan" "TestPlanGui" "plan" [],
      "<hashTree>",
      element
        "ThreadGroup"
        "ThreadGroupGui"
        "users"
        [ text "ThreadGroup.on_sample_error" "continue",
          "<elementProp name=\"ThreadGroup.main_controller\" elementType=\"LoopController\">" ++ bool "LoopController.continue_forever" "false" ++ int "LoopController.loops" (-1) ++ "</elementProp>",
          text "ThreadGroup.num_threads" (show users),
          text "ThreadGroup.ramp_time" "0",
          bool "ThreadGroup.scheduler" "true",
          text "ThreadGroup.duration" (show time)
        ],
      "<hashTree>",
      element
        "HTTPSamplerProxy"
        "HttpTestSampleGui"
        "page"
        [ text "HTTPSampler.domain" "127.0.0.1",
          text "HTTPSampler.port" (show port),
          text "HTTPSampler.path" ('/' : page),
          text "HTTPSampler.method" "GET",
          bool "HTTPSampler.use_keepalive" "true",
          text "HTTPSampler.implementation" "HttpClient4"
        ],
      "<hashTree/></hashTree></hashTree></hashTree></jmeterTestPlan>\n"
    ]
  where
    element kind gui name properties = "<" ++ kind ++ " guiclass=\"" ++ gui ++ "\" testclass=\"" ++ kind ++ "\" testname=\"" ++ name ++ "\" enabled=\"true\">" ++ concat properties ++ "</" ++ kind ++ ">"
    text = property "string"
    bool = property "bool"
    int name value = property "int" name (show (value :: Int))
    property kind name value = "<" ++ kind ++ "Prop name=\"" ++ name ++ "\">" ++ value ++ "</" ++ kind ++ "Prop>"
