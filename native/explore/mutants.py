#!/usr/bin/env python3
"""Plants one fault after another in the shipped C and lets the explorer look for it.

usage: mutants.py NATIVE-FOLDER COMPILER

Each fault replaces one text that occurs exactly once in its file (so a list that the
code has outgrown is an error, too). Prints PASS and what was found, or FAIL; status
1 if the code as shipped fails, or if any fault is not found as what it is.
"""

import pathlib
import subprocess
import sys
import tempfile

CNA = "lock/queue.c"
TURNS = "wait/turns.c"
STORE = "atomic_store_explicit({}, {}, memory_order_release);"

# name, what it is found as (or one of several), file, text, what stands there instead
FAULTS = [
    ("an arrival does not wake its predecessor", "nobody can go on",
     CNA,
     "maru_notify_store(&before->linked, MR_SET);", STORE.format("&before->linked", "MR_SET")),
    ("a grant does not wake", "nobody can go on",
     CNA,
     "mr_waiting_grant(queue->waiting, queue->turns, &next->state, MR_SET);",
     STORE.format("&next->state", "MR_SET")),
    ("who has given up is granted the lock", "nobody can go on",
     CNA, "return !node->may_give_up ||", "return true ||"),
    ("a late waiter leaves though it was granted", "nobody can go on",
     CNA,
     "if (atomic_compare_exchange_strong_explicit(&node->claim, &claim, GIVEN_UP, memory_order_release,\n"
     "                                              memory_order_relaxed))",
     "atomic_store_explicit(&node->claim, GIVEN_UP, memory_order_release);"),
    ("a late waiter does not await its grant", "freed memory is written",
     CNA,
     "return mr_waiting_turn(queue->waiting, queue->turns, &hold->turn, &node->state, MR_SET, MR_SET,\n"
     "                         &mr_forever);",
     "return 0;"),
    ("the main queue is dropped behind those taken back", "nobody can go on",
     CNA,
     "chain(queue->aside_last, next);\n", "\n"),
    ("those set aside are forgotten when the main queue is empty", "bypasses are counted wrong",
     CNA,
     "  if (replace_last(queue, node, queue->aside_last))\n    return take_back(queue);",
     "  if (is_last(queue, node))\n    return take_back(queue), NULL;"),
    ("the last of those set aside keeps its successor", "nobody can go on",
     CNA, "chain(last, NULL);", ""),
    ("the next set aside replace the first", "bypasses are counted wrong",
     CNA,
     "if (queue->aside_first == NULL)\n    queue->aside_first = first;\n  else\n"
     "    chain(queue->aside_last, first);", "queue->aside_first = first;"),
    ("the end of those set aside is not moved", "bypasses are counted wrong",
     CNA, "queue->aside_last = last;", ""),
    ("who stands before a local waiter is dropped", "nobody can go on",
     CNA,
     "set_aside(queue, next, last);", ";"),
    ("one bypass too many", "bypassed too often",
     CNA,
     "return queue->grants + 1 - (arrival - 1)", "return queue->grants - (arrival - 1)"),
    ("older waiters are not counted as older", "bypasses are counted wrong",
     CNA,
     "(node->arrival - 1 - queue->aside_length)", "(node->arrival - 1)"),
    ("arrivals are not numbered", "bypasses are counted wrong",
     CNA, "node->arrival = ++queue->arrivals;", ";"),
    ("a release does not look for a newcomer", "bypassed too often",
     CNA,
     "if (atomic_compare_exchange_strong_explicit(queue->tail, &last, NULL, "
     "memory_order_release,\n                                                "
     "memory_order_relaxed)) {",
     "atomic_store_explicit(queue->tail, NULL, memory_order_release);\n    if (last) {"),
    ("a successor is taken before it has linked itself", "somebody spins without end",
     CNA,
     "  mr_waiting_for(queue->waiting, &node->linked, MR_SET, MR_SET, &mr_forever);\n", "\n"),
    ("malthusian: the oldest returns without those behind it", "nobody can go on",
     CNA, "chain(oldest, next);", ";"),
    ("malthusian: the youngest is dropped when somebody has come", "nobody can go on",
     CNA,
     "  push_aside(queue, youngest);\n  return await", "  return await"),
    ("shfl: a waiter is moved and its place not closed", "it crashes",
     CNA,
     "chain(before, linked(node));\n", "\n"),
    ("shfl: the last one is moved, too", "nobody can go on",
     CNA, " && linked(node) != NULL; most--", "; most--"),
    ("qspin: the next one is not asked to step aside", "nobody can go on",
     "lock/qspin.c",
     "mr_word_release(&lock->qspin.pending);", ""),
    ("nodes from the heap are kept", "memory is never freed",
     CNA, "    free(used);", "    ;"),
    # Whose memory the node's is by then decides which.
    ("a node is written after its grant", ("freed memory is written", "a hold is written after its release"),
     CNA,
     "mr_waiting_grant(queue->waiting, queue->turns, &next->state, MR_SET);",
     "mr_waiting_grant(queue->waiting, queue->turns, &next->state, MR_SET);\n  next->bypassed = 0;"),
    ("a store of the wait room wakes nobody", "nobody can go on",
     "wait/wait.c",
     "  if (old & MARU_WAIT_ARMED)\n    mr_futex_wake_all(word);\n}", "  (void)old;\n}"),
    ("a waiter does not say that it sleeps", "somebody spins without end",
     "wait/asleep.c",
     "atomic_fetch_or_explicit(w->word, MARU_WAIT_ARMED, memory_order_acquire)",
     "atomic_load_explicit(w->word, memory_order_acquire)"),
    ("a waiter does not look again before it sleeps", "nobody can go on",
     "wait/asleep.c",
     "    if (mr_holds(now, &w->c))\n      return 0;", ""),
    ("a word is released without a wake", "nobody can go on",
     "lock/words.c",
     "maru_notify_store(word, 0);", STORE.format("word", "0")),
    ("a word is taken in two steps", "two hold the lock",
     "lock/words.c",
     "if (atomic_compare_exchange_weak_explicit(word, &seen, seen | MR_SET, memory_order_acquire,\n"
     "                                              memory_order_relaxed))",
     "if (atomic_store_explicit(word, seen | MR_SET, memory_order_relaxed), true)"),
    ("a ticket is called without a wake", "nobody can go on",
     "lock/lock.c",
     "maru_notify_store(&lock->ticket.serving, next);", STORE.format("&lock->ticket.serving", "next")),
    ("a number is taken that is not being served", "two hold the lock",
     "lock/lock.c",
     "uint32_t next = *serving;",
     "uint32_t next = atomic_load_explicit(&lock->ticket.next, memory_order_relaxed);"),
    ("clh: who has left counts as done", "memory is never freed",
     "lock/clh.c", "if (!left)", "if (!left || left)"),
    ("clh: who leaves does not say whom it followed", "it crashes",
     "lock/clh.c",
     "atomic_store_explicit(&node->next, before, memory_order_relaxed);", "(void)before;"),
    ("clh: who leaves tells nobody", "nobody can go on",
     "lock/clh.c",
     "mr_waiting_grant(&lock->waiting, &lock->turns, &node->state, MR_SET | LEFT);", ""),
    ("clh: the predecessor's node is kept", "memory is never freed",
     "lock/clh.c", "    free(node);\n    if (!left)",
     "    if (!left)"),
    ("fissile: a head that gives up stays head", ("memory is never freed", "nobody can go on"),
     "lock/fissile.c",
     "rc = compete(lock, deadline);", "rc = compete(lock, deadline);\n  if (rc < 0)\n    return rc;"),
    ("cohort: the global lock seems to come along", "memory is freed that is no block",
     "lock/cohort.c",
     "socket->owns_global = false;", ""),
    ("cohort: it comes along, and nobody says so", "nobody can go on",
     "lock/cohort.c",
     "socket->passed++;", "socket->passed++;\n    socket->owns_global = false;"),
    ("cohort: the local queue goes before the global lock", "nobody can go on",
     "lock/cohort.c",
     "global_release(lock, socket);\n  mr_queue_release(&socket->local, hold);",
     "mr_queue_release(&socket->local, hold);\n  global_release(lock, socket);"),
    # What is left on a stack that is gone decides which.
    ("cohort: who gives up keeps the local queue", ("it crashes", "a free lock is not free"),
     "lock/cohort.c",
     "    mr_queue_release(&socket->local, hold);\n    return rc;", "    return rc;"),
    ("cna: nobody is ever overdue", "somebody overdue is passed",
     CNA,
     "return queue->deadline_ns > 0 && oldest->aside_since != 0 &&", "return false &&"),
    ("cna: who has come back is not overdue", "somebody overdue is passed",
     CNA,
     "return queue->deadline_ns > 0 && oldest->aside_since != 0 &&",
     "return queue->deadline_ns > 0 && oldest == queue->aside_first && oldest->aside_since != 0 &&"),
    ("cna: being set aside again starts the time anew", "somebody overdue is passed",
     CNA,
     "if (node->aside_since == 0)\n      node->aside_since = now;", "node->aside_since = now;"),
    ("cna: no waiter of the socket is preferred", "nobody is ever bypassed",
     CNA,
     "return mr_probably(&queue->random, queue->handoff_range) && !overdue(queue, oldest);", "return false;"),
    ("cna: the reduction is ignored", "bypassed too often",
     CNA,
     "if (queue->aside_first == NULL && mr_probably(&queue->random, queue->shuffle_reduction))", "if (false)"),
    ("cna: a bypass of those set aside is not asked for", "bypassed too often",
     CNA,
     "return bypass_allowed(queue, queue->aside_first != NULL ? queue->aside_first : next);",
     "return bypass_allowed(queue, next);"),
    ("cna: one that was left is freed and keeps its place", "it crashes",
     CNA,
     "        chain(*last, after);\n", "        ;\n"),
    ("nodes that were left are not counted", "a node that was left stays",
     CNA,
     "  atomic_fetch_add_explicit(&queue->left, 1, memory_order_relaxed);\n", ""),
    ("nodes that were left are never uncounted", "a node that was left stays",
     CNA,
     "  atomic_fetch_sub_explicit(&queue->left, 1, memory_order_relaxed);\n", "  (void)queue;\n"),
    ("who gave up counts as one who got it", "hand-offs are counted wrong",
     CNA, "  if (!granted)\n    return;\n", "  (void)granted;\n"),
    ("one that was left counts as the holder", "who left the socket is counted wrong",
     CNA, "  while (!hand_on(queue, hold, &to)) {\n",
     "  while (!hand_on(queue, hold, &to)) {\n    to.socket = socket_of_holder(queue, hold->used);\n"),
    ("malthusian: nobody is set aside", "the oldest of those set aside never returns",
     CNA,
     "if (second == NULL || next->may_give_up)", "if (true)"),
    ("malthusian: the oldest never returns", "the oldest of those set aside never returns",
     CNA,
     "if (queue->aside_first != NULL && !mr_probably(&queue->random, queue->handoff_range)) {", "if (false) {"),
    ("malthusian: one that may give up is set aside", "one that may give up is set aside",
     CNA,
     "if (second == NULL || next->may_give_up)", "if (second == NULL)"),
    ("shfl: nobody sorts", "nobody sorts the queue",
     CNA, "    if (node->socket != socket) {", "    if (true) {"),
    ("shfl: all sort", "too many sort in a row",
     CNA,
     "bool may = queue->in_a_row < passes;", "bool may = true;"),
    ("cohort: it stays in the socket", "too many hand-offs within a socket",
     "lock/cohort.c",
     "if (socket->passed < lock->passes) {", "if (true) {"),
    ("cohort: it never stays in the socket", "nobody hands on within the socket",
     "lock/cohort.c",
     "if (socket->passed < lock->passes) {", "if (false) {"),
    ("qspin: everybody may barge", "somebody who came later goes before one who queued",
     "lock/qspin.c",
     "bool may = queue_is_empty(lock) && !somebody_is_next(lock);", "bool may = true;"),
    ("fissile: nobody loses patience", "nobody loses patience",
     "lock/fissile.c",
     "atomic_store_explicit(&lock->fissile.impatient, 1, memory_order_relaxed);", ";"),
    ("fissile: a head that sleeps is patient", "nobody loses patience with a long hold",
     "lock/fissile.c", "insists ? deadline : &patience", "deadline"),
    ("turns: a grant calls nobody", "nobody can go on",
     TURNS, "  if (old & MARU_WAIT_ARMED)\n    mr_turn_call(turns,", "  if (false)\n    mr_turn_call(turns,"),
    ("turns: a grant calls another slot", "nobody can go on",
     TURNS, "old >> 8 & (MR_TURN_SLOTS - 1)", "(old >> 8) + 1 & (MR_TURN_SLOTS - 1)"),
    ("turns: a mark is laid over an earlier one", "nobody can go on",
     TURNS, "(value & ~MR_TURN_MARK) | mark", "value | mark"),
    ("turns: a waiter does not mark its word", "nobody can go on",
     TURNS, "uint32_t mark = w->c.mask & MR_TURN_MARK ? 0 :", "uint32_t mark = true ? 0 :"),
    ("turns: a slot is read after the word", "nobody can go on",
     TURNS, "  int rc = mr_block_until(&sleep, until_ns);\n",
     "  sleep.c.value = atomic_load_explicit(slot, memory_order_acquire) & ~MARU_WAIT_ARMED;\n"
     "  int rc = mr_block_until(&sleep, until_ns);\n"),
    ("turns: one that gives up is not counted out", "turns are counted wrong",
     "lock/queue.c", "    mr_waiting_leave(queue->turns, &hold->turn);\n", ""),
    ("turns: a turn does not end", "turns are counted wrong",
     "lock/queue.c", "  bool passed = mr_queue_pass(queue, hold);\n  mr_queue_end(queue, hold);\n",
     "  bool passed = mr_queue_pass(queue, hold);\n"),
    ("turns: a turn within a socket does not end", "turns are counted wrong",
     "lock/queue.c", "    return false;\n  mr_queue_end(queue, hold);\n", "    return false;\n"),
    ("fissile: a turn does not end", "turns are counted wrong",
     "lock/fissile.c", "  mr_word_release(&lock->fissile.word);\n  mr_queue_end(&lock->fissile.queue, hold);\n",
     "  mr_word_release(&lock->fissile.word);\n"),
    ("shfl: a turn that is given up does not end", "turns are counted wrong",
     "lock/shfl.c", "  if (rc < 0)\n    mr_queue_end(&lock->shfl.queue, hold);\n", ""),
    ("qspin: a turn ends twice", "turns are counted wrong",
     "lock/qspin.c", "  hold->turn.counted = 0;\n", "  hold->turn.counted = 1;\n"),
    ("clh: a turn does not end", "turns are counted wrong",
     "lock/clh.c", "  mr_waiting_end(&lock->waiting, &lock->turns, &hold->turn);\n", ""),
    ("a ticket's slot is not called", "nobody can go on",
     "lock/lock.c", "  mr_turn_call(&lock->turns, slot_of(next));\n", ""),
    ("a ticket's sleeper is where nobody calls", "nobody can go on",
     "lock/lock.c", "  hold->turn.slot = slot_of(mine);\n", "  hold->turn.slot = slot_of(mine) + 1;\n"),
    ("fissile: patience does not return", "a free lock is not free",
     "lock/fissile.c",
     "atomic_store_explicit(&lock->fissile.impatient, 0, memory_order_relaxed);", ";"),
]

