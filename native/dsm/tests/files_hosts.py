#!/usr/bin/env python3
"""Jobs on several hosts of a program that reads a file and writes others, which lose nodes and hosts
at moments drawn by chance, or whose nodes move: what they print and write is what one process does.

usage: files_hosts.py MARU PROGRAM MOMENTS [SEED]

PROGRAM is tests/files.cc; all else is as in recover_hosts.py.  All files are in one folder, which
the hosts share.  A log that a node opens for each line that it appends, and closes, may have a line
again after a loss: each has to be there, and whole.
"""

import os
import pathlib
import subprocess
import sys
import tempfile

from moments import play
from recover import LIMIT_S, STEP_MS, STEPS, lines
from recover_hosts import MOVES, SORTS, moment

PIECE = 200  # lines of the input for each step


def wrote():
    """Lines of what the program wrote here, each with its file and place."""
    outputs = [(path.name, path.read_text(encoding="ascii").splitlines()) for path in pathlib.Path(".").glob("out-*")]
    logs = {line for path in pathlib.Path(".").glob("log-*") for line in path.read_text(encoding="ascii").splitlines()}
    return [f"{name}, {place}: {line}" for name, each in outputs for place, line in enumerate(each)] + [f"log: {line}" for line in logs]


def clear():
    for path in [*pathlib.Path(".").glob("out-*"), *pathlib.Path(".").glob("log-*")]:
        path.unlink()


def files(maru, program, draw, sort, want):
    """A moment."""
    words = [str(pathlib.Path("input").resolve()), STEPS]
    clear()
    if not want:
        run = subprocess.run([program, *words, "0", "log"], capture_output=True, timeout=LIMIT_S, check=True)
        want += sorted(lines(run.stdout.decode()) + wrote())
        clear()
    return moment(maru, program, draw, sort, [*words, STEP_MS, "log"], want, wrote)


def main():
    want = []
    with tempfile.TemporaryDirectory() as scratch:
        os.chdir(scratch)
        pathlib.Path("input").write_text("".join(f"{number:07}\n" for number in range(PIECE * int(STEPS))), encoding="ascii")
        return play(SORTS + MOVES, "reading", lambda *moments: files(*moments, want))


if __name__ == "__main__":
    sys.exit(main())
