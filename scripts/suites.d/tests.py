"""Tests of scripts/suites itself, with suites and a maru of their own; needs root.  Run by scripts/test.d/63-suites."""

import glob
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import unittest.mock

import calls
import main
from runner import Runner, Unit, Way, in_threads, one_test

HERE = pathlib.Path(__file__).resolve().parent
# Takes what maru run does, writes a report in which it took part, and is seen by the command.
MARU = """#!/bin/sh
while [ "$1" != -- ]; do [ "$1" != --report ] || report=$2; shift; done
shift
echo '{"after": {"lock": {"processes": 1}, "io": {"classes": {"file": {"calls": 3}}}}}' >"$report"
FAKE_MARU=1 exec "$@"
"""
WAY = Way("fake", ("--lock", "cna"), active=lambda after: after["lock"]["processes"] > 0)
SCRIPT = str(HERE.parent / "suites")
LIMIT = 60  # s, for what takes a moment


def until(holds):
    end = time.monotonic() + LIMIT
    while not holds():
        assert time.monotonic() < end, "not within its time"
        time.sleep(0.05)


def marked(mark):
    """The processes that have a word in their environment."""
    found = []
    for path in glob.glob("/proc/[0-9]*/environ"):
        try:
            if mark.encode() in pathlib.Path(path).read_bytes():
                found.append(path)
        except OSError:
            pass
    return found


class InFolder(unittest.TestCase):
    def setUp(self):
        kept = tempfile.TemporaryDirectory()
        self.addCleanup(kept.cleanup)
        self.folder = pathlib.Path(kept.name)
        self.folder.chmod(0o777)
        self.program(MARU, "bin/maru")

    def program(self, text, name):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)
        return str(path)

    def environment(self):
        return {**os.environ, "SUITES_BUILD": str(self.folder), "OUT": str(self.folder / "out"), "JOBS": "4"}

    def runner(self, **more):
        made = Runner(self.folder / "bin/maru", jobs=2, **more)
        self.addCleanup(made.end)
        return made

    def compare(self, **scripts):
        units = [Unit(name, ("sh", "-c", text), seconds=20) for name, text in sorted(scripts.items())]
        return self.runner().compare(units, [WAY])[1][0]


class Comparing(InFolder):
    def test_equals_are_no_difference_whatever_they_are(self):
        found = self.compare(good="true", bad="exit 3", dies="kill -SEGV $$", skips="exit 77")
        self.assertEqual((found["tests"], found["differences"], found["again"], found["took_part"]), (4, [], [], 4))

    def test_a_difference_that_repeats_is_one(self):
        found = self.compare(good="true", differs='echo heard; test -z "$FAKE_MARU"', other='[ "$FAKE_MARU" ] || kill -ABRT $$')
        seen = [(d["test"], d["without"], d["with"]) for d in found["differences"]]
        self.assertEqual(seen, [("differs", ["ok"] * 3, ["failed 1"] * 3), ("other", ["signal 6"] * 3, ["ok"] * 3)])
        self.assertIn("heard", found["differences"][0]["said"])

    def test_one_that_does_not_repeat_is_listed_as_run_again(self):
        once = f'[ -z "$FAKE_MARU" ] || ! mkdir {self.folder}/once'
        found = self.compare(flaky=once)
        self.assertEqual((found["differences"], [again["program"] for again in found["again"]]), ([], ["flaky"]))
        self.assertEqual(found["again"][0]["tests"], [{"test": "flaky", "without": ["ok", "ok"], "with": ["failed 1", "ok"]}])

    def test_a_test_that_is_missing_in_one_way_differs(self):
        unit = Unit("many", ("sh", "-c", 'echo a; [ "$FAKE_MARU" ] || echo b'), read=lambda status, said, scratch, name: dict.fromkeys(said.split(), "ok"))
        found = self.runner().compare([unit], [WAY])[1][0]
        self.assertEqual([(d["test"], d["with"][0]) for d in found["differences"]], [("b", "absent")])

    def test_a_way_that_took_no_part_is_counted_so(self):
        idle = Way("idle", (), active=lambda after: after["lock"]["processes"] > 1)
        self.assertEqual(self.runner().compare([Unit("one", ("true",))], [idle])[1][0]["took_part"], 0)


