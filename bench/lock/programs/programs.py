#!/usr/bin/env python3
"""Runs programs as Debian ships them, with glibc's mutexes or under `maru run --lock`, and looks
at their answers: what is counted, stored or read back must be right, an exit status is not enough.

usage: maru-bench-unmodified list
       maru-bench-unmodified NAME [--lock LOCK [--lock-profile]] [--seconds S] [--maru FILE]

`list` prints as JSON which programs there are and what is missing for each. A run prints one line
of JSON: operations a second, what the overlay counted, and "failure": null or a line; status 0 in
both cases, 77 with a line where the program is not installed, 64 for a wrong option.

Servers listen on loopback or on a socket in a folder of their own, and end with this process,
however it ends.
"""

import argparse
import contextlib
import ctypes
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
LIMIT_S = 300  # for any one command beyond the time it was asked to run


class Wrong(Exception):
    """An answer that is not what it must be, in one line."""


def expect(good, what):
    if not good:
        raise Wrong(what)


# ---- starting and ending ---------------------------------------------------------


def dies_with_us():
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG


def started(command, **options):
    """In a group of its own: the terminal's signals are ours, and what is in it can be ended with it."""
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True, preexec_fn=dies_with_us, **options)


class Run:
    """One run of one program: its folder, and how the program under test is started."""

    def __init__(self, asked, folder):
        self.lock, self.seconds, self.maru, self.folder = asked.lock, asked.seconds, asked.maru, folder
        self.flags = ["--lock-profile"] if asked.lock_profile else []
        self.report = folder / "report.json"
        self.errors = folder / "errors"

    def under(self, command):
        if self.lock is None:
            return command
        return [self.maru, "run", "--lock", self.lock, *self.flags, "--report", self.report, "--", *command]

    def tested(self, command, **options):
        """The program under test, to its end; what it printed."""
        return self.ends(self.under(command), **options)

    def ends(self, command, **options):
        command = [str(word) for word in command]
        process = started(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **options)
        try:
            text = process.communicate(timeout=LIMIT_S + self.seconds)[0].decode(errors="replace")
        except subprocess.TimeoutExpired:
            raise Wrong(f"{command[0]} did not end")
        finally:
            stop(process)
        said = " | ".join(text.strip().splitlines()[-3:])
        expect(process.returncode == 0, f"{' '.join(command[:6])}: status {process.returncode}: {said}")
        return text

    @contextlib.contextmanager
    def server(self, command, ready):
        """The server under test while the body runs; it must end well when it is asked to."""
        command = [str(word) for word in self.under(command)]
        with open(self.errors, "wb") as errors:
            process = started(command, stdout=errors, stderr=errors)
        try:
            self.await_ready(process, ready)
            yield process
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(60)
            expect(process.poll() is not None, f"{command[-1]}: did not end when it was asked to")
            expect(process.returncode == 0, f"the server: status {process.returncode}: {self.last_error()}")
        finally:
            stop(process)

    def await_ready(self, process, ready):
        until = time.monotonic() + 60
        while not ready():
            expect(process.poll() is None, f"the server ended before it was ready: {self.last_error()}")
            expect(time.monotonic() < until, "the server was not ready within 60 s")
            time.sleep(0.05)

    def last_error(self):
        return " | ".join(self.errors.read_text(errors="replace").strip().splitlines()[-3:])

    def counted(self):
        """What the overlay counted; that it was there at all."""
        if self.lock is None:
            return None
        counted = json.loads(self.report.read_text())["after"]["lock"]
        expect(counted["processes"] > 0 == counted["processes_passing_through"], "the overlay was not in the program")
        return {key: counted[key] for key in ("processes", "queued", "handed_on", "impatient")}


def stop(process):
    """Asked to end first: maru run hands that on, and could not hand on that it is killed."""
    if process.poll() is not None:
        return
    process.terminate()
    try:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(10)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def answers(port):
    def ready():
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return True
        return False

    return ready


def figure(pattern, text):
    found = re.search(pattern, text)
    expect(found, f"its output has no '{pattern}'")
    return float(found.group(1))


# ---- the programs: each returns operations a second -------------------------------


