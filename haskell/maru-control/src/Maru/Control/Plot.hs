-- | Plots as SVG text: medians with whiskers from the least to the most
-- value, axes with round ticks, each series named at its end. Nothing else in maru draws figures.
--
-- The result is a whole @\<svg\>@ element that needs no other file, script or
-- font, and can be pasted into HTML. It follows the reader's choice of light or dark.
-- Forty series differ by colour and marker (colours of Okabe and Ito, distinguishable with any
-- colour vision). Where all points are at one place of the x axis, series are bars.
module Maru.Control.Plot
  ( Plot (..),
    Axis (..),
    Scale (..),
    Series (..),
    Point (..),
    point,
    svg,
    ticks,
    escape,

    -- * For tests
    allLooks,
    apart,
  )
where

import Data.List (nub, sort, sortOn)
import Maru.Control.Plot.Svg
import Maru.Control.Statistics (Summary (..))

data Plot = Plot
  { plotTitle :: !String,
    plotX :: !Axis,
    plotY :: !Axis,
    plotSeries :: ![Series]
  }
  deriving (Eq, Show)

data Axis = Axis
  { -- | With its unit: @"workers"@, @"time, ms"@.
    axisLabel :: !String,
    axisScale :: !Scale
  }
  deriving (Eq, Show)

data Scale
  = -- | From 0, or from the least value if that is negative.
    Linear
  | -- | To base 10; values that are not positive cannot be drawn.
    Logarithmic
  | -- | Of the x axis: kinds, the first at 1. Points are not joined, and those of
    -- different series stand beside each other.
    Named ![String]
  deriving (Eq, Show)

data Series = Series
  { seriesName :: !String,
    -- | Joined by a line in this order, but for 'Named' kinds.
    seriesPoints :: ![Point]
  }
  deriving (Eq, Show)

data Point = Point
  { pointX :: !Double,
    pointY :: !Double,
    -- | Lower and upper end of the whisker.
    pointLeast :: !Double,
    pointMost :: !Double
  }
  deriving (Eq, Show)

-- | A measured sample at a place on the x axis.
point :: Double -> Summary -> Point
point x s = Point x (summaryMedian s) (summaryLeast s) (summaryMost s)

-- | The picture, 720 by 420 units. Points that cannot be drawn (not finite, or
-- not positive on a logarithmic axis) are left out and counted in a note.
svg :: Plot -> String
svg given =
  unlines
    ( [ "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 720 420\" role=\"img\" class=\"maru-plot\" "
          ++ "font-family=\"system-ui, sans-serif\" font-size=\"12\" fill=\"#222222\">",
        "<title>" ++ escape (plotTitle plot) ++ "</title>",
        "<style>" ++ concatMap dark [("#222222", "#e4e8ec"), ("#dddddd", "#343d46"), ("#ffffff", "#161b20"), ("#000000", "#ffffff")] ++ "</style>",
        "<rect width=\"720\" height=\"420\" fill=\"#ffffff\"/>",
        textAt "start" (left, 26) "font-size=\"15\" font-weight=\"600\"" (plotTitle plot)
      ]
        ++ gridX plot frame
        ++ gridY plot frame
        ++ concat (zipWith draw allLooks (beside (plotX plot) drawable))
        ++ labels frame (joined && not (all (null . seriesPoints) drawable)) (zip allLooks drawable)
        ++ note (length (allPoints plot) - length (concatMap seriesPoints drawable))
        ++ ["</svg>"]
    )
  where
    (plot, barred) = asBars given
    joined = case axisScale (plotX plot) of
      Named _ -> False
      _ -> True
    draw look s
      | barred = concatMap (bar frame (length drawable) look) (seriesPoints s)
      | otherwise = series frame joined look s
    drawable = map (keep (canDraw plot)) (plotSeries plot)
    keep ok s = s {seriesPoints = filter ok (seriesPoints s)}
    frame = frameOf plot (concatMap seriesPoints drawable)
    dark (light, other) =
      "@media(prefers-color-scheme:dark){svg.maru-plot[fill=\"" ++ light ++ "\"],.maru-plot [fill=\"" ++ light ++ "\"]{fill:" ++ other
        ++ "}.maru-plot [stroke=\""
        ++ light
        ++ "\"]{stroke:"
        ++ other
        ++ "}}"

