{-# LANGUAGE OverloadedStrings #-}

-- | The report of a job, as a page and as JSON: what its nodes did with their time, and which allocations and pages cost
-- what. Pure.
module Maru.View.Launch
  ( launchPage,
    launchJson,
  )
where

import Data.Aeson (Value, object, (.=))
import Data.Char (toUpper)
import Data.List (nub, sort)
import Data.String (fromString)
import qualified Maru.Control.Launch.Advice as Advice
import qualified Maru.Control.Launch.Heat as Heat
import Maru.Control.Launch.Locks (Behind (..), Lock (..), locks)
import Maru.View.HeatMap (heatMap)
import Maru.View.Page
import Maru.View.Table (Align (..), Table (..), seconds)

-- | Facts ('Maru.Cli.Host.pageFacts'), the job's status, what its nodes told.
launchPage :: [(String, String)] -> Int -> [Heat.Told] -> String
launchPage facts status told =
  htmlPage (Heading "maru launch" found facts) $
    titled "Nodes" nodes [[show i, ns w, ns c, ns f, ns l, ns b] | Heat.ToldNode i w c f l b <- told]
      ++ titled "Waits" waited [show i : concat [[show n, ns longest] | (n, longest) <- each] | Heat.ToldWaits i each <- told]
      ++ titled "Faults by reason" reasons [show i : map show each | Heat.ToldFaults i each <- told]
      ++ titled "Messages sent, by kind" (kinds "node") [show i : [figure m | kind <- sent, let m = sum [n | Heat.ToldSent j k n _ <- told, j == i, k == kind]] | i <- senders]
      ++ titled "Bytes sent, by kind" (kinds "node") [show i : [figure b | kind <- sent, let b = sum [n | Heat.ToldSent j k _ n <- told, j == i, k == kind]] | i <- senders]
      ++ titled "Locks, the longest waited for first" lockHeads (map lockRow (take pagesShown busiest))
      ++ titled "Which node waited for which at a lock" behindHeads (take pagesShown [row | lock <- busiest, row <- behindRows lock])
      ++ heatMap (Heat.sitesOfPages told) told
      ++ titled "Allocations, the hottest first" sites (map site (Heat.heats told))
      ++ titled ("Pages, the hottest first" ++ cut) pages (map page (take pagesShown hot))
      ++ section "Advice" (if status == 0 then Advice.advice told else [])
  where
    found
      | status /= 0 = "The job failed with status " ++ show status ++ "; what its nodes told until then follows."
      | otherwise = case Heat.verdict (Heat.heats told) of
        first : rest -> toUpper first : rest ++ "."
        "" -> ""
    hot = Heat.pagesByHeat told
    busiest = locks told
    lockHeads = (L, "lock") : [(R, head') | head' <- ["taken", "without a message", "waited", "the longest"]]
    lockRow l = [lockName l, show (lockTaken l), show (lockKept l), seconds (lockWaited l), seconds (lockLongest l)]
    behindHeads = [(L, "lock"), (R, "node"), (R, "behind node"), (R, "times"), (R, "waited"), (R, "the longest")]
    behindRows l = [[lockName l, show (behindNode b), show (behindHolder b), show (behindTimes b), seconds (behindWaited b), seconds (behindLongest b)] | b <- lockBehind l]
    cut = if length hot > pagesShown then " (" ++ show pagesShown ++ " of " ++ show (length hot) ++ ")" else ""
    titled _ _ [] = []
    titled title heads rows = element "h2" title : htmlTable (Table heads rows)
    ns = seconds . (1e-9 *)
    nodes = (L, "node") : [(R, head') | head' <- ["in all", "computing", "waited for pages", "for locks", "for barriers"]]
    waited = (L, "node") : [(R, head') | what <- ["for pages", "for locks and the like", "at barriers"], head' <- [what, "the longest"]]
    reasons = (L, "node") : [(R, head') | head' <- ["never here before", "changed by another", "first written since a release", "at its own home"]]
    sent = sort (nub [kind | Heat.ToldSent _ kind _ _ <- told])
    senders = sort (nub [i | Heat.ToldSent i _ _ _ <- told])
    kinds first = (L, first) : [(R, kind) | kind <- sent]
    figure n = if n == 0 then "" else show n
    sites = (L, "where") : [(R, head') | head' <- ["bytes", "pages", "read faults", "write faults", "pages truly shared", "pages falsely shared"]]
    site h =
      [ Heat.heatSite h,
        show (Heat.heatBytes h),
        show (Heat.heatPages h),
        show (Heat.heatReads h),
        show (Heat.heatWrites h),
        show (Heat.heatTruly h),
        show (Heat.heatFalsely h)
      ]
    pages = [(L, "page"), (L, "what lies on it"), (R, "read faults"), (R, "write faults"), (R, "writers"), (L, "sharing")]
    page p =
      [ show (Heat.pageNumber p),
        unwords (Heat.pageSites p),
        show (Heat.pageReads p),
        show (Heat.pageWrites p),
        show (Heat.pageWriters p),
        Heat.sharingName (Heat.pageSharing p)
      ]

pagesShown :: Int
pagesShown = 100

-- | The same for programs: schema @maru-launch/1@.
launchJson :: Int -> [Heat.Told] -> Value
launchJson status lines' =
  object
    [ "schema" .= ("maru-launch/1" :: String),
      "status" .= status,
      "sites" .= map site (Heat.heats lines'),
      "nodes" .= [node i w c f l b | Heat.ToldNode i w c f l b <- lines'],
      "locks" .= map lock (take 100 (locks lines')),
      "advice" .= Advice.advice lines',
      "hottest_pages" .= map page (take 100 (Heat.pagesByHeat lines'))
    ]
  where
    node i w c f l b =
      object
        [ "node" .= i,
          "seconds" .= (1e-9 * w),
          "computing" .= (1e-9 * c),
          "fetching" .= (1e-9 * f),
          "locks" .= (1e-9 * l),
          "barriers" .= (1e-9 * b),
          "waits" .= object [fromString what .= object ["count" .= n, "longest" .= (1e-9 * longest)] | Heat.ToldWaits j waits <- lines', i == j, (what, (n, longest)) <- zip ["fetching", "locks", "barriers"] waits],
          "faults" .= object [fromString why .= n | Heat.ToldFaults j faults <- lines', i == j, (why, n) <- zip Heat.faultReasons faults],
          "sent" .= object [fromString kind .= object ["messages" .= messages, "bytes" .= bytes] | Heat.ToldSent j kind messages bytes <- lines', i == j]
        ]
    lock l =
      object
        [ "lock" .= lockName l,
          "taken" .= lockTaken l,
          "without_message" .= lockKept l,
          "waited" .= lockWaited l,
          "longest" .= lockLongest l,
          "behind" .= [object ["node" .= behindNode b, "holder" .= behindHolder b, "times" .= behindTimes b, "waited" .= behindWaited b, "longest" .= behindLongest b] | b <- lockBehind l]
        ]
    site h =
      object
        [ "site" .= Heat.heatSite h,
          "bytes" .= toInteger (Heat.heatBytes h),
          "pages" .= Heat.heatPages h,
          "read_faults" .= Heat.heatReads h,
          "write_faults" .= Heat.heatWrites h,
          "truly_shared_pages" .= Heat.heatTruly h,
          "falsely_shared_pages" .= Heat.heatFalsely h
        ]
    page p =
      object
        [ "page" .= Heat.pageNumber p,
          "sites" .= Heat.pageSites p,
          "read_faults" .= Heat.pageReads p,
          "write_faults" .= Heat.pageWrites p,
          "writers" .= Heat.pageWriters p,
          "sharing" .= Heat.sharingName (Heat.pageSharing p)
        ]
