-- | One self-contained page: readable on a phone, on paper and in the dark; nothing is fetched.
module Maru.View.Page
  ( Heading (..),
    htmlPage,
    pageAround,
    element,
    section,
    tiles,
    htmlTable,
    quotedCommand,
  )
where

import Data.Char (isAlphaNum, isAscii)
import Maru.Control.Plot (escape)
import Maru.View.Table (Align (..), Table (..))

-- | What stands above every page.
data Heading = Heading
  { headingTitle :: !String,
    -- | A sentence that says what was found.
    headingFound :: !String,
    -- | Host, load, command ('Maru.Cli.Host.pageFacts').
    headingFacts :: ![(String, String)]
  }
  deriving (Eq, Show)

-- | The heading, then the body: lines of HTML.
htmlPage :: Heading -> [String] -> String
htmlPage heading body = before ++ unlines body ++ after
  where
    (before, after) = pageAround [] heading

-- | What stands before and after the body. The policies say what the page may load and run.
pageAround :: [String] -> Heading -> (String, String)
pageAround policies (Heading title found facts) =
  ( unlines $
      [ "<!doctype html>",
        "<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">"
      ]
        ++ ["<meta http-equiv=\"Content-Security-Policy\" content=\"" ++ escape policy ++ "\">" | policy <- policies]
        ++ [ element "title" title,
             "<style>" ++ concat style ++ "</style></head><body><main>",
             element "h1" title,
             "<p class=\"found\">" ++ escape found ++ "</p>"
           ]
        ++ ["<dl class=\"line\">" ++ concat [element "dt" name ++ element "dd" said | (name, said) <- facts] ++ "</dl>" | not (null facts)],
    "</main><script>" ++ concat script ++ "</script></body></html>\n"
  )

-- | Text in an element, escaped.
element :: String -> String -> String
element name text = "<" ++ name ++ ">" ++ escape text ++ "</" ++ name ++ ">"

-- | A list under its title; of an empty one nothing.
section :: String -> [String] -> [String]
section _ [] = []
section title said = [element "h2" title, "<ul>"] ++ map (element "li") said ++ ["</ul>"]

-- | Figures that are to be seen first: value and what it is.
tiles :: [(String, String)] -> [String]
tiles figures =
  ["<div class=\"tiles\">"]
    ++ ["<div class=\"tile\">" ++ element "b" value ++ element "span" what ++ "</div>" | (value, what) <- figures]
    ++ ["</div>"]

htmlTable :: Table -> [String]
htmlTable (Table heads rows) =
  ["<div class=\"scroll\"><table>", row "th" (map snd heads)] ++ map (row "td") rows ++ ["</table></div>"]
  where
    row tag cells = "<tr>" ++ concat (zipWith (cell tag) (map fst heads) cells) ++ "</tr>"
    cell tag align content =
      "<" ++ tag ++ (if align == L then " class=\"l\"" else "") ++ ">" ++ escape content ++ "</" ++ tag ++ ">"

-- | As a shell takes it.
quotedCommand :: [String] -> String
quotedCommand = unwords . map quoted
  where
    quoted word
      | not (null word) && all plain word = word
      | otherwise = "'" ++ concatMap (\c -> if c == '\'' then "'\\''" else [c]) word ++ "'"
    plain c = isAscii c && isAlphaNum c || c `elem` "-_./=:,@+%"

