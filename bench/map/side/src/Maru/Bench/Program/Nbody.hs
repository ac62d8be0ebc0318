-- | The forces between n bodies, all pairs, a body an item: short items, a vector comes
-- back from each.
module Maru.Bench.Program.Nbody (Body, bodies, nbody) where

import Control.DeepSeq (NFData (..))
import Data.List (foldl')
import Maru.Bench.Mapper (Mapper (..))

data Vector = Vector !Double !Double !Double

data Body = Body !Double !Vector

instance NFData Vector where rnf v = v `seq` ()

instance NFData Body where rnf b = b `seq` ()

bodies :: Int -> [Body]
bodies n = [Body (1 + part i 7) (Vector (part i 11) (part i 13) (part i 17)) | i <- [1 .. n]]
  where
    part i prime = fromIntegral ((i * i * prime) `mod` 1009) / 100 :: Double

-- | The sum of all components' sizes, in thousandths.
nbody :: [Body] -> Mapper -> Int
nbody all' m = round (1000 * foldl' (\s (Vector x y z) -> s + abs x + abs y + abs z) 0 (mapDeep m (pull all') all'))

-- | Newton's, softened, so that a body does not pull itself.
pull :: [Body] -> Body -> Vector
pull others (Body _ (Vector x y z)) = foldl' add (Vector 0 0 0) others
  where
    add (Vector fx fy fz) (Body mass (Vector ox oy oz)) = Vector (fx + k * dx) (fy + k * dy) (fz + k * dz)
      where
        (dx, dy, dz) = (ox - x, oy - y, oz - z)
        d2 = dx * dx + dy * dy + dz * dz + 0.01
        k = mass / (d2 * sqrt d2)
