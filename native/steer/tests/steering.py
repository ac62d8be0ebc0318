"""What the tests of maru-steer share: a folder that stands for a machine, programs to steer, keepers with a
controller that does what it is told.  The first argument of whoever imports it is MARU-STEER."""
import glob
import os
import signal
import subprocess
import sys
import tempfile
import time

KEEPER = os.path.abspath(sys.argv[1])
HERE = os.path.dirname(os.path.abspath(__file__))
SCALE = int(os.environ.get("MARU_TEST_SCALE", "1"))
SEED = int(os.environ.get("MARU_TEST_SEED", "6"))
LIMIT = 20.0  # seconds within which what is waited for happens, on a machine that has much else to do
WORK = tempfile.mkdtemp()
failures = []
BASE = os.sched_getaffinity(0)
TWO = {0, 1} <= BASE

IRQ = "proc/irq/40/smp_affinity_list"
RPS = "sys/class/net/eth0/queues/rx-0/rps_cpus"
FLOWS = "proc/sys/net/core/rps_sock_flow_entries"
FILES = {
    "proc/sys/kernel/random/boot_id": "11111111-2222-3333-4444-555555555555\n",
    IRQ: "0-15\n",
    "proc/irq/41/smp_affinity_list": "3,5\n",
    RPS: "00000000,00000000\n",
    "sys/class/net/eth0/queues/rx-1/rps_cpus": "00ff\n",
    "sys/class/net/eth0/queues/rx-0/rps_flow_cnt": "0\n",
    FLOWS: "0\n",
}


def machine():
    root = tempfile.mkdtemp(dir=WORK)
    for path, text in FILES.items():
        os.makedirs(os.path.dirname(f"{root}/{path}"), exist_ok=True)
        with open(f"{root}/{path}", "w") as f:
            f.write(text)
    return root


def online(root, cpus):
    """The machine's CPUs, as that folder has it."""
    os.makedirs(f"{root}/sys/devices/system/cpu", exist_ok=True)
    with open(f"{root}/sys/devices/system/cpu/online", "w") as f:
        f.write(f"{cpus}\n")


def value(root, path):
    with open(f"{root}/{path}") as f:
        return f.read().strip()


def as_found(root):
    """Files mean what they meant."""
    def mask(t):
        return int(t.replace(",", ""), 16)

    def cpus(t):
        parts = [p.split("-") for p in t.split(",") if p]
        return {c for p in parts for c in range(int(p[0]), int(p[-1]) + 1)}

    wrong = []
    for path, text in FILES.items():
        form = mask if path.endswith("rps_cpus") else cpus if "affinity" in path else str.strip
        if form(value(root, path)) != form(text.strip()):
            wrong.append((path, value(root, path)))
    return wrong


def journals(root):
    return glob.glob(f"{root}/run/maru/steer-*")


def all_threads(pid):
    found = []
    for tid in os.listdir(f"/proc/{pid}/task"):
        found.append(int(tid))
        with open(f"/proc/{pid}/task/{tid}/children") as f:
            for child in f.read().split():
                found += all_threads(child)
    return found


def placed(pid):
    wrong = []
    try:
        for tid in all_threads(pid):
            mask = os.sched_getaffinity(tid)
            if mask != BASE:
                wrong.append((tid, mask))
    except OSError:
        return ["a thread came or went"]
    return wrong


def group_of(tid):
    """Where the thread is in the hierarchy that has cpusets."""
    with open(f"/proc/{tid}/cgroup") as f:
        lines = [line.strip().split(":", 2) for line in f]
    return next((path for _, controllers, path in lines if "cpuset" in controllers.split(",")), None) \
        or next((path for number, _, path in lines if number == "0"), None)


def groups():
    """Those that a maru-steer of this test has made."""
    return [g for g in glob.glob("/sys/fs/cgroup/**/maru-steer-*", recursive=True)
            if int(os.path.basename(g).split("-")[2]) in KEEPERS]


