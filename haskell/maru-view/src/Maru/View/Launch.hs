-- | The page of a job: what its nodes did with their time, and which allocations and pages cost
-- what. Pure.
module Maru.View.Launch
  ( launchPage,
  )
where

import Data.Char (toUpper)
import qualified Maru.Control.Launch.Advice as Advice
import qualified Maru.Control.Launch.Heat as Heat
import Maru.View.Page
import Maru.View.Table (Align (..), Table (..), seconds)

-- | Facts ('Maru.Cli.Host.pageFacts'), the job's status, what its nodes told.
launchPage :: [(String, String)] -> Int -> [Heat.Told] -> String
launchPage facts status told =
  htmlPage (Heading "maru launch" found facts) $
    titled "Nodes" nodes [[show i, ns w, ns c, ns f, ns l, ns b] | Heat.ToldNode i w c f l b <- told]
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
    cut = if length hot > pagesShown then " (" ++ show pagesShown ++ " of " ++ show (length hot) ++ ")" else ""
    titled _ _ [] = []
    titled title heads rows = element "h2" title : htmlTable (Table heads rows)
    ns = seconds . (1e-9 *)
    nodes = (L, "node") : [(R, head') | head' <- ["in all", "computing", "waited for pages", "for locks", "for barriers"]]
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
