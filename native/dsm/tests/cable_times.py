#!/usr/bin/env python3
"""How long it takes until a node says that it lost another whose cable, or whose host, is gone.

usage: cable_times.py NETNS LAUNCH JOB ROUNDS OUT

NETNS is maru-bench-dsm-netns, LAUNCH maru-launch, JOB tests/job.c.  Each round starts a job of two
nodes in two network namespaces, once with nothing on the way (`hang`) and once under traffic
(`press`).  Then the link between them is pulled: "cable" takes an end of it down. "host" takes the
address from the other end, which answers nothing then, as a host that is gone behind a switch. (A
queue that drops all here would not do: the kernel takes that for its own congestion, and counts no
keep-alive.)  Seconds until the launcher says which node was lost.  The launcher's own connection is
none of these two.  Writes them to OUT, as JSON, with the load; prints medians and the worst.
"""

import datetime
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

LIMIT_S = 120
THERE = "nsenter --net=/proc/$MARU_NETNS_SECOND/ns/net"
PULLS = {
    "cable": ("ip link set maru0 down", "ip link set maru0 up"),
    "host": (f"{THERE} ip address del $(sed -n 2p HOSTS)/24 dev maru1", f"{THERE} ip address add $(sed -n 2p HOSTS)/24 dev maru1"),
}


def shell(command):
    subprocess.run(["bash", "-c", command], check=True)


def first(stream, word):
    """The first line with that word; the empty one where it does not come."""
    return next((line for line in iter(stream.readline, "") if word in line), "")


def round_of(launch, hosts, job, pull, mode, phase):
    running = subprocess.Popen(["timeout", str(LIMIT_S), launch, "-n", "2", "--hosts", hosts, "--", job, mode], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if not first(running.stdout, "ready"):
        sys.exit(f"cable_times.py: the job did not start: {running.communicate()[1]!r}")
    time.sleep(1.5 + phase)  # the last word is some time ago; the kernel asks each second
    down, up = (command.replace("HOSTS", str(hosts)) for command in PULLS[pull])
    shell(down)
    begun = time.monotonic()
    line = first(running.stderr, "lost node")
    took = time.monotonic() - begun
    running.communicate()
    shell(up)
    if not line or running.returncode != 75:
        sys.exit(f"cable_times.py: {pull}, {mode}: status {running.returncode}, said {line!r}")
    return round(took, 3)


def inside(launch, job, rounds, out):
    runs = {}
    with tempfile.TemporaryDirectory() as scratch:
        hosts = pathlib.Path(scratch) / "hosts"
        hosts.write_text(pathlib.Path("/dev/fd/8").read_text(encoding="ascii"), encoding="ascii")
        for turn in range(rounds):
            for pull in PULLS:
                for mode in ("hang", "press"):
                    took = round_of(launch, hosts, job, pull, mode, turn / rounds)
                    runs.setdefault(f"{pull}, {mode}", []).append({"seconds": took, "load": os.getloadavg()[0]})
    kept = {"experiment": "dsm/cable", "date": str(datetime.date.today()), "cpus": os.cpu_count(), "kernel": os.uname().release, "runs": runs}
    pathlib.Path(out).write_text(json.dumps(kept, indent=1) + "\n", encoding="ascii")
    for name, each in runs.items():
        seconds = [run["seconds"] for run in each]
        print(f"{name}: median {statistics.median(seconds):.2f} s, worst {max(seconds):.2f} s of {rounds}")


def main():
    if sys.argv[1] == "inside":
        inside(sys.argv[2], sys.argv[3], int(sys.argv[4]), sys.argv[5])
        return 0
    netns, launch, job, rounds, out = sys.argv[1:]
    # It ends with its standard input.
    running = subprocess.Popen([netns, "0", "0", sys.executable, __file__, "inside", launch, job, rounds, out], stdin=subprocess.PIPE)
    return running.wait()


if __name__ == "__main__":
    sys.exit(main())