class Bounds(InFolder):
    def test_what_hangs_ends_with_all_that_it_started(self):
        mark = f"SUITES_MARK={self.folder}"
        text = "setsid sh -c 'trap \"\" TERM HUP; while :; do sleep 1; done' & sleep 1000"
        result = self.runner().run(Unit("hangs", ("sh", "-c", text), seconds=1, environment=(("SUITES_MARK", str(self.folder)),)), WAY)
        self.assertEqual(result.outcomes, {"hangs": "not done"})
        until(lambda: not marked(mark))

    def test_what_prints_without_end_is_ended(self):
        begun = time.monotonic()
        result = self.runner().run(Unit("prints", ("yes", "y" * 4000), seconds=1000), Way("directly", (), maru=False))
        self.assertEqual(result.outcomes, {"prints": "not done"})
        self.assertLess(time.monotonic() - begun, 20 * LIMIT)

    def test_each_is_nobody_alone_without_a_network(self):
        text = "id -u; ls /proc | grep -c '^[0-9]'; ip -o link | wc -l; ip -o addr show dev lo | grep -c 127.0.0.1; cat /proc/self/status | grep SigIgn"
        signal.signal(signal.SIGUSR2, signal.SIG_IGN)
        self.addCleanup(signal.signal, signal.SIGUSR2, signal.SIG_DFL)
        said = self.runner().run(Unit("who", ("sh", "-c", text)), Way("directly", (), maru=False)).said.split()
        self.assertEqual(said[0], "65534")
        self.assertLess(int(said[1]), 10)
        self.assertEqual(said[2:4], ["1", "1"])
        of_glibc = 3 << 31  # 32 and 33: no program that uses glibc sets them
        self.assertEqual(int(said[-1], 16) & ~of_glibc, 0)

    def test_names_of_shared_memory_do_not_meet(self):
        once = "(set -C; : >/dev/shm/maru-suites-test) && sleep 1"
        self.assertEqual(self.compare(one=once, two=once, three=once)["differences"], [])
        self.assertEqual(self.runner().run(Unit("one", ("sh", "-c", once)), Way("directly", (), maru=False)).outcomes, {"one": "ok"})
        self.assertFalse(os.path.exists("/dev/shm/maru-suites-test"))

    def test_when_it_is_killed_its_tests_end(self):
        fsx = self.program("#!/bin/sh\nexec sleep 1000\n", "foreign/" + calls.FSX)
        for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGKILL):
            process = subprocess.Popen([SCRIPT, str(self.folder / "foreign"), "fsx"], env=self.environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            until(lambda: self.running(fsx))
            process.send_signal(number)
            process.wait(LIMIT)
            until(lambda: not self.running(fsx))

    def test_a_signal_is_handled_though_it_wakes_nobody(self):
        """As it is when it comes while the first thread begins to wait: another thread takes it, and that one waits on."""
        runner, mark = self.runner(), f"SUITES_MARK={self.folder}"
        self.addCleanup(signal.signal, signal.SIGUSR1, signal.signal(signal.SIGUSR1, lambda *_: runner.end()))

        def another():
            until(lambda: marked(mark) and runner.running)
            signal.pthread_kill(threading.get_ident(), signal.SIGUSR1)

        sender = threading.Thread(target=another)
        sender.start()
        unit = Unit("long", ("sleep", "1000"), seconds=1000, environment=(("SUITES_MARK", str(self.folder)),))
        begun = time.monotonic()
        with self.assertRaises((KeyboardInterrupt, FileNotFoundError)):  # what is begun after it finds nothing left
            runner.compare([unit], [WAY])
        self.assertLess(time.monotonic() - begun, 20 * LIMIT)
        sender.join()

    def test_the_first_that_raises_ends_all(self):
        begun = []

        def one(item):
            begun.append(item)
            if item == 0:
                raise ValueError("no")
            time.sleep(0.05)

        with self.assertRaisesRegex(ValueError, "no"):
            in_threads(2, one, range(1000))
        self.assertLess(len(begun), 1000)

    def running(self, program):
        found = []
        for path in glob.glob("/proc/[0-9]*/cmdline"):
            try:
                if program in pathlib.Path(path).read_text():
                    found.append(path)
            except OSError:
                pass
        return found


class Whole(InFolder):
    def suites(self, *names):
        """Status, what was printed, what was written."""
        words = [SCRIPT, str(self.folder / "foreign"), *names]
        done = subprocess.run(words, env=self.environment(), capture_output=True, text=True, timeout=300)
        return done.returncode, done.stdout, json.loads((self.folder / "out/suites.json").read_text())["suites"], (self.folder / "out/suites.txt").read_text()

    def test_what_is_absent_is_listed_as_not_run(self):
        (self.folder / "foreign").mkdir()
        status, said, entries, text = self.suites("nptl", "libuv", "mpich-mpich")
        self.assertEqual((status, [entry["state"] for entry in entries]), (0, ["not run"] * 3), said)
        self.assertEqual(text.count("not run: no "), 3, text)

    def test_a_difference_is_its_status(self):
        self.program('#!/bin/sh\n[ "$4" != 500 ] || [ -z "$FAKE_MARU" ]\n', "foreign/" + calls.FSX)
        status, said, entries, text = self.suites("fsx")
        self.assertEqual(status, 1, said)
        self.assertEqual([len(way["differences"]) for way in entries[0]["ways"]], [9, 9])
        self.assertEqual([way["took_part"] for way in entries[0]["ways"]], [18, 18])
        self.program("#!/bin/sh\nexit 32\n", "foreign/" + calls.FSX)
        status, said, entries, _ = self.suites("fsx")
        self.assertEqual((status, entries[0]["tests"], entries[0]["ok"]), (0, 18, 0), said)

    def test_some_of_a_suite(self):
        self.program("#!/bin/sh\n", "foreign/" + calls.FSX)
        with unittest.mock.patch.dict(os.environ, TESTS="fsx of (?!32768)"):
            self.assertEqual(self.suites("fsx")[2][0]["programs"], 12)
        with unittest.mock.patch.dict(os.environ, TESTS="nonesuch"):
            status, said, entries, _ = self.suites("fsx")
        self.assertEqual((status, entries[0]["state"]), (0, "not run"), said)

    def test_programs_that_were_made_before_are_taken_as_they_are(self):
        for name in ("glibc/nptl/tst-one.c", "glibc/nptl/tst-two.c", "glibc/sysdeps/pthread/tst-three.c"):
            self.program("no C at all", f"foreign/{name}")
        self.program("#!/bin/sh\n", "out/programs/nptl/tst-one")
        self.program("#!/bin/sh\nexit 77\n", "out/programs/nptl/tst-three")
        with unittest.mock.patch.dict(os.environ, MADE="1", WAYS="--lock fifo"):
            status, said, entries, _ = self.suites("nptl")
        self.assertEqual((status, entries[0]["programs"], entries[0]["ok"], list(entries[0]["not_made"])), (0, 2, 1, ["tst-two"]), said)

    def test_a_suite_of_which_nothing_was_begun_in_time_is_not_run(self):
        self.program("#!/bin/sh\n", "foreign/" + calls.FSX)
        with unittest.mock.patch.dict(os.environ, SECONDS_MOST="0"):
            _, said, entries, _ = self.suites("fsx")
        self.assertEqual((entries[0]["state"], entries[0]["why"]), ("not run", "no program was begun in time"), said)

    def test_each_suite_has_the_whole_time(self):
        runner = self.runner(seconds=60)
        for _ in range(2):
            runner.first_until = runner.until = 0
            self.assertEqual(len(runner.compare([Unit("one", ("true",))], [WAY])[0]), 1)

    def test_a_suite_of_which_nothing_was_made_is_not_run(self):
        runner = self.runner()
        suite = main.Suite("nothing", lambda folder: None, lambda folder, build, jobs: ([], {"one": "does not compile"}, "1"), lambda: [WAY])
        entry = main.run_suite("empty", suite, self.folder, self.folder, runner)
        self.assertEqual((entry["state"], entry["not_made"]), ("not run", {"one": "does not compile"}))

    def test_usage(self):
        for words in ([], ["/nonesuch"], [str(self.folder), "nonesuch"]):
            done = subprocess.run([SCRIPT, *words], env=self.environment(), capture_output=True, text=True, timeout=LIMIT)
            self.assertEqual((done.returncode, done.stdout, done.stderr.count("\n")), (64, "", 1))

    def test_every_suite_says_what_it_needs(self):
        for name, suite in main.suites(self.folder).items():
            self.assertTrue(suite.needs, name)


CASES = """
import os, unittest
class Some(unittest.TestCase):
    def test_a_good(self): pass
    def test_b_bad(self): self.fail("no")
    def test_c_subtests(self):
        for n in range(3):
            with self.subTest(n): self.assertNotEqual(n, 1)
    @unittest.skip("not here")
    def test_d_skipped(self): pass
    def test_e_dies(self): os._exit(9)
    def test_f_never(self): pass
"""


class Inside(InFolder):
    """What runs within a unit."""

    def test_cases_are_read_up_to_where_the_process_ended(self):
        (self.folder / "odd_cases.py").write_text(CASES)
        status = subprocess.run([sys.executable, str(HERE / "cases.py"), str(self.folder / "outcomes"), "odd_cases"], env={**os.environ, "PYTHONPATH": str(self.folder)}, stdout=subprocess.DEVNULL, timeout=LIMIT).returncode
        found = calls.cases_of(status, "", str(self.folder), "odd")
        self.assertEqual(
            found,
            {
                **{f"odd_cases.Some.test_{name}": outcome for name, outcome in (("a_good", "ok"), ("b_bad", "error"), ("c_subtests", "error"), ("d_skipped", "skipped"), ("e_dies", "not ended"))},
                "odd as a whole": "failed 9",
            },
        )

    def test_the_worst_of_the_ranks_counts(self):
        (self.folder / "outcomes.0").write_text("begin a\nend a ok\nbegin b\nend b ok\n")
        (self.folder / "outcomes.1").write_text("begin a\nend a error\nbegin b\n")
        self.assertEqual(calls.cases_of(0, "", str(self.folder), "x"), {"a": "error", "b": "not ended", "x as a whole": "ok"})

    def killed(self):
        return subprocess.run([sys.executable, str(HERE / "killed.py"), "wal", "2", "1"], cwd=self.folder, capture_output=True, text=True, timeout=LIMIT)

    def test_sqlite_killed_at_random(self):
        done = self.killed()
        found = calls.rounds_of(done.returncode, done.stdout, "", "wal")
        self.assertEqual(found, {"wal, round 0": "ok", "wal, round 1": "ok", "wal as a whole": "ok"}, done)

    def test_what_sqlite_lost_is_seen(self):
        self.killed()
        (self.folder / "noted").write_text("999999999\n")
        done = self.killed()
        self.assertEqual(done.returncode, 1)
        self.assertIn("lost: 999999999 was noted", done.stdout)

    def test_statuses_of_shells_and_of_python_are_one(self):
        read = one_test({2: "unresolved"})
        self.assertEqual([read(status, "", "", "t")["t"] for status in (0, 2, 3, -11, 139, 124)], ["ok", "unresolved", "failed 3", "signal 11", "signal 11", "not done"])


if __name__ == "__main__":
    assert os.geteuid() == 0
    result = unittest.TextTestRunner(stream=sys.stdout, verbosity=2).run(unittest.defaultTestLoader.loadTestsFromModule(sys.modules["__main__"]))
    bad = len(result.failures) + len(result.errors)
    print(f"{result.testsRun - bad} passed, {bad} failed")
    sys.exit(bad > 0)
