-- | Prices of European options by the formula of Black and Scholes, a chunk of options an
-- item: little computing an option, a number comes back.
module Maru.Bench.Program.Blackscholes (blackscholes) where

import Data.List (foldl')
import Maru.Bench.Mapper (Mapper (..))

-- | Options, options a chunk; the sum in cents.
blackscholes :: Int -> Int -> Mapper -> Int
blackscholes n chunk m = round (100 * sum (mapDeep m total [0, chunk .. n - 1]))
  where
    total from = foldl' (\s i -> s + price (option i)) 0 [from .. min n (from + chunk) - 1]

data Option = Option !Double !Double !Double !Double !Double

-- Spot, strike, rate, volatility, years: spread over what is usual.
option :: Int -> Option
option i = Option (50 + part 7919 100) (50 + part 104729 100) (0.01 + part 31 0.08) (0.1 + part 17 0.5) (0.1 + part 13 2)
  where
    part prime width = fromIntegral ((i * prime) `mod` 1000) * width / 1000

-- A call's.
price :: Option -> Double
price (Option spot strike rate volatility years) = spot * normal d1 - strike * exp (-rate * years) * normal d2
  where
    d1 = (log (spot / strike) + (rate + volatility * volatility / 2) * years) / spread
    d2 = d1 - spread
    spread = volatility * sqrt years

-- | The standard normal distribution: Abramowitz and Stegun, Handbook of Mathematical
-- Functions, 26.2.17.
normal :: Double -> Double
normal x
  | x < 0 = 1 - normal (-x)
  | otherwise = 1 - exp (-x * x / 2) / sqrt (2 * pi) * t * (a1 + t * (a2 + t * (a3 + t * (a4 + t * a5))))
  where
    t = 1 / (1 + 0.2316419 * x)
    (a1, a2, a3, a4, a5) = (0.319381530, -0.356563782, 1.781477937, -1.821255978, 1.330274429)
