"""Description: in `maru top`, on a terminal, two keys make the deadline of a run a quarter of what it was.

usage: turn_knob.py MARU LOAD
"""

import fcntl
import json
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time

maru, load = sys.argv[1:]
run = subprocess.Popen([maru, "run", "--lock", "cna:deadline=1ms", "--", load, "hot"], stdin=subprocess.PIPE)


def deadline():
    seen = subprocess.run([maru, "top", "--once", "--json", str(run.pid)], capture_output=True, text=True)
    if seen.returncode != 0:
        return None
    rooms = json.loads(seen.stdout)["runs"][0]["rooms"]
    return rooms["lock"]["knobs"]["deadline_ns"] if "lock" in rooms else None


def becomes(expected):
    for _ in range(100):
        if deadline() == expected:
            return
        time.sleep(0.1)
    sys.exit(f"the deadline is {deadline()} ns, not {expected}")


becomes(1000000)
top, terminal = pty.fork()
if top == 0:
    os.execve(maru, ["maru", "top", str(run.pid)], {**os.environ, "TERM": "xterm"})
# So wide that no path of LOAD is cut.
fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("4H", 40, 250, 0, 0))
shown = b""
while b" hot" not in shown:  # a key is the selected run's, once there is one
    if not select.select([terminal], [], [], 20)[0] or len(shown) > 1000000:
        sys.exit("maru top does not show the run")
    shown += os.read(terminal, 65536)
os.write(terminal, b"<<")
becomes(250000)
os.write(terminal, b"q")
try:
    while os.read(terminal, 65536):
        pass
except OSError:
    pass  # its terminal went with it
os.waitpid(top, 0)
run.stdin.close()
sys.exit(run.wait())
