-- | What a job's nodes tell, and what is made of it.
module LaunchTest (launches) where

import Data.List (isInfixOf, isPrefixOf)
import Maru.Control.Launch.Advice (advice, predicted)
import Maru.Control.Launch.Heat
import Maru.Control.Launch.Locks
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (assertBool, testCase, (@?=))

launches :: TestTree
launches =
  testGroup
    "launch: heat of pages, and advice"
    [ testCase "lines of different nodes in one page: shared falsely; one line: truly" $
        map (\p -> (pageNumber p, pageSharing p, pageWriters p)) (pagesByHeat nodes)
          @?= [(1, Falsely, 2), (0, Truly, 2), (2, Unshared, 0)],
      testCase "a page belongs to what lies on it, wherever that begins" $
        map (\p -> (pageNumber p, pageSites p)) (pagesByHeat nodes)
          @?= [(1, ["a.c:1", "b.c:2"]), (0, ["a.c:1"]), (2, [])],
      testCase "an allocation's faults are those of its pages" $
        map (\h -> (heatSite h, heatBytes h, heatPages h, heatReads h, heatWrites h, heatFalsely h)) (heats nodes)
          @?= [("a.c:1", 5000, 2, 1, 13, 1), ("b.c:2", 64, 1, 0, 10, 1)],
      testCase "advice: what only computes wants more nodes, what only waits wants one" $ do
        predicted [(10, 8, 0, 0, 2)] 1 @?= 8
        predicted [(10, 8, 1, 1, 0), (10, 8, 1, 1, 0)] 4 @?= 4 + 1 + 2
        assertBool "more" (any ("8 nodes would take about" `isPrefixOf`) (advice [ToldNode i 100 100 0 0 0 | i <- [0, 1]]))
        assertBool "fewer" ("1 node would take about 0.02 of the time" `elem` advice [ToldNode i 100 1 50 0 49 | i <- [0, 1]])
        filter ("would take about" `isInfixOf`) (advice [ToldNode i 100 44 16 4 35 | i <- [0, 1]])
          @?= ["8 nodes would take about 0.79 of the time", "1 node would take about 0.89 of the time"]
        advice [] @?= ["none: the program did not end by maru_dsm_exit on every node"],
      testCase "advice: a site that one node uses should be at home there; one that all use, nowhere" $ do
        assertBool "one" ("node 1 should be the home of a: 200 of its 201 faults are that node's" `elem` advice [ToldNode 0 1 1 0 0 0, ToldSite 0 4096 "a", ToldPage 1 0 100 100 0, ToldPage 0 0 1 0 0])
        length (advice [ToldNode i 1 1 0 0 0 | i <- [0, 1]]) @?= 3,
      testCase "nothing told, nothing hot" $ verdict (heats []) @?= "no shared page was asked for",
      testCase "the hottest is named" $
        verdict (heats nodes) @?= "hottest: a.c:1, 14 faults on 2 pages, 1 of them shared falsely",
      testCase "sums of a node: waits, faults by reason, messages by kind" $ do
        told "2 waits 3 1000 4 2000 0 0" @?= Right (ToldWaits 2 [(3, 1000), (4, 2000), (0, 0)])
        told "0 faults 1 2 3 4" @?= Right (ToldFaults 0 [1, 2, 3, 4])
        told "1 sent page 12 50000" @?= Right (ToldSent 1 "page" 12 50000)
        told "1 lock 7 40 30 2000 1500" @?= Right (ToldLock 1 "7" 40 30 2000 1500)
        told "1 behind threads 0 3 900 400" @?= Right (ToldBehind 1 "threads" 0 3 900 400)
        length faultReasons @?= 4,
      testCase "locks: summed over nodes, the longest waited for first, and who waited for whom" $ do
        map (\l -> (lockName l, lockTaken l, lockKept l, lockLongest l)) (locks contended) @?= [("5", 30, 8, 2), ("threads", 9, 9, 0)]
        map (\b -> (behindNode b, behindHolder b, behindTimes b)) (concatMap lockBehind (locks contended)) @?= [(1, 0, 4), (0, 1, 2)]
        lockVerdict (locks contended) @?= Just "lock 5: taken 30 times, waited for 4.000 s; most by node 1 behind node 0: 4 times, 3.000 s"
        lockVerdict (locks [ToldLock 0 "5" 3 3 0 0]) @?= Nothing,
      testCase "what is no line of a node is refused" $
        mapM_
          (\line -> assertBool line (either (const True) (const False) (told line)))
          ["", "0 waits 3 1000", "0 faults 1 2 3", "0 sent page x 1", "0 page 1 2 3", "0 page x 2 3 0", "0 page 1 2 3 xyz", "0 site 1 2", "0 site -1 2 n", "page 1 2 3 4", "0 lock 5 1 2 3", "0 behind 5 x 1 2 3"]
    ]
  where
    contended =
      [ ToldLock 0 "threads" 9 9 0 0,
        ToldLock 0 "5" 10 8 1e9 5e8,
        ToldBehind 0 "5" 1 2 1e9 5e8,
        ToldLock 1 "5" 20 0 3e9 2e9,
        ToldBehind 1 "5" 0 4 3e9 2e9
      ]
    nodes =
      either error id $
        mapM
          told
          [ "0 site 0 5000 a.c:1",
            "1 site 0 5000 a.c:1",
            "0 site 5056 64 b.c:2",
            "0 page 0 1 2 3",
            "1 page 0 0 1 2",
            "0 page 1 0 5 1",
            "1 page 1 0 5 8000000000000000",
            "0 page 2 1 0 0"
          ]
