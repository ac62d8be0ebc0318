"""maru-steer: what it changes it puts back, whoever is killed.  guard.py MARU-STEER"""
import glob
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time

GUARD = os.path.abspath(sys.argv[1])
HERE = os.path.dirname(os.path.abspath(__file__))
SCALE = int(os.environ.get("MARU_TEST_SCALE", "1"))
SEED = int(os.environ.get("MARU_TEST_SEED", "6"))
ROUNDS = 12 * SCALE
LIMIT = 2.0  # seconds within which everything is as it was
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
            if int(os.path.basename(g).split("-")[2]) in GUARDS]


GUARDS = set()
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


def subject(code=SUBJECT, said=None):
    p = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, start_new_session=True)
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
    """A guard with a controller; its standard input is its life."""

    def __init__(self, root, tree, mode, place="affinity", bare=False, **more):
        argv = (BARE if bare else []) + [GUARD, "guard", "--tree", str(tree), "--root", root, "--place", place, "--",
                sys.executable, f"{HERE}/controller.py", GUARD, root, mode]
        self.root = root
        self.p = subprocess.Popen(argv, stdin=subprocess.PIPE, **more)
        GUARDS.add(self.p.pid)

    def controller(self):
        until = time.time() + 5
        while time.time() < until and self.p.poll() is None:
            with open(f"/proc/{self.p.pid}/task/{self.p.pid}/children") as f:
                found = f.read().split()
            if found:
                return int(found[0])
            time.sleep(0.002)
        return None

    def over(self):
        self.p.stdin.close()
        return self.p.wait(10)


def orders(root, *lines):
    handle, path = tempfile.mkstemp(dir=root)
    with os.fdopen(handle, "w") as f:
        f.write("".join(line + "\n" for line in lines))
    return path


def answers(path):
    until = time.time() + 10
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


def start_of(tid):
    with open(f"/proc/{tid}/stat") as f:
        return f.read().rsplit(")", 1)[1].split()[19]


def dies(r):
    """Guard and controller at once: nobody puts back."""
    victim = r.controller()
    os.kill(r.p.pid, signal.SIGSTOP)
    os.kill(victim, signal.SIGKILL)
    os.kill(r.p.pid, signal.SIGKILL)
    r.p.wait()


