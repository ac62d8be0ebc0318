#!/usr/bin/env python3
"""How many bytes go to the journals of a job in which only a lost node would repeat, by how pages are
fetched.

usage: journaled.py MARU OUT NODES FOLDER COMMAND [FOLDER COMMAND ...]

Each COMMAND is a line for bash, run in FOLDER on so many nodes, with a checkpoint every 30 s and
journals, once with each policy of MARU_DSM_FETCH.  Nobody is lost.  Of each run: the bytes that all
journals were given, which is what has to be kept; the most that one had at once, which its budget has
to hold; the bytes of all nodes' images; the seconds.  Writes them to OUT, as JSON, and prints a table.
"""

import datetime
import json
import os
import pathlib
import struct
import sys
import tempfile

from survivors import LINE, LINES, Job

POLICIES = ["page", "range", "stamp", "adaptive"]
BYTES, JOURNALED, MOST = 64, 384, 392  # in struct mr_checkpoint_line
JOURNAL_MIB = 4096


def of_line(job, node, at):
    return struct.unpack_from("=Q", job.page, LINES + LINE * node + at)[0]


def run(maru, nodes, folder, command, policy):
    os.environ["MARU_DSM_FETCH"] = policy
    with tempfile.TemporaryFile() as out:
        arguments = [maru, "launch", "-n", str(nodes), "--ckpt-every", "30", "--recover", "lost", "--journal", str(JOURNAL_MIB), "--", command]
        job = Job(arguments, pathlib.Path(folder).resolve(), out)
        job.until_begun(nodes)
        status, said = job.end()
    took = datetime.datetime.now().timestamp() - job.began
    if status != 0:
        sys.exit(f"journaled.py: {command}: status {status}: {said[-400:]}")
    journaled, most, images = ([of_line(job, node, at) for node in range(nodes)] for at in (JOURNALED, MOST, BYTES))
    return {"command": command, "fetch": policy, "journaled": sum(journaled), "most": max(most), "images": sum(images), "seconds": round(took, 2)}


def main():
    maru, out, nodes, rest = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4:]
    runs = [run(maru, nodes, folder, command, policy) for folder, command in zip(rest[::2], rest[1::2]) for policy in POLICIES]
    kept = {"experiment": "dsm/journaled", "date": str(datetime.date.today()), "nodes": nodes, "journal_mib": JOURNAL_MIB, "cpus": os.cpu_count(), "kernel": os.uname().release, "load": os.getloadavg()[0], "runs": runs}
    pathlib.Path(out).write_text(json.dumps(kept, indent=1) + "\n", encoding="ascii")
    print(f"{'command':<32} {'fetch':<9} {'journaled, MB':>14} {'by page':>8} {'most in one, MB':>16} {'seconds':>8}")
    for each in runs:
        by_page = next(other["journaled"] for other in runs if other["command"] == each["command"] and other["fetch"] == "page")
        print(f"{each['command'][:32]:<32} {each['fetch']:<9} {each['journaled'] / 1e6:>14.1f} {each['journaled'] / by_page:>8.2f} {each['most'] / 1e6:>16.1f} {each['seconds']:>8.1f}")


if __name__ == "__main__":
    main()
