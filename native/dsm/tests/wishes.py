#!/usr/bin/env python3
"""A journal that fills has a checkpoint taken, and one alone: each begins half a journal after the last.

usage: wishes.py MARU NODES COMMAND

COMMAND is a line for bash, a program whose nodes hear about as much of each other.
"""

import pathlib
import struct
import sys
import tempfile

from survivors import LINE, LINES, OVER, Job

JOURNALED = 384  # in struct mr_checkpoint_line
JOURNAL = 16 << 20


def main():
    maru, nodes, command = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    with tempfile.TemporaryFile() as out:
        job = Job([maru, "launch", "-n", str(nodes), "--ckpt-every", "3600", "--recover", "lost", "--journal", str(JOURNAL >> 20), "--", command], pathlib.Path.cwd(), out)
        job.until_begun(nodes)
        status, said = job.end()
    journaled = max(struct.unpack_from("=Q", job.page, LINES + LINE * node + JOURNALED)[0] for node in range(nodes))
    # The first one is taken at once.
    wished, halves = job.look(OVER) - 1, journaled / (JOURNAL / 2)
    print(f"{wished} checkpoints for {halves:.1f} halves of a journal")
    if status != 0 or wished < 3 or wished > halves + 1 or "is full before" in said:
        sys.exit(f"wishes.py: status {status}: {said[-400:]}")


if __name__ == "__main__":
    main()
