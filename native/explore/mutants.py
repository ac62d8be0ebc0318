#!/usr/bin/env python3
"""Plants one fault after another in the shipped C and lets the explorer look for it.

usage: mutants.py NATIVE-FOLDER COMPILER

Each fault replaces one text that occurs exactly once in its file (so a list that the
code has outgrown is an error, too). Prints PASS and what was found, or FAIL; status
1 if the code as shipped fails, or if any fault is not found.
"""

import pathlib
import subprocess
import sys
import tempfile

CNA = "lock/queue.c"
STORE = "atomic_store_explicit({}, {}, memory_order_release);"

# name, file, text, what stands there instead
FAULTS = [
    ("an arrival does not wake its predecessor", CNA,
     "maru_notify_store(&before->linked, MR_SET);", STORE.format("&before->linked", "MR_SET")),
    ("a grant does not wake", CNA,
     "maru_notify_store(&node->state, MR_SET);", STORE.format("&node->state", "MR_SET")),
    ("who has given up is granted the lock", CNA, "if (node->may_give_up &&", "if (false &&"),
    ("a late waiter leaves though it was granted", CNA,
     "if (atomic_exchange_explicit(&node->claim, GIVEN_UP, memory_order_acq_rel) == WAITING)",
     "atomic_exchange_explicit(&node->claim, GIVEN_UP, memory_order_acq_rel);"),
    ("a late waiter does not await its grant", CNA,
     "return mr_waiting_for(queue->waiting, &node->state, MR_SET, MR_SET, &mr_forever);",
     "return 0;"),
    ("the main queue is dropped behind those taken back", CNA,
     "chain(queue->aside_last, next);\n", "\n"),
    ("those set aside are forgotten when the main queue is empty", CNA,
     "  if (replace_last(queue, node, queue->aside_last))\n    return take_back(queue);",
     "  if (is_last(queue, node))\n    return take_back(queue), NULL;"),
    ("the last of those set aside keeps its successor", CNA, "chain(last, NULL);", ""),
    ("the next set aside replace the first", CNA,
     "if (queue->aside_first == NULL)\n    queue->aside_first = first;\n  else\n"
     "    chain(queue->aside_last, first);", "queue->aside_first = first;"),
    ("the end of those set aside is not moved", CNA, "queue->aside_last = last;", ""),
    ("who stands before a local waiter is dropped", CNA,
     "set_aside(queue, next, last);", ";"),
    ("one bypass too many", CNA,
     "<= queue->max_bypass", "<= queue->max_bypass + 1"),
    ("older waiters are not counted as older", CNA,
     "(node->arrival - 1 - queue->aside_length)", "(node->arrival - 1)"),
    ("arrivals are not numbered", CNA, "node->arrival = ++queue->arrivals;", ";"),
    ("a release does not look for a newcomer", CNA,
     "if (atomic_compare_exchange_strong_explicit(&queue->tail, &last, NULL, "
     "memory_order_release,\n                                                "
     "memory_order_relaxed)) {",
     "atomic_store_explicit(&queue->tail, NULL, memory_order_release);\n    if (last) {"),
    ("a successor is taken before it has linked itself", CNA,
     "  mr_waiting_for(queue->waiting, &node->linked, MR_SET, MR_SET, &mr_forever);\n", "\n"),
    ("malthusian: the oldest returns without those behind it", CNA, "chain(oldest, next);", ";"),
    ("malthusian: the youngest is dropped when somebody has come", CNA,
     "  push_aside(queue, youngest);\n  return await", "  return await"),
    ("shfl: a waiter is moved and its place not closed", CNA,
     "chain(before, linked(node));\n", "\n"),
    ("shfl: the last one is moved, too", CNA, " && linked(node) != NULL; most--", "; most--"),
    ("qspin: the next one is not asked to step aside", "lock/qspin.c",
     "mr_word_release(&lock->qspin.pending);", ""),
    ("nodes from the heap are kept", CNA, "    free(used);", "    ;"),
    ("a node is written after its grant", CNA,
     "  maru_notify_store(&node->state, MR_SET);\n  return true;",
     "  maru_notify_store(&node->state, MR_SET);\n  node->bypassed = 0;\n  return true;"),
    ("a store of the wait room wakes nobody", "wait/wait.c",
     "  if (old & MARU_WAIT_ARMED)\n    mr_futex_wake_all(word);\n}", "  (void)old;\n}"),
    ("a waiter does not say that it sleeps", "wait/wait.c",
     "atomic_fetch_or_explicit(w->word, MARU_WAIT_ARMED, memory_order_acquire)",
     "atomic_load_explicit(w->word, memory_order_acquire)"),
    ("a waiter does not look again before it sleeps", "wait/wait.c",
     "    if (mr_holds(now, &w->c))\n      return 0;", ""),
    ("a word is released without a wake", "lock/words.c",
     "maru_notify_store(word, 0);", STORE.format("word", "0")),
    ("a word is taken in two steps", "lock/words.c",
     "if (atomic_compare_exchange_weak_explicit(word, &seen, seen | MR_SET, memory_order_acquire,\n"
     "                                              memory_order_relaxed))",
     "if (atomic_store_explicit(word, seen | MR_SET, memory_order_relaxed), true)"),
    ("a ticket is called without a wake", "lock/lock.c",
     "maru_notify_store(&lock->ticket.serving, mine + MARU_WAIT_STEP);",
     STORE.format("&lock->ticket.serving", "mine + MARU_WAIT_STEP")),
    ("a number is taken that is not being served", "lock/lock.c",
     "uint32_t next = *serving;",
     "uint32_t next = atomic_load_explicit(&lock->ticket.next, memory_order_relaxed);"),
    ("clh: who has left counts as done", "lock/clh.c", "if (!left)", "if (!left || left)"),
    ("clh: who leaves does not say whom it followed", "lock/clh.c",
     "atomic_store_explicit(&node->next, before, memory_order_relaxed);", "(void)before;"),
    ("clh: who leaves tells nobody", "lock/clh.c",
     "maru_notify_store(&node->state, MR_SET | LEFT);", ""),
    ("clh: the predecessor's node is kept", "lock/clh.c", "    free(node);\n    if (!left)",
     "    if (!left)"),
    ("fissile: a head that gives up stays head", "lock/fissile.c",
     "rc = compete(lock, deadline);", "rc = compete(lock, deadline);\n  if (rc < 0)\n    return rc;"),
    ("cohort: the global lock seems to come along", "lock/cohort.c",
     "socket->owns_global = false;", ""),
    ("cohort: it comes along, and nobody says so", "lock/cohort.c",
     "socket->passed++;", "socket->passed++;\n    socket->owns_global = false;"),
    ("cohort: the local queue goes before the global lock", "lock/cohort.c",
     "global_release(lock, socket);\n  mr_queue_release(&socket->local, hold);",
     "mr_queue_release(&socket->local, hold);\n  global_release(lock, socket);"),
    ("cohort: who gives up keeps the local queue", "lock/cohort.c",
     "    mr_queue_release(&socket->local, hold);\n    return rc;", "    return rc;"),
]

