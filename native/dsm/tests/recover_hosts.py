#!/usr/bin/env python3
"""Jobs with checkpoints on several hosts that lose nodes and hosts at moments drawn by chance: each
prints what it prints without a loss, ends well, and leaves no process.

usage: recover_hosts.py MARU PROGRAM MOMENTS [SEED]

PROGRAM is tests/survive.c.in; MARU_LAUNCH_SSH stands in for ssh.  Four nodes are on two of four
hosts, so that two are to spare, or on one or two nodes of each.  What is killed is drawn by name: a
node; a host (its agent, and so its nodes); two hosts at once; one and then another, which falls into
the recovery; a host and a node of another; or the launcher with a node, whose job is then resumed
from its folder.  Output as of recover.py.
"""

import os
import signal
import sys
import tempfile
import time

from moments import play
from recover import STEP_MS, STEPS, expected, kill, outlive

NODES = 4
SORTS = ["node", "host", "two hosts", "host again", "host and node", "launcher and node"]


def children(pid):
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
            return [int(word) for word in file.read().split()]
    except OSError:
        return []


def kill_hosts(draw, launcher, number):
    agents = children(launcher.pid)
    for pid in draw.sample(agents, min(number, len(agents))):
        os.kill(pid, signal.SIGKILL)


def strike(draw, sort, program, launcher):
    time.sleep(draw.uniform(0.05, 1.2))
    if sort == "launcher and node":
        launcher.kill()
    if sort in ("node", "host and node", "launcher and node"):
        kill(draw, program, 1)
    if sort.startswith("host") or sort == "two hosts":
        kill_hosts(draw, launcher, 2 if sort == "two hosts" else 1)
    if sort == "host again":
        time.sleep(draw.uniform(0, 0.5))
        kill_hosts(draw, launcher, 1)


def moment(maru, program, draw, sort, want):
    """Its name, and what went wrong or nothing."""
    each, every = draw.choice([1, 2]), draw.choice(["0.05", "0.2"])
    name = f"{sort}, {each} nodes a host, a checkpoint every {every} s"
    if not want:
        want += expected(maru, program, NODES)
    with tempfile.TemporaryDirectory() as scratch:
        hosts = scratch + "/hosts"
        with open(hosts, "w", encoding="ascii") as file:
            file.writelines(f"127.0.0.{number} {each}\n" for number in range(1, 5))

        def command(*options):
            return [maru, "launch", "-n", str(NODES), "--hosts", hosts, "--ckpt-every", every, *options, "--", program, str(NODES), STEPS, STEP_MS]

        kept = scratch + "/kept" if sort == "launcher and node" else None
        return name, outlive(lambda launcher: strike(draw, sort, program, launcher), command, kept, program, want)


if __name__ == "__main__":
    want = []
    sys.exit(play(SORTS, "surviving", lambda *moments: moment(*moments, want)))