style :: [String]
style =
  [ ":root{--ink:#1c2630;--soft:#66727f;--rule:#dfe4e9;--paper:#fbfbf9;--card:#fff;--wait:#c2521b;--hold:#2b6aa6;--bad:#b3261e;color-scheme:light dark}",
    "@media(prefers-color-scheme:dark){:root{--ink:#e4e8ec;--soft:#95a1ad;--rule:#343d46;--paper:#161b20;--card:#1e252c;--wait:#ef8a54;--hold:#6aaee8;--bad:#ff8a80}}",
    "*{box-sizing:border-box}body{margin:0;background:var(--paper);color:var(--ink);font:15px/1.5 system-ui,-apple-system,'Segoe UI',sans-serif}",
    "main{max-width:110rem;margin:0 auto;padding:1.5rem clamp(.8rem,3vw,2.5rem) 4rem}",
    "h1{font-size:1.35rem;line-height:1.3;margin:0;overflow-wrap:anywhere}h2{font-size:1.1rem;margin:2.4rem 0 .6rem}h3{font-size:.95rem;margin:0 0 .5rem;overflow-wrap:anywhere}",
    ".found{font-size:1.05rem;margin:.5rem 0}dl.line{display:grid;grid-template-columns:auto 1fr;gap:.1rem .8rem;font-size:.85rem}dt{font-weight:500}dd{margin:0;overflow-wrap:anywhere}",
    ".line,.note{color:var(--soft);margin:.3rem 0}.note{font-size:.85rem;max-width:70rem}",
    ".tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(9.5rem,1fr));gap:.7rem;margin:1.2rem 0}",
    ".tile,.card{background:var(--card);border:1px solid var(--rule);border-radius:.6rem;padding:.7rem .9rem}",
    ".tile b{display:block;font-size:1.3rem;font-weight:600;font-variant-numeric:tabular-nums}.tile span{color:var(--soft);font-size:.8rem}",
    "main>h3{margin-top:1.6rem}main>.scroll,main>.card{margin:.8rem 0}.card .maru-plot{display:block;max-width:60rem}.card .maru-plot>rect:first-of-type{fill:none}",
    ".scroll{overflow-x:auto;background:var(--card);border:1px solid var(--rule);border-radius:.6rem}",
    "table{border-collapse:collapse;font-size:.82rem;font-variant-numeric:tabular-nums;width:100%}",
    "td,th{padding:.35rem .6rem;border-bottom:1px solid var(--rule);text-align:right;white-space:nowrap;vertical-align:middle}",
    "tr:last-child td{border-bottom:0}th{color:var(--soft);font-weight:500}td:first-child,th:first-child,td.l,th.l{text-align:left}td.l{white-space:normal}",
    ".wide td:first-child,.wide th:first-child{position:sticky;left:0;background:var(--card);min-width:11rem;max-width:22rem;white-space:normal;overflow-wrap:anywhere;border-right:1px solid var(--rule)}",
    "td small{display:block;color:var(--soft)}th button{all:unset;cursor:pointer}th button:focus-visible{outline:2px solid var(--hold);border-radius:2px}",
    "th[aria-sort=descending] button::after{content:' \\25BE'}th[aria-sort=ascending] button::after{content:' \\25B4'}",
    "th.w{color:var(--wait);text-align:left}th.h{color:var(--hold);text-align:left}.wait{fill:var(--wait)}.hold{fill:var(--hold)}.axis{stroke:var(--rule)}",
    ".jain{fill:none;stroke:var(--wait);stroke-width:1.8}.rate{fill:var(--hold);opacity:.3}svg:not(.maru-plot) text{fill:var(--soft);font:11px system-ui,sans-serif}",
    ".cards{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,26rem),1fr));gap:.9rem}.card svg{width:100%;height:auto}",
    ".four{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,17rem),1fr));gap:.7rem}.four>div{background:var(--card);border:1px solid var(--rule);border-radius:.6rem;padding:.5rem .9rem}",
    ".four h4{margin:.1rem 0;font-size:.8rem;color:var(--soft);font-weight:500}.four p{margin:.3rem 0;font-size:.88rem;overflow-wrap:anywhere}.figure{margin:1.6rem 0 .8rem}.without{color:var(--soft);font-style:italic}",
    ".failed,.failed a,.failed td{color:var(--bad);font-weight:600}code{font-size:.92em}",
    "ul{padding-left:1.2rem}li{margin:.2rem 0}",
    "@media(max-width:40rem){body{font-size:14px}.wide td:first-child,.wide th:first-child{min-width:9rem;max-width:11rem}}",
    "@media print{@page{size:A4 landscape;margin:10mm}body{background:#fff;font-size:9pt}main{padding:0}table{font-size:6.2pt}td,th{padding:.1rem .2rem}.scroll{overflow:visible;border:0}.wide td:first-child,.wide th:first-child{position:static;min-width:0;max-width:8rem}td svg{width:44px}.card{break-inside:avoid}tr{break-inside:avoid}}"
  ]

-- | A click on a head sorts by it: by number (data-v) where there is one.
script :: [String]
script =
  [ "document.querySelectorAll('table.sort').forEach(t=>{const hs=[...t.tHead.rows[t.tHead.rows.length-1].cells];",
    "hs.forEach((h,i)=>{const b=h.querySelector('button');if(!b)return;b.onclick=()=>{",
    "const down=h.getAttribute('aria-sort')!=='descending';hs.forEach(x=>x.removeAttribute('aria-sort'));h.setAttribute('aria-sort',down?'descending':'ascending');",
    "const v=r=>{const c=r.cells[i];return c.dataset.v===undefined?c.textContent:+c.dataset.v};",
    "const rows=[...t.tBodies[0].rows];rows.sort((a,b)=>{const x=v(a),y=v(b);return(x<y?-1:x>y?1:0)*(down?-1:1)});t.tBodies[0].append(...rows)}})});"
  ]
