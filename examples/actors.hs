-- | The simple actor model: a master, its slaves, and a death that is a message.
module Main (main) where

import Control.Monad (forM_, replicateM, zipWithM_)
import Data.Either (partitionEithers)
import Maru
import Maru.Actor

main :: IO ()
main = withMailbox $ \answers -> do
  slaves <- replicateM 4 (spawn Shm (slave (address answers)))
  forM_ slaves $ \actor -> monitor actor (address answers) (Left . show)
  zipWithM_ (send . actorAddress) (cycle slaves) (map Just [1 .. 100])
  forM_ slaves $ \actor -> send (actorAddress actor) Nothing
  (ends, sums) <- partitionEithers <$> replicateM 104 (receive answers)
  print (sum sums)
  putStrLn (unwords ends)

-- | Adds one to each number that comes; has nothing more to do at the end of them.
slave :: Address (Either String Int) -> Mailbox (Maybe Int) -> IO ()
slave to inbox = receive inbox >>= maybe (pure ()) (\n -> send to (Right (n + 1)) >> slave to inbox)
