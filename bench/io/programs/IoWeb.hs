-- | Web servers: nginx and Apache httpd under wrk.
module IoWeb
  ( nginx,
    httpd,

    -- * For tests
    ratePerSecond,
  )
where

import Control.Monad (forM, forM_)
import Data.List (isInfixOf)
import IoWorkload
import Maru.Cli.Exit
import System.Directory (createDirectory)
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
  Workload
    { workloadName = "httpd",
      workloadPurpose = "Apache httpd, event, without sendfile: files of 4 KiB and 256 KiB, by wrk",
      workloadNeeds = [Need "apache2" "apache2", Need "wrk" "wrk"],
      workloadPrepare = const pages,
      workloadMeasure = \folder launch span' -> do
        port <- freePort
        writeFile (folder </> "httpd.conf") (configuration folder port)
        withServer folder launch ["apache2", "-d", folder, "-f", folder </> "httpd.conf", "-DFOREGROUND"] port (pure True) (fetches launch folder port span'),
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
