-- | A source as its language reads it, where that differs from what is written; and where in the
-- original each of its bytes stands.
module Maru.Similar.Lexer.Rewrite
  ( Edit (..),
    Rewritten (..),
    rewrite,
    relocated,
  )
where

import Data.ByteString (ByteString)
import qualified Data.ByteString as B
import Data.Vector.Unboxed (Vector)
import qualified Data.Vector.Unboxed as VU
import Data.Word (Word32)
import Maru.Similar.Token (Tokens (..))

-- | Where it starts, its length, what stands for it.
data Edit = Edit !Int !Int !ByteString

data Rewritten = Rewritten
  { rewrittenText :: !ByteString,
    -- | Before and after each edit: offset here, offset in the original; ascending.
    rewrittenAnchors :: !(Vector (Word32, Word32))
  }

-- | With these edits: ascending, disjoint. Without one it is free. O(n).
rewrite :: ByteString -> [Edit] -> Rewritten
rewrite source edits
  | null edits = Rewritten source VU.empty
  | otherwise = let (pieces, anchors) = rebuilt source 0 0 edits in Rewritten (B.concat pieces) (VU.fromList anchors)

rebuilt :: ByteString -> Int -> Int -> [Edit] -> ([ByteString], [(Word32, Word32)])
rebuilt source here original edits = case edits of
  [] -> ([B.drop original source], [])
  Edit at len new : more ->
    let from = here + at - original
        to = from + B.length new
        (pieces, anchors) = rebuilt source to (at + len) more
     in ( B.take (at - original) (B.drop original source) : new : pieces,
          (fromIntegral from, fromIntegral at) : (fromIntegral to, fromIntegral (at + len)) : anchors
        )

-- | Tokens of the rewritten text, where they stand in the original.
relocated :: Rewritten -> Tokens -> Tokens
relocated r ts
  | VU.null (rewrittenAnchors r) = ts
  | otherwise = ts {tokenStarts = VU.map (originalOffset r) (tokenStarts ts), tokenEnds = VU.map (originalOffset r) (tokenEnds ts)}

-- | The offset in the original source. Monotone. O(log edits).
originalOffset :: Rewritten -> Word32 -> Word32
originalOffset r offset = case search 0 (VU.length anchors) of
  0 -> offset
  n -> let (here, original) = anchors VU.! (n - 1) in original + (offset - here)
  where
    anchors = rewrittenAnchors r
    -- How many anchors are at or before the offset.
    search :: Int -> Int -> Int
    search lo hi
      | lo >= hi = lo
      | fst (anchors VU.! mid) <= offset = search (mid + 1) hi
      | otherwise = search lo mid
      where
        mid = (lo + hi) `div` 2
