{-# LANGUAGE OverloadedStrings #-}

-- | A corpus of Java programs for the similarity checker, the same on every
-- machine: a few assignments, each handed in many times, disguised.
module Maru.Bench.Java
  ( corpus,
    corpusAsked,
    writeCorpus,
    assignment,
  )
where

import Data.ByteString (ByteString)
import qualified Data.ByteString as B
import qualified Data.ByteString.Char8 as Char8
import Data.Char (intToDigit)
import Data.List (isSuffixOf, sort, sortOn, unfoldr)
import Data.Word (Word64)
import Maru.Similar
import Maru.Similar.Mutate (mutate, someOperators)
import System.Directory (listDirectory)
import System.Environment (lookupEnv)
import System.FilePath ((</>))
import System.Random.SplitMix (mkSMGen, nextWord64)

-- | So many submissions, of eight assignments in turn.
corpus :: Int -> Corpus
corpus n = corpusOf [newEntry name [javaSource (name <> ".java") text] | (name, text) <- submissions n] []

-- | Names and texts.
submissions :: Int -> [(ByteString, ByteString)]
submissions n = [(named i, submission i) | i <- [0 .. n - 1]]
  where
    submission i = let seed = fromIntegral i * 7919 + 1 in mutate seed (someOperators seed) (assignment (i `mod` 8))
    named i = "s" <> Char8.pack [intToDigit (i `div` k `mod` 10) | k <- [1000, 100, 10, 1]]

-- | Into a folder, for 'corpusAsked' of a process that shall read its input and not make it.
writeCorpus :: FilePath -> Int -> IO ()
writeCorpus folder n = mapM_ (\(name, text) -> B.writeFile (folder </> Char8.unpack name ++ ".java") text) (submissions n)

-- | The first so many @.java@ files, by name, of the folder that the environment's @MARU_BENCH_CORPUS@
-- names, if it names one; else 'corpus'. Fails where the folder has fewer.
corpusAsked :: Int -> IO Corpus
corpusAsked n = lookupEnv "MARU_BENCH_CORPUS" >>= maybe (pure (corpus n)) ofFolder
  where
    ofFolder folder = do
      names <- take n . sort . filter (".java" `isSuffixOf`) <$> listDirectory folder
      if length names < n
        then fail ("MARU_BENCH_CORPUS: " ++ folder ++ " has " ++ show (length names) ++ " Java files of the " ++ show n ++ " that are asked for")
        else (`corpusOf` []) <$> mapM (entry folder) names
    entry folder name = (\text -> newEntry (Char8.pack name) [javaSource (Char8.pack name) text]) <$> B.readFile (folder </> name)

-- | A class of twenty-four methods, in an order of its own: some 2500 tokens.
assignment :: Int -> ByteString
assignment k = "public class Assignment {\n" <> B.concat (map method order) <> "}\n"
  where
    order = map snd (sortOn fst (zip (draws (fromIntegral k + 1)) [0 .. 23 :: Int]))
    method i = let text = templates !! (i `mod` length templates) in B.intercalate (suffix i) (Char8.split '@' text)
    suffix i = Char8.pack (show i)

draws :: Word64 -> [Word64]
draws seed = unfoldr (Just . nextWord64) (mkSMGen seed)

-- @ stands for the method's number.
templates :: [ByteString]
templates =
  [ "  static int gcd@(int a, int b) {\n    while (b != 0) { int rest = a % b; a = b; b = rest; }\n    return a;\n  }\n\
    \  static long lcm@(int a, int b) { return (long) a / gcd@(a, b) * b; }\n",
    "  static void sort@(int[] values) {\n    for (int i = 1; i < values.length; i++) {\n      int value = values[i]; int j = i - 1;\n\
    \      while (j >= 0 && values[j] > value) { values[j + 1] = values[j]; j--; }\n      values[j + 1] = value;\n    }\n  }\n",
    "  static int search@(int[] sorted, int key) {\n    int low = 0, high = sorted.length - 1;\n    while (low <= high) {\n\
    \      int mid = (low + high) >>> 1;\n      if (sorted[mid] < key) low = mid + 1; else if (sorted[mid] > key) high = mid - 1; else return mid;\n\
    \    }\n    return -(low + 1);\n  }\n",
    "  static double[][] product@(double[][] a, double[][] b) {\n    double[][] c = new double[a.length][b[0].length];\n\
    \    for (int i = 0; i < a.length; i++)\n      for (int j = 0; j < b[0].length; j++) {\n        double sum = 0;\n\
    \        for (int k = 0; k < b.length; k++) sum += a[i][k] * b[k][j];\n        c[i][j] = sum;\n      }\n    return c;\n  }\n",
    "  static String reverse@(String text) {\n    StringBuilder out = new StringBuilder();\n    for (int i = text.length() - 1; i >= 0; i--) out.append(text.charAt(i));\n\
    \    return out.toString();\n  }\n  static boolean palindrome@(String text) { return text.equals(reverse@(text)); }\n",
    "  static java.util.List<Integer> primes@(int limit) {\n    boolean[] composite = new boolean[limit + 1];\n    java.util.List<Integer> found = new java.util.ArrayList<>();\n\
    \    for (int p = 2; p <= limit; p++) {\n      if (composite[p]) continue;\n      found.add(p);\n      for (long q = (long) p * p; q <= limit; q += p) composite[(int) q] = true;\n\
    \    }\n    return found;\n  }\n",
    "  static class Node@ { int key; Node@ left, right; Node@(int key) { this.key = key; } }\n  static Node@ insert@(Node@ root, int key) {\n\
    \    if (root == null) return new Node@(key);\n    if (key < root.key) root.left = insert@(root.left, key);\n    else if (key > root.key) root.right = insert@(root.right, key);\n\
    \    return root;\n  }\n",
    "  static int[] histogram@(String text) {\n    int[] counts = new int[26];\n    for (char c : text.toLowerCase().toCharArray()) {\n\
    \      switch (Character.getType(c)) { case Character.LOWERCASE_LETTER: if (c >= 'a' && c <= 'z') counts[c - 'a']++; break; default: }\n    }\n    return counts;\n  }\n",
    "  static void hanoi@(int n, char from, char to, char over) {\n    if (n == 0) return;\n    hanoi@(n - 1, from, over, to);\n\
    \    System.out.println(\"disk \" + n + \" from \" + from + \" to \" + to);\n    hanoi@(n - 1, over, to, from);\n  }\n",
    "  static int parse@(String digits) {\n    try {\n      int value = 0;\n      for (int i = 0; i < digits.length(); i++) value = value * 10 + (digits.charAt(i) - '0');\n\
    \      return value;\n    } catch (RuntimeException e) {\n      throw new IllegalArgumentException(\"not a number: \" + digits, e);\n    }\n  }\n",
    "  static double root@(double x) {\n    double guess = x > 1 ? x / 2 : 1;\n    do { guess = (guess + x / guess) / 2; } while (Math.abs(guess * guess - x) > 1e-9 * x);\n    return guess;\n  }\n",
    "  static <T extends Comparable<T>> T largest@(java.util.Collection<T> items) {\n    T best = null;\n    for (T item : items) if (best == null || item.compareTo(best) > 0) best = item;\n    return best;\n  }\n"
  ]
