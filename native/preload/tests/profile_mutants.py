#!/usr/bin/env python3
"""Plants one fault after another in the recording core and lets tests/lock_profile.c look for it.

usage: profile_mutants.py NATIVE-FOLDER COMPILER

Each fault replaces one text that occurs exactly once in its file. Prints PASS and what was found,
or FAIL; status 1 if the code as shipped fails or a fault is not found.
"""

import pathlib
import subprocess
import sys
import tempfile

CORE = "preload/profile.c"
FAST = "preload/profile.h"
RECORDS = "preload/records.c"
SHARES = "preload/fairness.c"

# name, file, text, what stands there instead
FAULTS = [
    ("a slot is never left", RECORDS,
     "&state, MARU_LOCKPROF_LEFT,", "&state, MARU_LOCKPROF_TAKEN,"),
    ("a slot is left while another thread looks at it", RECORDS,
     "state != MARU_LOCKPROF_FREE &&", ""),
    ("who leaves no slot publishes as others do", CORE,
     "if (stays() || mr_own.now_ns", "if (mr_own.now_ns"),
    ("a slot that is left at last is nobody's", CORE,
     "      mr_records_abandon(mr_own.slot);\n", "      ;\n"),
    ("two move into one slot", RECORDS,
     "  if (!claim(slot, MARU_LOCKPROF_LEAVING))\n    return false;\n  if (is_gone(slot))\n    return true;\n",
     "  return MR_LOAD(slot->state) == MARU_LOCKPROF_LEAVING && is_gone(slot) &&\n"
     "         claim(slot, MARU_LOCKPROF_LEAVING);\n"),
    ("who came while there was a key keeps its slot", CORE,
     "    mr_records_leaving(profile->records.board, MR_LOAD(*profile->process));\n", ""),
    ("what is left behind unpublished stays so", CORE,
     "    mr_own.unpublished = left_behind(profile);\n", ""),
    ("a larger table begins empty", RECORDS,
     "    MR_STORE(board->larger[number][place], entry);\n", ""),
    ("a child of a fork writes to its parent's slot", CORE,
     "mr_own.process != 0 && mr_own.process == MR_LOAD(*profile->process)", "mr_own.process != 0"),
    ("a child of a fork writes to its parent's rows", FAST,
     "MR_LOAD(*profile->process) == mr_own.process", "true"),
    ("a pair is taken for another at its place", FAST,
     "pair->mutex == mutex && pair->site == site", "pair->mutex == mutex"),
    ("mutexes beyond a thread's table lose their site", RECORDS,
     "return mr_records_row(records, thread, NULL, site, kind, true);", "return &thread->others;"),
    ("samples count once", CORE,
     "drawn ? 1u << mr_own.bits : 0", "drawn ? 1 : 0"),
    ("what is timed repeats itself", CORE,
     "before + (uint32_t)__builtin_ctzll(hits) + 1;", "1u << mr_own.bits;"),
    ("acquisitions are published twice", CORE,
     "  mr_own.accounted = mr_own.left;\n", ""),
    ("who gives up stays among the waiters", CORE,
     "  if (mutex != &several)\n    atomic_fetch_sub_explicit(&mutex->waiters, 1, memory_order_relaxed);\n"
     "  if (rc == ETIMEDOUT)\n    MR_ADD(row->timed_out, 1);\n"
     "  if (rc != 0 && rc != EOWNERDEAD)\n    return;\n",
     "  if (rc == ETIMEDOUT)\n    MR_ADD(row->timed_out, 1);\n"
     "  if (rc != 0 && rc != EOWNERDEAD)\n    return;\n"
     "  if (mutex != &several)\n    atomic_fetch_sub_explicit(&mutex->waiters, 1, memory_order_relaxed);\n"),
    ("who was ahead counts as a bypass", CORE,
     "passed > wait->ahead ? passed - wait->ahead : 0", "passed"),
    ("what a thread has not published is lost when it ends", CORE,
     "    publish(profile, 0);\n", ""),
    ("what finds no class is not counted", RECORDS,
     "      MR_ADD(times->octaves_lost, weight);\n      return;", "      return;"),
    ("a thread's table is filled up", RECORDS,
     "MR_LOAD(thread->rows) >= PAIRS_OF(size))", "MR_LOAD(thread->rows) >= size - 1)"),
    ("the oldest hold is forgotten silently", CORE,
     "  drop(hold);\n  MR_ADD(mr_own.slot->unmatched, 1);", "  drop(hold);"),
    ("a hold that another thread has ended goes on", CORE,
     "    profile_forget(find_hold(mutex));", "    ;"),
    ("waits are not live", CORE,
     "    mr_waits_add(profile->waits, waited);", "    ;"),
    ("who waits all through a window does not count in it", SHARES,
     "hand_in(fairness, scale, number, 0);", "(void)number;"),
    ("what is handed in is handed in again", SHARES,
     "MR_STORE(pace->handed_in[scale], MR_LOAD(pace->acquisitions));", ";"),
    ("squares of sums", SHARES,
     "MR_ADD(window->squares, count * count);", "MR_ADD(window->squares, count);"),
    ("a course loses its second half", SHARES,
     "other = fairness->series[2 * i + 1];", "(void)other;"),
    ("who comes back from a condition variable is not counted", CORE,
     "  MR_ADD(at.row->reacquired, 1);\n", ""),
]

