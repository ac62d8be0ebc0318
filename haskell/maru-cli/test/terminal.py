"""maru top on a terminal: draws, obeys q, leaves the terminal as it was.
python3 terminal.py PID-OF-A-RUN"""

import os
import pty
import select
import sys
import termios
import time


def main():
    master, slave = pty.openpty()
    before = termios.tcgetattr(slave)
    child = os.fork()
    if child == 0:
        os.setsid()
        for fd in (0, 1, 2):
            os.dup2(slave, fd)
        os.execvp("maru", ["maru", "top", "--interval", "0.2", sys.argv[1]])
    seen = b""
    end = time.monotonic() + 30
    while b"sleep 30" not in seen or b"[q] quit" not in seen:
        ready, _, _ = select.select([master], [], [], max(0, end - time.monotonic()))
        assert ready, "nothing drawn: %r" % seen
        seen += os.read(master, 4096)
    os.write(master, b"zq")
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            break
        assert time.monotonic() < end, "q does not quit"
        if select.select([master], [], [], 0.05)[0]:
            seen += os.read(master, 4096)
    while select.select([master], [], [], 0)[0]:
        seen += os.read(master, 4096)
    assert status == 0, status
    assert seen.endswith(b"\x1b[?1049l"), seen[-80:]
    assert termios.tcgetattr(slave) == before, "the terminal is not restored"


main()