def cases():
    root = machine()
    s = subject()
    r, said = run(root, s.pid, f"set {IRQ} 3", f"set {RPS} 3", f"set {FLOWS} 4096")
    check("orders are done", said[1:] != ["ok"] * 3 or
          [value(root, p) for p in (IRQ, RPS, FLOWS)] != ["3", "00000003", "4096"])
    check("they are in the journal", not any(IRQ in open(j).read() for j in journals(root)))
    r.over()
    check("and put back at the end", as_found(root) or journals(root))

    r, said = run(root, s.pid, "set proc/sys/kernel/hostname 1", "set ../x 1", f"set {IRQ} x", "set 1 1 0",
                  f"set {s.pid} {start_of(s.pid)} 4000", "frobnicate", "back proc/irq/9/smp_affinity_list")
    check("what is no setting of ours is refused", [a for a in said[1:7] if not a.startswith("no ")])
    r.over()

    r, said = run(root, s.pid, f"set {RPS} f", *["go", f"set {IRQ} 1", "go", f"back {IRQ}"] * 400, "go", f"set {IRQ} 1", f"back {IRQ}")
    check("many changes: all are done, the journal stays short", set(said[1:]) != {"ok"} or value(root, IRQ) != "1" or
          sum(1 for _ in open(journals(root)[0])) > 700)
    check("and what matters is in it", RPS not in open(journals(root)[0]).read())
    r.over()
    check("so that it is put back", as_found(root) or journals(root))

    # Reads like a list of CPUs; nobody may write it.
    os.makedirs(f"{root}/proc/irq/9")
    os.symlink("/proc/sys/kernel/cap_last_cap", f"{root}/proc/irq/9/smp_affinity_list")
    r, said = run(root, s.pid, "set proc/irq/9/smp_affinity_list 1", f"set {IRQ} 2")
    check("a managed interrupt is refused, the rest is done", not (said[1].startswith("no ") and said[2] == "ok"))
    r.over()
    check("and the end is clean", as_found(root) or journals(root))
    shutil.rmtree(f"{root}/proc/irq/9")

    a, said_a = run(root, s.pid, f"set {IRQ} 1")
    other = subject()
    b, said_b = run(root, other.pid, f"set {IRQ} 2", f"set {RPS} f")
    check("a second run may not have what the first has", said_b[1:] != ["no another maru run has it", "ok"])
    c, said_c = run(root, s.pid, f"set {FLOWS} 1")
    check("nor the same processes", "steers these processes already" not in said_c[0] or value(root, FLOWS) != "0")
    c.over()
    a.over()
    check("the first's end does not undo the second", value(root, IRQ) != "0-15" or value(root, RPS) != "0000000f")
    b.over()
    end(other)
    check("both undone", as_found(root) or journals(root))

    r, said = run(root, s.pid, f"set {IRQ} 1")
    with open(f"{root}/{IRQ}", "w") as f:
        f.write("7\n")
    r.over()
    check("what somebody else set meanwhile stays", value(root, IRQ) != "7")
    with open(f"{root}/{IRQ}", "w") as f:
        f.write(FILES[IRQ])

    r, said = run(root, s.pid, f"set {IRQ} 1", f"set {RPS} 1")
    dies(r)
    check("with both killed the journal remains", len(journals(root)) != 1)
    with open(journals(root)[0], "a") as f:
        f.write(f"set {FLOWS} 0 99")  # torn
    r, said = run(root, s.pid, f"set {FLOWS} 8")
    check("the next run puts back and says so", not said[0].endswith(" 1") or value(root, IRQ) != "0-15")
    r.over()
    check("a torn line is no line", as_found(root) or journals(root))
    check("putting back twice is as once", any(subprocess.call([GUARD, "repair", "--root", root]) for _ in (1, 2)) or as_found(root))

    with open(f"{root}/run/maru/steer-00000000-1-1", "w") as f:
        f.write("of another boot\n")
    subprocess.call([GUARD, "repair", "--root", root])
    check("another boot's journal is removed", journals(root))
    os.chmod(f"{root}/run/maru", 0o777)
    r, said = run(root, s.pid, f"set {IRQ} 1")
    check("a folder that others can write is no place for a journal",
          "no place for a journal" not in said[0] or not said[1].startswith("no ") or as_found(root))
    r.over()
    os.chmod(f"{root}/run/maru", 0o700)

    r, said = run(root, s.pid, f"set {IRQ} 1")
    boot = f"{root}/proc/sys/kernel/random/boot_id"
    os.rename(boot, boot + ".gone")
    subprocess.call([GUARD, "repair", "--root", root])
    check("where the boot is not known no journal is taken for another's", len(journals(root)) != 1)
    os.rename(boot + ".gone", boot)
    open(f"{root}/run/maru/.draft", "w").close()  # of one that was killed while it wrote
    r.over()
    check("as found", as_found(root) or journals(root))

    path = orders(root, *[f"set {IRQ} {1 + n % 2}\ngo" for n in range(60)])
    r = Run(root, s.pid, "file:" + path,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000)), stderr=subprocess.PIPE)
    said = answers(path)
    told = r.p.communicate(timeout=20)[1].decode()
    check("a journal that may not grow refuses", said[1] != "ok" or not any(a.startswith("no ") for a in said))
    check("and everything is put back, which is what is said", as_found(root) or journals(root) or told)

    r, said = run(root, s.pid, f"set {IRQ} 1", f"set {RPS} 3")
    dies(r)
    os.rename(f"{root}/{IRQ}", f"{root}/{IRQ}.kept")
    os.mkdir(f"{root}/{IRQ}")  # cannot be read for now
    repaired = subprocess.run([GUARD, "repair", "--root", root], stderr=subprocess.PIPE)
    check("repair says what it could not put back", repaired.returncode != 69 or b"1 setting" not in repaired.stderr)
    os.rmdir(f"{root}/{IRQ}")
    os.rename(f"{root}/{IRQ}.kept", f"{root}/{IRQ}")
    check("and the next one does it", subprocess.call([GUARD, "repair", "--root", root]) or as_found(root) or journals(root))

    r, said = run(root, s.pid, f"set {IRQ} 1")
    end(s)
    check("it ends with the program", settles(lambda: as_found(root) or journals(root) or r.p.poll() is None, 10))
    r.over()

    if not TWO:
        print("skipped: threads need CPUs 0 and 1")
        return
    s = subject()
    for place, bare in [("affinity", False), ("cpusets", False)] + [("cpusets", True)] * CAN_BARE:
        r, said = run(root, s.pid, *[f"set {t} {start_of(t)} 1" for t in os.listdir(f"/proc/{s.pid}/task")], place=place, bare=bare)
        time.sleep(0.1)
        check(f"threads are placed by {place}{', where there are none' * bare}", not any(m == {1} for _, m in placed(s.pid) or [(0, 0)]))
        if bare:
            check("and it is said why", "no hierarchy of cgroups is mounted here" not in said[1])
        r.over()
        check("and put back, with those that they started", settles(lambda: placed(s.pid) or grouped(s.pid)))
    r, said = run(root, s.pid, f"set {s.pid} {start_of(s.pid)} 1")
    os.sched_setaffinity(s.pid, {0})
    r.over()
    check("a thread that placed itself meanwhile stays", os.sched_getaffinity(s.pid) != {0})
    end(s)

    # Nothing but its environment says any more whose it is.
    s = subject("""
import os, subprocess, time
p = subprocess.Popen(["sh", "-c", "read x; sleep 50 & echo $!"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                     env={"MARU_BOARD": f"/proc/{os.getpid()}/fd/9", "PATH": os.environ["PATH"]})
print(p.pid, flush=True)
time.sleep(1)
p.stdin.write(b"go\\n"); p.stdin.flush()
print(p.stdout.readline().decode(), flush=True)
p.wait()
time.sleep(50)
""", first := [])
    r, said = run(root, s.pid, f"set {first[0]} {start_of(first[0])} 1")
    orphan = int(s.stdout.readline())
    settles(lambda: os.path.exists(f"/proc/{first[0]}/task") and open(f"/proc/{first[0]}/stat").read().split()[2] != "Z")
    was = os.sched_getaffinity(orphan)
    r.over()
    check("an orphan that inherited our setting is put back", was != {1} or os.sched_getaffinity(orphan) != BASE)
    os.kill(orphan, signal.SIGKILL)
    end(s)