def rocksdb(run):
    """One cache shard, small blocks: one hot mutex."""
    text = run.tested(["db_bench", f"--db={run.folder}/db", "--benchmarks=fillseq,readwhilewriting,readrandom,verifychecksum",
                       "--num=50000", f"--duration={max(1, round(run.seconds / 2))}", "--threads=8", "--cache_numshardbits=0",
                       "--block_size=512", "--value_size=64", "--compression_type=none"])
    for name in ("readwhilewriting", "readrandom"):
        found = re.search(name + r" .*\((\d+) of (\d+) found\)", text)
        expect(found and found[1] == found[2] != "0", f"{name}: {found[0] if found else 'no result'}")
    expect("verifychecksum" in text and "failed" not in text.lower(), "verifychecksum failed")
    return figure(r"readrandom .* (\d+) ops/sec", text)


def ask(port, request, until):
    with socket.create_connection(("127.0.0.1", port), 30) as connection:
        connection.sendall(request)
        answer = b""
        while not answer.endswith(until):
            more = connection.recv(65536)
            expect(more, "the server closed a connection")
            answer += more
        return answer.decode()


def memcached(run):
    """A moment for the answers; then 9 gets to 1 set over 16 connections, which is measured."""
    port, keys = free_port(), 2000
    user = ["-u", "root"] if os.geteuid() == 0 else []
    slap = ["memcslap", f"--servers=127.0.0.1:{port}", "--concurrency=8"]
    with run.server(["memcached", *user, "-t", "4", "-l", "127.0.0.1", "-p", port, "-U", "0", "-m", "64"], answers(port)):
        run.ends([*slap, f"--execute-number={keys}", "--initial-load=5000", "--test=get"])
        stats = ask(port, b"stats\r\n", b"END\r\n")
        expect(figure(r"get_hits (\d+)", stats) == 8 * keys, "a key that is there was not found")
        run.ends([*slap, "--execute-number=1000", "--test=set"])
        made = figure(r"cmd_set (\d+)", ask(port, b"stats\r\n", b"END\r\n")) - figure(r"cmd_set (\d+)", stats)
        expect(made == 8000, f"8000 writes were made, it counts {made:.0f}")
        count_up(port)
        # The client on one CPU: where it is free to move, where it runs decides more than the lock does.
        first = str(min(os.sched_getaffinity(0)))
        text = run.ends(["taskset", "-c", first, "memcaslap", "-s", f"127.0.0.1:{port}", "-T", "2", "-c", "16", "-t", f"{max(1, round(run.seconds))}s"])
    return figure(r"TPS: (\d+)", text)


def count_up(port):
    """Several connections add to one number."""
    ask(port, b"set n 0 0 1\r\n0\r\n", b"\r\n")
    adders = [threading.Thread(target=ask, args=(port, b"incr n 1 noreply\r\n" * 5000 + b"get n\r\n", b"END\r\n")) for _ in range(4)]
    for adder in adders:
        adder.start()
    for adder in adders:
        adder.join()
    expect("\r\n20000\r\n" in ask(port, b"get n\r\n", b"END\r\n"), "4 connections added 5000 each, and it is not 20000")


def redis(run):
    """With threads for its sockets, a moment for the answers alone: they spin, and on few cores take
    the time from each other.  Then as it is by default, which is measured."""
    redis_serves(run, ["--io-threads", "2"], 2000)
    return redis_serves(run, [], max(2000, round(15000 * run.seconds)))


def redis_serves(run, options, count):
    port, server = free_port(), run.folder / "redis-server"
    if not server.exists():
        server.symlink_to(shutil.which("redis-check-rdb"))  # one program: its name says what it is
    command = [server, "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "yes", "--dir", run.folder,
               "--appenddirname", f"log{port}", *options]
    with run.server(command, answers(port)):
        text = run.ends(["redis-benchmark", "-p", port, "-t", "set,get,incr,lpush", "-n", count, "-c", "20", "-P", "8", "--csv"])
        expect(f"\r\n{count}\r\n" in ask(port, b"get counter:__rand_int__\r\n", b"\n%d\r\n" % count), "increments were lost")
        expect(f":{count}\r\n" == ask(port, b"llen mylist\r\n", b"\r\n"), "list elements were lost")
    rates = [float(rate) for rate in re.findall(r'"(?:SET|GET|INCR|LPUSH)","([0-9.]+)"', text)]
    expect(len(rates) == 4, "redis-benchmark measured something else")
    return len(rates) / sum(1 / rate for rate in rates)


