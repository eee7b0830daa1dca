import qualified Data.Map.Strict as Map
import Data.Char (isAlpha, toLower)
import Data.List (sortOn)
import Control.Concurrent

main :: IO ()
main = do
  text <- getContents
  let cleaned = map toLower . filter isAlpha
      counts = Map.fromListWith (+) [(w, 1 :: Int) | w <- map cleaned (words text), not (null w)]
  done <- newEmptyMVar
  _ <- forkIO (putMVar done (Map.size counts))
  takeMVar done >>= print
  mapM_ print (take 10 (sortOn (negate . snd) (Map.toList counts)))
