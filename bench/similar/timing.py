#!/usr/bin/env python3
"""Processor seconds and memory of checkers on the same files, in the same run.

  timing.py MARU OUT.json SCRATCH [--sizes 1000,5000] [--peer NAME=COMMAND]... [--peer-sizes 1000] SOURCE...

Corpora of corpus.py are made in SCRATCH (kept). maru runs with --backend sequential, to a CSV file and to
a report. A peer's command gets the folder and an output file, as in evaluate.py; how many of its lines
there are and which submissions they name is noted, for one that drops files has less to do. sim_java
(default and -e) is known by name.
"""
import argparse
import csv
import json
import os
import platform
import signal
import subprocess
import sys
import tempfile
import time

# Runs a command as a process's only child: its peak is the command's.
CHILD = "import json,resource,subprocess,sys,time; s=time.monotonic(); p=subprocess.run(sys.argv[1:],stdout=subprocess.DEVNULL,stderr=subprocess.DEVNULL); u=resource.getrusage(resource.RUSAGE_CHILDREN); print(json.dumps([p.returncode,round(u.ru_utime+u.ru_stime,3),round(time.monotonic()-s,3),u.ru_maxrss]))"


def measured(command, limit, **options):
    child = subprocess.Popen([sys.executable, "-c", CHILD, *command], stdout=subprocess.PIPE, start_new_session=True, **options)
    try:
        out = child.communicate(timeout=limit)[0]
    except subprocess.TimeoutExpired:
        # With what it has started.
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        return {"stopped_after": limit}
    status, processor, elapsed, kib = json.loads(out)
    return {"status": status, "processor": processor, "elapsed": elapsed, "peak_mib": kib // 1024}


def peer(command, folder, limit):
    if command in ("sim_java", "sim_java -e"):
        # Its order of files is part of its work; a command line of 20 000 names is too long.
        files = sorted(os.listdir(folder))
        return measured([*command.split(), "-p", *files], limit, cwd=folder) if len(files) <= 5000 else {"not_run": "its command line has an end"}
    with tempfile.TemporaryDirectory() as scratch:
        out = os.path.join(scratch, "out")
        found = measured([*command.split(), os.path.abspath(folder), out], limit)
        if os.path.exists(out):
            with open(out, newline="") as file:
                rows = [r[:2] for r in csv.reader(file) if len(r) > 2]
            found.update(pairs=len(rows), submissions=len({name for row in rows for name in row}))
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("maru")
    parser.add_argument("out")
    parser.add_argument("scratch")
    parser.add_argument("sources", nargs="+")
    parser.add_argument("--sizes", default="1000,5000")
    parser.add_argument("--peer-sizes", default="1000")
    parser.add_argument("--peer", action="append", default=[])
    parser.add_argument("--limit", type=int, default=3600)
    args = parser.parse_args()
    here = os.path.dirname(os.path.abspath(__file__))
    found = {"machine": platform.machine(), "cores": os.cpu_count(), "load_before": os.getloadavg()[0], "when": time.strftime("%Y-%m-%d"), "runs": []}
    for size in map(int, args.sizes.split(",")):
        folder = os.path.join(args.scratch, "c%d" % size)
        if not os.path.isdir(folder):
            subprocess.run([sys.executable, os.path.join(here, "corpus.py"), str(size), folder, args.maru, *args.sources], check=True)
        total = sum(os.path.getsize(os.path.join(folder, f)) for f in os.listdir(folder))
        with tempfile.TemporaryDirectory() as scratch:
            ours = [args.maru, "similar", "--backend", "sequential"]
            tools = [("maru --csv", lambda: measured([*ours, "--csv", os.path.join(scratch, "o"), folder], args.limit)), ("maru --html", lambda: measured([*ours, "--html", os.path.join(scratch, "o"), folder], args.limit))]
            if size in map(int, args.peer_sizes.split(",")):
                tools += [(name, lambda command=command: peer(command, folder, args.limit)) for name, _, command in (p.partition("=") for p in args.peer)]
            for name, run in tools:
                result = {"programs": size, "bytes": total, "tool": name, **run()}
                found["runs"].append(result)
                print(json.dumps(result), flush=True)
                found["load_after"] = os.getloadavg()[0]
                with open(args.out, "w") as file:
                    json.dump(found, file, indent=1)
                    file.write("\n")


if __name__ == "__main__":
    main()
