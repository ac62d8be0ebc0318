"""maru run --io and maru attach, whole: real threads of this machine, and a folder that stands for
a machine of four CPUs on two nodes.  steer.py MARU

The folder's counters are moved by this test, so that the controller sees load.  Whoever is killed, all
is as it was within two seconds."""
import glob
import json
import os
import random
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

MARU = os.path.abspath(sys.argv[1])
WORK = tempfile.mkdtemp()
ROOT = WORK + "/machine"
IRQ = ROOT + "/proc/irq/40/smp_affinity_list"
BASE = os.sched_getaffinity(0)
LIMIT = 2.0
failures = []
ENV = dict(os.environ, MARU_TOPOLOGY=ROOT)
ENV.pop("MARU_BOARD", None)


def put(path, text):
    os.makedirs(os.path.dirname(f"{ROOT}/{path}"), exist_ok=True)
    with open(f"{ROOT}/{path}.new", "w") as f:
        f.write(text + "\n")
    os.rename(f"{ROOT}/{path}.new", f"{ROOT}/{path}")


def make():
    put("sys/devices/system/cpu/online", "0-3")
    for node, cpus in ((0, "0-1"), (1, "2-3")):
        put(f"sys/devices/system/node/node{node}/cpulist", cpus)
        put(f"sys/devices/system/node/node{node}/distance", "10 21" if node == 0 else "21 10")
    device = "sys/devices/pci0000:00/0000:00:04.0"
    put(device + "/numa_node", "0")
    put(device + "/msi_irqs/40", "msix")
    put(device + "/nvme/nvme0/nvme0n1/size", "1")
    os.makedirs(ROOT + "/sys/block")
    os.symlink("../devices/pci0000:00/0000:00:04.0/nvme/nvme0/nvme0n1", ROOT + "/sys/block/nvme0n1")
    put("proc/irq/40/smp_affinity_list", "0-3")
    put("proc/uptime", "1000.0 1.0")
    put("proc/sys/kernel/random/boot_id", "11111111-2222-3333-4444-555555555555")


def load():
    """Busy CPUs, a fifth of each serving the disk's interrupts; busier once anything is placed."""
    before, t, busy = time.monotonic(), 0.0, [0.0] * 4
    while True:
        now = time.monotonic()
        grown, before = 100 * (now - before), now
        t += grown
        factor = 0.6 if text(IRQ) == "0-3" else 1.0
        for i, share in enumerate((0.35, 0.45, 0.0, 0.2)):
            busy[i] += factor * share * grown
        busy[2] = t - busy[0] - busy[1] - busy[3]
        user, system, idle, soft = map(int, busy)
        put("proc/stat", "\n".join(f"cpu{c} {user} 0 {system} {idle} 0 0 {soft} 0 0 0" for c in range(4)))
        put("proc/softirqs", "  CPU0 CPU1 CPU2 CPU3\nBLOCK: " + " ".join([str(int(1000 + t))] * 4))
        put("proc/interrupts", "  CPU0 CPU1 CPU2 CPU3\n 40: " + " ".join([str(int(t))] * 4) + " PCI-MSI nvme0q1")
        time.sleep(0.1)


def text(path):
    with open(path) as f:
        return f.read().strip()


def within(seconds, condition):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if condition():
            return True
        time.sleep(0.02)
    return condition()


def check(name, good, told=""):
    print(("ok      " if good else "FAILED  ") + name + ("" if good else f": {told}"), flush=True)
    if not good:
        failures.append(name)


def below(pid):
    try:
        children = [int(c) for c in text(f"/proc/{pid}/task/{pid}/children").split()]
    except OSError:
        return []
    return children + [c for child in children for c in below(child)]


def named(pid, name):
    for p in below(pid):
        try:
            if text(f"/proc/{p}/comm") == name and text(f"/proc/{p}/stat").split(") ")[1][0] != "Z":
                return p
        except OSError:
            pass
    return None


def placed(pid):
    """Somewhere: on a busy machine the program may not look like one that does input and output."""
    return pid is not None and os.sched_getaffinity(pid) != BASE and text(IRQ) != "0-3"


def groups():
    """Cgroups of keepers that this test has seen."""
    return [g for g in glob.glob("/sys/fs/cgroup/**/maru-steer-*", recursive=True) if int(os.path.basename(g).split("-")[2]) in KEEPERS]


KEEPERS = set()


def as_found(pid):
    return not groups() and os.sched_getaffinity(pid) == BASE and text(IRQ) == "0-3" and not glob.glob(ROOT + "/run/maru/steer-*")


