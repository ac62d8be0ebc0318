#!/usr/bin/env python3
"""A node that is stopped for long, while much waits for it, is waited for, and the job goes on.

usage: stops.py LAUNCH JOB ROUNDS SECONDS

LAUNCH is maru-launch, JOB tests/job.c.  Each round is a job of two nodes over TCP (`flood`): node 1
stops itself while 64 MiB are on their way to it, and goes on SECONDS later.  ABREAST rounds run at a
time, as they wait for most of it.  Prints a line for each that went wrong, then "N passed, M failed".
"""

import concurrent.futures
import os
import pathlib
import signal
import subprocess
import sys
import time

from moments import children

ABREAST = 8
LIMIT_S = 600


def is_stopped(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()[0] == "T"
    except OSError:
        return False


def round_of(launch, job, seconds):
    """What went wrong, or nothing."""
    running = subprocess.Popen([launch, "-n", "2", "--", job, "flood"], env=dict(os.environ, MARU_DSM_TRANSPORT="tcp"), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    until = time.monotonic() + LIMIT_S
    while not (stopped := [pid for pid in children(running.pid) if is_stopped(pid)]):
        if running.poll() is not None or time.monotonic() > until:
            running.kill()
            return f"no node stopped: {running.communicate()}"
        time.sleep(0.05)
    time.sleep(seconds)
    os.kill(stopped[0], signal.SIGCONT)
    try:
        out, said = running.communicate(timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        running.kill()
        return f"hangs, said: {running.communicate()}"
    return None if running.returncode == 0 and "streamed" in out and not said else f"status {running.returncode}, said: {out!r} {said!r}"


def main():
    launch, job, rounds, seconds = sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
    with concurrent.futures.ThreadPoolExecutor(ABREAST) as pool:
        wrong = [each for each in pool.map(lambda _: round_of(launch, job, seconds), range(rounds)) if each]
    print(*(f"FAILED  {each}" for each in wrong), f"{rounds - len(wrong)} passed, {len(wrong)} failed: stopped for {seconds:g} s", sep="\n")
    return len(wrong) > 0


if __name__ == "__main__":
    sys.exit(main())
