#!/usr/bin/env python3
"""A program of somebody else's, in a job with checkpoints that loses nodes at moments drawn by chance:
it prints what it prints without a loss, ends well, and leaves no process.

usage: survivors.py [--name NAME --table FILE] MARU MOMENTS FOLDER FILTER WANT NODES COMMAND [SEED]

RECOVER=lost: a lost node alone does again what it did (--recover); how many did is said, and how
many could not.  COMMAND is a line for bash, run in FOLDER on NODES nodes; its program's file lies there.  FILTER is
run there as well: of what the job printed, it prints what has to be the same.  The files in WANT are
what it may print: of several runs without a loss.  MOMENTS are to be met; where twice as many
tries do not do, that is a failure.  The table has what came of them by program: FILE.json, to which this one is added, and
FILE.txt.

A moment is a phase of the job in which one node, or two, are killed:

    compute    between two checkpoints: while they compute, or wait
    barrier    the node has come to a barrier, and waits there or leaves it
    lock       to a lock: it asks for it, waits for it or has it
    flush      to an operation that sends home what was written: it does
    gather     while nodes come to a standstill for a checkpoint
    write      while they write their images
    commit     right after the launcher committed one
    recovery   one node, and once all are started anew another, before they have joined or shortly after
    launcher   the launcher, which keeps the images; the job is resumed from its folder

The phase is read from the page that the launcher shares with its nodes (checkpoint.h), and told by
a library that the program is started with (strike.c).  A first run says which of a program's
operations there are, and until when: the others are no phases of it.  Where the job is over before
it comes to a phase, the moment counts as missed.  Prints one line for each that went wrong, then
how many passed, missed and failed, and the seed.
"""

import argparse
import datetime
import json
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

from moments import launcher_of

LIMIT_S = 120
# How long after it came there a node is killed, in seconds at most.
OPERATIONS = {"barrier": 0.003, "lock": 0.003, "flush": 0.0003}
RECOVER = os.environ.get("RECOVER", "all")
PHASES = ["compute", *OPERATIONS, "gather", "write", "commit", "recovery", "launcher"]
# An operation that comes in the first part of a run alone is no phase: it would mostly be missed.
FIRST_PART = 0.15
# Seconds between checkpoints; a run has room for so many, or the next shorter is taken.
EVERY, CHECKPOINTS = [0.02, 0.05, 0.2], 4

# struct mr_checkpoint_page and its lines.
PAGE_VERSION = 8
EPOCH, WANTED, CUT, OVER = 2, 5, 7, 9
LINES, LINE, STARTED, AGAIN = 40, 408, 12, 244


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
        self.page = self.began = None

    def look(self, index):
        return struct.unpack_from("=I", self.page, 4 * index)[0]

    def started(self, node):
        return struct.unpack_from("=I", self.page, LINES + LINE * node + STARTED)[0]

    def recoveries(self, nodes):
        """What another one changes: of all nodes, or of one alone."""
        return [self.look(EPOCH)] + [struct.unpack_from("=I", self.page, LINES + LINE * node + AGAIN)[0] for node in range(nodes)]

    def map(self):
        """Whether the page is there."""
        try:
            for entry in pathlib.Path(f"/proc/{launcher_of(self.process.pid)}/fd").iterdir():
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

    def until_begun(self, nodes):
        """All its nodes have joined."""
        self.until(self.map)
        self.until(lambda: all(self.started(i) == self.look(EPOCH) for i in range(nodes)))
        self.began = time.time()

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
        return words + "".join(f"; {state_of(pid)}" for pid in [launcher_of(self.process.pid) or self.process.pid, *self.nodes()])

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


def strike(job, draw, phase, nodes, delay, told):
    number = 1 if RECOVER == "lost" else draw.choice([1, 1, 1, 2])
    job.until_begun(nodes)
    time.sleep(delay)
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
        launcher = launcher_of(job.process.pid)
        if launcher is None:
            raise Over
        os.kill(launcher, signal.SIGKILL)
        return
    before = job.recoveries(nodes)
    first = None
    if phase in OPERATIONS:
        first = job.comes_to(told.with_suffix("." + phase))
        time.sleep(draw.choice([0, draw.uniform(0, OPERATIONS[phase])]))
    job.kill(draw, number, first)
    if phase == "recovery":
        job.until(lambda: job.recoveries(nodes) != before)
        time.sleep(draw.uniform(0, 0.2))
        job.kill(draw)