OVERLAY = "preload/overlay.c"

# The same, found by overlay_explore.c.
OVERLAY_FAULTS = [
    ("overlay: the queue's state stays with its last head", "nobody can go on",
     CNA, "if (queue->travels)", "if (false)"),
    ("overlay: the first set aside stays with the last head", "nobody can go on",
     CNA, "to->aside_first = from->aside_first;", ""),
    # A pointer to a stack that has ended: to what is there now.
    ("overlay: the last set aside stays with the last head", ("nobody can go on", "it crashes"),
     CNA, "to->aside_last = from->aside_last;", ""),
    ("overlay: patience does not return", "a head that is gone still waits",
     OVERLAY, "atomic_store_explicit(until, 0, memory_order_relaxed);", ";"),
    ("overlay: a fork's queue is not emptied", "it crashes",
     OVERLAY, "atomic_store_explicit(&cell->tail, NULL, memory_order_relaxed);", ";"),
    ("overlay: a fork's queue is used while another empties it", "nobody can go on",
     OVERLAY, "if (whose == mine + 1)\n    return false;", ""),
    ("overlay: a child has its parent's number", "nobody can go on",
     OVERLAY, "% INT_MAX + 1;", "% INT_MAX;"),
    ("overlay: the head keeps its place", "nobody can go on",
     OVERLAY, "bool handed_on = mr_queue_release(&traveller.queue, &traveller.hold);",
     "bool handed_on = mr_queue_hand_on(&traveller.queue, &traveller.hold);"),
    ("overlay: nobody waits to be the head", "nobody can go on",
     OVERLAY, "mr_queue_acquire(&traveller.queue, &traveller.hold, &mr_forever);",
     "mr_queue_try(&traveller.queue, &traveller.hold);"),
    ("overlay: the head does not wait for the mutex", "two are inside",
     OVERLAY, "rc = mr_glibc_lock(mutex);", "rc = 0;"),
]

