"""Runs the tests of a suite in several ways and compares what came of each.

A *unit* is what is started at once: a program with one test, or with many.  A *way* is what stands before a unit's
command: nothing, or `maru run` with an option.  The outcome of a test is a word ("ok", "failed 1", "signal 11",
"not done"); which words are good does not matter, only whether ways agree.

Every run has a scratch folder, a process namespace, a network namespace (loopback alone), /dev/shm and System V IPC of
its own, and runs as nobody.  The kernel ends what is left in the namespace when its first process ends: nothing outlives a run,
and nothing else can be met.  (scripts/suites gives this program one of its own, so that all ends with it, however it ends.)
"""

import concurrent.futures
import dataclasses
import json
import math
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import threading
import time

NOBODY = 65534
SAID = 4000  # bytes of what a test printed that are kept for a difference
MOST_SAID = 1 << 26  # one that prints more is ended


@dataclasses.dataclass(frozen=True)
class Unit:
    """A command, run in an empty scratch folder; @SCRATCH in it is that folder's path."""

    name: str
    command: tuple
    seconds: int = 60  # on a machine with nothing else to do; see Runner.slow
    environment: tuple = ()  # pairs
    # From the status, what was printed, the scratch folder and the unit's name: outcomes by test.
    read: object = None


@dataclasses.dataclass(frozen=True)
class Way:
    """How maru takes part: the words after `maru run`, or other words to stand before the command."""

    name: str
    words: tuple
    maru: bool = True
    # Whether a report's "after" shows that maru did.
    active: object = None


DIRECT = Way("without maru", (), maru=False)


@dataclasses.dataclass
class Result:
    outcomes: dict
    active: bool
    said: str
    seconds: float


def word_of(status):
    """A status as shells and `maru run` give it."""
    known = {0: "ok", 77: "skipped", 124: "not done"}
    if status < 0:
        status = 128 - status
    if 128 < status < 128 + 65:
        return f"signal {status - 128}"
    return known.get(status, f"failed {status}")


def one_test(words=None):
    """Reads a unit that is one test: its status says all.  `words` has the suite's own statuses."""

    def read(status, _said, _scratch, name):
        return {name: (words or {}).get(status) or word_of(status)}

    return read


def in_threads(jobs, function, items):
    """[function(item) for item in items], so many at once.  The first that raises ends it: no further item is begun.
    Python begins no signal's handler while its first thread waits for a lock, if the signal came as the wait began:
    so it waits a second at most."""
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        futures = [pool.submit(function, item) for item in items]
        waiting = futures
        try:
            while waiting:
                done, waiting = concurrent.futures.wait(waiting, timeout=1, return_when=concurrent.futures.FIRST_EXCEPTION)
                for future in done:
                    future.result()
            return [future.result() for future in futures]
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


