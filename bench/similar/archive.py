#!/usr/bin/env python3
"""One file against an archive of many programs: how long, and is it what a run without an index says?

  archive.py N MARU OUT.json SCRATCH SOURCE...   an archive of N programs of corpus.py, N a multiple of 4

Makes the corpus and the index in SCRATCH (kept: the next run with it only asks), adds a term to it,
asks five times for one file that is in no program, and writes seconds and bytes to OUT.json. With N of at
most 5000 it compares the answer with that of --archive.
"""
import json
import os
import platform
import resource
import subprocess
import sys
import time


def timed(*command):
    """Seconds elapsed, processor seconds, what it printed."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    out = subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"elapsed": round(time.monotonic() - start, 3), "processor": round(used, 3)}, out


def rows(path):
    """Without the names, in which an index has the path before each."""
    with open(path) as file:
        return sorted(line.split(",", 2)[2] for line in file)


def main():
    if len(sys.argv) < 6:
        sys.exit(__doc__)
    n, maru, out, scratch, sources = int(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4], sys.argv[5:]
    corpus, index = os.path.join(scratch, "programs"), os.path.join(scratch, "index")
    here = os.path.dirname(os.path.abspath(__file__))
    found = {"programs": n, "machine": platform.processor() or platform.machine(), "cores": os.cpu_count(), "load": os.getloadavg()[0], "ask": []}
    if not os.path.isdir(corpus):
        subprocess.run([sys.executable, os.path.join(here, "corpus.py"), str(n), corpus, maru, *sources], check=True)
    if not os.path.isdir(index):
        found["make"], _ = timed(maru, "similar", "index", index, corpus)
    found["program_bytes"] = sum(entry.stat().st_size for entry in os.scandir(corpus) if entry.name.endswith(".java"))
    found["index_bytes"] = os.path.getsize(os.path.join(index, "archive"))
    query = os.path.join(scratch, "query")
    if not os.path.isdir(query):
        subprocess.run([maru, "similar", "generate", "--seed", "99", "--strength", "4", "--count", "1", "--out", query, os.path.join(corpus, "s00000.java")], check=True)
        os.remove(os.path.join(query, "labels.csv"))
        found["add_one"], _ = timed(maru, "similar", "index", index, here + "/../../examples/corpus/bank-erik.java")
    for _ in range(5):
        seconds, table = timed(maru, "similar", "--index", index, query)
        found["ask"].append(seconds)
    found["first_row"] = table.decode().splitlines()[0]
    if n <= 5000:
        ours, direct = os.path.join(scratch, "index.csv"), os.path.join(scratch, "archive.csv")
        subprocess.run([maru, "similar", "--index", index, "--csv", ours, query], check=True, stdout=subprocess.DEVNULL)
        subprocess.run([maru, "similar", "--archive", corpus, "--archive", here + "/../../examples/corpus/bank-erik.java", "--csv", direct, query], check=True, stdout=subprocess.DEVNULL)
        found["same_as_direct"] = rows(ours) == rows(direct)
    with open(out, "w") as file:
        json.dump(found, file, indent=1)
        file.write("\n")
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