SHARED = "lock/shared.c"

# The same, found by shared_explore.c.
SHARED_FAULTS = [
    ("shared: a waiter does not look after it raised its flag", "nobody can go on",
     SHARED, "int rc = try_mutex(segment);\n  while (goes_on(rc))", "int rc = -EBUSY;\n  while (goes_on(rc))"),
    ("shared: who raises a flag after the holder's look is not called", "nobody can go on",
     SHARED,
     "  else if (!waits && flags != 0)\n    call_oldest(segment);\n", ""),
    ("shared: who is called is not looked for again", "nobody can go on",
     SHARED, "  if (waits && seat != NOBODY)\n    call", "  if (seat != NOBODY)\n    call"),
    ("shared: who came to the seat of one that was called counts as called", "nobody can go on",
     SHARED, " && number_of(segment, seat) == number;", ";"),
    ("shared: a call wakes nobody", "nobody can go on",
     SHARED, "maru_notify_store(&segment->calls[seat].word, MR_SET);",
     STORE.format("&segment->calls[seat].word", "MR_SET")),
    ("shared: who gives up and was meant tells nobody", "nobody can go on",
     SHARED, "  if (rc != 0 && rc != -EOWNERDEAD)\n    call_oldest(segment);\n", ""),
    ("shared: a flag stays raised", "nobody can go on",
     SHARED, "  lower_flag(segment, seat);\n  stand_up(segment, seat);\n  /* We", "  stand_up(segment, seat);\n  /* We"),
    ("shared: a seat is taken in two steps", "nobody can go on",
     SHARED,
     "return atomic_compare_exchange_strong_explicit(&lock->segment->owners[seat], &before,\n"
     "                                                 identity(lock), memory_order_acq_rel,\n"
     "                                                 memory_order_relaxed);",
     "return atomic_store_explicit(&lock->segment->owners[seat], identity(lock), memory_order_release), before != 1;"),
    ("shared: nobody looks by itself after a death", "nobody can go on",
     SHARED, "(left < LOOK_NS ? left : LOOK_NS)", "(left < LOOK_NS ? left : 4 * SHORTEST_FOREVER_NS)"),
    ("shared: a dead holder is an ordinary failure", "it was not taken",
     SHARED, "bool goes_on(int rc) { return rc == -EBUSY ||", "bool goes_on(int rc) { return rc == -EOWNERDEAD || rc == -EBUSY ||"),
    ("shared: whoever came on foot goes in beside the holder", "two are inside",
     SHARED, "  return seat == NOBODY ? mr_mutex_acquire(&segment->mutex, deadline)\n", "  return seat != NOBODY ? 0\n"),
]