def mariadb(run):
    data, address = run.folder / "data", run.folder / "socket"
    user = ["--user=root"] if os.geteuid() == 0 else []
    run.ends(["mariadb-install-db", "--no-defaults", *user, f"--datadir={data}", "--auth-root-authentication-method=normal", "--skip-test-db", "--skip-name-resolve"])
    client = ["mariadb", "--no-defaults", "--batch", "--skip-column-names", f"--socket={address}"]
    bench = ["sysbench", "oltp_read_write", "--db-driver=mysql", f"--mysql-socket={address}", "--mysql-user=root", "--tables=2", "--table-size=5000", "--threads=8"]

    def ready():
        return subprocess.run([*client, "-e", "select 1"], capture_output=True).returncode == 0

    with run.server(["mariadbd", "--no-defaults", *user, f"--datadir={data}", f"--socket={address}", "--skip-networking", "--skip-grant-tables",
                     f"--pid-file={run.folder}/pid", "--innodb-flush-log-at-trx-commit=2"], ready):
        run.ends([*client, "-e", "create database sbtest"])
        run.ends([*bench, "prepare"])
        text = run.ends([*bench, f"--time={max(1, round(run.seconds))}", "run"])
        checks = run.ends([*client, "sbtest", "-e", "check table sbtest1, sbtest2 extended"])
        expect(checks.count("\tstatus\tOK") == 2, f"check table: {checks}")
        for table in ("sbtest1", "sbtest2"):
            expect(run.ends([*client, "sbtest", "-e", f"select count(*) from {table}"]).strip() == "5000", f"{table} has other rows than its 5000")
    return figure(r"transactions: .*\(([0-9.]+) per sec", text)


def helper(run, name):
    """A program of ours that checks itself."""
    result = json.loads([line for line in run.tested([HERE / name, 8, run.seconds]).splitlines() if line.startswith("{")][0])
    return result["operations"] / result["seconds"]


def mwrl(run):
    """The twin of FxMark's MWRL on pthread mutexes: one hot mutex, hardly anything else."""
    text = run.tested([HERE / "maru-bench-lock", "-t", 4, "-s", run.seconds, "pthread"])
    result = json.JSONDecoder().raw_decode(text, text.index("{"))[0]["runs"][0]
    expect(result["finished"], "it did not come to its end")
    return result["per_second"]


def sqlite(run):
    return helper(run, "maru-bench-sqlite")


def ghc(run):
    return helper(run, "maru-bench-threads")


def python(run):
    """Debian's Python, whose interpreter's lock is a mutex and a condition variable."""
    result = json.loads([line for line in run.tested([PYTHON, __file__, "torture", run.seconds]).splitlines() if line.startswith("{")][0])
    return result["operations"] / result["seconds"]


# All but those that kill their own process or wait for many seconds.
SUITES = ["test_threading", "test_thread", "test_queue", "test_threadedtempfile", "test_threading_local", "test_thread_local_bytecode", "test_sched"]


def python_tests(run):
    """Python's own tests of threads. Not a measurement: they mostly sleep."""
    begun = time.monotonic()
    have = [name for name in SUITES if suite_exists(name)]
    text = run.tested([suite_python(), "-m", "test", "--timeout", "200", *have], cwd=run.folder, env={**os.environ, "TMPDIR": str(run.folder)})
    expect("Tests result: SUCCESS" in text or "== Tests result: SUCCESS ==" in text, "Python's tests fail")
    return len(have) / (time.monotonic() - begun)


PYTHON = "/usr/bin/python3"


def suite_python():
    """An interpreter that has its tests; None: there is none."""
    for candidate in (PYTHON, shutil.which("python3")):
        if candidate and subprocess.run([candidate, "-c", "import test.test_threading"], capture_output=True).returncode == 0:
            return candidate
    return None


def suite_exists(name):
    return subprocess.run([suite_python(), "-c", f"import importlib.util, sys; sys.exit(importlib.util.find_spec('test.{name}') is None)"],
                          capture_output=True).returncode == 0


# ---- what Python itself is made to do ------------------------------------------------


