#!/usr/bin/env python3
"""Who is no node of a job and connects to its ports.

usage: strangers.py KIND ADDRESSES...     until it is killed; says "there" when it begins
       strangers.py impostor COMMAND...   sits at node 0's address of a job of two, whose node 1 is
                                          the command; status 1 if that shows it the job's secret

KIND: silent (holds 100 connections each), flood (connects as fast as it can), drip (a byte now and
then), garbage (random bytes), begin (begins as a node does, and says no more).
"""

import os
import random
import socket
import subprocess
import sys
import time

HELD = 800
OPENING = b"DSM4"


def connect(address):
    s = socket.socket()
    s.setblocking(False)
    try:
        s.connect(address)
    except BlockingIOError:
        pass
    except OSError:
        s.close()
        return None
    return s


def send(s, data):
    try:
        return s.send(data) > 0
    except BlockingIOError:
        return True
    except OSError:
        return False


def visit(kind, addresses):
    held = [s for a in addresses for _ in range(100) for s in [connect(a)] if s]
    print("there", flush=True)
    turn = 0
    while True:
        turn += 1
        address = addresses[turn % len(addresses)]
        if kind == "drip":
            held = [s if send(s, OPENING[turn % 4 : turn % 4 + 1]) else connect(address) for s in held if s]
            time.sleep(0.05)
        elif kind != "silent":
            s = connect(address)
            if s and kind != "flood":
                time.sleep(0.001)
                send(s, os.urandom(500) if kind == "garbage" else OPENING + os.urandom(32))
            held += [s] if s else []
            while len(held) > HELD:
                held.pop(0).close()
        else:
            time.sleep(0.05)


def impostor(command):
    """The secret goes the way that the library asks for; here by either."""
    secret = bytes(random.randrange(1, 256) for _ in range(32))
    listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
    reads, writes = listeners[1].fileno(), os.memfd_create("secret", 0)
    os.write(writes, secret)
    environment = dict(
        os.environ,
        MARU_DSM_NODES="2",
        MARU_DSM_NODE="1",
        MARU_DSM_LISTENER=str(reads),
        MARU_DSM_ADDRESSES=",".join("127.0.0.1:%d" % s.getsockname()[1] for s in listeners),
        MARU_DSM_SECRET=secret.hex(),
        MARU_DSM_SECRET_FD=str(writes),
    )
    node = subprocess.Popen(command, env=environment, pass_fds=[reads, writes], stdout=subprocess.DEVNULL)
    shown = b""
    for answer in [b"", OPENING + os.urandom(32), os.urandom(600)]:
        connection, _ = listeners[0].accept()
        connection.settimeout(1)
        try:
            if answer:
                connection.sendall(answer)
            while True:
                more = connection.recv(4096)
                if not more:
                    break
                shown += more
        except OSError:
            pass
        connection.close()
    node.kill()
    node.wait()
    found = any(secret[i : i + 4] in shown for i in range(28))
    print("%u bytes came, the secret in them: %s" % (len(shown), "yes" if found else "no"))
    return 1 if found or len(shown) == 0 else 0


def main():
    if sys.argv[1] == "impostor":
        sys.exit(impostor(sys.argv[2:]))
    visit(sys.argv[1], [(a.rpartition(":")[0], int(a.rpartition(":")[2])) for a in sys.argv[2:]])


main()
