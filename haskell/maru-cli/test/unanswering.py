"""Holds a file named as a board is, of a file system in user space whose server never answers. Needs
root.
unanswering.py FOLDER: below which it mounts, seen by itself alone. Says "held", or why there is none, and sleeps."""

import ctypes
import os
import sys
import tempfile
import time

CLONE_NEWNS = 0x20000
MS_REC, MS_PRIVATE = 0x4000, 1 << 18
O_PATH = 0o10000000
libc = ctypes.CDLL(None, use_errno=True)


def do(what, result):
    if result != 0:
        raise OSError(ctypes.get_errno(), what)


def mount(source, target, kind, flags, data):
    do("mount " + kind, libc.mount(source.encode(), target.encode(), kind.encode(), flags, data.encode()))


def hold(folder):
    """The file is the root of its file system, and that is mounted in a tree that nobody else sees:
    its link reads as a board's does."""
    do("unshare", libc.unshare(CLONE_NEWNS))
    mount("none", "/", "none", MS_REC | MS_PRIVATE, "")
    server = os.open("/dev/fuse", os.O_RDWR)
    root = tempfile.mkdtemp(dir=folder)
    mount("none", root, "tmpfs", 0, "")
    file = root + "/memfd:maru-board"
    open(file, "w").close()
    mount("none", file, "fuse", 0, "fd=%d,rootmode=100000,user_id=0,group_id=0" % server)
    os.mkdir(root + "/old")
    do("pivot_root", libc.pivot_root(root.encode(), (root + "/old").encode()))
    os.chdir("/")
    held = os.open("/memfd:maru-board", O_PATH)
    link = os.readlink("/old/proc/self/fd/%d" % held)
    assert link == "/memfd:maru-board", link
    return server, held


try:
    kept = hold(sys.argv[1])
    print("held", flush=True)
except (OSError, AssertionError) as error:
    print("not held: %s" % error, flush=True)
time.sleep(120)
