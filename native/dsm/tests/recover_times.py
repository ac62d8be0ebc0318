#!/usr/bin/env python3
"""How long it takes until a loss is seen, until all nodes go on, and until nobody is left.

usage: recover_times.py MARU PROGRAM NODES ROUNDS OUT
       RECOVER=lost recover_times.py …

PROGRAM is tests/survive.c.in.  Each round starts a job with checkpoints and kills a node: "said" is
when the launcher says which node was lost and that all begin anew, so that it is later than when the
launcher saw it; "joined" is when all nodes have joined in the new epoch; with RECOVER=lost, when the lost one
has done again what it did.  Then it kills the launcher,
which has the only copies of the images, and a node with it: "gone" is when no process of the job is
left.  All are seconds after the kill.  Writes them to OUT, as JSON, with the load; prints medians
and the worst.
"""

import datetime
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile
import time

from moments import launcher_of
from survivors import EPOCH, RECOVER, Job

WORDS = ["said", "joined", "gone"]


def round_of(maru, program, nodes, folder):
    with tempfile.TemporaryFile() as out:
        job = Job([maru, "launch", "-n", str(nodes), "--ckpt-every", "0.1", "--recover", RECOVER, "--", f"./{program} {nodes} 100000 5"], folder, out)
        job.until(job.map)
        joined = lambda: all(job.started(i) == job.look(EPOCH) for i in range(nodes))
        job.until(joined)
        time.sleep(0.4)
        before = job.recoveries(nodes)
        begun = time.monotonic()
        os.kill(job.nodes()[0], signal.SIGKILL)
        line = job.process.stderr.readline().decode()
        said = time.monotonic() - begun
        if "lost node" not in line:
            sys.exit(f"recover_times.py: it said {line!r}")
        job.until(lambda: job.recoveries(nodes) != before and joined())
        took = time.monotonic() - begun
        time.sleep(0.2)
        begun = time.monotonic()
        os.kill(launcher_of(job.process.pid), signal.SIGKILL)
        for pid in job.nodes()[:1]:
            os.kill(pid, signal.SIGKILL)
        job.process.wait()
        while job.nodes():
            time.sleep(0.001)
        gone = time.monotonic() - begun
        job.process.stderr.close()
        return {"said": round(said, 4), "joined": round(took, 4), "gone": round(gone, 4), "load": os.getloadavg()[0]}


def main():
    maru, source, nodes, rounds, out = sys.argv[1], pathlib.Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]), sys.argv[5]
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch).resolve()
        subprocess.run(["cp", source, folder / source.name], check=True)
        runs = [round_of(maru, source.name, nodes, folder) for _ in range(rounds)]
    kept = {"experiment": "dsm/recovery", "recover": RECOVER, "date": str(datetime.date.today()), "nodes": nodes, "cpus": os.cpu_count(), "kernel": os.uname().release, "runs": runs}
    pathlib.Path(out).write_text(json.dumps(kept, indent=1) + "\n", encoding="ascii")
    for word in WORDS:
        each = [run[word] for run in runs]
        print(f"{word}: median {statistics.median(each):.3f} s, worst {max(each):.3f} s of {rounds}")


if __name__ == "__main__":
    main()
