"""The command line of scripts/suites, its table and its JSON; scripts/suites says what it promises."""

import datetime
import fnmatch
import functools
import json
import os
import pathlib
import platform
import re
import signal
import subprocess
import sys
import traceback

import calls
import mpi
import threads
from runner import DIRECT, Runner


class Suite:
    """What is missing in a folder (None: nothing); how its programs are made; the ways to run them."""

    def __init__(self, needs, missing, make, ways):
        self.needs, self.missing, self.make, self.ways = needs, missing, make, ways


def suites(build):
    found = {
        "nptl": Suite("glibc: glibc's sources", threads.nptl_missing, threads.nptl, threads.ways),
        "posix": Suite("ltp: LTP with the Open POSIX suite, built", threads.posix_missing, threads.posix, threads.ways),
        "fsx": Suite("ltp: LTP, built", calls.fsx_missing, calls.fsx, calls.ways),
        "sqlite": Suite("nothing", lambda folder: None, calls.sqlite, calls.ways),
        "libuv": Suite("libuv: its sources", calls.libuv_missing, calls.libuv, calls.ways),
        "ltp": Suite("ltp: LTP, built", calls.ltp_missing, calls.ltp, calls.ways),
        "cpython": Suite("python: Debian's libpython3.11-testsuite, unpacked", calls.cpython_missing, calls.cpython, calls.ways),
    }
    for one in mpi.MPIS:
        ways = functools.partial(mpi.ways, one, build)
        found[f"mpi4py-{one}"] = Suite("mpi4py: its sources", functools.partial(mpi.mpi4py_missing, one), functools.partial(mpi.mpi4py, one), ways)
        found[f"mpich-{one}"] = Suite("mpich: MPICH's sources", functools.partial(mpi.mpich_missing, one), functools.partial(mpi.mpich, one), ways)
    return found


# Differences that are no fault of maru's: suite, test, way (patterns) and why.  docs/conformance.md says more.
EXPLAINED = [
    ("nptl", "tst-tss-basic", "--lock-profile", "sets key 0 before it has created one, which is valid as soon as a library of the process has a key"),
]


def explained(suite, test, way):
    matching = (why for at, tests, ways, why in EXPLAINED if all(map(fnmatch.fnmatchcase, (suite, test, way), (at, tests, ways))))
    return next(matching, None)


def say(line):
    print(line, flush=True)


def not_run(name, why, not_made=()):
    """Such an entry; of the programs that were not made, some are said."""
    say(f"{name}: not run: {why}")
    for program, reason in list(dict(not_made).items())[:5]:
        say(f"  {program}: {reason}")
    return {"suite": name, "state": "not run", "why": why, "not_made": dict(not_made)}


def run_suite(name, suite, folder, build, runner):
    """A suite's entry in suites.json."""
    why = suite.missing(folder)
    if why:
        return not_run(name, why)
    try:
        units, not_made, version = suite.make(folder, build, len(os.sched_getaffinity(0)))
        units = [unit for unit in units if re.match(os.environ.get("TESTS", ""), unit.name)]
        ways = [way for way in suite.ways() if fnmatch.fnmatchcase(way.name, os.environ.get("WAYS", "*"))]
    except (OSError, subprocess.CalledProcessError, StopIteration) as error:
        traceback.print_exc()
        return not_run(name, f"its programs could not be made: {error}")
    if not units:
        return not_run(name, "no program was made, or TESTS names none", not_made)
    say(f"{name} {version}: {len(units)} programs; {len(not_made)} were not made")
    base, found = runner.compare(units, ways, lambda line: say(f"  {line}"))
    if not base:
        return not_run(name, "no program was begun in time")
    for way in found:
        if way["not_reached"]:
            say(f"  {way['way']}: {len(way['not_reached'])} programs were not begun in time")
        for difference in way["differences"]:
            difference["why"] = explained(name, difference["test"], way["way"])
            say(f"  {way['way']}: {difference['test']}: {' '.join(difference['without'])} -> {' '.join(difference['with'])}{'; ' + difference['why'] if difference['why'] else ''}")
    outcomes = [outcome for result in base for outcome in result.outcomes.values()]
    return {
        "suite": name,
        "state": "run",
        "version": version,
        "programs": len(units),
        "not_made": not_made,
        "tests": len(outcomes),
        "ok": outcomes.count("ok"),
        "ways": found,
    }


def unexplained(entries):
    return sum(difference["why"] is None for entry in entries for way in entry.get("ways", ()) for difference in way["differences"])


def table(entries):
    rows = [("suite", "version", "way", "tests", "differ", "explained", "run again", "maru took part")]
    for entry in entries:
        if entry["state"] != "run":
            rows.append((entry["suite"], "-", f"not run: {entry['why']}", "", "", "", "", ""))
            continue
        rows.append((entry["suite"], entry["version"], DIRECT.name, f"{entry['tests']}", "", "", "", ""))
        for way in entry["ways"]:
            why = sum(difference["why"] is not None for difference in way["differences"])
            rows.append(("", "", way["way"], f"{way['tests']}", f"{len(way['differences'])}", f"{why}", f"{len(way['again'])}", f"{way['took_part']} of {way['programs']}"))
    widths = [max(len(row[column]) for row in rows if not row[2].startswith("not run")) for column in range(8)]
    return "".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() + "\n" for row in rows)


def write(out, started, load, entries):
    """After each suite, so that what was run is there whatever comes next."""
    out.mkdir(parents=True, exist_ok=True)
    machine = {"cpus": len(os.sched_getaffinity(0)), "kernel": platform.release(), "libc": " ".join(platform.libc_ver()), "load": load}
    whole = {"schema": "maru-suites/1", "started": started, "machine": machine, "suites": entries}
    for name, text in (("suites.json", json.dumps(whole, indent=1) + "\n"), ("suites.txt", table(entries))):
        partial = out / f".{name}"
        partial.write_text(text)
        partial.rename(out / name)


def main():
    build, out, arguments = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3:]
    known = suites(out / "programs")
    if arguments == ["--list"]:
        for name, suite in known.items():
            say(f"{name:15} needs {suite.needs}")
        return 0
    if not arguments or arguments[0].startswith("-") or not set(arguments[1:]) <= set(known):
        print(f"suites: usage: scripts/suites FOLDER [SUITE...]; suites: {' '.join(known)}", file=sys.stderr)
        return 64
    folder = pathlib.Path(arguments[0]).resolve()
    if not folder.is_dir():
        print(f"suites: {folder}: no such folder", file=sys.stderr)
        return 64
    if os.geteuid() != 0:
        print("suites: needs root, for each test runs as nobody in namespaces of its own", file=sys.stderr)
        return 69
    runner = Runner(build / "bin/maru", int(os.environ.get("TRIES", "3")), int(os.environ.get("JOBS", "0")), float(os.environ.get("MARU_TEST_SLOW", "1")), seconds=float(os.environ.get("SECONDS_MOST", "inf")))

    def end(number, _frame):
        runner.end()
        os._exit(128 + number)

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, end)
    started, load = datetime.datetime.now(datetime.timezone.utc).strftime("%FT%TZ"), os.getloadavg()
    entries = []
    try:
        for name in arguments[1:] or known:
            entries.append(run_suite(name, known[name], folder, out / "programs", runner))
            write(out, started, load, entries)
    finally:
        runner.end()
    say("")
    say(table(entries) + f"{out}/suites.json, {out}/suites.txt")
    count = unexplained(entries)
    say(f"{count} differences that are not explained")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
