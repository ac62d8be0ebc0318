"""maru-watch counts what this process moves, to the byte where the kernel hands it on whole.  watch.py MARU-WATCH"""
import mmap
import os
import re
import socket
import subprocess
import sys
import tempfile
import threading

SIZE, BLOCKS = 65536, 64
watch = subprocess.Popen([sys.argv[1]], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
keeper = threading.Timer(60, watch.kill)
keeper.start()


def end(status):
    keeper.cancel()
    sys.exit(status)


ready = watch.stdout.readline().split()
if not ready:
    why = watch.communicate()[1].strip()
    # A kernel that is new enough and lets us takes the programs.
    release = tuple(int(n) for n in re.match(r"(\d+)\.(\d+)", os.uname().release).groups())
    barred = "Operation not permitted" in why or "Function not implemented" in why or "needs BTF" in why or release < (5, 16)
    allowed = why.startswith("maru-watch: ") and watch.returncode == 69 and barred
    print(f"skipped: {why}" if allowed else f"FAILED  no reason: {why}, {watch.returncode}")
    end(77 if allowed else 1)


def counts():
    watch.stdin.write("\n")
    watch.stdin.flush()
    found = {}
    for line in iter(watch.stdout.readline, ".\n"):
        if not line:
            print("FAILED  it ended midway")
            end(1)
        thread, kind, device, size, _ = line.split()
        if int(thread) == os.getpid():
            found[kind, device] = max(found.get((kind, device), 0), int(size))
    return found


failed = 0


def check(name, good, told):
    global failed
    failed += not good
    print(("ok      " if good else "FAILED  ") + name + ("" if good else f": {told}"))


counts()
with tempfile.TemporaryFile(dir=".") as file:
    device = os.fstat(file.fileno()).st_dev
    name = f"{os.major(device)}:{os.minor(device)}"
    begun = counts()
    file.write(b"m" * (SIZE * BLOCKS))
    file.flush()
    os.fsync(file.fileno())
    try:
        direct = os.open(f"/proc/self/fd/{file.fileno()}", os.O_RDONLY | os.O_DIRECT)
    except OSError:
        direct = None
    if os.major(device) == 0 or direct is None:
        print("skipped: the working folder is on no disk")
    else:
        page = mmap.mmap(-1, SIZE)
        for _ in range(2):  # the first time the file system may read tables of its own, too
            before = counts()
            for i in range(BLOCKS):
                os.preadv(direct, [page], i * SIZE)
            after = counts()
        os.close(direct)
        read = after.get(("read", name), 0) - before.get(("read", name), 0)
        check("direct reads, to the byte", read == SIZE * BLOCKS, (read, after))
        wrote = sum(after.get((k, name), 0) - begun.get((k, name), 0) for k in ("dirtied", "written"))
        check("writes", wrote >= SIZE * BLOCKS // 2, (wrote, after))

listener = socket.create_server(("127.0.0.1", 0))
ours = socket.create_connection(listener.getsockname())
theirs = listener.accept()[0]
lo = str(socket.if_nametoindex("lo"))
before = counts()
for _ in range(BLOCKS):
    ours.sendall(b"m" * 8192)
    got = 0
    while got < 8192:
        got += len(theirs.recv(8192 - got))
after = counts()
sent = after.get(("sent", lo), 0) - before.get(("sent", lo), 0)
check("packets sent over an interface", sent >= BLOCKS * 8192, (sent, after))
if "sock_recv_length" in ready:
    received = after.get(("received", lo), 0) - before.get(("received", lo), 0)
    check("bytes received, to the byte", received == BLOCKS * 8192, (received, after))

watch.stdin.close()
check("it ends with its input", watch.wait(timeout=20) == 0, watch.returncode)
end(1 if failed else 0)
