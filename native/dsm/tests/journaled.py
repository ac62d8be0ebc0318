#!/usr/bin/env python3
"""How many bytes go to the journals of a job in which only a lost node would repeat, by how pages are
fetched.

usage: journaled.py MARU OUT NODES FOLDER COMMAND [FOLDER COMMAND ...]
       journaled.py --plot OUT FILE.svg    draws what an earlier run wrote to OUT

Each COMMAND is a line for bash, run in FOLDER on so many nodes, with a checkpoint every 30 s and
journals, once with each policy of MARU_DSM_FETCH.  Nobody is lost.  Of each run: the bytes that all
journals were given, which is what has to be kept; the most that one had at once, which its budget has
to hold; the bytes of all nodes' images; the seconds.  Writes them to OUT, as JSON, and prints a table.
"""

import datetime
import html
import json
import os
import pathlib
import re
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


# ---- the plot ----

WIDTH, HEIGHT, LEFT, TOP, BOTTOM = 720, 360, 70, 60, 300
COLOURS = {"page": "#8896a5", "range": "#2a6fbb", "adaptive": "#d1812c"}
DARK = '@media(prefers-color-scheme:dark){[fill="#222222"]{fill:#e4e8ec}[stroke="#dddddd"]{stroke:#343d46}[fill="#ffffff"]{fill:#14191e}}'


def text(x, y, words, anchor="middle", more=""):
    return f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}" {more}>{html.escape(words)}</text>'


def ratio_line(ratio, top):
    y = BOTTOM - (BOTTOM - TOP) * ratio / top
    return f'<line stroke="#dddddd" x1="{LEFT}" y1="{y:.1f}" x2="{WIDTH - 10}" y2="{y:.1f}"/>' + text(LEFT - 8, y + 4, f"{ratio:.1f}", "end")


def bars(place, width, by, top):
    """Of one program, beside each other: what each policy journals, over `page`."""
    for n, (policy, colour) in enumerate(COLOURS.items()):
        ratio = by[policy] / by["page"]
        height = (BOTTOM - TOP) * ratio / top
        x = place + (n - len(COLOURS) / 2) * width
        yield f'<rect fill="{colour}" x="{x:.1f}" y="{BOTTOM - height:.1f}" width="{width - 2:.1f}" height="{height:.1f}"/>'
        yield text(x + width / 2 - 1, BOTTOM - height - 4, f"{ratio:.2f}", more='font-size="10"')


def plot(runs, title):
    commands = list(dict.fromkeys(each["command"] for each in runs))
    journaled = {(each["command"], each["fetch"]): each["journaled"] for each in runs}
    top = 1.1 * max(bytes_ / journaled[command, "page"] for (command, _), bytes_ in journaled.items())
    group = (WIDTH - 10 - LEFT) / len(commands)
    parts = [text(LEFT, 24, title, "start", 'font-size="15" font-weight="600"'), *(ratio_line(n / 5, top) for n in range(6))]
    for n, command in enumerate(commands):
        place = LEFT + (n + 0.5) * group
        by = {policy: journaled[command, policy] for policy in COLOURS}
        parts += bars(place, 0.8 * group / len(COLOURS), by, top)
        parts.append(text(place, BOTTOM + 18, re.search(r"\w+(-\w+)?", command)[0].lower()))
        parts.append(text(place, BOTTOM + 34, f"{by['page'] / 1e6:.0f} MB by page", more='font-size="10"'))
    for n, (policy, colour) in enumerate(COLOURS.items()):
        parts.append(f'<rect fill="{colour}" x="{LEFT + 90 * n}" y="36" width="10" height="10"/>' + text(LEFT + 14 + 90 * n, 45, policy, "start"))
    back = f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>'
    begin = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" font-family="system-ui, sans-serif" font-size="12" fill="#222222">'
    return "\n".join([begin, f"<title>{html.escape(title)}</title>", f"<style>{DARK}</style>", back, *parts, "</svg>\n"])


def main():
    if sys.argv[1:2] == ["--plot"]:
        kept = json.loads(pathlib.Path(sys.argv[2]).read_text(encoding="ascii"))
        title = f"Bytes journaled, over those by page ({kept['nodes']} nodes, {kept['date']})"
        pathlib.Path(sys.argv[3]).write_text(plot(kept["runs"], title), encoding="ascii")
        return
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
