-- | The elements of SVG that plots are made of, as text.
module Maru.Control.Plot.Svg
  ( line,
    textAt,
    coordinate,
    number,
    escape,
  )
where

import Numeric (showFFloat, showGFloat)

line :: String -> Double -> (Double, Double) -> (Double, Double) -> String
line colour width (x1, y1) (x2, y2) =
  "<line stroke=\"" ++ colour ++ "\" stroke-width=\"" ++ number width ++ "\" "
    ++ unwords [n ++ "=\"" ++ coordinate v ++ "\"" | (n, v) <- ends]
    ++ "/>"
  where
    ends = [("x1", x1), ("y1", y1), ("x2", x2), ("y2", y2)]

textAt :: String -> (Double, Double) -> String -> String -> String
textAt anchor (x, y) attributes content =
  "<text x=\"" ++ coordinate x ++ "\" y=\"" ++ coordinate y ++ "\" text-anchor=\"" ++ anchor ++ "\" "
    ++ attributes
    ++ ">"
    ++ escape content
    ++ "</text>"

coordinate :: Double -> String
coordinate v = showFFloat (Just 1) v ""

-- | A tick's value as people write it: 0.002, 12, 1500, 2e6.
number :: Double -> String
number v
  | v == 0 = "0"
  | abs v >= 1e6 || abs v < 1e-3 = trim mantissa ++ "e" ++ show power
  | otherwise = trim (showFFloat (Just 6) v "")
  where
    power = floor (logBase 10 (abs v) + 1e-9) :: Int
    mantissa = showGFloat (Just 3) (v / 10 ^^ power) ""
    trim digits
      | '.' `elem` digits = reverse (dropWhile (== '.') (dropWhile (== '0') (reverse digits)))
      | otherwise = digits

-- | Text for XML and HTML, in attributes too; control characters, which XML
-- cannot hold, become question marks.
escape :: String -> String
escape = concatMap code
  where
    code c = case c of
      '<' -> "&lt;"
      '>' -> "&gt;"
      '&' -> "&amp;"
      '"' -> "&quot;"
      '\'' -> "&#39;"
      _
        | c < ' ' && c `notElem` "\t\n\r" -> "?"
        | otherwise -> [c]
