-- | A red-black tree whose links are transactional variables: the seed's second structure. An
-- operation reads the links on its way. Mending the balance writes links nearer to the root, which
-- all others read.
module Maru.Bench.Stm.RedBlack
  ( newRedBlack,
    RedBlack,
    emptyTree,
    asSet,
    blackHeight,
  )
where

import Control.Concurrent.STM
import Maru.Bench.Stm.Set
import Maru.Bench.Stm.Tally

data Colour = Red | Black
  deriving (Eq)

type Link = TVar Tree

data Tree = Leaf | Node !Colour !Link !Int !Link

newtype RedBlack = RedBlack Link

newRedBlack :: IO Set
newRedBlack = asSet <$> emptyTree

emptyTree :: IO RedBlack
emptyTree = RedBlack <$> newTVarIO Leaf

asSet :: RedBlack -> Set
asSet (RedBlack root) = transactional (insert root) (delete root) (member root) (elements root)

-- One side of a node and the other, so that each case is written once ------------

data Side = L | R
  deriving (Eq)

-- | @node side colour near key far@
node :: Side -> Colour -> Link -> Int -> Link -> Tree
node L c near x far = Node c near x far
node R c near x far = Node c far x near

isRed :: Tree -> Bool
isRed (Node Red _ _ _) = True
isRed _ = False

coloured :: Colour -> Tree -> Tree
coloured c (Node _ l x r) = Node c l x r
coloured _ Leaf = Leaf

-- | Of a node: the links of the side and of the other one.
sides :: Side -> Link -> Link -> (Link, Link)
sides L l r = (l, r)
sides R l r = (r, l)

-- Looking ---------------------------------------------------------------------------

member :: Link -> Tally -> Int -> STM Bool
member link tally key = do
  tree <- readT tally link
  case tree of
    Leaf -> pure False
    Node _ l x r -> case compare key x of
      LT -> member l tally key
      GT -> member r tally key
      EQ -> pure True

elements :: Link -> IO [Int]
elements link = do
  tree <- readTVarIO link
  case tree of
    Leaf -> pure []
    Node _ l x r -> (\before after -> before ++ x : after) <$> elements l <*> elements r

-- | Black nodes on each way down, if that is one number and no red node has a red child.
blackHeight :: RedBlack -> IO (Maybe Int)
blackHeight (RedBlack root) = height root
  where
    height link = do
      tree <- readTVarIO link
      case tree of
        Leaf -> pure (Just 0)
        Node c l _ r -> do
          reds <- mapM (fmap isRed . readTVarIO) [l, r]
          left <- height l
          right <- height r
          pure (if left /= right || c == Red && or reds then Nothing else (if c == Black then (+ 1) else id) <$> left)

-- Inserting -------------------------------------------------------------------------

data Inserted
  = Present
  | Settled
  | -- | The node at this link has become red.
    Reddened
  | -- | It is red, and so is its child on that side.
    RedBelow !Side

insert :: Link -> Tally -> Int -> STM Bool
insert root tally key = do
  done <- grow tally key 0 root
  case done of
    Present -> pure False
    Settled -> pure True
    _ -> True <$ (readT tally root >>= writeT tally 0 root . coloured Black)

grow :: Tally -> Int -> Int -> Link -> STM Inserted
grow tally key depth link = do
  tree <- readT tally link
  case tree of
    Leaf -> do
      l <- newTVar Leaf
      r <- newTVar Leaf
      Reddened <$ writeT tally depth link (Node Red l key r)
    Node c l x r
      | key < x -> grow tally key (depth + 1) l >>= settle c L x l r
      | key > x -> grow tally key (depth + 1) r >>= settle c R x r l
      | otherwise -> pure Present
  where
    settle c side x near far done = case done of
      Reddened | c == Red -> pure (RedBelow side)
      Reddened -> pure Settled
      RedBelow inner -> twoReds tally depth link side x near far inner
      _ -> pure done

