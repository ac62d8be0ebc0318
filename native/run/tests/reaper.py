"""Tests of maru-reaper: python3 reaper.py REAPER [unittest arguments].

Every wait is bounded; every process started here is ended here."""

import os
import select
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest

REAPER = os.path.abspath(sys.argv[1])
BOUND = 20


def lives(group):
    """A zombie is nobody: who inherits it may never look."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%s/stat" % pid) as stat:
                state, _, its_group = stat.read().rpartition(")")[2].split()[:3]
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(its_group) == group and state != "Z":
            return True
    return False


def begun(process, name):
    with open("/proc/%d/comm" % process.pid) as comm:
        return comm.read() == name + "\n"


def eventually(condition, what):
    end = time.monotonic() + BOUND
    while not condition():
        if time.monotonic() > end:
            raise AssertionError("not within %d s: %s" % (BOUND, what))
        time.sleep(0.01)


class Owned(unittest.TestCase):
    """We are the owner; to be killed is to close what we write to."""

    def setUp(self):
        self.read_end, self.told = os.pipe()
        self.reaper = subprocess.Popen([REAPER], stdin=self.read_end)
        self.pipe = "/proc/%d/fd/%d" % (os.getpid(), self.told)
        os.close(self.read_end)
        self.groups = []

    def tearDown(self):
        for process in self.groups:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            process.wait(BOUND)
        if self.told is not None:
            os.close(self.told)
        self.reaper.wait(BOUND)

    def command(self, *words, **options):
        process = subprocess.Popen([REAPER, self.pipe, *words], **options)
        self.groups.append(process)
        return process

    def family(self):
        """A command and its child, both there."""
        process = self.command("sh", "-c", "sleep 100 & echo there; wait", stdout=subprocess.PIPE)
        self.assertEqual(process.stdout.readline(), b"there\n")
        process.stdout.close()
        return process

    def tell(self, number):
        os.write(self.told, struct.pack("i", number))

    def are_killed(self):
        os.close(self.told)
        self.told = None
        self.assertEqual(self.reaper.wait(BOUND), 0)

    def test_kills_what_it_was_told_of(self):
        first, second = self.family(), self.family()
        self.are_killed()
        for process in (first, second):
            self.assertEqual(process.wait(BOUND), -signal.SIGKILL)
            eventually(lambda group=process.pid: not lives(group), "the group is gone")

    def test_knows_a_command_that_has_just_begun(self):
        for number in range(20):
            if number > 0:
                self.setUp()
            process = self.command("sleep", "100", stderr=subprocess.DEVNULL)
            self.are_killed()  # whatever it has come to: 125, it was not begun
            self.assertIn(process.wait(BOUND), (-signal.SIGKILL, 125))

    def test_kills_however_many(self):
        processes = [self.command("sleep", "1000") for _ in range(300)]
        for process in processes:
            eventually(lambda: begun(process, "sleep"), "the command is there")
        self.are_killed()
        self.assertEqual([process.wait(BOUND) for process in processes], [-signal.SIGKILL] * 300)

    def test_hears_a_group_twice(self):
        kept, forgotten = self.family(), self.family()
        for number in (kept.pid, forgotten.pid, -forgotten.pid):
            self.tell(number)
        self.are_killed()
        self.assertEqual(kept.wait(BOUND), -signal.SIGKILL)
        self.assertTrue(lives(forgotten.pid))

    def test_keeps_nobody_waiting(self):
        """Whoever reads what its owner had open, too, sees the end when the owner has closed it."""
        read_end, write_end = os.pipe()
        reaper = subprocess.Popen([REAPER], stdin=subprocess.PIPE, stdout=write_end, pass_fds=[write_end])
        os.close(write_end)
        self.assertEqual(select.select([read_end], [], [], BOUND)[0], [read_end])
        self.assertEqual(os.read(read_end, 1), b"")
        os.close(read_end)
        reaper.stdin.close()
        self.assertEqual(reaper.wait(BOUND), 0)

    def test_begins_nothing_for_an_owner_that_is_gone(self):
        gone = subprocess.Popen(["true"])
        gone.wait(BOUND)
        self.pipe = "/proc/%d/fd/%d" % (gone.pid, self.told)
        process = self.command("sh", "-c", "echo begun", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        said, why = process.communicate(timeout=BOUND)
        self.assertEqual((process.returncode, said), (125, b""))
        self.assertRegex(why, b"^maru: 'sh' is not begun: .*\n$")

    def test_writes_into_no_file_of_a_stranger(self):
        """Who has the owner's number by now may have a file there."""
        with tempfile.TemporaryFile() as file:
            file.write(b"a stranger's")
            file.flush()
            self.pipe = "/proc/%d/fd/%d" % (os.getpid(), file.fileno())
            process = self.command("true", stderr=subprocess.DEVNULL)
            self.assertEqual(process.wait(BOUND), 125)
            file.seek(0)
            self.assertEqual(file.read(), b"a stranger's")

    def test_forgets(self):
        kept, forgotten = self.family(), self.family()
        self.tell(-forgotten.pid)
        self.are_killed()
        self.assertEqual(kept.wait(BOUND), -signal.SIGKILL)
        self.assertTrue(lives(forgotten.pid))

    def test_is_dismissed(self):
        process = self.family()
        self.tell(0)
        self.assertEqual(self.reaper.wait(BOUND), 0)
        self.assertTrue(lives(process.pid))

    def test_is_no_reason_to_die(self):
        self.reaper.kill()
        self.reaper.wait(BOUND)
        self.assertEqual(self.command("sh", "-c", "exit 7").wait(BOUND), 7)

    def test_the_terminals_signals_are_for_others(self):
        eventually(lambda: os.getsid(self.reaper.pid) == self.reaper.pid, "a session of its own")

    def test_the_command_is_as_it_would_be(self):
        """Its number, its group and session, its descriptors, its signals."""
        script = "echo $$; ps -o pgid= -o sid= -p $$; [ -e /proc/self/fd/%d ] || echo closed; kill -PIPE $$" % self.told
        process = self.command("sh", "-c", script, stdout=subprocess.PIPE)
        number, group, session, closed = process.stdout.read().decode().split()
        process.stdout.close()
        self.assertEqual([int(number), int(group), int(session), closed], [process.pid] * 3 + ["closed"])
        self.assertEqual(process.wait(BOUND), -signal.SIGPIPE)

    def test_who_leads_a_group_stays_in_its_session(self):
        process = self.command("sh", "-c", "ps -o pgid= -o sid= -p $$", stdout=subprocess.PIPE, process_group=0)
        self.assertEqual(process.stdout.read().decode().split(), [str(process.pid), str(os.getsid(0))])
        process.stdout.close()

    def test_what_cannot_be_executed(self):
        for command, status, why in (("/no/such", 127, b"No such file"), ("/etc", 126, b"Permission denied")):
            process = self.command(command, stderr=subprocess.PIPE)
            self.assertIn(why, process.stderr.read())
            process.stderr.close()
            self.assertEqual(process.wait(BOUND), status)

    def test_usage(self):
        for words in (["/proc/1/fd/3"], ["x", "true"], ["3", "true"]):
            self.assertEqual(subprocess.run([REAPER, *words], stderr=subprocess.DEVNULL, timeout=BOUND).returncode, 125)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