KEEPERS = set()
HOME = group_of(os.getpid())


def grouped(pid):
    """Threads that are not where they were, or groups that are left."""
    try:
        return [t for t in all_threads(pid) if group_of(t) != HOME] + groups()
    except OSError:
        return ["a thread came or went"]


# Its namespace has no cgroups: then threads are placed by their affinity.
BARE = ["unshare", "-m", "sh", "-c", 'mount -t tmpfs none /sys/fs/cgroup && exec "$@"', "sh"]
CAN_BARE = os.geteuid() == 0 and subprocess.call(BARE + ["true"], stderr=subprocess.DEVNULL) == 0


# Three threads; one starts and ends short processes and threads all the time.
SUBJECT = """
import subprocess, threading, time
def rest(): time.sleep(100)
def restless():
    while True:
        subprocess.run(["sleep", "0.02"])
        t = threading.Thread(target=time.sleep, args=(0.01,)); t.start(); t.join()
for what in (rest, restless): threading.Thread(target=what, daemon=True).start()
print("up", flush=True)
time.sleep(100)
"""


SUBJECTS = []


def subject(code=SUBJECT, said=None):
    p = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, start_new_session=True)
    SUBJECTS.append(p)
    line = p.stdout.readline().decode().strip()
    if said is not None:
        said.append(line)
    return p


def end(*processes):
    for p in processes:
        try:
            os.killpg(p.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            p.kill()
        p.wait()


class Run:
    """A keeper with a controller; its standard input is its life."""

    def __init__(self, root, tree, mode, place="affinity", bare=False, **more):
        argv = (BARE if bare else []) + [KEEPER, "keeper", "--tree", str(tree), "--root", root, "--place", place, "--",
                sys.executable, f"{HERE}/controller.py", KEEPER, root, mode]
        self.root = root
        self.p = subprocess.Popen(argv, stdin=subprocess.PIPE, **more)
        KEEPERS.add(self.p.pid)

    def controller(self):
        until = time.time() + LIMIT
        while time.time() < until and self.p.poll() is None:
            with open(f"/proc/{self.p.pid}/task/{self.p.pid}/children") as f:
                found = f.read().split()
            if found:
                return int(found[0])
            time.sleep(0.002)
        return None

    def over(self):
        self.p.stdin.close()
        return self.p.wait(LIMIT)


def orders(root, *lines):
    handle, path = tempfile.mkstemp(dir=root)
    with os.fdopen(handle, "w") as f:
        f.write("".join(line + "\n" for line in lines))
    return path


def answers(path):
    until = time.time() + LIMIT
    while time.time() < until:
        if os.path.exists(path + ".out"):
            with open(path + ".out") as f:
                return f.read().split("\n")[:-1]
        time.sleep(0.005)
    return ["no answer"]


def run(root, tree, *lines, **how):
    path = orders(root, *lines)
    r = Run(root, tree, "file:" + path, **how)
    return r, answers(path)


def settles(condition, limit=LIMIT):
    """What is left of what must go away (nothing, if all is well)."""
    until = time.time() + limit
    while True:
        left = condition()
        if not left or time.time() > until:
            return left
        time.sleep(0.01)


def check(name, left):
    print(("ok      " if not left else "FAILED  ") + name + (f": {left}" if left else ""), flush=True)
    if left:
        failures.append(name)


def stat_of(tid):
    """What /proc says behind its name, its state first; nothing when it has gone, perhaps while we look."""
    try:
        with open(f"/proc/{tid}/stat") as f:
            return f.read().rsplit(")", 1)[1].split()
    except (FileNotFoundError, ProcessLookupError):
        return []


def start_of(tid):
    return stat_of(tid)[19]


def dies(r):
    """Keeper and controller at once: nobody puts back."""
    victim = r.controller()
    os.kill(r.p.pid, signal.SIGSTOP)
    os.kill(victim, signal.SIGKILL)
    os.kill(r.p.pid, signal.SIGKILL)
    r.p.wait()
