{-# LANGUAGE BangPatterns #-}

-- | Evaluation to normal form without a class constraint.
module Maru.Native.Force (normalise) where

import Control.Exception (evaluate)

-- | Evaluates to normal form, whatever the type. Functions and mutable objects
-- are leaves. Throws what evaluation throws.
normalise :: a -> IO ()
normalise !x = () <$ evaluate x
