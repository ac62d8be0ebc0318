#!/usr/bin/env python3
"""A program of somebody else's, in a job with checkpoints that loses nodes at moments drawn by chance:
it prints what it prints without a loss, ends well, and leaves no process.

usage: survivors.py MARU MOMENTS FOLDER FILTER WANT NODES COMMAND [SEED]

COMMAND is a line for bash, run in FOLDER on NODES nodes; its program's file lies there.  FILTER is
run there as well: of what the job printed, it prints what has to be the same.  The files in WANT are
what it may print: of several runs without a loss.

A moment is a phase of the job in which one node, or two, are killed:

    compute    between two checkpoints: while they compute, or wait
    barrier    the node has come to a barrier, and waits there or leaves it
    lock       to a lock: it asks for it, waits for it or has it
    flush      to an operation that sends home what was written: it does
    gather     while nodes come to a standstill for a checkpoint
    write      while they write their images
    commit     right after the launcher committed one
    recovery   one node, and once all are started anew another, before they have joined or shortly after
    launcher   the launcher itself; the job is resumed from its folder

The phase is read from the page that the launcher shares with its nodes (checkpoint.h), and told by
a library that the program is started with (strike.c).  Where the job is over before it comes to that phase, the moment counts as missed.  Prints one line for each
that went wrong, then how many passed, missed and failed, and the seed.
"""

import mmap
import os
import pathlib
import random
import re
import signal
import struct
import subprocess
import sys
import tempfile
import time

LIMIT_S = 120
# How long after it came there a node is killed, in seconds at most.
OPERATIONS = {"barrier": 0.003, "lock": 0.003, "flush": 0.0003}
PHASES = ["compute", *OPERATIONS, "gather", "write", "commit", "recovery", "launcher"]

# struct mr_checkpoint_page and its lines.
PAGE_VERSION = 3
EPOCH, WANTED, CUT, OVER = 2, 5, 7, 9
LINES, LINE, STARTED = 40, 240, 12


def slowness():
    script = pathlib.Path(__file__).resolve().parents[3] / "scripts/slowness.sh"
    return int(subprocess.run(["bash", "-c", f". '{script}'; slowness"], capture_output=True, check=True).stdout)


def state_of(pid):
    """A process's threads: what they wait for, and their ticks of processor time."""
    found = []
    for task in pathlib.Path(f"/proc/{pid}/task").glob("*"):
        try:
            fields = (task / "stat").read_text().rsplit(")", 1)[1].split()
            found.append(f"{fields[0]} {(task / 'wchan').read_text()} {int(fields[11]) + int(fields[12])}")
        except OSError:
            pass
    return f"{pid}: " + ", ".join(found)


class Over(Exception):
    """The job has ended."""