COOP = "wait/coop.c"
CHANNEL = "wait/channel.c"

# The same, found by wait_explore.c.
WAIT_FAULTS = [
    ("coop: who begins to wait does not look for others", "nobody can go on",
     COOP, "  maru_wait_wake_pending(table, w->channel);\n  while", "  while"),
    ("coop: a sleeper does not look again", "nobody can go on",
     COOP, "  if (mr_holds(now, &w->c))\n    return 0;\n", ""),
    ("coop: who is found is not woken", "nobody can go on",
     CHANNEL, "      mr_futex_wake_all(&channel->word);\n", ""),
    ("coop: one that sleeps in another wait by now is shown awake", "nobody can go on",
     CHANNEL, "    if (maru_channel_pending(channel)) {\n      mr_futex", "    if (true) {\n      mr_futex"),
    ("coop: who looks finds nobody else", "nobody can go on",
     CHANNEL, "if (line != own &&", "if (line == own &&"),
    ("coop: the watch is kept", "a watch is left behind",
     COOP, "    atomic_store_explicit(watch, 0, memory_order_relaxed);\n", ""),
    ("a channel shows a wait that is over", "who waits no more is shown as waiting",
     "wait/wait.c", "  mr_channel_show(w.channel, MARU_CHANNEL_IDLE);\n  return rc;", "  return rc;"),
    ("a thread that lowered itself stays low", "somebody returns lowered",
     "wait/lowered.c", "  restore(w->policy, &normal);\n", ""),
    ("a dead daemon's boost stays", ("somebody is left boosted", "a mark of the daemon's is left"),
     CHANNEL, "  if (fresh(beat, now_ns))\n    return;\n  if (mr", "  if (fresh(beat, now_ns) || true)\n    return;\n  if (mr"),
    ("a dead daemon's boost is ended by name only", "somebody is left boosted",
     CHANNEL, "if (mr_sched_set(tid, &normal) < 0) {", "if (tid < 0) {"),
]