TEST = ["tests/lock_explore.c", "explore/explore.c"]
# What wait.c needs for channels, which no explored scene has: without the shim.
UNEXPLORED = ["board/board.c"] + [f"base/{name}.c" for name in "process shared task topology".split()]
UNEXPLORED += [f"wait/{name}.c" for name in "channel measure priority".split()]
SHIPPED = ["wait/wait.c"] + [
    f"lock/{name}.c"
    for name in "clh cohort fissile lock options qspin queue shfl waiting words".split()
]


class Bench:
    def __init__(self, native, compiler, work):
        self.native, self.compiler, self.work = native, compiler, work

    def compile(self, name, text=None):
        """The object of a source file, or of `text` in its place."""
        out = self.work / (name.replace("/", "-") + (".mutant.o" if text else ".o"))
        source = self.native / name
        folders = [] if name in UNEXPLORED else ["explore/shim"]
        folders += ["include", "base", "lock", "tests", str(pathlib.Path(name).parent)]
        command = [self.compiler, "-std=gnu11", "-O1", "-w", "-DSLICE_NS=3600000000000"]
        command += [f"-I{self.native / folder}" for folder in folders]
        command += ["-c", "-o", out, "-x", "c", "-" if text else source]
        subprocess.run(command, check=True, input=text and text.encode())
        return out

    def run(self, objects):
        """What the explorer found: None, or one line."""
        program = self.work / "explore"
        subprocess.run([self.compiler, "-o", program, *objects], check=True)
        try:
            done = subprocess.run([program], capture_output=True, timeout=60, text=True)
        except subprocess.TimeoutExpired:
            return "it does not end"
        if done.returncode == 0:
            return None
        if done.returncode < 0:
            return f"it crashes (signal {-done.returncode})"
        said = [line for line in done.stdout.splitlines() if line.startswith("FAILED: ")]
        return said[-1].removeprefix("FAILED: ") if said else (done.stderr.strip() or "?")


def plant(native, file, old, new):
    text = (native / file).read_text()
    if text.count(old) != 1:
        sys.exit(f"maru: mutants.py: {file} holds {text.count(old)} times: {old!r}")
    return text.replace(old, new)


def main():
    native, compiler = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2]
    missed = 0
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(native, compiler, pathlib.Path(folder))
        objects = {name: bench.compile(name) for name in TEST + UNEXPLORED + SHIPPED}
        found = bench.run(objects.values())
        if found is not None:
            sys.exit(f"maru: mutants.py: the code as shipped fails: {found}")
        for name, file, old, new in FAULTS:
            mutant = bench.compile(file, plant(native, file, old, new))
            found = bench.run([mutant if source == file else object for source, object in objects.items()])
            missed += found is None
            print(f"PASS  {name}: {found}" if found else f"FAIL  {name}: not found", flush=True)
    print(f"{len(FAULTS) - missed} of {len(FAULTS)} faults found")
    return missed > 0


if __name__ == "__main__":
    sys.exit(main())
