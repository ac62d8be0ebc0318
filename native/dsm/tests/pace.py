#!/usr/bin/env python3
"""The next checkpoint of a job leaves its program as much time as the last one took.

usage: pace.py MARU PROGRAM

PROGRAM is tests/survive.c.in.  A node that is stopped keeps a checkpoint waiting for a while that is
long beside the interval.  After it nothing else is wanted for at least as long.  What this script
sees late only makes that longer.
"""

import os
import pathlib
import shutil
import signal
import sys
import tempfile
import time

from survivors import OVER, WANTED, Job

EVERY = "0.05"
STOPPED_S = 1.0
ROUNDING_S = 0.005  # the launcher counts milliseconds


def wanted(job):
    """The checkpoint that is, once one is."""
    job.until(lambda: job.look(WANTED) != job.look(OVER))
    return job.look(WANTED)


def stop(job, node):
    """When a checkpoint was wanted at the latest that waits for the node, and its number."""
    os.kill(node, signal.SIGSTOP)
    while True:
        number, since = wanted(job), time.monotonic()
        time.sleep(STOPPED_S)
        # What the node had written before it was stopped may be whole without it.
        if job.look(WANTED) == number and job.look(OVER) != number:
            return since, number


def main():
    maru, source = sys.argv[1], pathlib.Path(sys.argv[2])
    with tempfile.TemporaryDirectory() as scratch, tempfile.TemporaryFile() as out:
        folder = pathlib.Path(scratch).resolve()
        shutil.copy(source, folder)
        job = Job([maru, "launch", "-n", "2", "--ckpt-every", EVERY, "--", f"./{source.name} 2 100000 2"], folder, out)
        try:
            job.until(job.map)
            wanted(job)
            node = job.nodes()[0]
            since, number = stop(job, node)
            goes_on = time.monotonic()
            os.kill(node, signal.SIGCONT)
            job.until(lambda: job.look(WANTED) != number)
            left, took = time.monotonic() - goes_on, goes_on - since
        finally:
            job.process.kill()
            job.process.communicate()
    print(f"took {took:.3f} s, left {left:.3f} s")
    return left < took - ROUNDING_S


if __name__ == "__main__":
    sys.exit(main())
