-- | Agents in micro-VMs: QEMU boots a Linux kernel whose file system is this program and its
-- libraries, in memory. /Internal/.
--
-- A guest has no disk, no network and nothing of this machine's files. Its one device is a virtio
-- port, which is a socket here that nobody else has. So nothing listens anywhere. No file is
-- written: the file system is a memfd. The kernel ends QEMU when this process ends.
module Maru.Cluster.Machines
  ( Machines (..),
    askedMachines,
    describeMachines,
    whyEmulated,
    Image,
    withImage,
    Machine,
    startMachine,
    firstSaid,
    passOn,
    endMachine,
    vmPatience,
    bootSeconds,
  )
where

import Control.Concurrent (forkIO)
import Control.Concurrent.MVar
import Control.Exception
import Control.Monad
import qualified Data.ByteString as Bytes
import Data.ByteString.Builder
import qualified Data.ByteString.Char8 as Char8
import qualified Data.ByteString.Lazy as Lazy
import Data.Char (isAscii, isDigit, isPrint)
import Data.Foldable (for_)
import Data.IORef
import Data.List (isPrefixOf, nub, nubBy, sortOn, stripPrefix)
import Data.Maybe (catMaybes, fromMaybe, listToMaybe, mapMaybe)
import Data.Ord (Down (..))
import Data.Word (Word32)
import Foreign.C (CInt, Errno (..), errnoToIOError)
import GHC.IO.Exception (ioe_description)
import Maru.Failure
import Maru.Internal.Say (sayLine)
import Maru.Native.Open (openExisting)
import Maru.Native.Ranks (endWithin)
import Maru.Native.Vm
import Numeric (showHex)
import System.Environment (getExecutablePath, lookupEnv)
import System.IO
import System.Info (arch)
import System.Posix.Directory
import System.Posix.Files (fileAccess, fileExist)
import System.Posix.IO (FdOption (..), OpenMode (..), closeFd, createPipe, fdToHandle, setFdOption)
import System.Posix.Process (getProcessID)
import System.Timeout (timeout)
import Text.Read (readMaybe)

-- | What was asked for.
data Machines = Machines
  { machineCount :: !Int,
    -- | MiB of each.
    machineMemory :: !Int,
    -- | CPUs of each, and its workers.
    machineCpus :: !Int,
    -- | A folder with @boot\/vmlinuz-VERSION@ and @lib\/modules\/VERSION@ or that in @usr@.
    machineRoot :: !FilePath
  }
  deriving (Eq, Show)

-- | By @MARU_VMS@, @MARU_VM_MEMORY@, @MARU_WORKERS@, @MARU_VM_KERNEL@. 'Nothing': none.
askedMachines :: IO (Maybe Machines)
askedMachines = do
  count <- setting "MARU_VMS" 0 (0, 64) "VMs"
  -- What is said to other programs too is not judged where there are no VMs.
  if count == 0
    then pure Nothing
    else
      Just
        <$> ( Machines count
                <$> setting "MARU_VM_MEMORY" 256 (128, 65536) "MiB"
                <*> setting "MARU_WORKERS" 1 (1, 64) "workers of a VM"
                <*> kernelRoot
            )
  where
    setting name none (least, most) what = do
      asked <- lookupEnv name
      case asked of
        Just text | not (null text) -> case readMaybe text of
          Just n | n >= least, n <= most -> pure n
          _ -> throwIO (BadOptions (name <> " is " <> show text <> ": give " <> show (least :: Int) <> " to " <> show most <> " " <> what))
        _ -> pure none

-- | A folder with @boot@ and @lib\/modules@; no slash at its end.
kernelRoot :: IO FilePath
kernelRoot = fromMaybe "" <$> lookupEnv "MARU_VM_KERNEL"

unavailable :: String -> String -> Unavailable
unavailable = Unavailable "Vm"

-- | What all machines of a program have in common.
data Image = Image
  { imageKernel :: !FilePath,
    -- | A descriptor of this process.
    imageFiles :: !CInt,
    imageAccelerator :: !Accelerator
  }

data Accelerator = Kvm | Tcg
  deriving (Eq)

