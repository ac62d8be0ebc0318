{-# LANGUAGE OverloadedStrings #-}

-- | What several test modules need.
module Snippets
  ( property,
    holds,
    soakScale,
    programs,
    bubble,
    account,
    words_,
    codes,
  )
where

import Data.ByteString (ByteString)
import qualified Data.ByteString.Char8 as BC
import Data.Maybe (fromMaybe)
import Data.Primitive.PrimArray (primArrayFromList)
import Data.Word (Word32)
import Maru.Similar.Normalise (Codes)
import System.Environment (lookupEnv)
import Test.QuickCheck (Args (..), Result (Success), Testable, quickCheckWithResult, stdArgs)
import Test.Tasty (TestName, TestTree)
import Test.Tasty.HUnit (Assertion, assertFailure, testCase)
import Text.Read (readMaybe)

-- | A QuickCheck property as a test. The output of a failure holds the seed.
property :: Testable p => TestName -> Int -> p -> TestTree
property name runs = testCase name . holds runs

-- | The same, within a test; so many times as often as the soak asks for.
holds :: Testable p => Int -> p -> Assertion
holds runs p = do
  scale <- soakScale
  result <- quickCheckWithResult stdArgs {maxSuccess = runs * scale, chatty = False} p
  case result of
    Success {} -> pure ()
    other -> assertFailure (show other)

-- | @MARU_TEST_SCALE@; 1 without it.
soakScale :: IO Int
soakScale = maybe 1 (fromMaybe 1 . readMaybe) <$> lookupEnv "MARU_TEST_SCALE"

codes :: [Word32] -> Codes
codes = primArrayFromList

-- | Java programs with something for every mutation operator.
programs :: [ByteString]
programs = [bubble, account, words_]

bubble :: ByteString
bubble =
  BC.unlines
    [ "import java.util.Arrays;",
      "",
      "/** Sorts. */",
      "public class Bubble {",
      "    static int swaps = 0;",
      "",
      "    // the slow way",
      "    static void sort(int[] numbers) {",
      "        for (int i = 0; i < numbers.length; i++) {",
      "            for (int j = 0; j + 1 < numbers.length - i; j++) {",
      "                if (numbers[j] > numbers[j + 1]) {",
      "                    int hold = numbers[j];",
      "                    numbers[j] = numbers[j + 1];",
      "                    numbers[j + 1] = hold;",
      "                    swaps++;",
      "                }",
      "            }",
      "        }",
      "    }",
      "",
      "    static boolean sorted(int[] numbers) {",
      "        int at = 1;",
      "        int end = numbers.length;",
      "        while (at < end) {",
      "            if (numbers[at - 1] > numbers[at]) {",
      "                return false;",
      "            }",
      "            at++;",
      "        }",
      "        return at == end;",
      "    }",
      "",
      "    public static void main(String[] args) {",
      "        int[] numbers = {3, 1, 2};",
      "        sort(numbers);",
      "        System.out.println(Arrays.toString(numbers) + swaps + sorted(numbers));",
      "    }",
      "}"
    ]

account :: ByteString
account =
  BC.unlines
    [ "package bank;",
      "",
      "public class Account {",
      "    private final String owner;",
      "    private double balance; // in the currency of the country",
      "",
      "    public Account(String owner, double initial) {",
      "        this.owner = owner;",
      "        this.balance = initial;",
      "    }",
      "",
      "    public void deposit(double amount) {",
      "        if (amount <= 0) {",
      "            throw new IllegalArgumentException(\"amount\");",
      "        }",
      "        balance += amount;",
      "    }",
      "",
      "    public boolean withdraw(double amount) {",
      "        double rest = balance - amount;",
      "        if (rest < 0) {",
      "            return false;",
      "        }",
      "        balance = rest;",
      "        return true;",
      "    }",
      "}"
    ]

words_ :: ByteString
words_ =
  BC.unlines
    [ "import java.util.*;",
      "",
      "class WordCount {",
      "    private final Map<String, List<Integer>> places = new TreeMap<>();",
      "",
      "    void read(Scanner in) {",
      "        int line = 0;",
      "        while (in.hasNextLine()) {",
      "            line++;",
      "            for (String word : in.nextLine().split(\"\\\\W+\")) {",
      "                places.computeIfAbsent(word, k -> new ArrayList<>()).add(line);",
      "            }",
      "        }",
      "    }",
      "",
      "    void print() {",
      "        places.forEach((word, lines) -> System.out.println(word + \": \" + lines.size()));",
      "    }",
      "}"
    ]