TESTS = {
    "tests/lock_explore.c": FAULTS,
    "tests/overlay_explore.c": OVERLAY_FAULTS,
    "tests/shared_explore.c": SHARED_FAULTS,
    "tests/wait_explore.c": WAIT_FAULTS,
}
# A test's own, beside what all have; compiled with the mutexes and processes of robust.h.
ROBUST = [SHARED, "explore/robust.c"]
# What the ways to wait need for channels, which wait_explore.c alone has: without the shim.
UNEXPLORED = ["board/board.c", "board/channels.c"]
UNEXPLORED += [f"base/{name}.c" for name in "process shared task text topology".split()]
UNEXPLORED += [f"wait/{name}.c" for name in "attach channel measure priority".split()]
SHIPPED = [f"wait/{name}.c" for name in "asleep awake clock coop lowered policy turns wait".split()] + [
    f"lock/{name}.c"
    for name in "clh cohort fissile lock options parse qspin queue shfl waiting words".split()
] + [OVERLAY, "preload/waits.c"]


class Bench:
    def __init__(self, native, compiler, work):
        self.native, self.compiler, self.work = native, compiler, work

    def compile(self, name, text=None, robust=False, explored=None):
        """The object of a source file, or of `text` in its place."""
        explored = name not in UNEXPLORED if explored is None else explored
        kind = ("-robust" if robust else "") + ("" if explored else "-plain")
        out = self.work / (name.replace("/", "-") + kind + (".mutant.o" if text else ".o"))
        source = self.native / name
        folders = ["explore/shim"] if explored else []
        folders += ["include", "base", "lock", "tests"]
        command = [self.compiler, "-std=gnu11", "-O1", "-w", "-DWATCH_NS=4000"]
        command += [f"-D{slice}SLICE_NS=3600000000000" for slice in ("", "COOP_", "REST_", "CROWDED_")]
        command += ["-DPATIENCE=1", "-DLEFT_MAX=1", "-DMR_GLIBC_MODEL"]
        # A text comes from no folder: what lies beside its file is found before all others, as it is there.
        command += ["-iquote", self.native / pathlib.Path(name).parent]
        command += [f"-I{self.native / folder}" for folder in folders]
        if robust:
            command += ["-include", self.native / "explore/robust.h"]
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