-- | Throws 'Unavailable' where there is no QEMU, no kernel, or not enough memory. Says where VMs are
-- emulated.
withImage :: Machines -> (Image -> IO a) -> IO a
withImage machines use = do
  (kernel, modules) <- findParts (machineRoot machines)
  enoughMemory machines
  program <- getExecutablePath
  objects <- sharedObjects
  files <- forM ((program, guestProgram) : zip objects objects) (\(f, there) -> File there 0o100755 <$> Bytes.readFile f)
  drivers <- forM modules (\f -> File ("/" <> moduleFolder <> "/" <> baseName f) 0o100644 <$> Bytes.readFile f)
  let links = [File (guestLibraries <> "/" <> baseName f) 0o120777 (Char8.pack f) | f <- objects]
      all' = files <> links <> drivers
  fitsIn (machineMemory machines) (sum [Bytes.length bytes | File _ _ bytes <- all'])
  slow <- whyEmulated
  for_ slow (\why -> sayLine ("maru: VMs are emulated, which is many times slower: " <> why))
  bracket (memoryOf (archive all') `catch` noMemory) (closeFd . fromIntegral) $ \fd ->
    use (Image kernel fd (maybe Kvm (const Tcg) slow))
  where
    noMemory e = throwIO (unavailable ("no memory for the files of VMs can be had: " <> ioe_description e) "look at `ulimit -a`")

-- | The kernel has them twice while it unpacks them, into a file system that takes half of what else
-- is free. It has some 44 MiB for itself. Where they do not fit, its own words do not say so. What is
-- advised leaves room for other kernels, and for work.
fitsIn :: Int -> Int -> IO ()
fitsIn memory bytes =
  when (3 * mib + 44 > memory) . throwIO $
    unavailable
      ("the program and its libraries are " <> show mib <> " MiB, too much for a VM of " <> show memory <> " MiB")
      ("set MARU_VM_MEMORY to " <> show (4 * mib + 64) <> ", or strip the program")
  where
    mib = bytes `div` 1048576

-- | What VMs would be like, or throws 'Unavailable'.
describeMachines :: IO String
describeMachines = do
  root <- kernelRoot
  (kernel, _) <- findParts root
  slow <- whyEmulated
  pure (kernel <> maybe ", by KVM" ("; emulated: " <>) slow)

findParts :: FilePath -> IO (FilePath, [FilePath])
findParts root = do
  when (arch /= "x86_64") (throwIO (unavailable "VMs are for x86-64" ""))
  folders <- splitOn ':' . fromMaybe "" <$> lookupEnv "PATH"
  found <- or <$> mapM (\d -> executable (d <> "/" <> emulator)) folders
  unless found (throwIO (unavailable (emulator <> " is not installed") "on Debian: apt-get install qemu-system-x86"))
  findKernel root
  where
    executable file = either none id <$> try (fileAccess file False False True)
    none :: IOException -> Bool
    none _ = False
    splitOn c text = case break (== c) text of
      (one, _ : rest) -> one : splitOn c rest
      (one, "") -> [one]

emulator :: FilePath
emulator = "qemu-system-x86_64"

enoughMemory :: Machines -> IO ()
enoughMemory machines = do
  text <- readFile "/proc/meminfo"
  limit <- memoryLimit
  let free = [(kib `div` 1024, "are free") | ["MemAvailable:", n, "kB"] <- map words (lines text), Just kib <- [readMaybe n]]
      (there, which) = minimum ((limit `div` 1048576, "are this process's limit") : free)
  when (wanted > there) . throwIO $
    unavailable
      (show (machineCount machines) <> " VMs of " <> show (machineMemory machines) <> " MiB need " <> show wanted <> " MiB, and " <> show there <> " MiB " <> which)
      "set MARU_VMS or MARU_VM_MEMORY lower"
  where
    wanted = machineCount machines * machineMemory machines :: Int

-- | 'Nothing': hardware helps. A nested KVM without that interprets a guest's kernel, more slowly
-- than QEMU does.
whyEmulated :: IO (Maybe String)
whyEmulated = do
  opened <- try (bracket (openExisting "/dev/kvm" ReadWrite) closeFd (const (pure ())))
  flags <- concatMap words . take 1 . filter ("flags" `isPrefixOf`) . lines <$> readFile "/proc/cpuinfo"
  pure $ case opened of
    Left e -> Just ("/dev/kvm: " <> ioe_description e)
    Right _
      | any (`elem` flags) ["vmx", "svm"] -> Nothing
      | otherwise -> Just "this processor shows no virtualization (vmx, svm)"

-- The kernel ------------------------------------------------------------------

-- | The newest that has the guest's drivers, and those of them that are modules. Debian 12 has all
-- as modules, in @lib@; Debian 13 has none of them, and its packages put modules into @usr\/lib@.
findKernel :: FilePath -> IO (FilePath, [FilePath])
findKernel root = do
  names <- entries (root <> "/boot")
  found <- mapM with (sortOn (Down . parts) (mapMaybe (stripPrefix "vmlinuz-") names))
  case catMaybes found of
    newest : _ -> pure newest
    [] ->
      throwIO $
        unavailable
          ("there is no kernel with drivers of virtio below " <> root <> "/boot")
          "on Debian: apt-get install linux-image-cloud-amd64; or unpack its package, and set MARU_VM_KERNEL to that folder"
  where
    with v = fmap (kernel v) <$> firstJust [root <> lib <> "/modules/" <> v | lib <- ["/lib", "/usr/lib"]]
    kernel v modules = (root <> "/boot/vmlinuz-" <> v, modules)
    firstJust folders = listToMaybe . catMaybes <$> mapM driversIn folders

-- | Files of the drivers that a guest loads; none where the kernel has them built in. 'Nothing': one
-- that no guest can be without is not there.
driversIn :: FilePath -> IO (Maybe [FilePath])
driversIn folder = do
  builtIn <- either none Char8.lines <$> try (Bytes.readFile (folder <> "/modules.builtin"))
  files <- catMaybes <$> mapM (present . ((folder <> "/") <>)) drivers
  pure $ if Char8.pack port `elem` builtIn || any ((folder <> "/" <> port) `isPrefixOf`) files then Just files else Nothing
  where
    none :: IOException -> [Bytes.ByteString]
    none _ = []
    port = "kernel/drivers/char/virtio_console.ko"
    drivers = map ("kernel/drivers/virtio/" <>) ["virtio.ko", "virtio_ring.ko", "virtio_pci_modern_dev.ko", "virtio_pci_legacy_dev.ko", "virtio_pci.ko"] <> [port]
    present file = listToMaybe <$> filterM fileExist [file <> suffix | suffix <- ["", ".xz", ".zst", ".gz"]]

-- | Numbers of a version, in order.
parts :: String -> [Int]
parts v = case span isDigit v of
  ("", "") -> []
  ("", _ : rest) -> parts rest
  (n, rest) -> read n : parts rest

-- | None where the folder cannot be read.
entries :: FilePath -> IO [FilePath]
entries folder = either none id <$> try (bracket (openDirStream folder) closeDirStream (go []))
  where
    none :: IOException -> [FilePath]
    none _ = []
    go seen d = readDirStream d >>= \name -> if null name then pure seen else go (name : seen) d

baseName :: FilePath -> FilePath
baseName = reverse . takeWhile (/= '/') . reverse

-- | This program in a guest, and a folder with links to its libraries: whatever their paths are here,
-- the kernel's command line has room for these, and can quote them.
guestProgram, guestLibraries :: FilePath
guestProgram = "/maru-program"
guestLibraries = "/maru-libraries"

-- The guest's files -----------------------------------------------------------

-- | By its path from the root, with its kind and permissions. A link's bytes say where it leads.
data File = File !FilePath !Word32 !Bytes.ByteString

-- | As the kernel unpacks it (cpio, @newc@), with the folders of these files and a console.
archive :: [File] -> Lazy.ByteString
archive files = toLazyByteString (mconcat (zipWith ($) (folders <> [console] <> plain) [1 ..]) <> entry "TRAILER!!!" 0 (0, 0) mempty 0)
  where
    folders = [entry folder 0o40755 (0, 0) mempty | folder <- nub ("dev" : concat [parents name | File name _ _ <- files])]
    console = entry "dev/console" 0o20600 (5, 1) mempty
    plain = [entry (drop 1 name) mode (0, 0) bytes | File name mode bytes <- nubBy (\(File a _ _) (File b _ _) -> a == b) files]
    parents name = [drop 1 (take k name) | (k, '/') <- zip [0 ..] name, k > 0]

entry :: String -> Word32 -> (Word32, Word32) -> Bytes.ByteString -> Word32 -> Builder
entry name mode (major, minor) bytes inode = padded header <> padded (byteString bytes, Bytes.length bytes)
  where
    header = (string7 "070701" <> foldMap hex fields <> byteString path <> word8 0, 110 + Bytes.length path + 1)
    path = Char8.pack name
    fields = [inode, mode, 0, 0, 1, 0, fromIntegral (Bytes.length bytes), 0, 0, major, minor, fromIntegral (Bytes.length path) + 1, 0]
    hex n = let digits = showHex n "" in string7 (replicate (8 - length digits) '0' <> digits)
    padded (builder, n) = builder <> byteString (Bytes.replicate (negate n `mod` 4) 0)

-- A machine --------------------------------------------------------------------

-- | One that was started, until 'endMachine'.
data Machine = Machine
  { machineProcess :: !CInt,
    machineLifeline :: !CInt,
    -- | What it said first, and whether lines go to standard error.
    machineSaid :: !(IORef (String, Bool)),
    -- | Full: it says no more.
    machineMute :: !(MVar ())
  }

-- | Its agent talks over the other end of that socket, which the caller closes. These variables go
-- there. Throws 'Unavailable' where there is no QEMU.
startMachine :: Machines -> Image -> [(String, String)] -> CInt -> IO Machine
startMachine machines image variables channel = do
  me <- getProcessID
  (from, to) <- createPipe
  for_ [from, to] (\fd -> setFdOption fd CloseOnExec True)
  said <- newIORef ("", False)
  listening <- fdToHandle from
  hSetBinaryMode listening True
  mute <- newEmptyMVar
  _ <- forkIO (listen said listening `finally` (hClose listening >> putMVar mute ()))
  started <- spawnVm channel (fromIntegral to) (emulatorCommand machines image variables (show me))
  closeFd to
  case started of
    Right (process, lifeline) -> pure (Machine process lifeline said mute)
    Left e -> throwIO (unavailable ("QEMU cannot be started: " <> ioe_description (errnoToIOError "" (Errno e) Nothing Nothing)) "look at `ulimit -n` and `ulimit -u`")
  where
    listen said h = forever (boundedLine h >>= hear said) `catch` ended
    ended :: IOException -> IO ()
    ended _ = pure ()
    hear said line = unless (null line) $ do
      loud <- atomicModifyIORef' said (\(first, loud) -> ((if null first then line else first, loud), loud))
      when loud (sayLine line)

-- | The next line, or as much of it as is kept: a guest may write one without an end. What is no
-- printable ASCII is a question mark: it is for a terminal.
boundedLine :: Handle -> IO String
boundedLine h = go (1000 :: Int)
  where
    go 0 = pure []
    go left = hGetChar h >>= next left
    next left c
      | c == '\n' = pure []
      | c == '\r' = go left
      | otherwise = (shown c :) <$> go (left - 1)
    shown c = if isAscii c && (isPrint c || c == '\t') then c else '?'

-- | Its first line: what comes after a panic's explains it less. Once it has ended.
firstSaid :: Machine -> IO String
firstSaid m = timeout 1000000 (readMVar (machineMute m)) >> fst <$> readIORef (machineSaid m)

-- | From now on lines of its console go to standard error.
passOn :: Machine -> IO ()
passOn m = atomicModifyIORef' (machineSaid m) (\(line, _) -> ((line, True), ()))

-- | It may end by itself for so many milliseconds, and is killed then. Its status, if it did. Once.
endMachine :: Int -> Machine -> IO (Maybe Int)
endMachine ms m = endWithin ms (machineProcess m) <* closeFd (fromIntegral (machineLifeline m))

-- | Seconds in which a VM that runs is silent and not yet given up.
vmPatience :: Int
vmPatience = 120

-- | Seconds in which so many VMs boot on so many CPUs: they do so at once. At most twenty minutes.
bootSeconds :: Int -> Int -> Int
bootSeconds machines cpus = min 1200 (vmPatience * max 1 ((machines + cpus - 1) `div` max 1 cpus))

emulatorCommand :: Machines -> Image -> [(String, String)] -> String -> [String]
emulatorCommand machines image variables me =
  [emulator, "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"]
    <> ["-sandbox", "on,elevateprivileges=deny,spawn=deny,resourcecontrol=deny"]
    <> (if imageAccelerator image == Kvm then ["-accel", "kvm", "-cpu", "host"] else ["-accel", "tcg", "-cpu", "max"])
    <> ["-machine", "q35,sata=off,smbus=off,usb=off,vmport=off"]
    <> ["-m", show (machineMemory machines), "-smp", show (machineCpus machines)]
    <> ["-chardev", "socket,id=channel,fd=0", "-device", "virtio-serial-pci", "-device", "virtserialport,chardev=channel"]
    <> ["-chardev", "file,id=console,path=/dev/fd/2,append=on", "-serial", "chardev:console"]
    <> ["-device", "isa-debug-exit,iobase=0xf4,iosize=4"]
    <> ["-kernel", imageKernel image, "-initrd", "/proc/" <> me <> "/fd/" <> show (imageFiles image)]
    <> ["-append", unwords (kernelWords <> [show' name value | (name, value) <- variables'])]
  where
    kernelWords =
      ["console=ttyS0", "quiet", "loglevel=1", "panic=-1", "random.trust_cpu=on", "cryptomgr.notests"]
        -- Emulated, mitigations guard nothing, the timer of a busy machine fails its test, and a CPU that
        -- has to wait for one of the machine's is taken for stuck.
        <> (if imageAccelerator image == Tcg then ["mitigations=off", "no_timer_check", "nowatchdog"] else [])
        <> ["rdinit=" <> guestProgram]
    -- The kernel gives what it does not know to the first process.
    variables' = ("MARU_AGENT", "guest") : ("MARU_WORKERS", show (machineCpus machines)) : ("LD_LIBRARY_PATH", guestLibraries) : variables
    show' name value = "\"" <> name <> "=" <> filter (/= '"') value <> "\""
