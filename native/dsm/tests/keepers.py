#!/usr/bin/env python3
"""Jobs with checkpoints that lose a node and what keeps its image, at once, at moments drawn by
chance: each ends with LOST and a line that names both, and within LIMIT_S nobody is left. Nothing is
shown that a job without a loss does not show.

usage: keepers.py MARU PROGRAM MOMENTS [SEED]
       OUT=FILE keepers.py …   writes there, as JSON, how long each took, and the load

PROGRAM is tests/survive.c.in.  The launcher keeps the images; where MARU_LAUNCH_SSH stands in for
ssh, the job is on two hosts, whose agents keep their nodes' images as well: then an agent is killed,
and so its nodes.  A time is from the first kill until the command has ended and no node is left.
Output as of recover.py, and the longest time.
"""

import datetime
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter

from chaos import nodes_of
from moments import children, launcher_of, play
from recover import LOST, STEP_MS, command, expected, kill_some, lines
from recover_hosts import await_nodes
from survivors import slowness

NODES = 4
LIMIT_S = 5
# Which is killed first.
SORTS = ["launcher first", "launcher last"]
HOSTS = "MARU_LAUNCH_SSH" in os.environ


def strike(draw, sort, program, job):
    """The launcher, where both were there, and when."""
    await_nodes(program, job)
    time.sleep(draw.uniform(0.05, 0.9))
    launcher = launcher_of(job.pid)
    victims = children(launcher) if HOSTS else nodes_of(program)
    begun = time.monotonic()
    if launcher is None or not victims:
        job.kill()
        return None, begun
    if sort == "launcher first":
        os.kill(launcher, signal.SIGKILL)
    kill_some(draw, victims, 1)
    if sort == "launcher last":
        os.kill(launcher, signal.SIGKILL)
    return launcher, begun


def wrong_of(job, program, said, want, launcher, begun):
    out, error = (text.decode(errors="replace") for text in said)
    while nodes_of(program) and time.monotonic() - begun < LIMIT_S * slowness():
        time.sleep(0.002)
    took, left = time.monotonic() - begun, nodes_of(program)
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    rounds.append({"took": round(took, 4), "load": os.getloadavg()[0]})
    if left or took > LIMIT_S * slowness():
        return f"{len(left)} processes left after {took:.1f} s"
    if launcher is None:
        return None
    line = f"lost the launcher, process {launcher}, by signal 9, and with it nodes 0 to {NODES - 1}[,;]"
    if job.returncode != LOST or len(re.findall(line, error)) != 1:
        return f"status {job.returncode}, said: {error!r}"
    more = Counter(lines(out)) - Counter(want)
    return f"shows something else: {list(more)[:3]}" if more else None


def moment(maru, program, draw, sort, want):
    """Its name, and what went wrong or nothing."""
    every = draw.choice(["0.02", "0.1", "0.3"])
    want += expected(maru, program, NODES) if not want else []
    with tempfile.NamedTemporaryFile("w", encoding="ascii") as file:
        file.writelines(f"127.0.0.{number} 2\n" for number in (1, 2))
        file.flush()
        options = ["--hosts", file.name] if HOSTS else []
        words = command(maru, program, NODES, "--ckpt-every", every, *options) + [STEP_MS]
        job = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        launcher, begun = strike(draw, sort, program, job)
        return f"{sort}, a checkpoint every {every} s", wrong_of(job, program, job.communicate(), want, launcher, begun)


def keep(out):
    kept = {"experiment": "dsm/keepers", "started": started, "hosts": 2 if HOSTS else 1, "cpus": os.cpu_count(), "kernel": os.uname().release, "rounds": rounds}
    pathlib.Path(out).write_text(json.dumps(kept, indent=1) + "\n", encoding="ascii")


if __name__ == "__main__":
    want, rounds, started = [], [], datetime.datetime.now().isoformat(timespec="seconds")
    failed = play(SORTS, "keeping", lambda *moments: moment(*moments, want))
    print(f"all was gone after {max(each['took'] for each in rounds):.3f} s at most")
    if "OUT" in os.environ:
        keep(os.environ["OUT"])
    sys.exit(failed)