def is_found(bench, native, objects, name, expected, file, old, new):
    mutant = bench.compile(file, plant(native, file, old, new), "explore/robust.c" in objects, explored=True)
    found = bench.run([mutant if source == file else object for source, object in objects.items()])
    good = found is not None and found.startswith(expected)
    says = found if good else f"{found or 'not found'}, not: {expected}"
    print(f"{'PASS' if good else 'FAIL'}  {name}: {says}", flush=True)
    return good


def main():
    native, compiler = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2]
    missed = 0
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(native, compiler, pathlib.Path(folder))
        shared = {name: bench.compile(name) for name in ["explore/explore.c"] + UNEXPLORED + SHIPPED}
        for test, faults in TESTS.items():
            if test == "tests/shared_explore.c":
                sources = ROBUST + [test] + [name for name in SHIPPED if not name.startswith("preload")]
                objects = {**shared, **{name: bench.compile(name, robust=True) for name in sources}}
            else:
                objects = {**shared, test: bench.compile(test)}
            if test == "tests/wait_explore.c":
                objects = {name: made for name, made in objects.items() if not name.startswith("lock/")}
                objects[CHANNEL] = bench.compile(CHANNEL, explored=True)
                del objects["wait/priority.c"]
            if test != "tests/overlay_explore.c":
                del objects[OVERLAY]
                del objects["preload/waits.c"]
            found = bench.run(objects.values())
            if found is not None:
                sys.exit(f"maru: mutants.py: the code as shipped fails: {found}")
            missed += sum(not is_found(bench, native, objects, *fault) for fault in faults)
    total = sum(map(len, TESTS.values()))
    print(f"{total - missed} of {total} faults found")
    return missed > 0


if __name__ == "__main__":
    sys.exit(main())