# Reads and writes without end, nearly all of it in the kernel.
PROGRAM = ["dd", "if=/dev/zero", "of=/dev/null", "bs=64k"]
# The same, for which placing never pays: it goes at a third of its pace while it is placed.
LOSER = [sys.executable, "-c", """
import os, time
base, zero, null = os.sched_getaffinity(0), os.open("/dev/zero", 0), os.open("/dev/null", 1)
while True:
    until = time.monotonic() + 0.01
    while time.monotonic() < until:
        os.write(null, os.read(zero, 1 << 20))
    if os.sched_getaffinity(0) != base:
        time.sleep(0.02)
"""]


def start(*argv):
    return subprocess.Popen([MARU, *argv], env=ENV, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def start_placed(*flags):
    """Where others keep the CPUs busy the program may look idle when the controller decides, and what
    was undone is not tried again for long: then once more. Placed by turns, as trials go."""
    for _ in range(5):
        run = start("run", "--io", "single-socket", *flags, "--", *PROGRAM)
        within(20, lambda: named(run.pid, "dd"))
        program = named(run.pid, "dd")
        if within(12, lambda: placed(program)):
            KEEPERS.add(named(run.pid, "maru-steer"))
            return run, program
        os.kill(program, signal.SIGKILL)
        run.communicate(timeout=20)
    sys.exit("FAILED  nothing was placed, five times")


def kill_round(victim, *flags):
    run, program = start_placed(*flags)
    check(f"threads and interrupts are placed ({victim}{', by cpusets' if flags else ''})", run.poll() is None, text(IRQ))
    keeper = named(run.pid, "maru-steer")
    target = {"maru run": run.pid, "keeper": keeper, "controller": named(keeper, "maru"), "program": program}[victim]
    os.kill(target, signal.SIGKILL)
    if victim == "program":
        good = within(LIMIT, lambda: text(IRQ) == "0-3" and not groups() and not glob.glob(ROOT + "/run/maru/steer-*"))
    else:
        good = within(LIMIT, lambda: as_found(program))
    check(f"SIGKILL of {victim}: all is as it was", good, (text(IRQ), glob.glob(ROOT + "/run/maru/steer-*")))
    if victim != "program":
        os.kill(program, signal.SIGKILL)
    run.communicate(timeout=20)


def unheard():
    """Nobody reads its standard error any more."""
    run, program = start_placed()
    run.stderr.close()
    os.kill(named(run.pid, "maru-steer"), signal.SIGKILL)
    check("SIGKILL of keeper, unheard: all is as it was", within(LIMIT, lambda: as_found(program)), text(IRQ))
    os.kill(program, signal.SIGKILL)
    run.wait(20)


def random_kill(dice):
    """At any moment: before, while and after anything is placed; one or two at once."""
    victims = dice.choice([["maru run"], ["keeper"], ["controller"], ["maru run", "controller"], ["controller", "maru run"]])
    run = start("run", "--io", dice.choice(["single-socket", "per-socket", "auto"]), *dice.choice([[], ["--io-cpusets"]]), "--", *PROGRAM)
    within(20, lambda: named(run.pid, "dd"))
    program = named(run.pid, "dd")
    # A trial begins after four periods of half a second, and then turns.
    pause = dice.choice([0.05, 2.6]) + dice.random() * 1.5
    time.sleep(pause)
    keeper = named(run.pid, "maru-steer")
    KEEPERS.add(keeper)
    pids = {"maru run": run.pid, "keeper": keeper, "controller": keeper and named(keeper, "maru")}
    was = placed(program)
    for victim in victims:
        if pids[victim]:
            os.kill(pids[victim], signal.SIGKILL)
    check(f"SIGKILL of {' and '.join(victims)} after {pause:.2f} s ({'' if was else 'not '}placed): all is as it was",
          within(LIMIT, lambda: as_found(program)), (os.sched_getaffinity(program), text(IRQ)))
    os.kill(program, signal.SIGKILL)
    run.communicate(timeout=20)


def undone():
    report = WORK + "/report.json"
    for _ in range(4):  # on a busy machine it may look as if it did no input and output
        run = start("run", "--io", "single-socket", "--report", report, "--", *LOSER)
        within(20, lambda: named(run.pid, "python3"))
        program = named(run.pid, "python3")
        tried = within(20, lambda: placed(program))
        good = tried and within(30, lambda: not placed(program) and not within(8, lambda: placed(program)))
        if good:
            break
        os.kill(program, signal.SIGKILL)
        run.communicate(timeout=20)
    check("what makes the program slower is undone while it goes on, and stays undone", good, text(IRQ))
    if not good:
        return
    check("all is as it was", os.sched_getaffinity(program) == BASE and text(IRQ) == "0-3", text(IRQ))
    os.kill(program, signal.SIGTERM)
    told = run.communicate(timeout=20)[1]
    check("the verdict says so in one line", re.search(r"^maru: steer: off: tried and undone, .*trials: [1-9]", told, re.M), told)
    check("the status is the command's", run.returncode == 128 + signal.SIGTERM, run.returncode)
    data = json.loads(text(report))["beside"][0]
    check("the report has what was tried, and the last verdict",
          data["changes"][0]["why"] == "trying single-socket" and data["undone"] >= 1 and data["kept"] == 0
          and data["last_verdict"][0]["verdict"] in ("slower", "notfaster"), data)


def attach():
    program = subprocess.Popen(PROGRAM, stderr=subprocess.DEVNULL)
    for _ in range(5):  # as in start_placed
        run = start("attach", "--io", "cross-socket", str(program.pid))
        if within(12, lambda: placed(program.pid)):
            break
        run.terminate()
        run.communicate(timeout=20)
    check("a program that runs already is placed", run.poll() is None, text(IRQ))
    second = subprocess.run([MARU, "attach", "--for", "0.7", str(program.pid)], env=ENV, stderr=subprocess.PIPE, text=True, timeout=20)
    thread = subprocess.run([MARU, "attach", "--for", "0.1", str(threading.enumerate()[-1].native_id)], env=ENV, stderr=subprocess.PIPE, text=True, timeout=20)
    check("a thread is no program", thread.returncode == 69 and "there is no process" in thread.stderr, thread.stderr)
    check("once at a time", second.returncode == 0 and "steers these processes already" in second.stderr, second.stderr)
    run.kill()
    check("SIGKILL of maru attach: all is as it was", within(LIMIT, lambda: as_found(program.pid)), text(IRQ))
    run.communicate(timeout=20)
    program.kill()
    program.wait()


def nobody_left():
    """Keeper and controller are killed: nobody has put anything back, and nobody says so."""
    program = subprocess.Popen(PROGRAM, stderr=subprocess.DEVNULL)
    run = start("attach", "--io", "cross-socket", str(program.pid))
    within(20, lambda: (keeper := named(run.pid, "maru-steer")) and named(keeper, "maru"))
    keeper = named(run.pid, "maru-steer")
    steer, controller = os.readlink(f"/proc/{keeper}/exe"), named(keeper, "maru")
    os.kill(keeper, signal.SIGSTOP)
    os.kill(controller, signal.SIGKILL)
    os.kill(keeper, signal.SIGKILL)
    told = run.communicate(timeout=20)[1]
    check("SIGKILL of keeper and controller: nobody says that all is put back",
          run.returncode == 70 and "'maru-steer repair'" in told and "everything is put back" not in told, (run.returncode, told))
    subprocess.run([steer, "repair", "--root", ROOT], timeout=20)
    check("and a repair puts all back", within(LIMIT, lambda: as_found(program.pid)), text(IRQ))
    program.kill()
    program.wait()


def told_at_the_end():
    """The program is gone before its keeper has said how putting back went. The controller asks, and tells that."""
    gone = subprocess.Popen(["true"])
    gone.wait()
    orders, theirs = os.pipe()
    run = subprocess.Popen(["bash", "-c", f'exec 3>&{theirs} {theirs}>&- && exec "$@"', "bash", MARU, "steer-run", "none", str(gone.pid), "single-socket", ROOT],
                           env=ENV, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, pass_fds=[theirs])
    os.close(theirs)
    run.stdin.write("ready 0-3 0\n")
    run.stdin.flush()
    asked = select.select([orders], [], [], 20)[0] and os.read(orders, 1) == b""
    os.close(orders)
    report = run.communicate("end 2\n", timeout=20)[0] if asked else run.kill()
    check("a controller waits for what its keeper says at the end", asked and "2 settings could not be put back" in report, report)


if not {0, 1} <= BASE:
    print("skipped: needs CPUs 0 and 1")
    sys.exit(0)
try:
    make()
    threading.Thread(target=load, daemon=True).start()
    for victim in ("maru run", "keeper", "controller", "program"):
        kill_round(victim)
        kill_round(victim, "--io-cpusets")
    unheard()
    told_at_the_end()
    nobody_left()
    seed = int(os.environ.get("MARU_TEST_SEED", "6"))
    print(f"seed {seed}")
    dice = random.Random(seed)
    for _ in range(4 * int(os.environ.get("MARU_TEST_SCALE", "1"))):
        random_kill(dice)
    attach()
    undone()
finally:
    shutil.rmtree(WORK, ignore_errors=True)
print(f"{len(failures)} failures")
sys.exit(bool(failures))