class Job:
    def __init__(self, arguments, folder, out):
        self.folder = folder
        line = 'exec "$@" ' + arguments[-1]
        self.process = subprocess.Popen(["bash", "-c", line, "bash", *arguments[:-1]], cwd=folder, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.PIPE)
        self.page = None

    def look(self, index):
        return struct.unpack_from("=I", self.page, 4 * index)[0]

    def started(self, node):
        return struct.unpack_from("=I", self.page, LINES + LINE * node + STARTED)[0]

    def map(self):
        """Whether the page is there."""
        try:
            for entry in pathlib.Path(f"/proc/{self.process.pid}/fd").iterdir():
                if "memfd:maru-checkpoints" in os.readlink(entry):
                    with open(entry, "rb") as file:
                        self.page = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
        except (OSError, ValueError):
            return False
        if self.page is not None and self.look(0) not in (0, PAGE_VERSION):
            sys.exit(f"survivors.py: the page has version {self.look(0)}: its layout here is that of {PAGE_VERSION}")
        return self.page is not None and self.look(0) == PAGE_VERSION

    def until(self, condition):
        end = time.monotonic() + LIMIT_S
        while not condition():
            if self.process.poll() is not None or time.monotonic() > end:
                raise Over
            time.sleep(0.0005)

    def nodes(self):
        """Processes whose file lies in the folder."""
        found = []
        for entry in pathlib.Path("/proc").iterdir():
            try:
                if entry.name.isdigit() and os.readlink(entry / "exe").startswith(str(self.folder) + "/"):
                    found.append(int(entry.name))
            except OSError:
                pass
        return found

    def comes_to(self, path):
        """The first node to come to the operation that this file stands for (strike.c)."""
        path.touch()
        try:
            self.until(lambda: path.stat().st_size >= 4)
            return struct.unpack_from("=i", path.read_bytes())[0]
        finally:
            path.unlink()

    def kill(self, draw, number=1, first=None):
        nodes = [pid for pid in self.nodes() if pid != first]
        if not nodes and first is None:
            raise Over
        chosen = [] if first is None else [first]
        for pid in chosen + draw.sample(nodes, min(number - len(chosen), len(nodes))):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass

    def stand(self):
        """What it hangs at, as far as can be seen."""
        words = "" if self.page is None else f"epoch {self.look(EPOCH)}, checkpoint {self.look(WANTED)} wanted, {self.look(CUT)} written, {self.look(OVER)} over"
        return words + "".join(f"; {state_of(pid)}" for pid in [self.process.pid, *self.nodes()])

    def end(self):
        """The status and what it said; None where it hangs, and where."""
        limit = LIMIT_S * slowness()
        try:
            said = self.process.communicate(timeout=limit)[1].decode(errors="replace")
            return self.process.returncode, said
        except subprocess.TimeoutExpired:
            stand = self.stand()
            self.process.kill()
            return None, f"not ended after {limit} s, load {os.getloadavg()[0]:.0f}, {stand}, said: " + self.process.communicate()[1].decode(errors="replace")[-400:]

    def left(self):
        until = time.monotonic() + LIMIT_S
        while self.nodes() and time.monotonic() < until:
            time.sleep(0.02)
        left = self.nodes()
        for pid in left:
            os.kill(pid, signal.SIGKILL)
        return len(left)


def strike(job, draw, phase, nodes, seconds, told):
    number = draw.choice([1, 1, 1, 2])
    job.until(job.map)
    job.until(lambda: all(job.started(i) == job.look(EPOCH) for i in range(nodes)))
    time.sleep(draw.uniform(0, 0.5 * seconds))
    takes = {
        "gather": lambda: job.look(WANTED) != job.look(OVER) and job.look(CUT) != job.look(WANTED),
        "write": lambda: job.look(WANTED) != job.look(OVER) and job.look(CUT) == job.look(WANTED),
    }
    if phase in takes:
        job.until(takes[phase])
        time.sleep(draw.choice([0, draw.uniform(0, 0.003)]))
    elif phase == "commit":
        over = job.look(OVER)
        job.until(lambda: job.look(OVER) != over)
    elif phase == "compute":
        job.until(lambda: job.look(WANTED) == job.look(OVER))
    if phase == "launcher":
        job.process.kill()
        return
    epoch = job.look(EPOCH)
    first = None
    if phase in OPERATIONS:
        first = job.comes_to(told.with_suffix("." + phase))
        time.sleep(draw.choice([0, draw.uniform(0, OPERATIONS[phase])]))
    job.kill(draw, number, first)
    if phase == "recovery":
        job.until(lambda: job.look(EPOCH) != epoch)
        time.sleep(draw.uniform(0, 0.2))
        job.kill(draw)