def cpus_of(group):
    """What a group's threads may use."""
    name = next(n for n in ("cpuset.cpus.effective", "cpuset.effective_cpus") if os.path.exists(f"{group}/{n}"))
    with open(f"{group}/{name}") as f:
        ranges = [r.split("-") for r in f.read().strip().split(",")]
    return {cpu for r in ranges for cpu in range(int(r[0]), int(r[-1]) + 1)}


# It starts a process that has nothing of it: no parent, no session, no environment.
LOSES_ONE = """
import os, sys, time
sys.stdin.readline()
name = f"50.{os.getpid()}"
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.execve("/bin/sleep", ["sleep", name], {})
    os._exit(0)
os.wait()
print("lost one", flush=True)
time.sleep(50)
"""


def lost_child(of):
    for pid in os.listdir("/proc"):
        try:
            with open(f"/proc/{pid}/cmdline") as f:
                if f.read() == "sleep\0" + f"50.{of}\0":
                    return int(pid)
        except OSError:
            pass
    return None


def with_groups():
    root = machine()
    s = subprocess.Popen([sys.executable, "-c", LOSES_ONE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
    r, said = run(root, s.pid, f"set {s.pid} {start_of(s.pid)} 1", place="cpusets")
    if said[1] != "ok":
        print(f"skipped: no cgroups: {said[1]}")
        r.over()
        end(s)
        return
    check("a thread is placed by a cgroup", not (len(groups()) == 1 and "maru-steer" in group_of(s.pid) and os.sched_getaffinity(s.pid) == {1}))
    check("which is in the journal", groups()[0] not in open(journals(root)[0]).read())
    s.stdin.write(b"\n")
    s.stdin.flush()
    s.stdout.readline()
    settles(lambda: lost_child(s.pid) is None, 10)
    child = lost_child(s.pid)
    check("a process that nobody saw being started is in it", not (child and os.sched_getaffinity(child) == {1}))
    second, said = run(root, child, f"set {child} {start_of(child)} 0", place="cpusets")
    check("a second run does not take it over", group_of(child) != group_of(s.pid) or said[1] == "ok")
    second.over()
    check("and puts back what it found", os.sched_getaffinity(child) != {1} or "maru-steer" not in group_of(child))
    dies(r)
    check("with both killed the group remains", len(groups()) != 1)
    repaired = subprocess.call([GUARD, "repair", "--root", root])
    check("repair empties and removes it", repaired or grouped(s.pid) or group_of(child) != HOME)
    check("all of them may run where they did", [p for p in (s.pid, child) if os.sched_getaffinity(p) != BASE])
    check("twice is as once", subprocess.call([GUARD, "repair", "--root", root]) or grouped(s.pid) or journals(root))

    both = ",".join(map(str, sorted(BASE)))
    r, said = run(root, s.pid, f"set {s.pid} {start_of(s.pid)} {both}", place="cpusets")
    os.sched_setaffinity(s.pid, {0})
    r.over()
    check("one that bound itself in a group stays bound", grouped(s.pid) or os.sched_getaffinity(s.pid) != {0})
    os.sched_setaffinity(s.pid, BASE)
    r, said = run(root, s.pid, f"set {s.pid} {start_of(s.pid)} 1", "go", f"back {s.pid} {start_of(s.pid)}", place="cpusets")
    check("where nothing is placed any more no group is left", groups() or group_of(s.pid) != HOME)
    r.over()
    r, said = run(root, s.pid, f"set {s.pid} {start_of(s.pid)} 1", place="cpusets")
    ours = groups()[0]
    os.mkdir(f"{ours}/inner")
    r.over()
    check("one in which the program made a group remains, in the journal, and binds nobody",
          not (groups() == [ours] and len(journals(root)) == 1 and group_of(s.pid) == HOME and cpus_of(ours) == BASE))
    os.rmdir(f"{ours}/inner")
    check("and goes once that is gone", subprocess.call([GUARD, "repair", "--root", root]) or groups() or journals(root))
    os.sched_setaffinity(s.pid, {1})
    r, said = run(root, s.pid, f"set {s.pid} {start_of(s.pid)} 1", place="cpusets")
    check("a program that is bound to fewer CPUs is placed by affinity, which is said",
          "bound to fewer CPUs than its cgroup" not in said[1] or groups())
    r.over()
    os.kill(child, signal.SIGKILL)
    end(s)


def narrowed():
    """Its cgroup is given other CPUs while it is placed."""
    above = f"/sys/fs/cgroup/cpuset{HOME}".rstrip("/")
    home = f"{above}/maru-test-{os.getpid()}"
    try:
        os.mkdir(home)
    except OSError as e:
        print(f"skipped: no cgroup of version 1 for a program: {e}")
        return
    s = subprocess.Popen(["sleep", "60"])
    try:
        for name in ("cpuset.cpus", "cpuset.mems"):
            with open(f"{above}/{name}") as f:
                put(f"{home}/{name}", f.read())
        put(f"{home}/tasks", str(s.pid))
        root = machine()
        r, said = run(root, s.pid, f"set {s.pid} {start_of(s.pid)} 1", place="cpusets")
        if said[1] != "ok":
            print(f"skipped: no cgroups below a program's own: {said[1]}")
            r.over()
            return
        check("a thread is placed below the program's own cgroup", not group_of(s.pid).startswith(f"{HOME.rstrip('/')}/maru-test-"))
        put(f"{home}/cpuset.cpus", "1")
        r.over()
        check("where that has fewer CPUs by now it is put back as far as they go", groups() or journals(root) or os.sched_getaffinity(s.pid) != {1})
    finally:
        s.kill()
        s.wait()
        settles(lambda: gone(home), 10)


def put(path, text):
    with open(path, "w") as f:
        f.write(text)


def gone(group):
    try:
        os.rmdir(group)
    except FileNotFoundError:
        return []
    except OSError as e:
        return [e]
    return []


def kills():
    dice = random.Random(SEED)
    for n in range(ROUNDS):
        root, s = machine(), subject()
        seed = dice.randrange(1 << 30)
        place = dice.choice(["affinity", "cpusets"])
        r = Run(root, s.pid, f"random:{seed}:{s.pid}", place, stderr=subprocess.DEVNULL)
        controller = r.controller()
        victims = dice.choice([["guard"], ["controller"], ["holder"], ["program"], ["controller", "guard"], ["guard", "controller"]])
        time.sleep(0.1 + dice.random() * 0.2)
        for v in victims:
            if v == "holder":
                r.p.stdin.close()  # as the kernel does for one that was killed
            else:
                target = {"guard": r.p.pid, "controller": controller, "program": s.pid}[v]
                os.kill(target, signal.SIGKILL)
        if len(victims) == 2:  # nobody is left: the next one does it
            time.sleep(0.05)
            subprocess.call([GUARD, "repair", "--root", root])
        if victims == ["program"]:
            time.sleep(0.05)
            r.p.stdin.close()
            s.wait()
        left = settles(lambda: as_found(root) or journals(root) or groups() or (placed(s.pid) or grouped(s.pid) if s.poll() is None else []))
        check(f"kill {n} (seed {seed}, by {place}): {' and '.join(victims)}", left)
        if not r.p.stdin.closed:
            r.p.stdin.close()
        try:
            r.p.wait(5)
        except subprocess.TimeoutExpired:
            check(f"kill {n}: the guard ends", "it does not")
            r.p.kill()
        end(s)


try:
    cases()
    if TWO:
        with_groups()
        narrowed()
    kills()
finally:
    shutil.rmtree(WORK, ignore_errors=True)
print(f"{len(failures)} failures")
sys.exit(bool(failures))
