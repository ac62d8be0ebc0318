#!/usr/bin/env python3
"""Jobs with checkpoints that lose nodes at moments drawn by chance: each prints what it prints
without a loss, ends well, and leaves no process.

usage: recover.py MARU PROGRAM MOMENTS [SEED]
       RECOVER=lost recover.py …

PROGRAM is tests/survive.c.in.  A moment is how often checkpoints are taken, how many nodes there
are, and when which of them is killed: one, two at once, one after the other (so that the second
falls into the recovery), or the launcher or its watcher, whose job is then resumed from its folder.  Each sort
comes once before any comes again.  With RECOVER=lost a lost node alone does again what it did, but where
two are lost at once: a line says how often, and that it never did something else.  Prints one line for each that went wrong, then "N passed, M
failed" and the seed, from which all was drawn.
"""

import os
import re
import signal
import subprocess
import sys
import tempfile
import time

from chaos import nodes_of
from moments import launcher_of, play

LIMIT_S = 120
LOST = 75  # what a job ends with whose launcher was killed
STEPS, STEP_MS = "60", "8"
SORTS = ["one", "two", "again", "thrice", "launcher"]
RECOVER = os.environ.get("RECOVER", "all")
seen = {"it alone": 0, "all go on": 0, "all begin": 0}


def lines(text):
    """What it printed, in no order: nodes print by themselves."""
    return sorted(re.sub(r"^\[\d+\] ", "", line) for line in text.splitlines())


def command(maru, program, count, *options):
    return [maru, "launch", "-n", str(count), *options, "--", program, str(count), STEPS]


def expected(maru, program, count):
    run = subprocess.run(command(maru, program, count), stdin=subprocess.DEVNULL, capture_output=True, timeout=LIMIT_S, check=True)
    return lines(run.stdout.decode())


def kill_some(draw, pids, number):
    """So many of them, at once; one may have ended just now."""
    for pid in draw.sample(pids, min(number, len(pids))):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


def kill(draw, program, number):
    """So many of its nodes."""
    kill_some(draw, nodes_of(program), number)


def kill_launcher(draw, started):
    """Or its watcher, which takes it along."""
    kill_some(draw, [draw.choice([launcher_of(started.pid) or started.pid, started.pid])], 1)


def strike(draw, sort, program, launcher):
    time.sleep(draw.uniform(0.02, 0.9))
    if sort == "launcher":
        kill_launcher(draw, launcher)
        return
    kill(draw, program, 2 if sort == "two" else 1)
    for _ in range({"again": 1, "thrice": 2}.get(sort, 0)):
        time.sleep(draw.uniform(0, 0.25))
        kill(draw, program, 1)


def left_by(program):
    until = time.monotonic() + LIMIT_S
    while nodes_of(program) and time.monotonic() < until:
        time.sleep(0.02)
    left = nodes_of(program)
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    return left


def run(strike, arguments, program, out):
    """How the launcher ended, None: it hangs; what it said; the processes that were left."""
    launcher = subprocess.Popen(arguments, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.PIPE)
    try:
        strike(launcher)
        said = launcher.communicate(timeout=LIMIT_S)[1].decode(errors="replace")
        return launcher.returncode, said, left_by(program)
    except subprocess.TimeoutExpired:
        launcher.kill()
        launcher.communicate()
        return None, "", left_by(program)


def outlive(strike, command, kept, program, want, wrote=list):
    """What went wrong with that job, or nothing. command(OPTIONS) starts it; a folder that `kept`
    names has its checkpoints: the launcher may be killed, and the job is resumed from there.
    wrote() gives lines of the files that it wrote."""
    with tempfile.TemporaryFile() as out:
        status, said, left = run(strike, command("--ckpt-dir", kept) if kept else command(), program, out)
        if kept and status in (-signal.SIGKILL, LOST):
            # It may have been killed before there was a checkpoint.
            again = ["--resume", kept] if os.path.exists(kept + "/checkpoint") else []
            if not again:
                out.seek(0)
                out.truncate()
            status, said, more = run(lambda launcher: None, command(*again), program, out)
            left += more
        out.seek(0)
        printed = sorted(lines(out.read().decode(errors="replace")) + wrote())
    if "VERBOSE" in os.environ:
        print(*re.findall(r"lost node.*", said), sep="\n", flush=True)
    for words in seen:
        seen[words] += said.count(words)
    # Before the first checkpoint it differs in what the kernel draws for each process.
    if re.search(r"cannot repeat[^\n]*\n(?!.*before the first checkpoint; all begin)", said):
        return f"it did something else: {said[-400:]!r}"
    if left:
        return f"{len(left)} processes left"
    if status is None:
        return f"hangs: not ended after {LIMIT_S} s"
    if status != 0:
        return f"status {status}, said: {said[-400:]!r}"
    # A launcher that was killed may have shown lines of a checkpoint that the folder does not have.
    if (sorted(set(printed)) if kept else printed) != want:
        return f"prints something else: {printed[:3]} …"
    return None


def alone_or_all(failed):
    """Says how nodes went on; whether something went wrong, or none ever did alone that was to."""
    if RECOVER == "lost":
        print(", ".join(f"{words}: {often}" for words, often in seen.items()))
    return failed or (RECOVER == "lost" and seen["it alone"] == 0)


def moment(maru, program, draw, sort, want):
    """Its name, and what went wrong or nothing."""
    count, every = draw.randint(2, 4), draw.choice(["0.02", "0.1", "0.3"])
    way = draw.choice(["shm+tcp", "tcp", "link"])  # that one: TCP, as late as on a described network
    name = f"{sort}, {RECOVER}, {count} nodes, a checkpoint every {every} s, {way}"
    if count not in want:
        want[count] = expected(maru, program, count)
    with tempfile.TemporaryDirectory() as scratch:

        def again(*options):
            late = ["env", "MARU_DSM_LINK=3000,800"] if way == "link" else []
            return late + command(maru, program, count, "--transport", "tcp" if way == "link" else way, "--ckpt-every", every, "--recover", RECOVER, *options) + [STEP_MS]

        kept = scratch + "/kept" if sort == "launcher" else None
        return name, outlive(lambda launcher: strike(draw, sort, program, launcher), again, kept, program, want[count])


if __name__ == "__main__":
    want = {}
    sys.exit(alone_or_all(play(SORTS, "surviving", lambda *moments: moment(*moments, want))))