class Case:
    def __init__(self, scratch, maru, folder, filter_, want, nodes, command):
        self.maru, self.folder, self.filter, self.nodes = maru, pathlib.Path(folder).resolve(), filter_, nodes
        self.want = {path.read_bytes() for path in pathlib.Path(want).iterdir()}
        self.told, library = scratch / "strike", scratch / "strike.so"
        source = pathlib.Path(__file__).with_suffix("").with_name("strike.c")
        subprocess.run(["cc", "-std=c11", "-O2", "-shared", "-fPIC", source, "-o", library], check=True)
        self.command = f"env LD_PRELOAD={library} MARU_TEST_STRIKE={self.told} {command}"

    def start(self, out, *options):
        return Job([self.maru, "launch", "-n", str(self.nodes), *options, "--", self.command], self.folder, out)

    def printed(self, out):
        out.seek(0)
        return subprocess.run([self.filter], stdin=out, cwd=self.folder, capture_output=True, check=True).stdout

    def seconds(self):
        """Of a run that loses nothing."""
        with tempfile.TemporaryFile() as out:
            begun = time.monotonic()
            status, said = self.start(out, "--ckpt-every", "0.1").end()
            if status != 0 or self.printed(out) not in self.want:
                sys.exit(f"survivors.py: status {status} without a loss, said: {said[-400:]!r}")
        return time.monotonic() - begun

    def moment(self, draw, phase, seconds):
        """Whether it was met; what went wrong, or None; what it was."""
        every = draw.choice(["0.02", "0.05", "0.2"])
        name = f"{phase}, a checkpoint every {every} s"
        met = True
        with tempfile.TemporaryFile() as out, tempfile.TemporaryDirectory() as scratch:
            kept = scratch + "/kept"
            job = self.start(out, "--ckpt-every", every, *(["--ckpt-dir", kept] if phase == "launcher" else []))
            try:
                strike(job, draw, phase, self.nodes, seconds, self.told)
            except (Over, OSError):
                met = False
            status, said = job.end()
            left = job.left()
            again = phase == "launcher" and met and status != 0
            if again:
                resumed = os.path.exists(kept + "/checkpoint")
                if not resumed:
                    out.seek(0)
                    out.truncate()
                job = self.start(out, *(["--resume", kept] if resumed else []))
                status, said = job.end()
                left += job.left()
            printed = self.printed(out)
        if left and status is not None:
            return met, f"{left} processes left", name
        if status is None:
            return met, f"hangs: {said}", name
        if status != 0:
            return met, f"status {status}, said: {said[-400:]!r}", name
        # A launcher that was killed may have shown lines of a checkpoint that the folder does not have.
        if printed not in self.want and not (again and lines(printed) in map(lines, self.want)):
            return met, f"prints something else: {difference(printed, self.want)!r}", name
        recovered = again or re.search(r"lost node \d+.*; all (go on|begin)", said)
        return bool(recovered), None, name


def lines(text):
    return set(text.splitlines())


def difference(printed, want):
    return sorted(lines(printed) ^ lines(next(iter(want))))[:4]


def main():
    seed = int(sys.argv[8]) if len(sys.argv) > 8 else random.randrange(1 << 32)
    with tempfile.TemporaryDirectory() as scratch:
        case = Case(pathlib.Path(scratch), sys.argv[1], *sys.argv[3:6], int(sys.argv[6]), sys.argv[7])
        return play(case, int(sys.argv[2]), seed)


def play(case, moments, seed):
    """Whether any went wrong."""
    draw = random.Random(seed)
    seconds = case.seconds()
    failed, missed, left, met_in = 0, 0, [], dict.fromkeys(PHASES, 0)
    for number in range(moments):
        left = left or draw.sample(PHASES, len(PHASES))
        phase = left.pop()
        met, wrong, what = case.moment(draw, phase, seconds)
        missed += not met and not wrong
        failed += bool(wrong)
        met_in[phase] += met and not wrong
        if wrong:
            print(f"FAILED  {what} (seed {seed}, moment {number}): {wrong}", flush=True)
    print(*(f"{phase} {count}" for phase, count in met_in.items()), sep=", ")
    print(f"{moments - missed - failed} passed, {missed} missed, {failed} failed (seed {seed}; {seconds:.1f} s without a loss)")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
