import Data.Int (Int64)
import Maru.Dsm

main :: IO ()
main = withDsm $ \dsm -> do
  total <- newShared dsm 1
  lock <- newLock dsm
  withLock lock $ readAt total 0 >>= writeAt total 0 . (+ fromIntegral (node dsm + 1))
  barrier dsm
  found <- readAt total 0
  putStrLn ("node " ++ show (node dsm) ++ " of " ++ show (nodes dsm) ++ ": the sum is " ++ show (found :: Int64))
