"""Suites of programs that read, write and wait: LTP's system calls and fsx, libuv's own, CPython's, and SQLite killed at
random; with calls counted and hinted, and with every call delegated that can be."""

import re
import shutil
import subprocess
import sys

from pathlib import Path

from runner import NOBODY, Unit, Way, fresh, made, one_test, version_from, word_of
from threads import version_of_ltp

HERE = Path(__file__).resolve().parent
PYTHON = "/usr/bin/python3"


def stood_before(after):
    return sum(kind["calls"] for kind in after["io"]["classes"].values()) > 0


def ways():
    return [Way(f"--io-delegate={mode}", (f"--io-delegate={mode}",), active=stood_before) for mode in ("hint", "always")]


def first_missing(folder, *paths):
    """In words, or None."""
    return next((f"no {path}" for path in paths if not list(folder.glob(path))), None)


# ---- LTP ------------------------------------------------------------------------

SYSCALLS = "ltp/testcases/kernel/syscalls"
# Calls that libmaru-io.so stands before, and those that share descriptors, signals or processes with them.
CALLS = (
    "accept accept4 bind clone close close_range connect copy_file_range creat dup eventfd execve fallocate fcntl fdatasync flock fork fstat fsync "
    "ftruncate getpeername getsockname getsockopt ioctl kill lseek llseek mmap mremap msync munmap open openat pause pipe poll ppoll pread preadv "
    "pselect pwrite pwritev read readahead readv recv recvfrom recvmmsg recvmsg select send sendfile sendmmsg sendmsg sendto setsockopt shutdown "
    "sigaction signal signalfd socket socketcall socketpair splice stat statx sync_file_range sync syncfs tee timerfd truncate vfork vmsplice wait "
    "waitid waitpid write writev epoll inotify io_submit posix_fadvise fadvise rt_sigaction sigpending sigprocmask sigsuspend nanosleep"
).split()
LTP_STATUSES = {1: "failed", 2: "broken", 4: "warned", 32: "skipped"}


def ltp_lines(folder):
    """(name, command) of the calls above that are built."""
    built = {path.name: path.parent for path in (folder / SYSCALLS).rglob("*") if path.is_file() and path.stat().st_mode & 0o100 and not path.suffix}
    found = []
    for line in (folder / "ltp/runtest/syscalls").read_text().splitlines():
        words = line.split()
        if len(words) > 1 and not line.startswith("#") and re.match(r"(%s)(_?\d|$)" % "|".join(CALLS), words[0]) and words[1] in built:
            found.append((words[0], words[1:], built[words[1]]))
    return found


def ltp_missing(folder):
    return first_missing(folder, "ltp/runtest/syscalls", f"{SYSCALLS}/read/read01.c") or (None if ltp_lines(folder) else "ltp is not built")


def ltp(folder, _build, _jobs):
    environment = (("KCONFIG_SKIP_CHECK", "1"), ("LTP_TIMEOUT_MUL", "2"), ("LTP_COLORIZE_OUTPUT", "n"))
    units = []
    for name, words, place in ltp_lines(folder):
        path = ("PATH", f"{place}:/usr/bin:/bin:/usr/sbin:/sbin")
        units.append(Unit(name, tuple(words), seconds=90, environment=(*environment, path), read=one_test(LTP_STATUSES)))
    return units, {}, version_of_ltp(folder)


FSX = "ltp/testcases/kernel/fs/fsx-linux/fsx-linux"


def fsx_missing(folder):
    return first_missing(folder, FSX)


def fsx(folder, _build, _jobs):
    units = []
    for size in (32 * 1024, 128 * 1024, 512 * 1024):
        for number in (500, 2000):
            for writes in (1, 4096, 65536):
                name = f"fsx of {size} bytes, {number} operations, on {writes}"
                command = (str(folder / FSX), "-l", str(size), "-N", str(number), "-t", str(writes), "-w", str(writes), "-r", str(writes))
                units.append(Unit(name, command, seconds=120, environment=(("KCONFIG_SKIP_CHECK", "1"),), read=one_test(LTP_STATUSES)))
    return units, {}, version_of_ltp(folder)


# ---- libuv ----------------------------------------------------------------------


def libuv_missing(folder):
    return first_missing(folder, "libuv/CMakeLists.txt")


def libuv(folder, build, jobs):
    place = build / "libuv"
    if not made():
        make_libuv(folder, place, jobs)
    program = place / "uv_run_tests"
    # It refuses to be root.
    listed = subprocess.run([str(program), "--list"], capture_output=True, text=True, check=True, user=NOBODY, group=NOBODY, extra_groups=[]).stdout.split()
    # Some read what lies below libuv's folder.
    units = [Unit(name, ("sh", "-c", f'cp -r {folder}/libuv/test . && exec {program} {name}'), seconds=60, read=libuv_outcome) for name in listed]
    return units, {}, libuv_version(folder)


def make_libuv(folder, place, jobs):
    place.mkdir(parents=True, exist_ok=True)
    with open(place / "log", "w") as log:
        for command in (
            ["cmake", "-S", str(folder / "libuv"), "-B", str(place), "-DLIBUV_BUILD_TESTS=ON", "-DCMAKE_BUILD_TYPE=Release"],
            ["cmake", "--build", str(place), "-j", str(jobs), "--target", "uv_run_tests"],
        ):
            subprocess.run(command, check=True, stdin=subprocess.DEVNULL, stdout=log, stderr=log)