class Case:
    def __init__(self, scratch, maru, folder, filter_, want, nodes, command):
        self.maru, self.folder, self.filter, self.nodes = maru, pathlib.Path(folder).resolve(), filter_, nodes
        self.seconds, self.lasts, self.phases = 0, {}, []
        self.how = {"alone": 0, "all": 0, "cannot repeat": 0}
        self.want = {path.read_bytes() for path in pathlib.Path(want).iterdir()}
        self.told, library = scratch / "strike", scratch / "strike.so"
        source = pathlib.Path(__file__).with_suffix("").with_name("strike.c")
        subprocess.run(["cc", "-std=c11", "-O2", "-shared", "-fPIC", source, "-o", library], check=True)
        self.command = f"env LD_PRELOAD={library} MARU_TEST_STRIKE={self.told} {command}"

    def start(self, out, *options):
        if options:
            options += ("--recover", RECOVER)
        return Job([self.maru, "launch", "-n", str(self.nodes), *options, "--", self.command], self.folder, out)

    def printed(self, out):
        out.seek(0)
        return subprocess.run([self.filter], stdin=out, cwd=self.folder, capture_output=True, check=True).stdout

    def told_by(self, operation):
        return self.told.with_suffix("." + operation)

    def learn(self):
        """Of a run that loses nothing: which phases it has, how long it takes, and up to which share
        of it its operations come."""
        for operation in OPERATIONS:
            self.told_by(operation).touch()
        with tempfile.TemporaryFile() as out:
            job = self.start(out, "--ckpt-every", "0.1")
            try:
                job.until_begun(self.nodes)
            except Over:
                pass
            status, said = job.end()
            ended = time.time()
            if status != 0 or job.began is None or self.printed(out) not in self.want:
                sys.exit(f"survivors.py: status {status} without a loss, said: {said[-400:]!r}")
        self.seconds = ended - job.began
        for operation in OPERATIONS:
            told = self.told_by(operation).stat()
            share = (told.st_mtime - job.began) / self.seconds if told.st_size > 0 else 0
            self.lasts[operation] = min(share, 1)
            self.told_by(operation).unlink()
        self.phases = [phase for phase in PHASES if self.lasts.get(phase, 1) > FIRST_PART]

    def moment(self, draw, phase):
        """Whether it was met; what went wrong, or None; what it was."""
        every = draw.choice([s for s in EVERY if s * CHECKPOINTS < self.seconds] or EVERY[:1])
        delay = draw.uniform(0, 0.7 * self.lasts.get(phase, 0.8) * self.seconds)
        name = f"{phase}, a checkpoint every {every} s"
        met = True
        with tempfile.TemporaryFile() as out, tempfile.TemporaryDirectory() as scratch:
            kept = scratch + "/kept"
            job = self.start(out, "--ckpt-every", str(every), *(["--ckpt-dir", kept] if phase == "launcher" else []))
            try:
                strike(job, draw, phase, self.nodes, delay, self.told)
            except (Over, OSError):
                met = False
            status, said = job.end()
            if not met and job.began is not None:
                self.seconds = time.time() - job.began  # the machine's load is another by now
            left = job.left()
            again = phase == "launcher" and met and status != 0
            if again:
                resumed = os.path.exists(kept + "/checkpoint")
                # One that is killed while it shows lines leaves the last one unfinished: all of it comes again.
                out.seek(0)
                out.seek(out.read().rfind(b"\n") + 1 if resumed else 0)
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
        self.how["alone"] += len(re.findall(r"lost node \d+.*it alone (?:goes on|begins)", said))
        self.how["all"] += len(re.findall(r"lost node \d+.*; all (?:go on|begin)", said))
        self.how["cannot repeat"] += said.count("cannot repeat")
        recovered = again or re.search(r"lost node \d+.*(all (go on|begin)|it alone (goes on|begins))", said)
        return bool(recovered), None, name


def lines(text):
    return set(text.splitlines())


def difference(printed, want):
    return sorted(lines(printed) ^ lines(next(iter(want))))[:4]