class Runner:
    def __init__(self, maru, tries=3, jobs=None, slow=1.0, scratch=None, seconds=math.inf):
        """In each comparison no unit is begun for the first time after four fifths of `seconds`, and none again after all of them."""
        self.maru, self.tries, self.slow = str(maru), tries, slow
        self.seconds = seconds
        self.jobs = jobs or 2 * len(os.sched_getaffinity(0))
        self.scratch = tempfile.mkdtemp(prefix="maru-suites-", dir=scratch)
        os.chmod(self.scratch, 0o755)
        self.running = set()
        self.lock = threading.Lock()
        self.ended = False

    # ---- one run ----

    def command(self, unit, way, scratch):
        words = list(way.words)
        if way.maru:
            words = [self.maru, "run", *words, "--report", f"{scratch}/maru-report.json", "--"]
        own = [part.replace("@SCRATCH", scratch) for part in unit.command]
        # The network of the namespace is down at first.  Shared memory has names in a file system, and those of Open MPI
        # are made of process numbers, which namespaces have in common.  The shell stays, for signals cannot
        # end a namespace's first process; and they are as a login shell has them, whatever this one was given.
        start = 'ip link set lo up && mount -t tmpfs -o mode=1777 shm /dev/shm && cd "$0" && setpriv --reuid=%d --regid=%d --clear-groups -- env --default-signal "$@"; exit $?' % (NOBODY, NOBODY)
        inside = ["sh", "-c", start, scratch, *words, *own]
        return ["unshare", "--pid", "--mount", "--ipc", "--net", "--fork", "--kill-child=KILL", "--mount-proc", *inside]

    def run(self, unit, way):
        with tempfile.TemporaryDirectory(dir=self.scratch, ignore_cleanup_errors=True) as scratch:
            os.chown(scratch, NOBODY, NOBODY)
            begun = time.monotonic()
            status, said = self.bounded(self.command(unit, way, scratch), unit, scratch)
            seconds = round(time.monotonic() - begun, 2)
            read = unit.read or one_test()
            outcomes = read(status, said, scratch, unit.name)
            return Result(outcomes, self.took_part(way, scratch), said[-SAID:], seconds)

    def bounded(self, command, unit, scratch):
        """The status, 124 when its time is over or it prints without end, and what it printed."""
        home = {"HOME": scratch, "TMPDIR": scratch, "PATH": "/usr/bin:/bin:/usr/sbin:/sbin", "LC_ALL": "C.UTF-8", "LANG": "C.UTF-8"}
        environment = {**home, **{key: value.replace("@SCRATCH", scratch) for key, value in unit.environment}}
        # Into a file: a pipe would be held open by what a test leaves behind, and may fill up.
        with open(f"{scratch}.said", "w+b") as out:
            os.unlink(out.name)
            with self.lock:
                if self.ended:
                    raise KeyboardInterrupt
                process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, env=environment, start_new_session=True)
                self.running.add(process)
            try:
                status = self.waited(process, unit.seconds * self.slow, out)
            finally:
                process.kill()  # unshare; all that is in its namespace goes with it
                process.wait()
                with self.lock:
                    self.running.discard(process)
            out.seek(0)
            return status, out.read().decode(errors="replace")

    @staticmethod
    def waited(process, seconds, out):
        end = time.monotonic() + seconds
        while time.monotonic() < end and os.fstat(out.fileno()).st_size < MOST_SAID:
            try:
                return process.wait(min(1, max(0, end - time.monotonic())))
            except subprocess.TimeoutExpired:
                pass
        return 124

    def took_part(self, way, scratch):
        if not way.maru or way.active is None:
            return False
        try:
            return bool(way.active(json.loads(pathlib.Path(scratch, "maru-report.json").read_text())["after"]))
        except (OSError, ValueError, KeyError, TypeError):  # no report, or nothing in it
            return False

    def end(self):
        """Ends what is running, for good, and clears up; a signal's handler may call it."""
        self.ended = True
        for process in list(self.running):
            process.kill()
        shutil.rmtree(self.scratch, ignore_errors=True)

    # ---- all of a suite ----

    def compare(self, units, ways, say=lambda line: None, direct=DIRECT):
        """What each way did otherwise than `direct`: the results of `direct`, and a list of dictionaries, a way each,
        fit for JSON.  A unit runs in all ways, one after the other; units that were not begun in time are left out."""
        self.first_until, self.until = time.monotonic() + 0.8 * self.seconds, time.monotonic() + self.seconds
        begun = time.monotonic()
        results = in_threads(self.jobs, lambda unit: self.in_all(unit, (direct, *ways)), units)
        reached = [(unit, result) for unit, result in zip(units, results) if result is not None]
        base = [result[0] for _, result in reached]
        say(f"{direct.name}: {sum(len(r.outcomes) for r in base)} tests, and {len(ways)} ways: {time.monotonic() - begun:.0f} s")
        found = []
        for number, way in enumerate(ways, 1):
            begun = time.monotonic()
            there = [(unit, result[0], result[number]) for unit, result in reached]
            one = self.judge(there, way, direct)
            one["not_reached"] = [unit.name for unit, result in zip(units, results) if result is None]
            one["seconds"] = round(time.monotonic() - begun)
            found.append(one)
            say(f"{way.name}: {one['tests']} tests, {len(one['differences'])} differ, {len(one['again'])} of {len(units)} programs run again, {one['seconds']} s")
        return base, found

    def in_all(self, unit, ways):
        return None if time.monotonic() > self.first_until else [self.run(unit, way) for way in ways]

    def judge(self, results, way, direct):
        """Runs again what differed, from a unit and both its results each."""
        suspects = [(unit, one, other) for unit, one, other in results if one.outcomes != other.outcomes]
        judged = in_threads(max(1, self.jobs // 4), lambda suspect: self.repeated(*suspect, way, direct), suspects)
        return {
            "way": way.name,
            "tests": sum(len(other.outcomes) for _, _, other in results),
            "took_part": sum(other.active for _, _, other in results),
            "programs": len(results),
            "differences": [difference for again in judged for difference in again.pop("differences")],
            "again": judged,
        }

    def repeated(self, unit, one, other, way, direct):
        """Of a unit whose first outcomes differed: these, in how many tries, and as "differences" the tests that never
        had the same outcome on both sides."""
        ours, theirs = [one], [other]
        suspects = sorted(test for test in {*one.outcomes, *other.outcomes} if one.outcomes.get(test) != other.outcomes.get(test))

        def seen(results, test):
            return [result.outcomes.get(test, "absent") for result in results]

        def differ(test):
            return not set(seen(ours, test)) & set(seen(theirs, test))

        while len(ours) < self.tries and any(map(differ, suspects)) and time.monotonic() < self.until:
            ours.append(self.run(unit, direct))
            theirs.append(self.run(unit, way))
        tests = [{"test": test, "without": seen(ours, test), "with": seen(theirs, test)} for test in suspects]
        return {
            "program": unit.name,
            "tests": tests,
            "said": {"without": one.said, "with": other.said},
            "seconds": [[result.seconds for result in results] for results in (ours, theirs)],
            "differences": [{**test, "program": unit.name, "said": theirs[-1].said} for test in tests if differ(test["test"])],
        }


def version_from(path, pattern):
    """The first match of a pattern in a file of the suite, or "unknown"."""
    try:
        match = re.search(pattern, pathlib.Path(path).read_text(errors="replace"), re.M)
    except OSError:
        match = None
    return match[1] if match else "unknown"


def made():
    """Whether the suites' programs were made before, maybe elsewhere; then nothing is compiled."""
    return bool(os.environ.get("MADE"))


def compiled(commands, jobs, product):
    """Runs (name, command) pairs side by side; the names of those that succeeded, and of the others with the reason.
    `product` is the path of what a name's command makes."""

    def one(named):
        name, command = named
        if made():
            return name, 0 if product(name).exists() else 1, "was not made"
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace")
        why = [line for line in done.stderr.splitlines() if "error" in line or "undefined" in line]
        return name, done.returncode, (why or ["status %d" % done.returncode])[0][-200:]

    results = in_threads(jobs, one, commands)
    return [name for name, status, _ in results if status == 0], {name: why for name, status, why in results if status != 0}


def fresh(folder):
    """An empty folder, open to the user that tests run as; as it is if all was made before."""
    if made():
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True, mode=0o755)
    return folder