def libuv_version(folder):
    header = folder / "libuv/include/uv/version.h"
    return ".".join(version_from(header, rf"UV_VERSION_{part} +(\d+)") for part in ("MAJOR", "MINOR", "PATCH"))


def libuv_outcome(status, said, _scratch, name):
    # A test that is skipped ends with 0.
    return {name: "skipped" if status == 0 and re.search(r"^ok 1 - \S+ # SKIP", said, re.M) else word_of(status)}


# ---- unittest's cases ------------------------------------------------------------


def cases_of(status, _said, scratch, name):
    """What cases.py wrote; of several ranks the worst."""
    found = {}
    for path in sorted(Path(scratch).glob("outcomes.*")):
        here = {}
        for line in path.read_text(errors="replace").splitlines():
            words = line.split()
            if len(words) >= 2:
                here[words[1]] = words[2] if words[0] == "end" and len(words) > 2 else "not ended"
        for test, outcome in here.items():
            if test not in found or found[test] in ("ok", "skipped"):
                found[test] = outcome
    return {**found, f"{name} as a whole": word_of(status)}


# What CPython has to say about files, sockets, processes, signals and threads.
MODULES = (
    "test_aifc test_asynchat test_asyncio.test_base_events test_asyncio.test_buffered_proto test_asyncio.test_events test_asyncio.test_pep492 "
    "test_asyncio.test_proactor_events test_asyncio.test_queues test_asyncio.test_selector_events test_asyncio.test_sendfile "
    "test_asyncio.test_sock_lowlevel test_asyncio.test_sslproto test_asyncio.test_streams test_asyncio.test_subprocess test_asyncio.test_transports "
    "test_asyncio.test_unix_events test_asyncore test_bufio test_bz2 test_cmd_line test_cmd_line_script test_codecs test_concurrent_futures test_configparser test_contextlib "
    "test_csv test_dbm test_dbm_dumb test_docxmlrpc test_eintr test_epoll test_fcntl test_file test_file_eintr test_filecmp test_fileinput "
    "test_fileio test_fork1 test_ftplib test_glob test_gzip test_httplib test_httpservers test_imaplib test_import test_io test_ioctl test_json "
    "test_largefile test_linecache test_lzma test_mailbox test_mmap test_netrc test_nntplib test_openpty test_os test_pathlib "
    "test_pickle test_pipes test_platform test_plistlib test_poll test_popen test_poplib test_posix test_posixpath test_pty test_queue test_quopri test_robotparser "
    "test_runpy test_sched test_select test_selectors test_shelve test_shutil test_signal test_smtplib test_socket test_socketserver test_sqlite3.test_backup "
    "test_sqlite3.test_dbapi test_sqlite3.test_dump test_sqlite3.test_factory test_sqlite3.test_hooks test_sqlite3.test_regression test_sqlite3.test_transactions "
    "test_sqlite3.test_types test_sqlite3.test_userfunctions test_ssl test_stat test_subprocess test_sundry test_sys test_tarfile test_telnetlib test_tempfile "
    "test_thread test_threadedtempfile test_threading test_timeout test_tokenize test_urllib test_urllib2_localnet test_wait3 test_wait4 test_wave "
    "test_xmlrpc test_zipapp test_zipfile test_zipimport test_zlib"
).split()


def cpython_missing(folder):
    return first_missing(folder, "python/usr/lib/python3.*/test/test_io.py")


def cpython(folder, build, _jobs):
    # The installed library has the package's support, the folder the tests themselves.
    theirs = next(iter(sorted(folder.glob("python/usr/lib/python3.*/test"))))
    place = fresh(build / "cpython")
    if not made():
        shutil.copytree(Path("/usr/lib") / theirs.parent.name / "test", place / "test")
        shutil.copytree(theirs, place / "test", dirs_exist_ok=True)
    there = [module for module in MODULES if (place / "test" / (module.replace(".", "/") + ".py")).exists() or (place / "test" / module).is_dir()]
    units = [
        Unit(module, (PYTHON, str(HERE / "cases.py"), "@SCRATCH/outcomes", f"test.{module}"), seconds=400, environment=(("PYTHONPATH", str(place)), ("PYTHONDONTWRITEBYTECODE", "1")), read=cases_of)
        for module in there
    ]
    return units, {}, f"{theirs.parent.name} on {sys.version.split()[0]}"


# ---- SQLite killed at random --------------------------------------------------------

ROUNDS = 12


def sqlite(_folder, _build, _jobs):
    import sqlite3

    units = [
        Unit(f"{journal}, seed {seed}", (PYTHON, str(HERE / "killed.py"), journal, str(ROUNDS), str(seed)), seconds=120, read=rounds_of)
        for journal in ("delete", "truncate", "persist", "wal")
        for seed in range(1, 4)
    ]
    return units, {}, sqlite3.sqlite_version


def rounds_of(status, said, _scratch, name):
    found = {f"{name}, round {number}": outcome for number, outcome in re.findall(r"^round (\d+): (.*)$", said, re.M)}
    return {**found, f"{name} as a whole": word_of(status)}
