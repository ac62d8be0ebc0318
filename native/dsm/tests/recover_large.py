#!/usr/bin/env python3
"""How long until a job with large images goes on after a loss.

usage: recover_large.py MARU PROGRAM ROUNDS OUT [shared]
       RECOVER=lost recover_large.py …

PROGRAM is tests/pause.c, by maru-cc: four nodes, which change all their memory between two
checkpoints.  Each round waits for a few checkpoints and kills node 1.  "said" is when the launcher
says so; "next" is when the next checkpoint is whole, of a program that has gone on.  So "next" is
later than when it went on, by half a second (the interval) and a checkpoint.  With RECOVER=lost that
node alone repeats, and "live" is when it has done again all that it did.  All are seconds after the
kill.  Writes them to OUT, as JSON, with the bytes of the images and the load.
"""

import datetime
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import time

from moments import children, launcher_of
from pause import kept

RECOVER = os.environ.get("RECOVER", "all")
WORDS = ["said", "next"] if RECOVER == "all" else ["said", "live", "next"]
LIMIT_S = 120  # for what takes a second or two


def shown(maru, job):
    top = subprocess.run([maru, "top", "--once", "--json", str(job.pid)], capture_output=True)
    return kept(json.loads(top.stdout)) if top.returncode == 0 else None


def until(job, good, look):
    ends = time.monotonic() + LIMIT_S
    while True:
        if time.monotonic() > ends:
            sys.exit(f"recover_large.py: no further after {LIMIT_S} s: {look()}")
        if job.poll() is not None:
            sys.exit(f"recover_large.py: the job ended with {job.returncode}: {job.stderr.read().decode().strip()}")
        now = look()
        if now and good(now):
            return now
        time.sleep(0.01)


def nodes_of(job):
    """Processes of its nodes, by number."""
    found = {}
    for pid in children(launcher_of(job.pid)):
        for word in pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
            if word.startswith(b"MARU_DSM_NODE="):
                found[int(word.partition(b"=")[2])] = int(pid)
    return found


def round_of(maru, program, more):
    job = subprocess.Popen([maru, "launch", "-n", "4", "--ckpt-every", "0.5", "--recover", RECOVER, "--", program, "1000000", *more], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    look = lambda: shown(maru, job)
    try:
        until(job, lambda now: now["number"] >= 3, look)
        begun = time.monotonic()
        os.kill(nodes_of(job)[1], signal.SIGKILL)
        line = job.stderr.readline().decode()
        said = time.monotonic() - begun
        if "lost node 1" not in line:
            sys.exit(f"recover_large.py: it said {line!r}")
        number = until(job, lambda now: now["epoch"] >= 2 or now["repeated_alone"] >= 1, look)["number"]
        live = time.monotonic() - begun
        last = until(job, lambda now: now["number"] > number, look)
        if RECOVER == "lost" and last["epoch"] != 1:
            sys.exit("recover_large.py: all went back")
        return {"said": round(said, 4), "live": round(live, 4), "next": round(time.monotonic() - begun, 4), "bytes": last["bytes"], "load": os.getloadavg()[0]}
    finally:
        job.terminate()
        job.wait()


def main():
    maru, program, rounds, out, more = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4], sys.argv[5:]
    runs = [round_of(maru, program, more) for _ in range(rounds)]
    pathlib.Path(out).write_text(json.dumps({"recover": RECOVER, "started": datetime.datetime.now().isoformat(timespec="seconds"), "rounds": runs}, indent=1) + "\n")
    for word in WORDS:
        times = [run[word] for run in runs]
        print(f"{word}: median {statistics.median(times):.3f} s, worst {max(times):.3f} s")


if __name__ == "__main__":
    main()
