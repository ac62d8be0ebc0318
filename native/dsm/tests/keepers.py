#!/usr/bin/env python3
"""Jobs with checkpoints that lose a node and what keeps its image, at once, at moments drawn by
chance: within LIMIT_S nobody is left, and nothing was shown that a job without a loss does not show.

usage: keepers.py MARU PROGRAM MOMENTS [SEED]

PROGRAM is tests/survive.c.in.  The launcher keeps the images; where MARU_LAUNCH_SSH stands in for
ssh, the job is on two hosts, whose agents keep their nodes' images as well: then an agent is killed,
and so its nodes.  A launcher that was killed says nothing and has the status of that.  Output as of
recover.py, and how long it took.
"""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter

from chaos import nodes_of
from moments import play
from recover import STEP_MS, command, expected, kill_some, lines
from recover_hosts import await_nodes, children
from survivors import slowness

NODES = 4
LIMIT_S = 5
# Which is killed first.
SORTS = ["launcher first", "launcher last"]


def strike(draw, sort, program, launcher, hosts):
    """Whether both were there."""
    await_nodes(program, launcher)
    time.sleep(draw.uniform(0.05, 0.9))
    victims = children(launcher.pid) if hosts else nodes_of(program)
    if launcher.poll() is not None or not victims:
        return False
    if sort == "launcher first":
        launcher.kill()
    kill_some(draw, victims, 1)
    launcher.kill()
    return True


def wrong_of(launcher, program, out, want, met):
    begun = time.monotonic()
    while nodes_of(program) and time.monotonic() - begun < LIMIT_S * slowness():
        time.sleep(0.002)
    took, left = time.monotonic() - begun, nodes_of(program)
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    status = launcher.wait()
    out.seek(0)
    more = Counter(lines(out.read().decode(errors="replace"))) - Counter(want)
    times.append(took)
    if left:
        return f"{len(left)} processes left after {took:.1f} s"
    if met and status != -signal.SIGKILL:
        return f"status {status}"
    return f"shows something else: {list(more)[:3]}" if more else None


def moment(maru, program, draw, sort, want):
    """Its name, and what went wrong or nothing."""
    every, hosts = draw.choice(["0.02", "0.1", "0.3"]), "MARU_LAUNCH_SSH" in os.environ
    want += expected(maru, program, NODES) if not want else []
    with tempfile.NamedTemporaryFile("w", encoding="ascii") as file, tempfile.TemporaryFile() as out:
        file.writelines(f"127.0.0.{number} 2\n" for number in (1, 2))
        file.flush()
        options = ["--hosts", file.name] if hosts else []
        words = command(maru, program, NODES, "--ckpt-every", every, *options) + [STEP_MS]
        launcher = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.DEVNULL)
        met = strike(draw, sort, program, launcher, hosts)
        return f"{sort}, a checkpoint every {every} s", wrong_of(launcher, program, out, want, met)


if __name__ == "__main__":
    want, times = [], []
    failed = play(SORTS, "keeping", lambda *moments: moment(*moments, want))
    print(f"the last process was gone after {max(times):.3f} s at most")
    sys.exit(failed)
