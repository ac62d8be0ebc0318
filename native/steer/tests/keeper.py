"""maru-steer: what it changes it puts back, whoever is killed.  keeper.py MARU-STEER"""
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time

from keeper_groups import narrowed, widened, with_groups
from steering import *

ROUNDS = 12 * SCALE


def settings(root, s):
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


def rivals(root, s):
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


def both_killed(root, s):
    r, said = run(root, s.pid, f"set {IRQ} 1", f"set {RPS} 1")
    dies(r)
    check("with both killed the journal remains", len(journals(root)) != 1)
    with open(journals(root)[0], "a") as f:
        f.write(f"set {FLOWS} 0 99")  # torn
    r, said = run(root, s.pid, f"set {FLOWS} 8")
    check("the next run puts back and says so", not said[0].endswith(" 1") or value(root, IRQ) != "0-15")
    r.over()
    check("a torn line is no line", as_found(root) or journals(root))
    check("putting back twice is as once", any(subprocess.call([KEEPER, "repair", "--root", root]) for _ in (1, 2)) or as_found(root))


def folders(root, s):
    with open(f"{root}/run/maru/steer-00000000-1-1", "w") as f:
        f.write("of another boot\n")
    subprocess.call([KEEPER, "repair", "--root", root])
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
    subprocess.call([KEEPER, "repair", "--root", root])
    check("where the boot is not known no journal is taken for another's", len(journals(root)) != 1)
    os.rename(boot + ".gone", boot)
    open(f"{root}/run/maru/.draft", "w").close()  # of one that was killed while it wrote
    r.over()
    check("as found", as_found(root) or journals(root))


def what_fails(root, s):
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
    repaired = subprocess.run([KEEPER, "repair", "--root", root], stderr=subprocess.PIPE)
    check("repair says what it could not put back", repaired.returncode != 69 or b"1 setting" not in repaired.stderr)
    os.rmdir(f"{root}/{IRQ}")
    os.rename(f"{root}/{IRQ}.kept", f"{root}/{IRQ}")
    check("and the next one does it", subprocess.call([KEEPER, "repair", "--root", root]) or as_found(root) or journals(root))


def end_of_the_program(root, s):
    r, said = run(root, s.pid, f"set {IRQ} 1")
    end(s)
    check("it ends with the program", settles(lambda: as_found(root) or journals(root) or r.p.poll() is None, 10))
    r.over()


def threads(root):
    s = subject()
    for place, bare in [("affinity", False), ("cpusets", False)] + [("cpusets", True)] * CAN_BARE:
        r, said = run(root, s.pid, *[f"set {t} {stat[19]} 1" for t in os.listdir(f"/proc/{s.pid}/task") if (stat := stat_of(t))], place=place, bare=bare)
        # An entry may say that a thread came or went: then once more.
        check(f"threads are placed by {place}{', where there are none' * bare}", settles(lambda: not any(entry[1] == {1} for entry in placed(s.pid))))
        if bare:
            check("and it is said why", "no hierarchy of cgroups is mounted here" not in said[1])
        r.over()
        check("and put back, with those that they started", settles(lambda: placed(s.pid) or grouped(s.pid)))
    r, said = run(root, s.pid, f"set {s.pid} {start_of(s.pid)} 1")
    os.sched_setaffinity(s.pid, {0})
    r.over()
    check("a thread that placed itself meanwhile stays", os.sched_getaffinity(s.pid) != {0})
    end(s)


def offline(root):
    """A folder cannot take a CPU away from a thread.  The test does that, and the folder says why."""
    s = subject("import subprocess; p = subprocess.Popen(['sleep', '50']); print(p.pid, flush=True); p.wait()", first := [])
    child = int(first[0])
    os.sched_setaffinity(child, {1})
    r, said = run(root, s.pid, f"set {child} {start_of(child)} 0-1")
    os.sched_setaffinity(child, {0})
    online(root, "0,2-3")
    r.over()
    check("a thread is put back though a CPU of its is offline", os.sched_getaffinity(child) != {1} or journals(root))
    end(s)


def orphan(root):
    """Nothing but its environment says any more whose it is."""
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
    settles(lambda: stat_of(first[0])[:1] not in ([], ["Z"]))
    was = os.sched_getaffinity(orphan)
    r.over()
    check("an orphan that inherited our setting is put back", was != {1} or os.sched_getaffinity(orphan) != BASE)
    os.kill(orphan, signal.SIGKILL)
    end(s)


def cases():
    root = machine()
    s = subject()
    for part in (settings, rivals, both_killed, folders, what_fails, end_of_the_program):
        part(root, s)
    if TWO:
        threads(root)
        offline(machine())
        orphan(root)
    else:
        print("skipped: threads need CPUs 0 and 1")


def kills():
    dice = random.Random(SEED)
    for n in range(ROUNDS):
        root, s = machine(), subject()
        seed = dice.randrange(1 << 30)
        place = dice.choice(["affinity", "cpusets"])
        r = Run(root, s.pid, f"random:{seed}:{s.pid}", place, stderr=subprocess.DEVNULL)
        controller = r.controller()
        victims = dice.choice([["keeper"], ["controller"], ["holder"], ["program"], ["controller", "keeper"], ["keeper", "controller"]])
        time.sleep(0.1 + dice.random() * 0.2)
        for v in victims:
            if v == "holder":
                r.p.stdin.close()  # as the kernel does for one that was killed
            else:
                target = {"keeper": r.p.pid, "controller": controller, "program": s.pid}[v]
                os.kill(target, signal.SIGKILL)
        if len(victims) == 2:  # nobody is left: the next one does it, once they have let go of the journal
            r.p.wait(LIMIT)
            settles(lambda: stat_of(controller)[:1] not in ([], ["Z"]))
            subprocess.call([KEEPER, "repair", "--root", root])
        if victims == ["program"]:
            time.sleep(0.05)
            r.p.stdin.close()
            s.wait()
        left = settles(lambda: as_found(root) or journals(root) or groups() or (placed(s.pid) or grouped(s.pid) if s.poll() is None else []))
        check(f"kill {n} (seed {seed}, by {place}): {' and '.join(victims)}", left)
        if not r.p.stdin.closed:
            r.p.stdin.close()
        try:
            r.p.wait(LIMIT)
        except subprocess.TimeoutExpired:
            check(f"kill {n}: the keeper ends", "it does not")
            r.p.kill()
        end(s)


try:
    cases()
    if TWO:
        with_groups()
        narrowed()
        widened()
    kills()
finally:
    end(*(p for p in SUBJECTS if p.poll() is None))  # who waits for our output waits for theirs
    shutil.rmtree(WORK, ignore_errors=True)
print(f"{len(failures)} failures")
sys.exit(bool(failures))
