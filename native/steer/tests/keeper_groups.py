"""Threads that maru-steer places by cgroups: with what they start, and put back with it."""
import os
import signal
import subprocess
import sys

from steering import *


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
    repaired = subprocess.call([KEEPER, "repair", "--root", root])
    check("repair empties and removes it", repaired or grouped(s.pid) or group_of(child) != HOME)
    check("all of them may run where they did", [p for p in (s.pid, child) if os.sched_getaffinity(p) != BASE])
    check("twice is as once", subprocess.call([KEEPER, "repair", "--root", root]) or grouped(s.pid) or journals(root))

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
    check("and goes once that is gone", subprocess.call([KEEPER, "repair", "--root", root]) or groups() or journals(root))
    os.sched_setaffinity(s.pid, {1})
    r, said = run(root, s.pid, f"set {s.pid} {start_of(s.pid)} 1", place="cpusets")
    check("a program that is bound to fewer CPUs is placed by affinity, which is said",
          "bound to fewer CPUs than its cgroup" not in said[1] or groups())
    r.over()
    os.kill(child, signal.SIGKILL)
    end(s)


def below_ours():
    """Our cgroup of version 1, and one made below it for a program; None: it cannot be made."""
    above = f"/sys/fs/cgroup/cpuset{HOME}".rstrip("/")
    home = f"{above}/maru-test-{os.getpid()}"
    try:
        os.mkdir(home)
    except OSError as e:
        print(f"skipped: no cgroup of version 1 for a program: {e}")
        return above, None
    return above, home


def narrowed():
    """Its cgroup is given other CPUs while it is placed."""
    above, home = below_ours()
    if home is None:
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


def widened():
    """Its cgroup has few CPUs while it is placed, and more afterwards."""
    above, home = below_ours()
    if home is None:
        return
    spawn = "import subprocess, sys; sys.stdin.readline(); p = subprocess.Popen(['sleep', '50']); print(p.pid, flush=True); p.wait()"
    s = subprocess.Popen([sys.executable, "-c", spawn], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    bound = subprocess.Popen(["sleep", "60"])
    child = None
    try:
        with open(f"{above}/cpuset.mems") as f:
            put(f"{home}/cpuset.mems", f.read())
        put(f"{home}/cpuset.cpus", "0-1")
        for p in (s, bound):
            put(f"{home}/tasks", str(p.pid))
        os.sched_setaffinity(bound.pid, {0})
        put(f"{home}/cpuset.cpus", "1")
        root = machine()
        online(root, "0-3")
        r, said = run(root, s.pid, f"set {s.pid} {start_of(s.pid)} 1")
        check("the controller hears where the program may run", said[0] != "ready 1 0" or said[1] != "ok")
        s.stdin.write(b"\n")
        s.stdin.flush()
        child = int(s.stdout.readline())
        put(f"{home}/cpuset.cpus", "0-1")
        check("a thread is placed", os.sched_getaffinity(s.pid) != {1})
        r.over()
        check("CPUs that its cgroup was given meanwhile are a thread's again, and what it started",
              [p for p in (s.pid, child) if os.sched_getaffinity(p) != {0, 1}])
        put(f"{home}/cpuset.cpus", "1")
        r, said = run(root, s.pid, f"set {s.pid} {start_of(s.pid)} 1")
        dies(r)
        repaired = subprocess.call([KEEPER, "repair", "--root", root])
        put(f"{home}/cpuset.cpus", "0-1")
        check("so are those that it is given later, whoever puts back", repaired or os.sched_getaffinity(s.pid) != {0, 1})
        r, said = run(root, bound.pid, f"set {bound.pid} {start_of(bound.pid)} 1")
        r.over()
        check("one that was bound stays bound", os.sched_getaffinity(bound.pid) != {0})
    finally:
        for p in (s, bound):
            p.kill()
            p.wait()
        if child:
            os.kill(child, signal.SIGKILL)
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