TEST = "tests/lock_profile.c"
RUNS = 8
CHANGING = [CORE, RECORDS, SHARES, TEST]
SOURCES = CHANGING + ["preload/clock.c", "preload/waits.c", "lock/place.c", "base/topology.c",
                      *(f"wait/{name}.c" for name in "asleep attach awake channel clock coop lowered measure policy priority wait".split()),
                      "base/process.c", "base/shared.c", "base/task.c", "base/text.c", "board/board.c"]


def built(native, compiler, folder, changed, objects):
    """The test with one file changed; what does not depend on it is linked from objects."""
    program = folder / "test"
    again = [s for s in CHANGING if changed in (s, FAST)]
    kept = [str(objects / s.replace("/", "-")) + ".o" for s in SOURCES if s not in again]
    copies = [str(folder / s) for s in again]
    subprocess.run([*compiler, *map(str, copies), *kept, "-o", str(program), "-pthread"], check=True)
    return program


def outcome(program):
    """Its status, and the lines that it says."""
    try:
        ran = subprocess.run([str(program)], capture_output=True, text=True, timeout=60)
        return ran.returncode, ran.stderr.strip().splitlines()
    except subprocess.TimeoutExpired:
        return -1, ["it does not end"]


def main():
    native, cc = pathlib.Path(sys.argv[1]), sys.argv[2]
    failed = 0
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for part in ("preload", "lock", "base", "wait", "board", "tests", "include"):
            subprocess.run(["cp", "-r", str(native / part), str(folder / part)], check=True)
        compiler = [cc, "-O0", "-std=gnu11", f"-I{folder}/include", f"-I{folder}/base"]
        objects = folder / "objects"
        objects.mkdir()
        for source in SOURCES:
            subprocess.run([*compiler, "-c", str(folder / source), "-o",
                            str(objects / source.replace("/", "-")) + ".o"], check=True)
        for fault, file, text, instead in [("none", CORE, "", "")] + FAULTS:
            path = folder / file
            shipped = path.read_text()
            if text and shipped.count(text) != 1:
                print(f"FAIL {fault}: its text occurs {shipped.count(text)} times in {file}")
                failed += 1
                continue
            path.write_text(shipped.replace(text, instead) if text else shipped)
            program = built(folder, compiler, folder, file, objects)
            path.write_text(shipped)
            # Some faults need two threads at one place at once, which one run in some brings.
            for _ in range(1 if fault == "none" else RUNS):
                status, said = outcome(program)
                if status != 0:
                    break
            good = (status == 0) == (fault == "none")
            failed += not good
            found = (said or [f"status {status}"])[0].replace(f"{folder}/", "")
            print(f"{'PASS' if good else 'FAIL'} {fault}: {'nothing found' if status == 0 else found}")
    return failed != 0


sys.exit(main())
