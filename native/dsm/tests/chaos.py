#!/usr/bin/env python3
"""Jobs that compute without end, and lose a node or the launcher at a moment drawn by chance: each
ends with the documented status and line, in time, and leaves no process.

usage: chaos.py MARU JOB MOMENTS [SEED]

A moment is who is signalled (a node or the launcher), by which signal (KILL, TERM or STOP), and how
long after the launcher was started.  A stopped launcher goes on after a while, and is then told to
end.  Each sort of moment comes once before any comes again.  Prints one line for each that went
wrong, then "N passed, M failed" and the seed, from which all was drawn.
"""

import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time

from moments import play

LIMIT_S = 60
TRANSPORTS = ["shm+tcp", "shm", "tcp"]
# By whom and signal: the statuses of a job, each with what a line says. A node that ends by TERM while
# it waits for others may be seen as lost first. One that is stopped before it has joined is one that
# did not come.
LOST = r"^(\[\d+\] )?maru: .*lost node \d+"
NODE = r"^(\[\d+\] )?maru: .*(node \d+)"
NOT_ALL = r"^(\[\d+\] )?maru: node \d+: cannot join the job: not all its \d+ nodes were there"
TOLD_TO_END = {143: "", -15: ""}
OUTCOMES = {
    ("node", signal.SIGKILL): {75: NODE, 137: NODE},
    ("node", signal.SIGTERM): {75: NODE, 143: NODE},
    ("node", signal.SIGSTOP): {75: LOST, 69: NOT_ALL},
    ("launcher", signal.SIGKILL): {-9: ""},
    ("launcher", signal.SIGTERM): TOLD_TO_END,
    ("launcher", signal.SIGSTOP): TOLD_TO_END,
}


def nodes_of(program):
    """Processes that run that file."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if os.readlink(entry / "exe").split(" (deleted)")[0] == str(program):
                    found.append(int(entry.name))
            except OSError:
                pass
    return found


def strike(draw, launcher, program, whom, number):
    """Whom it met, or nobody: the job was not there yet, or not any more."""
    if whom == "launcher":
        os.kill(launcher.pid, number)
        return True
    nodes = nodes_of(program)
    try:
        os.kill(draw.choice(nodes), number) if nodes else None
    except ProcessLookupError:
        return False
    return bool(nodes)


def moment(maru, program, draw, sort):
    """Its name, and what went wrong or nothing."""
    whom, number = sort
    transport, count, delay = draw.choice(TRANSPORTS), draw.randint(2, 4), draw.uniform(0.02, 0.9)
    name = f"{transport}, {count} nodes, {whom} {number.name} after {delay:.3f} s"
    environment = dict(os.environ, MARU_DSM_MIB="16")
    if draw.random() < 0.7:  # else nodes that talk through shared memory have one memory
        environment["MARU_DSM_ACCESS"] = draw.choice(("userfaultfd", "mprotect"))
    command = [maru, "launch", "-n", str(count), "--transport", transport, "--lost-after", "2", "--", program, "churn"]
    with tempfile.TemporaryFile() as said:
        launcher = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=said, stderr=said, env=environment)
        try:
            time.sleep(delay)
            met = strike(draw, launcher, program, whom, number)
            if whom == "launcher" and number == signal.SIGSTOP:
                time.sleep(draw.uniform(0, 0.5))
                os.kill(launcher.pid, signal.SIGCONT)
            if not met or number == signal.SIGSTOP and whom == "launcher":
                os.kill(launcher.pid, signal.SIGTERM)
            status = launcher.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            launcher.kill()
            launcher.wait()
            return name, f"hangs: not ended after {LIMIT_S} s"
        finally:
            left = nodes_of(program)
            until = time.monotonic() + LIMIT_S
            while left and time.monotonic() < until:
                time.sleep(0.02)
                left = nodes_of(program)
            for pid in left:
                os.kill(pid, signal.SIGKILL)
        said.seek(0)
        text = said.read().decode(errors="replace")
    lines = OUTCOMES[whom, number] if met else TOLD_TO_END
    if left:
        return name, f"{len(left)} processes left"
    if status not in lines:
        return name, f"status {status}, said: {text[-400:]!r}"
    if not re.search(lines[status], text, re.MULTILINE):
        return name, f"no such line: {text[-400:]!r}"
    return name, None


if __name__ == "__main__":
    sys.exit(play(list(OUTCOMES), "churning", moment))
