#!/usr/bin/env python3
"""Jobs with checkpoints that lose nodes at moments drawn by chance: each prints what it prints
without a loss, ends well, and leaves no process.

usage: recover.py MARU PROGRAM MOMENTS [SEED]

PROGRAM is tests/survive.c.in.  A moment is how often checkpoints are taken, how many nodes there
are, and when which of them is killed: one, two at once, one after the other (so that the second
falls into the recovery), or the launcher, whose job is then resumed from its folder.  Each sort
comes once before any comes again.  Prints one line for each that went wrong, then "N passed, M
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
from moments import play

LIMIT_S = 120
STEPS, STEP_MS = "60", "8"
SORTS = ["one", "two", "again", "thrice", "launcher"]


def lines(text):
    """What it printed, in no order: nodes print by themselves."""
    return sorted(re.sub(r"^\[\d+\] ", "", line) for line in text.splitlines())


def command(maru, program, count, *options):
    return [maru, "launch", "-n", str(count), *options, "--", program, str(count), STEPS]


def expected(maru, program, count):
    run = subprocess.run(command(maru, program, count), stdin=subprocess.DEVNULL, capture_output=True, timeout=LIMIT_S, check=True)
    return lines(run.stdout.decode())


def kill(draw, program, number):
    """So many of its nodes, at once."""
    nodes = nodes_of(program)
    for pid in draw.sample(nodes, min(number, len(nodes))):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


def strike(draw, sort, program, launcher):
    time.sleep(draw.uniform(0.02, 0.9))
    if sort == "launcher":
        launcher.kill()
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


def run(draw, sort, arguments, program, out):
    """How the launcher ended; None: it hangs."""
    launcher = subprocess.Popen(arguments, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.PIPE)
    try:
        strike(draw, sort, program, launcher) if sort else None
        said = launcher.communicate(timeout=LIMIT_S)[1].decode(errors="replace")
        return launcher.returncode, said
    except subprocess.TimeoutExpired:
        launcher.kill()
        launcher.communicate()
        return None, ""


def moment(maru, program, draw, sort, want):
    """Its name, and what went wrong or nothing."""
    count, every = draw.randint(2, 4), draw.choice(["0.02", "0.1", "0.3"])
    way = draw.choice(["shm+tcp", "tcp"])
    name = f"{sort}, {count} nodes, a checkpoint every {every} s, {way}"
    if count not in want:
        want[count] = expected(maru, program, count)
    with tempfile.TemporaryFile() as out, tempfile.TemporaryDirectory() as scratch:
        folder = scratch + "/kept"
        options = ["--transport", way, "--ckpt-every", every] + (["--ckpt-dir", folder] if sort == "launcher" else [])
        arguments = command(maru, program, count, *options) + [STEP_MS]
        status, said = run(draw, sort, arguments, program, out)
        left = left_by(program)
        if status == -signal.SIGKILL and sort == "launcher":
            # It may have been killed before there was a checkpoint.
            again = ["--resume", folder] if os.path.exists(folder + "/checkpoint") else []
            if not again:
                out.seek(0)
                out.truncate()
            status, said = run(draw, None, command(maru, program, count, *again) + [STEP_MS], program, out)
            left += left_by(program)
        out.seek(0)
        printed = lines(out.read().decode(errors="replace"))
    if left:
        return name, f"{len(left)} processes left"
    if status is None:
        return name, f"hangs: not ended after {LIMIT_S} s"
    if status != 0:
        return name, f"status {status}, said: {said[-400:]!r}"
    # A launcher that was killed may have shown lines of a checkpoint that the folder does not have.
    if (sorted(set(printed)) if sort == "launcher" else printed) != want[count]:
        return name, f"prints something else: {printed[:3]} …"
    return name, None


if __name__ == "__main__":
    want = {}
    sys.exit(play(SORTS, "surviving", lambda *moments: moment(*moments, want)))