-- | Points at one place of the x axis are no curve: a bar a series, named by that place.
asBars :: Plot -> (Plot, Bool)
asBars plot = case (axisScale (plotX plot), nub (map pointX (allPoints plot))) of
  (Named _, _) -> (plot, False)
  (_, [x]) | length (plotSeries plot) > 1 -> (plot {plotX = (plotX plot) {axisScale = Named [number x]}, plotSeries = map first (plotSeries plot)}, True)
  _ -> (plot, False)
  where
    first s = s {seriesPoints = [p {pointX = 1} | p <- seriesPoints s]}

-- | Moves the series of named kinds apart.
beside :: Axis -> [Series] -> [Series]
beside axis all' = case axisScale axis of
  Named _ -> zipWith move [0 :: Int ..] all'
  _ -> all'
  where
    move k s = s {seriesPoints = [p {pointX = pointX p + shift k} | p <- seriesPoints s]}
    shift k = 0.7 * ((fromIntegral k + 0.5) / fromIntegral (length all') - 0.5)

-- ---- geometry -----------------------------------------------------------

left, right, top, bottom :: Double
left = 70
right = 550
top = 46
bottom = 364

-- | Maps data to the picture.
data Frame = Frame
  { frameX :: Double -> Double,
    frameY :: Double -> Double,
    -- | Where a bar begins: at 0, or at the least tick of a logarithmic axis.
    frameFoot :: Double,
    frameTicksX :: [Double],
    frameTicksY :: [Double]
  }

frameOf :: Plot -> [Point] -> Frame
frameOf plot points =
  Frame
    { frameX = place scaleX rangeX (left, right),
      frameY = place scaleY rangeY (bottom, top),
      frameFoot = place scaleY rangeY (bottom, top) (if scaleY == Logarithmic then fst rangeY else 0),
      frameTicksX = inside rangeX ticksX,
      frameTicksY = inside rangeY ticksY
    }
  where
    scaleX = axisScale (plotX plot)
    scaleY = axisScale (plotY plot)
    xs = map pointX points
    ys = concatMap (\p -> [pointLeast p, pointMost p]) points
    ticksX = case scaleX of
      Named names -> map fromIntegral [1 .. length names]
      _ -> if legible then nub (sort xs) else ticks scaleX (tight xs)
    -- Few places of the data, apart enough for their names, say more than round values.
    legible = length (take 9 (nub xs)) <= 8 && all (>= 34) (zipWith (-) (drop 1 places) places)
    places = map (place scaleX rangeX (left, right)) (nub (sort xs))
    ticksY = ticks scaleY (rooted scaleY ys)
    -- The x axis ends at the data, the y axis at a tick.
    rangeX = case scaleX of
      Named names -> (0.5, fromIntegral (length names) + 0.5)
      _ -> tight xs
    rangeY = tight (ticksY ++ ys)
    inside (low, high) = filter (\t -> t >= low - slack && t <= high + slack)
      where
        slack = 1e-9 * (high - low)

allPoints :: Plot -> [Point]
allPoints = concatMap seriesPoints . plotSeries

canDraw :: Plot -> Point -> Bool
canDraw plot p =
  all (fits (plotY plot)) [pointY p, pointLeast p, pointMost p] && fits (plotX plot) (pointX p)
  where
    fits axis v = finite v && (axisScale axis /= Logarithmic || v > 0)
    finite v = not (isNaN v || isInfinite v)

-- | Least and most; some interval that is not empty if there is nothing.
tight :: [Double] -> (Double, Double)
tight [] = (1, 10)
tight vs
  | minimum vs < maximum vs = (minimum vs, maximum vs)
  | minimum vs > 0 = (minimum vs * 0.5, minimum vs * 1.5)
  | otherwise = (minimum vs - 1, minimum vs + 1)

rooted :: Scale -> [Double] -> (Double, Double)
rooted Logarithmic vs = tight vs
rooted _ vs = tight (0 : vs)

place :: Scale -> (Double, Double) -> (Double, Double) -> Double -> Double
place scale (low, high) (from, to) v = from + (to - from) * (f v - f low) / (f high - f low)
  where
    f = if scale == Logarithmic then logBase 10 else id

-- | Round values that enclose the interval: 3 to 11 of them on a linear scale. On a logarithmic one
-- powers of ten, with 2 and 5 between them if there are few.
ticks :: Scale -> (Double, Double) -> [Double]
ticks Logarithmic (low, high) = enclosing
  where
    decades = [floor (logBase 10 low) .. ceiling (logBase 10 high)] :: [Int]
    mantissas = if length decades <= 4 then [1, 2, 5] else [1]
    candidates = [m * 10 ^^ d | d <- decades, m <- mantissas]
    enclosing = dropAbove (dropBelow candidates)
    dropBelow (_ : b : more) | b <= low * (1 + 1e-9) = dropBelow (b : more)
    dropBelow more = more
    dropAbove vs = case span (< high * (1 - 1e-9)) vs of
      (below, next : _) -> below ++ [next]
      (below, []) -> below
ticks _ (low, high) = [step * fromIntegral i | i <- [first .. final]]
  where
    raw = (high - low) / 5
    magnitude = 10 ^^ (floor (logBase 10 raw) :: Int)
    step = magnitude * rounded (raw / magnitude)
    rounded r
      | r < 1.5 = 1
      | r < 3.5 = 2
      | r < 7.5 = 5
      | otherwise = 10
    first = floor (low / step + 1e-9) :: Int
    final = ceiling (high / step - 1e-9) :: Int

-- | A tick as text: large values in thousands and so on, one unit for all of a linear axis.
inUnit :: Scale -> [Double] -> Double -> String
inUnit scale all' v
  | v == 0 = "0"
  | otherwise = number (v / size) ++ unit
  where
    most = if scale == Logarithmic then abs v else maximum (map abs all')
    (size, unit)
      | most >= 1e9 = (1e9, "G")
      | most >= 1e6 = (1e6, "M")
      | most >= 1e4 = (1e3, "k")
      | otherwise = (1, "")

-- ---- parts --------------------------------------------------------------

gridX :: Plot -> Frame -> [String]
gridX plot frame =
  line "#222222" 1 (left, bottom) (right, bottom) :
  textAt "middle" ((left + right) / 2, bottom + 40) "" (axisLabel (plotX plot)) :
  concat
    [ [ line "#222222" 1 (x, bottom) (x, bottom + 5),
        textAt "middle" (x, bottom + 19) "" (named t)
      ]
      | t <- frameTicksX frame,
        let x = frameX frame t
    ]
  where
    named t = case axisScale (plotX plot) of
      Named names -> concat (take 1 (drop (round t - 1) names))
      _ -> inUnit (axisScale (plotX plot)) (frameTicksX frame) t

gridY :: Plot -> Frame -> [String]
gridY plot frame =
  ( "<text transform=\"translate(18 " ++ coordinate ((top + bottom) / 2)
      ++ ") rotate(-90)\" text-anchor=\"middle\">"
      ++ escape (axisLabel (plotY plot))
      ++ "</text>"
  ) :
  concat
    [ [ line "#dddddd" 1 (left, y) (right, y),
        textAt "end" (left - 8, y + 4) "" (inUnit (axisScale (plotY plot)) (frameTicksY frame) t)
      ]
      | t <- frameTicksY frame,
        let y = frameY frame t
    ]

-- | Colour and marker.
type Look = (String, String)

-- | Forty pairs before one comes again: eight colours and five markers have no common factor.
allLooks :: [Look]
allLooks = zip (cycle colours) (cycle ["circle", "square", "triangle", "diamond", "cross"])
  where
    colours =
      ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#888888"]

series :: Frame -> Bool -> Look -> Series -> [String]
series frame joined look@(colour, _) s =
  [ "<polyline fill=\"none\" stroke=\"" ++ colour ++ "\" stroke-width=\"2\" points=\""
      ++ unwords [coordinate x ++ "," ++ coordinate y | (x, y) <- map position points]
      ++ "\"/>"
    | joined && length points > 1
  ]
    ++ concatMap whisker points
    ++ map (marker look . position) points
  where
    points = seriesPoints s
    position p = (frameX frame (pointX p), frameY frame (pointY p))
    whisker p
      | pointLeast p >= pointMost p = []
      | otherwise =
        [ line colour 1 (x, low) (x, high),
          line colour 1 (x - 4, low) (x + 4, low),
          line colour 1 (x - 4, high) (x + 4, high)
        ]
      where
        x = frameX frame (pointX p)
        low = frameY frame (pointLeast p)
        high = frameY frame (pointMost p)

marker :: Look -> (Double, Double) -> String
marker (colour, shape) (x, y) = case shape of
  "circle" ->
    "<circle cx=\"" ++ coordinate x ++ "\" cy=\"" ++ coordinate y ++ "\" r=\"4\" fill=\"" ++ colour ++ "\"/>"
  "square" -> polygon [(-4, -4), (4, -4), (4, 4), (-4, 4)]
  "triangle" -> polygon [(0, -5), (5, 4), (-5, 4)]
  "diamond" -> polygon [(0, -5.5), (5.5, 0), (0, 5.5), (-5.5, 0)]
  _ ->
    polygon
      [(-5, -2), (-2, -2), (-2, -5), (2, -5), (2, -2), (5, -2), (5, 2), (2, 2), (2, 5), (-2, 5), (-2, 2), (-5, 2)]
  where
    polygon corners =
      "<polygon fill=\"" ++ colour ++ "\" points=\""
        ++ unwords [coordinate (x + dx) ++ "," ++ coordinate (y + dy) | (dx, dy) <- corners]
        ++ "\"/>"

-- | From where bars begin to the value, with its marker at the foot and its whisker.
bar :: Frame -> Int -> Look -> Point -> [String]
bar frame count (colour, shape) p =
  ( "<rect x=\"" ++ coordinate (x - width / 2) ++ "\" y=\"" ++ coordinate (min y foot) ++ "\" width=\"" ++ coordinate width ++ "\" height=\""
      ++ coordinate (abs (foot - y))
      ++ "\" fill=\""
      ++ colour
      ++ "\"/>"
  ) :
  marker ("#ffffff", shape) (x, foot - 9) :
    [line "#222222" 1 (x, frameY frame (pointLeast p)) (x, frameY frame (pointMost p)) | pointLeast p < pointMost p]
  where
    x = frameX frame (pointX p)
    y = frameY frame (pointY p)
    foot = min bottom (max top (frameFoot frame))
    width = 0.6 * (right - left) / fromIntegral count

-- | Each series' name: at the end of its line, or, where there are no lines, in a column.
labels :: Frame -> Bool -> [(Look, Series)] -> [String]
labels frame atEnds entries = concat (zipWith entry entries places)
  where
    wanted = [if atEnds then end s else Nothing | (_, s) <- entries]
    end s = case seriesPoints s of
      [] -> Nothing
      ps -> let p = last (sortOn pointX ps) in Just (frameX frame (pointX p), frameY frame (pointY p))
    places
      | atEnds = apart (top, bottom) [maybe bottom snd w | w <- wanted]
      | otherwise = apart (top, bottom) [top + 10 + 20 * fromIntegral k | k <- [0 .. length entries - 1]]
    entry (look@(colour, _), s) y =
      [line colour 0.6 from (568, y) | atEnds, Just from <- [end s], abs (snd from - y) > 3 || fst from < right - 1]
        ++ [marker look (576, y), textAt "start" (586, y + 4) "" (shorten (seriesName s))]
    shorten name = if length name > 20 then take 19 name ++ "…" else name

-- | Moves values apart, keeping their order, so that neighbours are 16 units from each other, or as
-- far as fits between the bounds.
apart :: (Double, Double) -> [Double] -> [Double]
apart (low, high) ys = map snd (sortOn fst (zip order (settle (map (ys !!) order))))
  where
    order = map snd (sortOn fst (zip ys [0 :: Int ..]))
    gap = min 16 ((high - low) / fromIntegral (max 1 (length ys - 1)))
    settle = pushUp high . pushDown low
    pushDown _ [] = []
    pushDown from (v : more) = let v' = max from v in v' : pushDown (v' + gap) more
    pushUp to vs = reverse (go to (reverse vs))
    go _ [] = []
    go to (v : more) = let v' = min to v in v' : go (v' - gap) more

note :: Int -> [String]
note 0 = []
note left' =
  [ textAt "start" (left, 414) "fill=\"#a00\"" $
      show left' ++ (if left' == 1 then " point" else " points") ++ " cannot be drawn on these axes"
  ]