def torture(seconds):
    """Threads that hand numbers on through queues, and count under a lock and a condition."""
    import queue

    until, condition = time.monotonic() + seconds, threading.Condition()
    stages = [queue.Queue(16) for _ in range(4)]
    under_lock, alone, received = [0], [0] * 3, []

    def stage(number):
        while (item := stages[number].get()) is not None:
            stages[number + 1].put(item)
        stages[number + 1].put(None)

    def sink():
        while (item := stages[-1].get()) is not None:
            received.append(item)

    def adder(number):
        while time.monotonic() < until:
            with condition:
                under_lock[0] += 1
                condition.notify()
            alone[number] += 1

    threads = [threading.Thread(target=stage, args=(n,)) for n in range(3)] + [threading.Thread(target=sink)]
    threads += [threading.Thread(target=adder, args=(n,)) for n in range(3)]
    begun = time.monotonic()
    for thread in threads:
        thread.start()
    sent = 0
    while time.monotonic() < until:
        stages[0].put(sent)
        sent += 1
    stages[0].put(None)
    for thread in threads:
        thread.join()
    if received != list(range(sent)) or under_lock[0] != sum(alone):
        sys.exit(f"{sent} sent, {len(received)} received, {under_lock[0]} counted of {sum(alone)}")
    # Whoever has the interpreter's lock does one or the other.
    print(json.dumps({"operations": sent * len(stages) + sum(alone), "seconds": time.monotonic() - begun}))


# ---- the list -----------------------------------------------------------------------

# name: (what it does, the commands it needs, the Debian packages that bring them)
PROGRAMS = {
    "rocksdb": (rocksdb, ["db_bench"], "rocksdb-tools"),
    "memcached": (memcached, ["memcached", "memcslap", "memcaslap", "taskset"], "memcached libmemcached-tools util-linux"),
    "sqlite": (sqlite, [HERE / "maru-bench-sqlite"], "libsqlite3-dev, then build maru again"),
    "mariadb": (mariadb, ["mariadbd", "mariadb-install-db", "mariadb", "sysbench"], "mariadb-server-core mariadb-client-core sysbench"),
    "redis": (redis, ["redis-check-rdb", "redis-benchmark"], "redis-tools"),
    "python": (python, [PYTHON], "python3"),
    "ghc": (ghc, [HERE / "maru-bench-threads"], "maru wholly"),
    "mwrl": (mwrl, [HERE / "maru-bench-lock"], "maru wholly"),
    "python-tests": (python_tests, [], "libpython3.11-testsuite"),
}


def missing(name):
    """None, or what to install."""
    _, commands, packages = PROGRAMS[name]
    there = all(shutil.which(command, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin") for command in commands)
    if name == "python-tests":
        there = suite_python() is not None
    return None if there else packages


def main():
    if sys.argv[1:2] == ["torture"]:
        torture(float(sys.argv[2]))
        return
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("program", choices=["list", *PROGRAMS])
    parser.add_argument("--lock", help="a lock of maru run --lock (default: glibc's mutexes)")
    parser.add_argument("--lock-profile", action="store_true", help="with the profile of mutexes")
    parser.add_argument("--seconds", type=float, default=2, help="about how long it is measured (default 2)")
    parser.add_argument("--maru", default="maru", help="the command (default: maru)")
    parser.error = lambda why: (print(f"maru-bench-unmodified: {why}", file=sys.stderr), sys.exit(64))
    asked = parser.parse_args()
    if asked.program == "list":
        print(json.dumps({"programs": [{"name": name, "missing": missing(name)} for name in PROGRAMS]}))
        return
    if not 0 < asked.seconds <= 600:
        parser.error("--seconds must be from 0 to 600")
    if asked.lock_profile and asked.lock is None:
        parser.error("--lock-profile needs --lock")
    if missing(asked.program):
        print(f"needs {missing(asked.program)}", file=sys.stderr)
        sys.exit(77)
    measure(asked)


def measure(asked):
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: sys.exit(128 + number))
    os.environ["PATH"] = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    result = {"program": asked.program, "lock": asked.lock, "per_second": None, "overlay": None, "failure": None}
    # Memory where there is some: a disk would be measured instead.
    where = os.environ.get("TMPDIR") or ("/dev/shm" if os.access("/dev/shm", os.W_OK) else None)
    with tempfile.TemporaryDirectory(prefix="maru-programs-", dir=where) as folder:
        run = Run(asked, pathlib.Path(folder))
        try:
            result["per_second"] = PROGRAMS[asked.program][0](run)
            result["overlay"] = run.counted()
        except (Wrong, OSError) as why:  # a server that no longer answers is a wrong one
            result["failure"] = str(why).replace("\n", " | ")
    print(json.dumps(result))


if __name__ == "__main__":
    main()
