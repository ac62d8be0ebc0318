-- | @maru\/dsm.h@. Calls that may wait for other nodes are safe ones: meanwhile other
-- Haskell threads run, and collect garbage.
module Maru.Dsm.Native
  ( c_init,
    c_exit,
    c_node,
    c_nodes,
    c_alloc,
    c_read_range,
    c_write_range,
    c_lock,
    c_unlock,
    c_barrier,
    c_fetch_add,
    c_semaphore_wait,
    c_semaphore_post,
    c_flag_set,
    c_flag_await,
    c_condition_wait,
    c_condition_signal,
    c_condition_broadcast,
    c_fence,
  )
where

import Data.Int (Int64)
import Data.Word (Word32)
import Foreign (Ptr)
import Foreign.C (CSize (..), CString)

foreign import ccall safe "maru_dsm_init_unwatched" c_init :: IO ()

foreign import ccall safe "maru_dsm_exit" c_exit :: IO ()

foreign import ccall unsafe "maru_dsm_node" c_node :: IO Word32

foreign import ccall unsafe "maru_dsm_nodes" c_nodes :: IO Word32

foreign import ccall safe "maru_dsm_alloc_at" c_alloc :: CSize -> CString -> IO (Ptr a)

foreign import ccall safe "maru_dsm_read_range" c_read_range :: Ptr a -> CSize -> IO ()

foreign import ccall safe "maru_dsm_write_range" c_write_range :: Ptr a -> CSize -> IO ()

foreign import ccall safe "maru_dsm_lock" c_lock :: Word32 -> IO ()

foreign import ccall safe "maru_dsm_unlock" c_unlock :: Word32 -> IO ()

foreign import ccall safe "maru_dsm_barrier" c_barrier :: Word32 -> IO ()

foreign import ccall safe "maru_dsm_fetch_add" c_fetch_add :: Word32 -> Int64 -> IO Int64

foreign import ccall safe "maru_dsm_semaphore_wait" c_semaphore_wait :: Word32 -> IO ()

foreign import ccall safe "maru_dsm_semaphore_post" c_semaphore_post :: Word32 -> Word32 -> IO ()

foreign import ccall safe "maru_dsm_flag_set" c_flag_set :: Word32 -> Int64 -> IO ()

foreign import ccall safe "maru_dsm_flag_await" c_flag_await :: Word32 -> Int64 -> IO ()

foreign import ccall safe "maru_dsm_condition_wait" c_condition_wait :: Word32 -> Word32 -> IO ()

foreign import ccall safe "maru_dsm_condition_signal" c_condition_signal :: Word32 -> IO ()

foreign import ccall safe "maru_dsm_condition_broadcast" c_condition_broadcast :: Word32 -> IO ()

foreign import ccall safe "maru_dsm_fence" c_fence :: IO ()
