{-# LANGUAGE CPP #-}
{-# LANGUAGE MagicHash #-}

-- | What differs between GHCs, as far as Haskell sees it. (As far as C does:
-- @cbits\/rts\/internals.h@.)
module Maru.Native.Ghc
  ( partsOf,
    exceptionOf,
  )
where

import Control.Exception (SomeException)
#if __GLASGOW_HASKELL__ >= 910
import Control.Exception.Context (ExceptionContext, emptyExceptionContext)
#endif
import GHC.Exts (Any, unsafeCoerce#)

-- As 'SomeException' lies in memory: the dictionary, from GHC 9.10 on what was
-- noted where it was thrown, and the payload.
#if __GLASGOW_HASKELL__ >= 910
data Parts = Parts Any ExceptionContext Any
#else
data Parts = Parts Any Any
#endif

-- | An exception's dictionary and payload.
partsOf :: SomeException -> (Any, Any)

-- | Inverse, but for a context, which is that of its thread: it comes out empty.
exceptionOf :: Any -> Any -> SomeException
#if __GLASGOW_HASKELL__ >= 910
partsOf e = case unsafeCoerce# e of Parts dictionary _ payload -> (dictionary, payload)
exceptionOf dictionary payload = unsafeCoerce# (Parts dictionary emptyExceptionContext payload)
#else
partsOf e = case unsafeCoerce# e of Parts dictionary payload -> (dictionary, payload)
exceptionOf dictionary payload = unsafeCoerce# (Parts dictionary payload)
#endif
