-- | Parallel map of vectors, of every kind that the @vector@ package has: boxed,
-- storable, unboxed, primitive.
module Maru.Vector
  ( parMapVector,
  )
where

import qualified Data.Vector.Generic as Vector
import Maru

-- | @parMapVector options f v == map f v@, from one kind of vector to the same or
-- another one.
--
-- The vector is cut into 256 slices at most. A slice counts
-- as one item in 'chunking', 'window' and exceptions. Workers read the elements
-- where they lie; a worker gives back one vector per slice, and the caller copies
-- them into one: O(length) there, without a heap object per element where the
-- result is storable, unboxed or primitive. All elements are in normal form before
-- the vector is there; what @f@ throws, looking at the vector throws.
--
-- >>> import qualified Data.Vector.Storable as Storable
-- >>> import qualified Data.Vector.Unboxed as Unboxed
-- >>> parMapVector defaultOptions {workers = Workers 2} even (Storable.fromList [1, 2, 3 :: Int]) :: Unboxed.Vector Bool
-- [False,True,False]
parMapVector :: (Vector.Vector v a, Vector.Vector w b) => Options -> (a -> b) -> v a -> w b
parMapVector options f = Vector.concat . parMapWith options slice . slices
  where
    slice v = Vector.generate (Vector.length v) (f . Vector.unsafeIndex v)
    slices v = cut (max 1 ((Vector.length v + 255) `div` 256)) v
    cut size v
      | Vector.null v = []
      | otherwise = let (now, later) = Vector.splitAt size v in now : cut size later
