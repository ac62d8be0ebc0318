#!/usr/bin/env python3
"""A journal that fills has a checkpoint taken, and one alone: each begins half a journal after the last.

usage: wishes.py MARU NODES COMMAND [refused]

COMMAND is a line for bash, a program whose nodes hear about as much of each other.  `refused`: it cannot be
saved.  Then attempts come ever more seldom: after a second, two, four.
"""

import math
import pathlib
import sys
import tempfile
import time

from journaled import JOURNALED, of_line
from survivors import OVER, Job

JOURNAL = 32 << 20


def taken_well(wished, halves, said):
    return 3 <= wished <= halves + 1 and "is full before" not in said


def refused_well(attempts, seconds, said):
    return attempts <= 2 + math.log2(1 + seconds) and "no checkpoint: node" in said


def main():
    maru, nodes, command, refused = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4:] == ["refused"]
    begun = time.monotonic()
    with tempfile.TemporaryFile() as out:
        job = Job([maru, "launch", "-n", str(nodes), "--ckpt-every", "3600", "--recover", "lost", "--journal", str(JOURNAL >> 20), "--", command], pathlib.Path.cwd(), out)
        job.until_begun(nodes)
        status, said = job.end()
    seconds = time.monotonic() - begun
    halves = max(of_line(job, node, JOURNALED) for node in range(nodes)) / (JOURNAL / 2)
    # The first one is tried at once.
    wished = job.look(OVER) - 1
    print(f"{wished} checkpoints for {halves:.1f} halves of a journal, in {seconds:.1f} s")
    if status != 0 or halves < 3 or not (refused_well(wished + 1, seconds, said) if refused else taken_well(wished, halves, said)):
        sys.exit(f"wishes.py: status {status}: {said[-400:]}")


if __name__ == "__main__":
    main()
