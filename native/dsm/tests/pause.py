#!/usr/bin/env python3
"""How long a job of four nodes stands still for a checkpoint, and what had changed.

usage: pause.py MARU PROGRAM CHECKPOINTS OUT [shared]

PROGRAM is tests/pause.c, by maru-cc.  As the launcher shows it to maru top: "gathered" until all
nodes stood still, which they do one after the other; then "written" until the checkpoint was whole.
The first is of pages that were never written before.  Writes all to OUT, as JSON, with the load;
prints the medians and the worst.
"""

import datetime
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time


def kept(value):
    if isinstance(value, dict) and isinstance(value.get("dsm"), dict):
        return value["dsm"].get("checkpoints")
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else []
    return next((found for each in inner if (found := kept(each))), None)


def main():
    maru, program, count, out, more = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4], sys.argv[5:]
    job = subprocess.Popen([maru, "launch", "-n", "4", "--ckpt-every", "0.7", "--", program, "1000000", *more], stdout=subprocess.DEVNULL)
    runs = []
    try:
        while len(runs) < count and job.poll() is None:
            shown = subprocess.run([maru, "top", "--once", "--json", str(job.pid)], capture_output=True, check=True).stdout
            now = kept(json.loads(shown))
            if now and now["number"] > (runs[-1]["number"] if runs else 0):
                runs.append({word: now[word] for word in ("number", "changed", "bytes", "gathered", "written")} | {"load": os.getloadavg()[0]})
            time.sleep(0.1)
    finally:
        job.terminate()
        job.wait()
    result = {"experiment": "dsm/pause", "date": str(datetime.date.today()), "nodes": 4, "shared": bool(more), "cpus": os.cpu_count(), "kernel": os.uname().release, "runs": runs}
    pathlib.Path(out).write_text(json.dumps(result, indent=1) + "\n", encoding="ascii")
    for name, seconds in (("written", [run["written"] for run in runs]), ("both", [run["gathered"] + run["written"] for run in runs])):
        print(f"{name}: median {statistics.median(seconds):.3f} s, worst {max(seconds):.3f} s of {len(runs)}; {runs[-1]['changed'] / 2**20:.0f} MiB had changed")


if __name__ == "__main__":
    main()
