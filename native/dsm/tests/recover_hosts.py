#!/usr/bin/env python3
"""Jobs with checkpoints on several hosts that lose nodes and hosts at moments drawn by chance: each
prints what it prints without a loss, ends well, and leaves no process.

usage: recover_hosts.py MARU PROGRAM MOMENTS [SEED]
       RECOVER=lost recover_hosts.py …      as of recover.py
       SORTS=node,host recover_hosts.py …   these alone

PROGRAM is tests/survive.c.in; MARU_LAUNCH_SSH stands in for ssh.  Four nodes are on two of four
hosts, so that two are to spare, or on one or two nodes of each.  What is killed is drawn by name: a
node; a host (its agent, and so its nodes); two hosts at once; one and then another, which falls into
the recovery; a host and a node of another; or the launcher with a node, whose job is then resumed
from its folder.  Or a node is moved to another host (`maru launch --move`), while nothing is killed,
or a node, a host, the launcher with a node, or what asked for it.  Output as of recover.py.
"""

import os
import signal
import subprocess
import sys
import tempfile
import time

from chaos import nodes_of
from moments import children, launcher_of, play
from recover import RECOVER, STEP_MS, STEPS, alone_or_all, expected, kill, kill_launcher, kill_some, outlive

NODES = 4
SORTS = ["node", "host", "two hosts", "host again", "host and node", "launcher and node"]
MOVES = ["move", "move, node", "move, host", "move, launcher and node", "move, asker"]
LIMIT_S = 120


def kill_hosts(draw, launcher, number):
    kill_some(draw, children(launcher_of(launcher.pid)), number)


class Move:
    """A node that is to start on another host."""

    def __init__(self, maru, draw, launcher):
        self.wish = f"{draw.randrange(NODES)}=127.0.0.{draw.randint(1, 4)}"
        self.asks = subprocess.Popen([maru, "launch", "--move", self.wish, str(launcher.pid)], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)

    def wrong(self, alone):
        """Whatever else happens, who asked is answered; where nothing does, the node has moved, or
        the job was not there yet, or has ended."""
        try:
            said = self.asks.communicate(timeout=LIMIT_S)[1].decode()
        except subprocess.TimeoutExpired:
            self.asks.kill()
            return f"--move {self.wish} has no answer"
        status = self.asks.returncode
        good = status == 0 or status == 75 or (status == 69 and ("is no launcher" in said or "the program ends" in said))
        return None if good or (status in (64, 69, -signal.SIGKILL) and not alone) else f"--move {self.wish}: status {status}, said: {said!r}"


def await_nodes(program, launcher):
    """Before that an agent that cannot be started ends the job."""
    until = time.monotonic() + LIMIT_S
    while len(nodes_of(program)) < NODES and launcher.poll() is None and time.monotonic() < until:
        time.sleep(0.01)


def strike(maru, draw, sort, program, launcher, moves):
    await_nodes(program, launcher)
    time.sleep(draw.uniform(0.05, 1.2))
    if sort.startswith("move"):
        moves.append(Move(maru, draw, launcher))
        sort = sort[6:]
        time.sleep(draw.choice([draw.uniform(0, 0.05), draw.uniform(0, 0.6)]))
    if sort == "asker":
        moves[0].asks.kill()
    if sort == "launcher and node":
        kill_launcher(draw, launcher)
    if sort in ("node", "host and node", "launcher and node"):
        kill(draw, program, 1)
    if sort.startswith("host") or sort == "two hosts":
        kill_hosts(draw, launcher, 2 if sort == "two hosts" else 1)
    if sort == "host again":
        time.sleep(draw.uniform(0, 0.5))
        kill_hosts(draw, launcher, 1)


def moment(maru, program, draw, sort, words, want, wrote=list):
    """Its name, and what went wrong or nothing. The program's arguments are `words`."""
    each, every = draw.choice([1, 2]), draw.choice(["0.05", "0.2"])
    name = f"{sort}, {each} nodes a host, a checkpoint every {every} s"
    with tempfile.TemporaryDirectory() as scratch:
        hosts = scratch + "/hosts"
        with open(hosts, "w", encoding="ascii") as file:
            file.writelines(f"127.0.0.{number} {each}\n" for number in range(1, 5))

        def command(*options):
            return [maru, "launch", "-n", str(NODES), "--hosts", hosts, "--ckpt-every", every, "--recover", RECOVER, *options, "--", program, *words]

        kept = scratch + "/kept" if sort.endswith("launcher and node") else None
        moves = []
        wrong = outlive(lambda launcher: strike(maru, draw, sort, program, launcher, moves), command, kept, program, want, wrote)
        answers = [move.wrong(sort == "move") for move in moves]
        return name, wrong or next((answer for answer in answers if answer), None)


def survive(maru, program, draw, sort, want):
    """A moment of tests/survive.c.in."""
    if not want:
        want += expected(maru, program, NODES)
    return moment(maru, program, draw, sort, [str(NODES), STEPS, STEP_MS], want)


if __name__ == "__main__":
    want = []
    sys.exit(alone_or_all(play(os.environ["SORTS"].split(",") if "SORTS" in os.environ else SORTS + MOVES, "surviving", lambda *moments: survive(*moments, want))))