def play(case, moments, seed):
    """What came of them by phase, what went wrong, and the seconds of a run without a loss."""
    draw = random.Random(seed)
    case.learn()
    seconds = case.seconds
    counts = {phase: {"passed": 0, "missed": 0, "failed": 0} for phase in case.phases}
    failures, left, number = [], [], 0
    while number < 2 * moments and sum(each["passed"] + each["failed"] for each in counts.values()) < moments:
        left = left or draw.sample(case.phases, len(case.phases))
        phase = left.pop()
        met, wrong, what = case.moment(draw, phase)
        counts[phase]["failed" if wrong else "passed" if met else "missed"] += 1
        if wrong:
            failures.append(f"{what} (seed {seed}, moment {number}): {wrong}")
            print("FAILED ", failures[-1], flush=True)
        number += 1
    return counts, failures, seconds


def total(counts, what):
    return sum(each[what] for each in counts.values())


def cell(counts, phase):
    return "/".join(str(counts[phase][what]) for what in ("passed", "missed", "failed")) if phase in counts else "-"


def in_columns(words):
    return f"{words[0]:<14} {words[1]:>5} {words[2]:<11}" + "".join(f" {word:>9}" for word in words[3:])


def tell(rows):
    """The table as text."""
    yield "passed/missed/failed; -: the program has no such phase"
    yield in_columns(["program", "nodes", "access", "recovers", "seconds", *PHASES, "all"])
    for row in rows:
        counts = row["phases"]
        whole = "/".join(str(total(counts, what)) for what in ("passed", "missed", "failed"))
        words = [row["program"], row["nodes"], row["access"], row.get("recover", "all"), f"{row['seconds']:.1f}", *(cell(counts, phase) for phase in PHASES), whole]
        yield in_columns(words)


def write(path, text):
    """Whole or not at all."""
    new = path.with_name(path.name + ".new")
    new.write_text(text, encoding="utf-8")
    new.replace(path)


def add_row(table, row):
    """In the place of that program's last one."""
    as_json = pathlib.Path(table + ".json")
    rows = json.loads(as_json.read_text(encoding="utf-8"))["programs"] if as_json.exists() else []
    same = ("program", "nodes", "access", "recover")
    rows = [old for old in rows if any(old.get(word, "all") != row[word] for word in same)] + [row]
    write(as_json, json.dumps({"schema": "maru-survive/1", "experiment": "dsm/survive", "programs": rows}, indent=1) + "\n")
    write(pathlib.Path(table + ".txt"), "\n".join(tell(rows)) + "\n")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--name", default="-")
    parser.add_argument("--table")
    parser.add_argument("words", nargs="+")
    wish = parser.parse_args()
    maru, moments, folder, filter_, want, nodes, command = wish.words[:7]
    seed = int(wish.words[7]) if len(wish.words) > 7 else random.randrange(1 << 32)
    begun, load = datetime.datetime.now(datetime.timezone.utc), os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as scratch:
        case = Case(pathlib.Path(scratch), maru, folder, filter_, want, int(nodes), command)
        counts, failures, seconds = play(case, int(moments), seed)
    print(*(f"{phase} {each['passed']}" for phase, each in counts.items()), sep=", ")
    if RECOVER == "lost":
        print(*(f"{how} {often}" for how, often in case.how.items()), sep=", ")
    passed, missed, failed = (total(counts, what) for what in ("passed", "missed", "failed"))
    print(f"{passed} passed, {missed} missed, {failed} failed (seed {seed}; {seconds:.1f} s without a loss)")
    short = passed + failed < int(moments)
    if short:
        print(f"FAILED  {missed} of {passed + missed + failed} moments were missed, so that fewer than {moments} say anything", flush=True)
    if wish.table:
        row = {"program": wish.name, "nodes": int(nodes), "access": os.environ.get("MARU_DSM_ACCESS", "chosen"), "command": command, "seed": seed}
        row |= {"started": begun.isoformat(timespec="seconds"), "took": round((datetime.datetime.now(datetime.timezone.utc) - begun).total_seconds()), "load": load}
        row |= {"cpus": os.cpu_count(), "kernel": os.uname().release, "seconds": round(seconds, 2), "recover": RECOVER, "recovered": case.how, "phases": counts, "failures": failures}
        add_row(wish.table, row)
    return failed > 0 or short


if __name__ == "__main__":
    sys.exit(main())