-- | Of a black node: its child on that side is red, and has a red child on the inner side.
twoReds :: Tally -> Int -> Link -> Side -> Int -> Link -> Link -> Side -> STM Inserted
twoReds tally depth link side x near far inner = do
  child <- readT tally near
  uncle <- readT tally far
  if isRed uncle
    then do
      writeT tally (depth + 1) near (coloured Black child)
      writeT tally (depth + 1) far (coloured Black uncle)
      Reddened <$ writeT tally depth link (node side Red near x far)
    else Settled <$ (rotated child >>= writeT tally depth link)
  where
    rotated Leaf = pure Leaf -- not reached: a leaf is not red
    rotated (Node _ l y r) = do
      let (outer, middle) = sides side l r
      if side == inner
        then node side Black outer y <$> newTVar (node side Red middle x far)
        else do
          grandchild <- readT tally middle
          case grandchild of
            Leaf -> pure Leaf -- not reached
            Node _ gl z gr -> do
              let (first, second) = sides side gl gr
              a <- newTVar (node side Red outer y first)
              b <- newTVar (node side Red second x far)
              pure (node side Black a z b)

-- Deleting --------------------------------------------------------------------------

data Deleted
  = Absent
  | Removed
  | -- | And each way down has one black node less.
    Shorter

delete :: Link -> Tally -> Int -> STM Bool
delete root tally key = do
  done <- shrink tally key 0 root
  pure $ case done of
    Absent -> False
    _ -> True

shrink :: Tally -> Int -> Int -> Link -> STM Deleted
shrink tally key depth link = do
  tree <- readT tally link
  case tree of
    Leaf -> pure Absent
    Node c l x r -> case compare key x of
      LT -> shrink tally key (depth + 1) l >>= mended tally depth link L
      GT -> shrink tally key (depth + 1) r >>= mended tally depth link R
      EQ -> do
        left <- readT tally l
        right <- readT tally r
        case (left, right) of
          (Leaf, _) -> replaced tally depth link c right
          (_, Leaf) -> replaced tally depth link c left
          _ -> do
            (least, done) <- takeLeast tally (depth + 1) r right
            writeT tally depth link (Node c l least r)
            mended tally depth link R done

-- | A node with one child at most goes; its only child, if there is one, is red.
replaced :: Tally -> Int -> Link -> Colour -> Tree -> STM Deleted
replaced tally depth link c child = do
  writeT tally depth link (coloured Black child)
  pure (if c == Black && not (isRed child) then Shorter else Removed)

-- | Takes the least element out of a tree that has one, which the link leads to.
takeLeast :: Tally -> Int -> Link -> Tree -> STM (Int, Deleted)
takeLeast _ _ _ Leaf = pure (0, Absent) -- not reached: the tree has an element
takeLeast tally depth link (Node c l x r) = do
  left <- readT tally l
  case left of
    Leaf -> do
      right <- readT tally r
      (,) x <$> replaced tally depth link c right
    _ -> do
      (least, done) <- takeLeast tally (depth + 1) l left
      (,) least <$> mended tally depth link L done

-- | The tree on that side has become shorter, if it has.
mended :: Tally -> Int -> Link -> Side -> Deleted -> STM Deleted
mended tally depth link side Shorter = repair tally depth link side
mended _ _ _ _ done = pure done

-- | The tree on that side has a black node less than its sibling.
repair :: Tally -> Int -> Link -> Side -> STM Deleted
repair tally depth link side = do
  tree <- readT tally link
  case tree of
    Leaf -> pure Removed -- not reached: it had a child
    Node c l x r -> do
      let (near, far) = sides side l r
      sibling <- readT tally far
      case sibling of
        Leaf -> pure Removed -- not reached: the sibling is higher
        Node sc sl y sr -> do
          let (inner, outer) = sides side sl sr
          if sc == Red
            then do
              lowered <- newTVar (node side Red near x inner)
              writeT tally depth link (node side Black lowered y outer)
              repair tally (depth + 1) lowered side
            else do
              innerTree <- readT tally inner
              outerTree <- readT tally outer
              bySibling (c, near, x, far) (inner, innerTree) y (outer, outerTree)
  where
    bySibling (c, near, x, far) (inner, innerTree) y (outer, outerTree)
      | isRed outerTree = do
        writeT tally (depth + 2) outer (coloured Black outerTree)
        lowered <- newTVar (node side Black near x inner)
        Removed <$ writeT tally depth link (node side c lowered y outer)
      | Node Red il z ir <- innerTree = do
        let (first, second) = sides side il ir
        lowered <- newTVar (node side Black near x first)
        raised <- newTVar (node side Black second y outer)
        Removed <$ writeT tally depth link (node side c lowered z raised)
      | otherwise = do
        writeT tally (depth + 1) far (node side Red inner y outer)
        if c == Red
          then Removed <$ writeT tally depth link (node side Black near x far)
          else pure Shorter
