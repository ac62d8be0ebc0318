{-# LANGUAGE OverloadedStrings #-}
-- Quicker to compile, and no slower where it counts: what is tested is optimised.
{-# OPTIONS_GHC -O0 #-}

-- | Archives, encodings, patterns and lists of students: what they say, and what no input makes
-- them do.
module ArchiveTest (tests) where

import qualified Codec.Archive.Tar as Tar
import qualified Codec.Archive.Tar.Entry as Tar
import qualified Codec.Compression.GZip as GZip
import qualified Codec.Compression.Zlib.Raw as Deflate
import Control.Applicative ((<|>))
import Control.Monad (forM_)
import Data.Bits (shiftL, xor, (.|.))
import Data.ByteString (ByteString)
import qualified Data.ByteString as B
import qualified Data.ByteString.Builder as Builder
import qualified Data.ByteString.Char8 as BC
import qualified Data.ByteString.Lazy as BL
import Data.Either (fromLeft, isLeft)
import Data.Maybe (fromMaybe, isJust)
import qualified Data.Text.Encoding as T
import Maru.Similar
import Maru.Similar.Corpus.Glob
import Maru.Similar.Corpus.Member
import Maru.Similar.Corpus.Tar
import Maru.Similar.Corpus.Zip
import Snippets
import System.Directory (createDirectory, createDirectoryIfMissing)
import System.FilePath ((</>))
import System.IO.Temp (withSystemTempDirectory)
import System.Timeout (timeout)
import Test.QuickCheck hiding (property, scale)
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit

tests :: IO TestTree
tests = do
  scale <- soakScale
  pure $
    testGroup
      "Corpus: archives, encodings, students"
      [ testGroup "archives" (archives scale),
        testGroup "hostile archives" hostile,
        testGroup "encodings" encodings,
        testGroup "roles and students" students,
        testGroup "patterns" patterns,
        testGroup
          "fuzzed"
          [ property "a zip with any bytes changed" 400 (broken zipMembers (zipOf samples)),
            property "a tar with any bytes changed" 200 (broken (tarWhy Raw) (tarOf samples)),
            property "a packed tar with any bytes changed" 200 (broken (tarWhy Gzip) (gzipped (tarOf samples))),
            property "a list of students with any bytes" 500 studentsTotal,
            property "each line of a list of students is tried, in its order" 500 studentsInOrder
          ]
      ]
  where
    samples = [("a/A.java", bubble), ("b.zip", zipOf [("B.java", account)]), ("c/", "")]

-- Making archives ---------------------------------------------------------------

-- | A member as it is written: flags, method, mode, name, bytes, as they are packed, the size that
-- is claimed.
data Part = Part
  { partName :: !ByteString,
    partMode :: !Int,
    partFlags :: !Int,
    partMethod :: !Int,
    partBytes :: !ByteString,
    partPacked :: !ByteString,
    partSize :: !Int
  }

file :: ByteString -> ByteString -> Part
file name bytes = Part name 0o100644 0x800 8 bytes (BL.toStrict (Deflate.compress (BL.fromStrict bytes))) (B.length bytes)

zipOf :: [(ByteString, ByteString)] -> ByteString
zipOf = zipParts . map (uncurry file)

-- | As its definition has it.
zipParts :: [Part] -> ByteString
zipParts parts = B.concat [B.concat locals, directory, end]
  where
    locals = map local parts
    offsets = scanl (+) 0 (map B.length locals)
    directory = B.concat (zipWith entry parts offsets)
    le16, le32 :: Int -> Builder.Builder
    le16 = Builder.word16LE . fromIntegral
    le32 = Builder.word32LE . fromIntegral
    built = BL.toStrict . Builder.toLazyByteString . mconcat
    common p =
      [ le16 (partFlags p),
        le16 (partMethod p),
        le32 0,
        Builder.word32LE (checksum (partBytes p)),
        le32 (B.length (partPacked p)),
        le32 (partSize p),
        le16 (B.length (partName p)),
        le16 0
      ]
    local p = built (["PK\3\4", le16 20] ++ common p ++ [Builder.byteString (partName p), Builder.byteString (partPacked p)])
    entry p offset =
      built (["PK\1\2", le16 (3 `shiftL` 8 .|. 20), le16 20] ++ common p ++ [le16 0, le16 0, le16 0, le32 (partMode p `shiftL` 16), le32 offset, Builder.byteString (partName p)])
    end = built ["PK\5\6", le16 0, le16 0, le16 (length parts), le16 (length parts), le32 (B.length directory), le32 (sum (map B.length locals)), le16 0]

tarOf :: [(ByteString, ByteString)] -> ByteString
tarOf members = BL.toStrict (Tar.write [either error (`Tar.fileEntry` BL.fromStrict bytes) (Tar.toTarPath False (BC.unpack name)) | (name, bytes) <- members, not ("/" `B.isSuffixOf` name)])

gzipped :: ByteString -> ByteString
gzipped = BL.toStrict . GZip.compress . BL.fromStrict

-- Archives ------------------------------------------------------------------------

archives :: Int -> [TestTree]
archives scale =
  [ inFolder "a zip of zips, as a platform exports it" $ \dir -> do
      B.writeFile (dir </> "export.zip") $
        zipOf
          [ ("export/ada/src/A.java", bubble),
            ("export/ada/src/A.class", "\xca\xfe"),
            ("export/ada/__MACOSX/._A.java", "\0\1"),
            ("export/bob.zip", zipOf [("B.java", account), ("lib/C.java", words_)]),
            ("export/bob.zip.notes.txt", "late"),
            ("export/cy.tgz", gzipped (tarOf [("cy/D.java", account)])),
            ("export/.git/config", "x"),
            ("export/.git/HEAD", "x")
          ]
      c <- expect dir ["export.zip"]
      named c @?= [("ada", ["src/A.java"]), ("bob.zip", ["B.java", "lib/C.java"]), ("cy.tgz", ["cy/D.java"])]
      leftOuts dir c
        @?= [ ("export.zip/export/.git", "hidden"),
              ("export.zip/export/ada/__MACOSX", "hidden"),
              ("export.zip/export/ada/src/A.class", "not a source file"),
              ("export.zip/export/bob.zip.notes.txt", "not a source file")
            ],
    inFolder "an archive in a folder is a submission, and archives in one belong to it" $ \dir -> do
      createDirectory (dir </> "in")
      createDirectory (dir </> "in/eve")
      B.writeFile (dir </> "in/ada.zip") (zipOf [("A.java", bubble)])
      B.writeFile (dir </> "in/bob.tar") (tarOf [("B.java", account)])
      B.writeFile (dir </> "in/eve/work.tar.gz") (gzipped (tarOf [("E.java", words_)]))
      B.writeFile (dir </> "in/none.zip") (zipOf [("readme.txt", "x")])
      B.writeFile (dir </> "in/old.rar") "Rar!"
      c <- expect dir ["in"]
      named c @?= [("ada.zip", ["A.java"]), ("bob.tar", ["B.java"]), ("eve", ["work.tar.gz/E.java"])]
      leftOuts dir c
        @?= [("in/none.zip", "holds no source file that can be read"), ("in/none.zip/readme.txt", "not a source file"), ("in/old.rar", "an archive of a kind that maru does not open")],
    inFolder "flat files are submissions; the one folder of a single submission is not unwrapped" $ \dir -> do
      B.writeFile (dir </> "flat.zip") (zipOf [("ada_A.java", bubble), ("bob_B.java", account)])
      B.writeFile (dir </> "one.zip") (zipOf [("ada/A.java", bubble), ("ada/B.java", account)])
      expect dir ["flat.zip"] >>= (@?= ["ada_A.java", "bob_B.java"]) . map entryName . corpusEntries
      expect dir ["one.zip"] >>= (@?= ["ada"]) . map entryName . corpusEntries,
    testCase "long names in a tar, as GNU and POSIX write them" $ do
      let long = B.concat (replicate 30 "directory/") <> "A.java"
          pax = let body = " path=" <> long <> "\n" in BC.pack (show (B.length body + 3)) <> body
          entry format kind content = (Tar.simpleEntry (right' (Tar.toTarPath False "short.java")) (Tar.OtherEntryType kind (BL.fromStrict content) (fromIntegral (B.length content)))) {Tar.entryFormat = format}
          plain = Tar.fileEntry (right' (Tar.toTarPath False "short.java")) (BL.fromStrict bubble)
          archive = BL.toStrict (Tar.write [entry Tar.GnuFormat 'L' (long <> "\0"), plain, entry Tar.UstarFormat 'x' pax, plain, plain])
      map memberName (fst (tarWhy Raw defaultLimits archive)) @?= [long, long, "short.java"],
    testCase "something may stand before a zip" $
      map memberName (fst (zipMembers defaultLimits ("#!/bin/sh\n" <> zipOf [("A.java", bubble)]))) @?= ["A.java"],
    inFolder "many tiny files" $ \dir -> do
      let n = min 100000 (2000 * scale)
      B.writeFile (dir </> "many.zip") (zipOf [("s" <> BC.pack (show i) <> "/A.java", "class A {}") | i <- [1 .. n]])
      c <- expect dir ["many.zip"]
      length (corpusEntries c) @?= n
  ]

-- Hostile ones ----------------------------------------------------------------------

hostile :: [TestTree]
hostile =
  [ inFolder "no member leads out of its archive" $ \dir -> do
      let link = (file "l.java" "/etc/passwd") {partMode = 0o120777}
          parts = [file n bubble | n <- ["ok.java", "../up.java", "/abs.java", "a/../../b.java", "C:/w.java", "..\\win.java", "n\0ul.java"]] ++ [link, file "ok.java" account]
      B.writeFile (dir </> "x.zip") (zipParts parts)
      c <- expect dir ["x.zip"]
      named c @?= [("ok.java", [""])]
      map sourceBytes (concatMap entrySources (corpusEntries c)) @?= [bubble]
      leftOuts dir c
        @?= [ ("x.zip/../up.java", out),
              ("x.zip/..\\win.java", out),
              ("x.zip//abs.java", out),
              ("x.zip/C:/w.java", out),
              ("x.zip/a/../../b.java", out),
              ("x.zip/l.java", "a symbolic link in an archive; not followed"),
              ("x.zip/n\0ul.java", out),
              ("x.zip/ok.java", "in its archive twice; the first is read")
            ],
    inFolder "links in a tar are not followed" $ \dir -> do
      let entry content name = Tar.simpleEntry (right' (Tar.toTarPath False name)) content
          target = fromMaybe (error "no target") (Tar.toLinkTarget "../other/A.java")
      BL.writeFile (dir </> "x.tar") (Tar.write [entry (Tar.SymbolicLink target) "l.java", entry (Tar.HardLink target) "h.java", entry Tar.NamedPipe "p.java", Tar.fileEntry (right' (Tar.toTarPath False "ok.java")) (BL.fromStrict bubble)])
      c <- expect dir ["x.tar"]
      leftOuts dir c @?= [("x.tar/h.java", "a hard link in an archive; not followed"), ("x.tar/l.java", "a symbolic link in an archive; not followed"), ("x.tar/p.java", "no file")],
    testCase "what cannot be read is said of the member" $ do
      let damaged = (file "d.java" bubble) {partPacked = "\xff\xff\xff"}
          wrong = (file "w.java" bubble) {partBytes = account}
          liar = (file "s.java" bubble) {partSize = 10}
          secret = (file "e.java" bubble) {partFlags = 1}
          strange = (file "m.java" bubble) {partMethod = 99}
      [gatheredOf defaultLimits m | m <- fst (zipMembers defaultLimits (zipParts [damaged, wrong, liar]))]
        @?= [Left "is damaged: it cannot be unpacked", Left "is damaged: its checksum is wrong", Left "is larger than its archive says"]
      [why | Refused why <- map memberKind (fst (zipMembers defaultLimits (zipParts [secret, strange])))]
        @?= ["encrypted", "packed in a way that maru does not open (method 99)"],
    testCase "bombs end at their bounds" $ do
      let zeros = B.replicate (8 * 1024 * 1024) 32
          bomb = file "b.java" zeros
          small = defaultLimits {limitMember = 1024 * 1024}
      [gatheredOf defaultLimits m | m <- fst (zipMembers defaultLimits (zipParts [bomb]))] @?= [Left "expands to more than 200 times its size: a bomb?"]
      [gatheredOf small m | m <- fst (zipMembers small (zipParts [bomb {partSize = 5}, bomb]))] @?= [Left "is larger than its archive says", Left "larger than 1 MiB"]
      let packed = zipParts [bomb]
          (_, overlap) = zipMembers defaultLimits (zipParts [bomb {partPacked = B.drop 1 (partPacked bomb)}])
      overlap @?= Nothing
      snd (zipMembers defaultLimits (tripled packed)) @?= Just "its members overlap: a bomb?"
      snd (zipMembers small {limitMembers = 3} (zipOf [(BC.pack [c], "") | c <- "abcdef"])) @?= Just "has too many members; the rest is not read"
      let (members, why) = tarWhy Gzip defaultLimits (gzipped (tarOf [("x", B.replicate (64 * 1024 * 1024) 0)]))
      (sum (map (size . gatheredOf defaultLimits) members), why) @?= (0, Just "expands to more than 200 times its size: a bomb?"),
    inFolder "archives in archives end" $ \dir -> do
      let nest n = if n == (0 :: Int) then bubble else zipOf [(if n == 1 then "A.java" else "n.zip", nest (n - 1))]
      B.writeFile (dir </> "deep.zip") (zipOf [("ok.zip", nest 3), ("deep.zip", nest 4)])
      c <- expect dir ["deep.zip"]
      map entryName (corpusEntries c) @?= ["ok.zip"]
      map snd (leftOuts dir c) @?= ["an archive too deep within archives; not opened"],
    inFolder "all archives together are bounded" $ \dir -> do
      createDirectory (dir </> "in")
      forM_ ["a", "b", "c"] $ \n -> B.writeFile (dir </> "in" </> n <> ".zip") (zipOf [("A.java", bubble)])
      c <- right =<< readCollection (collectionOf [BC.pack (dir </> "in")]) {collectionLimits = defaultLimits {limitTotal = 2 * B.length bubble}}
      map entryName (corpusEntries c) @?= ["a.zip", "b.zip"]
      assertBool (show (corpusLeftOut c)) (any (("run unpacks in all" `B.isInfixOf`) . leftOutReason) (corpusLeftOut c)),
    inFolder "what a packed tar holds besides programs counts, too" $ \dir -> do
      createDirectory (dir </> "in")
      forM_ ["a", "b"] $ \n -> B.writeFile (dir </> "in" </> n <> ".tgz") (gzipped (tarOf [("A.java", bubble), ("notes.txt", B.replicate 3000000 32)]))
      c <- right =<< readCollection (collectionOf [BC.pack (dir </> "in")]) {collectionLimits = defaultLimits {limitTotal = 5000000}}
      map entryName (corpusEntries c) @?= ["a.tgz", "b.tgz"]
      leftOuts dir c
        @?= [ ("in/a.tgz/notes.txt", "not a source file"),
              ("in/b.tgz", "the archives hold more than this run unpacks in all; is one a bomb?"),
              ("in/b.tgz/notes.txt", "not a source file")
            ],
    inFolder "names as long as a zip allows end, too" $ \dir -> do
      let long n = B.intercalate "/" (replicate n "a") <> ".java"
      B.writeFile (dir </> "x.zip") (zipOf ([(long 32765, bubble), ("b/" <> long 2040, bubble)] ++ [("c/" <> long 2040, bubble)]))
      c <- right =<< readCollection (collectionOf [BC.pack (dir </> "x.zip")]) {collectionExcludes = ["**a*a*a*b", "x/**/y", "c/a/**/a"]}
      map entryName (corpusEntries c) @?= ["b"]
      [(B.take 12 path, why) | (path, why) <- leftOuts dir c] @?= [("x.zip/a/a/a/", "its name is too long"), ("x.zip/c/a/a/", "excluded")]
  ]
  where
    out = "leads out of its archive; not read"
    size = either (const 0) B.length
    -- Three entries for the same bytes.
    tripled archive = B.concat [before, entry, entry, entry, B.take 8 end, "\3\0\3\0", number (3 * B.length entry), B.drop 16 end]
      where
        (before, rest) = B.breakSubstring "PK\1\2" archive
        (entry, end) = B.breakSubstring "PK\5\6" rest
        number n = BL.toStrict (Builder.toLazyByteString (Builder.word32LE (fromIntegral n)))

tarWhy :: Wrapping -> Limits -> ByteString -> ([Member], Maybe ByteString)
tarWhy wrapping limits archive = let Tarred members (Unpacked _ why) broken' = tarMembers limits (limitTotal limits) wrapping archive in (members, why <|> broken')

gatheredOf :: Limits -> Member -> Either ByteString ByteString
gatheredOf limits m = let Gathered outcome _ = gather limits (limitTotal limits) m in outcome

-- | Whatever the bytes: it ends, within its bounds, and says why.
broken :: (Limits -> ByteString -> ([Member], Maybe ByteString)) -> ByteString -> Property
broken members archive = forAll edits $ \changes ->
  let (found, why) = members limits (foldl edit archive changes)
      sizes = [either B.length B.length (gatheredOf limits m) | m <- found]
   in counterexample (show why) (length found <= limitMembers limits && all (<= limitMember limits) sizes && maybe 0 B.length why >= 0)
  where
    limits = defaultLimits {limitMembers = 50, limitMember = 65536, limitTotal = 262144, limitSmall = 4096}
    edits = listOf1 ((,,) <$> choose (0, B.length archive - 1) <*> arbitrary <*> choose (0, 20 :: Int))
    edit bytes (at, byte, how)
      | how == 0 = B.take at bytes
      | how == 1 = B.take at bytes <> B.drop (at + 1) bytes
      | how == 2 = B.take at bytes <> B.pack [byte, byte] <> B.drop at bytes
      | otherwise = case B.splitAt at bytes of
        (before, after) -> before <> B.map (xor (byte .|. 1)) (B.take 1 after) <> B.drop 1 after

-- Encodings -----------------------------------------------------------------------

encodings :: [TestTree]
encodings =
  [ testCase "marks and guesses" $
      map
        encodingOf
        [ "class A {}",
          "\xef\xbb\xbfx",
          "caf\xc3\xa9",
          "caf\xe9",
          "\xff\xfe\&x\0",
          "\xfe\xff\0x",
          T.encodeUtf16LE (T.decodeUtf8 account),
          T.encodeUtf16BE (T.decodeUtf8 account),
          "\xff\xfe\0\0x\0\0\0",
          "/* \0\0\0 */ " <> account,
          "",
          "\0"
        ]
        @?= [Utf8, Utf8, Utf8, Windows1252, Utf16LE, Utf16BE, Utf16LE, Utf16BE, Utf32LE, Utf8, Utf8, Utf8],
    testCase "Windows-1252 has typographic quotes" $ decoded Windows1252 "\x93\xe9\x94\x81" @?= T.encodeUtf8 "\8220\233\8221\129",
    testCase "all encodings of a program are the program" $
      [decoded e bytes | (e, bytes) <- [(encodingOf b, b) | b <- [account, "\xef\xbb\xbf" <> account, T.encodeUtf16LE text, "\xfe\xff" <> T.encodeUtf16BE text, "\xff\xfe\0\0" <> T.encodeUtf32LE text]]]
        @?= replicate 5 account,
    property "any bytes become UTF-8" 1000 $
      forAll (B.pack <$> listOf arbitrary) $ \bytes -> not (isLeft (T.decodeUtf8' (decoded (encodingOf bytes) bytes))),
    inFolder "what was guessed is said" $ \dir -> do
      createDirectory (dir </> "in")
      B.writeFile (dir </> "in/a.java") (T.encodeUtf16LE text)
      B.writeFile (dir </> "in/b.java") account
      c <- expect dir ["in"]
      [(below dir path, encodingName e) | (path, e) <- corpusGuessed c] @?= [("in/a.java", "utf-16le")]
      map (map sourceBytes . entrySources) (corpusEntries c) @?= [[account], [account]]
  ]
  where
    text = T.decodeUtf8 account

-- Roles -----------------------------------------------------------------------------

students :: [TestTree]
students =
  [ inFolder "old submissions meet new ones only, and a student nobody of theirs" $ \dir -> do
      forM_ ["new", "old"] (createDirectory . (dir </>))
      forM_ ["new/ada-1.java", "new/ada-2.java", "new/bob.java", "old/x.java", "old/y.java"] $ \n -> B.writeFile (dir </> n) bubble
      let list = "Submission;Student\r\nada-*;Ada Lovelace\r\n\"bob.java\";\"Bob \"\"B\"\"\"\r\nnobody;N\r\n"
      c <- right =<< readCollection (collectionOf [BC.pack (dir </> "new")]) {collectionArchives = [BC.pack (dir </> "old")], collectionStudents = either (error . show) id (parseStudents list)}
      [(entryName e, entryStudents e, entryRole e) | e <- corpusEntries c]
        @?= [("ada-1.java", ["Ada Lovelace"], New), ("ada-2.java", ["Ada Lovelace"], New), ("bob.java", ["Bob \"B\""], New), ("x.java", [], Archive), ("y.java", [], Archive)]
      corpusMissing c @?= ["nobody"]
      let report = run c
      (reportCompared report, reportApart report) @?= (8, 2),
    testCase "pairs that may not meet take no place from those that may" $ do
      -- All old ones are equal: among all pairs, three quarters are of these.
      let own :: Int -> ByteString
          own n = BC.concat ["class C" <> k <> " { int f" <> k <> "(int x) { while (x > " <> k <> ") x--; return x; } }\n" | i <- [n .. n + 5], let k = BC.pack (show i)]
          new = [(newEntry ("n" <> BC.pack (show n)) [javaSource "n.java" (own n)]) {entryStudents = [BC.pack (show (n `div` 2))]} | n <- [10 .. 19 :: Int]]
          old = [(newEntry ("o" <> BC.pack (show n)) [javaSource "o.java" (own 1)]) {entryRole = Archive} | n <- [10 .. 69 :: Int]]
          shown most entries = let config = defaultConfig {configPairs = most}; prepared = prepare map config (corpusOf entries []) in map (\p -> (pairLeft p, pairRight p)) (pairList (reportPairs (assembled config prepared (comparePrepared map config prepared))))
          students' = [(newEntry (BC.pack (show n)) [javaSource "s.java" (own (if n < 30 then 1 else n))]) {entryStudents = ["ada" | n < 30]} | n <- [10 .. 49 :: Int]]
      forM_ [(new ++ old, 500), (students', 400)] $ \(entries, most) -> do
        length (shown most entries) @?= most
        shown most entries @?= take most (shown 100000 entries),
    inFolder "a list may give roles" $ \dir -> do
      forM_ ["a", "b", "t", "i"] $ \n -> B.writeFile (dir </> n <> ".java") bubble
      c <- right =<< readCollection (collectionOf [BC.pack dir]) {collectionStudents = either (error . show) id (parseStudents "submission,role\nt.java,base\ni.java,ignored\nb.java,Archive\n")}
      [(entryName e, entryRole e) | e <- corpusEntries c] @?= [("a.java", New), ("b.java", Archive)]
      length (corpusBase c) @?= 1
      corpusLeftOut c @?= [LeftOut "i.java" "ignored: the list of students says so"],
    inFolder "a pattern with a slash holds in the base, too" $ \dir -> do
      mapM_ (createDirectoryIfMissing True . (dir </>)) ["in", "base/src/test"]
      B.writeFile (dir </> "in/A.java") bubble
      mapM_ (\f -> B.writeFile (dir </> "base" </> f) account) ["src/B.java", "src/test/T.java"]
      c <- right =<< readCollection (collectionOf [BC.pack (dir </> "in")]) {collectionBases = [BC.pack (dir </> "base")], collectionExcludes = ["src/test"]}
      map sourcePath (corpusBase c) @?= [BC.pack (dir </> "base/src/B.java")]
      leftOuts dir c @?= [("base/src/test", "excluded")],
    inFolder "excluded files and folders" $ \dir -> do
      mapM_ (createDirectory . (dir </>)) ["in", "in/a", "in/a/test", "in/b"]
      forM_ ["in/a/A.java", "in/a/test/T.java", "in/b/B.java", "in/b/Main.java"] $ \n -> B.writeFile (dir </> n) bubble
      B.writeFile (dir </> "in/c.zip") (zipOf [("C.java", bubble), ("test/T.java", bubble)])
      c <- right =<< readCollection (collectionOf [BC.pack (dir </> "in")]) {collectionExcludes = ["test", "b/M*"]}
      named c @?= [("a", ["A.java"]), ("b", ["B.java"]), ("c.zip", ["C.java"])]
      leftOuts dir c @?= [("in/a/test", "excluded"), ("in/b/Main.java", "excluded"), ("in/c.zip/test", "excluded")],
    testCase "a list that is none says the line" $
      map
        (fromLeft "fine" . parseStudents)
        ["", "a,b\n", "submission\n", "submission,student\n,x\n", "submission,student\na,\"x\n", "submission,student\na,\"x\"y\n", "submission,role\na,friend\n"]
        @?= [ "is empty",
              "has no column 'submission' in its first line",
              "has no column 'student', 'group' or 'role' in its first line",
              "line 2: names no submission",
              "line 2: a quoted field does not end",
              "line 2: text follows a quoted field",
              "line 2: the role must be new, archive, base or ignored, not 'friend'"
            ]
  ]

-- | As if each line were matched with each name.
studentsInOrder :: Property
studentsInOrder = forAll (listOf (elements ["a", "b", "ab", "a*", "?", "*b"])) $ \texts -> forAll (listOf (elements ["a", "b", "ab", "ba", "c"])) $ \names ->
  let owned = zip texts (map (BC.pack . show) [1 :: Int ..])
      list = either (error . show) id (parseStudents ("submission,student\n" <> B.concat [text <> "," <> who <> "\n" | (text, who) <- owned]))
   in [studentsOf list name | name <- names] === [[who | (text, who) <- owned, matches (glob text) name] | name <- names]
        .&&. unmatched list names === [text | text <- texts, not (any (matches (glob text)) names)]

studentsTotal :: Property
studentsTotal = forAll (B.concat <$> listOf (elements ["submission", "student", ",", ";", "\n", "\"", "x", "\r", "role", "new", "\xff", "*"])) $ \text ->
  let list = parseStudents text in either ((> 0) . B.length) (\l -> length (studentsOf l "x") + length (unmatched l ["x"]) >= 0) list

run :: Corpus -> Report
run corpus = assembled defaultConfig prepared (comparePrepared map defaultConfig prepared)
  where
    prepared = prepare map defaultConfig corpus

patterns :: [TestTree]
patterns =
  [ testCase "globs" $
      [matches (glob p) t | (p, t) <- [("*", "a"), ("*", "a/b"), ("**", "a/b"), ("a?c", "abc"), ("a?c", "a/c"), ("a*c*", "abcd"), ("", ""), ("", "a"), ("*.java", "x.java"), ("[x]", "x")]]
        @?= [True, False, True, True, False, True, True, False, True, False],
    testCase "a pattern without a slash is any name, one with it a path" $
      [isJust (excludedAt p t) | (p, t) <- [("test", "a/test/B.java"), ("test/", "test"), ("a/test", "a/test/B.java"), ("a/test", "b/a/test"), ("**/test", "b/a/test/x"), ("Main.java", "a/Main.java")]]
        @?= [True, True, True, False, True, True],
    testCase "what is taken out is the outermost" $
      [excludedAt p t | (p, t) <- [("test", "a/test/test/B.java"), ("a/*", "a/b/c"), ("**b", "ab/b"), ("x", "y"), ("a/", "a")]]
        @?= [Just 6, Just 3, Just 2, Nothing, Just 1],
    -- Some seconds; by trying all ways, longer than anybody lives.
    testCase "any pattern takes linear time" $ do
      done <- timeout 60000000 (forM_ hard (\p -> matches (glob p) (BC.replicate 5000 'a') @?= False))
      done @?= Just ()
  ]
  where
    hard = [B.concat (replicate 20 part) <> "b" | part <- ["*a", "**a", "*?*", "**/*a", "*a**?"]]

-- Helpers -----------------------------------------------------------------------------

expect :: FilePath -> [FilePath] -> IO Corpus
expect dir names = right =<< readCollection (collectionOf [BC.pack (dir </> n) | n <- names])

right :: Either BadPath Corpus -> IO Corpus
right = either (assertFailure . show) pure

right' :: Either String a -> a
right' = either error id

-- | Each submission with its sources, below it.
named :: Corpus -> [(ByteString, [ByteString])]
named c = [(entryName e, [below' (entryName e) (sourcePath s) | s <- entrySources e]) | e <- corpusEntries c]

-- | What follows the submission's name.
below' :: ByteString -> ByteString -> ByteString
below' name path = B.drop (B.length name + 2) (snd (B.breakSubstring ("/" <> name) path))

leftOuts :: FilePath -> Corpus -> [(ByteString, ByteString)]
leftOuts dir c = [(below dir (leftOutPath l), leftOutReason l) | l <- corpusLeftOut c]

below :: FilePath -> ByteString -> ByteString
below dir path = fromMaybe path (B.stripPrefix (BC.pack (dir <> "/")) path)

-- | In time: nothing may hang.
inFolder :: String -> (FilePath -> IO ()) -> TestTree
inFolder name body = testCase name $
  withSystemTempDirectory "maru-similar" $ \dir -> do
    done <- timeout 60000000 (body dir)
    done @?= Just ()
