"""A controller that does what a file says, or random things: what the keeper is tested with.

controller.py KEEPER ROOT MODE: MODE is `idle`, `file:PATH` (orders, in batches that `go` parts), or `random:SEED:TREE`
(threads of the processes below TREE and files of ROOT, until it ends).  Answers go to PATH.out.
As the real one it runs `repair` when the keeper is gone without a word.
"""
import os
import random
import sys

keeper, root, mode = sys.argv[1:4]
answers = sys.stdin
parent = str(os.getppid())


def orphaned():
    os.execv(keeper, [keeper, "repair", "--root", root, "--after", parent])


def line():
    text = answers.readline()
    if text == "":
        orphaned()
    if text.startswith("end"):
        sys.exit(0)
    return text.strip()


def batch(orders):
    try:
        os.write(3, "".join(o + "\n" for o in orders + ["go"]).encode())
    except BrokenPipeError:
        orphaned()
    return [line() for _ in orders]


def start_of(tid):
    with open(f"/proc/{tid}/stat") as f:
        return f.read().rsplit(")", 1)[1].split()[19]


def threads(tree):
    found, todo = [], [tree]
    while todo:
        pid = todo.pop()
        try:
            for tid in os.listdir(f"/proc/{pid}/task"):
                found.append((tid, start_of(tid)))
                with open(f"/proc/{pid}/task/{tid}/children") as f:
                    todo += f.read().split()
        except OSError:
            pass
    return found


first = line()
kind, _, rest = mode.partition(":")
if kind == "file":
    with open(rest) as f:
        said = [a for part in f.read().split("go\n") for a in batch(part.split("\n")[:-1])]
    with open(rest + ".part", "w") as f:
        f.write("\n".join([first] + said) + "\n")
    os.rename(rest + ".part", rest + ".out")
elif kind == "random":
    seed, tree = rest.split(":")
    dice = random.Random(int(seed))
    files = ["proc/irq/40/smp_affinity_list", "proc/irq/41/smp_affinity_list"]
    masks = ["sys/class/net/eth0/queues/rx-0/rps_cpus", "sys/class/net/eth0/queues/rx-1/rps_cpus"]
    while True:
        orders = []
        for tid, start in threads(tree):
            orders.append(dice.choice([f"set {tid} {start} 0", f"set {tid} {start} 1", f"back {tid} {start}"]))
        orders += [dice.choice([f"set {f} {dice.randrange(16)}", f"back {f}"]) for f in files]
        orders += [dice.choice([f"set {f} {dice.randrange(1, 255):x}", f"back {f}"]) for f in masks]
        batch(orders)
while True:
    line()
