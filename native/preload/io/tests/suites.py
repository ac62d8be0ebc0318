"""Programs' own test suites with every call delegated that can be: test by test what they say without.

    suites.py MARU postgres SOURCE DEVELOPMENT MODE...
    suites.py MARU redis SOURCE MODE...

SOURCE is the program's unpacked source (scripts/test.d/59-io-suites fetches it), DEVELOPMENT the unpacked package
postgresql-server-dev-15. The programs are those that are installed. A test
whose outcome differs is run again, with the others of its kind, and must then be as it was directly: some depend on time.
"""
import json, os, pwd, re, shutil, signal, socket, subprocess, sys, tempfile, time

POSTGRES = "/usr/lib/postgresql/15/bin/"
LIBRARY = "/usr/lib/postgresql/15/lib/"
LONG = 3000  # s: for a suite


def under(maru, mode, report):
    return [] if mode is None else [maru, "run", "--io-delegate=" + mode, "--report", report, "--"]


def delegated(mode, report):
    return 0 if mode is None else json.load(open(report))["after"]["io"]["delegated"]


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def run(command, **more):
    """Its standard output, whatever its status; ended with all below it when it takes too long."""
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True, **more)
    try:
        return process.communicate(timeout=LONG)[0].decode(errors="replace")
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)


# ---- PostgreSQL: pg_regress

def postgres(maru, folder, source, development):
    tests = os.path.join(folder, "regress")
    shutil.copytree(os.path.join(source, "src/test/regress"), tests)
    library = os.path.join(folder, "lib")
    os.mkdir(library)
    subprocess.run(["cc", "-O1", "-w", "-shared", "-fPIC", "-I", development + "/usr/include/postgresql/15/server", tests + "/regress.c", "-o", library + "/regress.so"], check=True)
    for name in ("refint.so", "autoinc.so"):
        shutil.copy(LIBRARY + name, library)
    as_user = []
    if os.geteuid() == 0:
        user = pwd.getpwnam("postgres")
        as_user = ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]
        subprocess.run(["chown", "-R", "postgres:", folder], check=True)

    def outcomes(mode, again):
        port, data, out = free_port(), f"{folder}/data-{again}-{mode}", f"{folder}/out-{again}-{mode}"
        for made in (data, out):
            subprocess.run([*as_user, "mkdir", made], check=True)
        subprocess.run([*as_user, POSTGRES + "initdb", "-D", data, "-A", "trust", "-U", "postgres", "--no-locale", "-E", "UTF8", "-N"], check=True, stdout=subprocess.DEVNULL)
        with open(out + "/server.log", "wb") as log:
            server = subprocess.Popen([*as_user, *under(maru, mode, out + "/report.json"), POSTGRES + "postgres", "-D", data, "-p", str(port), "-k", data, "-c", "listen_addresses=127.0.0.1", "-c", "fsync=off"], stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=out)
        try:
            end = time.monotonic() + 60
            while subprocess.run([POSTGRES + "pg_isready", "-q", "-h", "127.0.0.1", "-p", str(port)]).returncode != 0:
                assert server.poll() is None and time.monotonic() < end, open(out + "/server.log").read()[-2000:]
                time.sleep(0.1)
            said = run([*as_user, LIBRARY + "pgxs/src/test/regress/pg_regress", "--bindir=" + POSTGRES, "--inputdir=" + tests, "--outputdir=" + out, "--dlpath=" + library, "--host=127.0.0.1", f"--port={port}", "--user=postgres", "--no-locale", "--encoding=UTF8", "--max-connections=10", f"--schedule={tests}/parallel_schedule"], cwd=out)
        finally:
            server.send_signal(signal.SIGINT)
            server.wait(60)
        # What the tests printed otherwise than they should, but for where and when.
        diffs = open(out + "/regression.diffs", errors="replace").read() if os.path.exists(out + "/regression.diffs") else ""
        diffs = re.sub(r"^(diff|---|\+\+\+) .*\n", lambda m: m[1] + "\n", diffs, flags=re.M).replace(out, "OUT").replace(str(port), "PORT")
        found = {name: result for name, result in re.findall(r"^(?:test| +)\s*(\S+) +\.\.\. (ok|FAILED|failed \(ignored\))", said, re.M)}
        return found, diffs, said, delegated(mode, out + "/report.json")
    return outcomes


# ---- Redis: its Tcl tests

UNITS = ["unit/type/string", "unit/type/list", "unit/type/hash", "unit/type/set", "unit/type/zset", "unit/type/stream", "unit/dump", "unit/scan", "unit/protocol", "unit/multi",
         "unit/pubsub", "unit/sort", "unit/bitops", "unit/hyperloglog", "unit/querybuf", "unit/limits", "unit/aofrw", "integration/aof", "integration/aof-multi-part", "integration/rdb", "integration/replication-3"]


def redis(maru, folder, source):
    shutil.copytree(source, folder + "/redis", symlinks=True)
    for name in ("redis-server", "redis-cli", "redis-benchmark", "redis-check-aof", "redis-check-rdb"):
        os.symlink(shutil.which(name), f"{folder}/redis/src/{name}")

    def outcomes(mode, again):
        report = f"{folder}/{again}-{mode}.json"
        said = run([*under(maru, mode, report), "tclsh", "tests/test_helper.tcl", "--clients", "2", "--baseport", str(21000 + 100 * again), *(word for unit in UNITS for word in ("--single", unit))], cwd=folder + "/redis")
        said = re.sub(r"\x1b\[[0-9;]*m", "", said)
        found = {name: result for result, name in re.findall(r"^\[(ok|err|exception)\]: (.*?)(?: \(\d+ ms\))?$", said, re.M)}
        return found, "", said, delegated(mode, report)
    return outcomes


# ---- main

def main():
    # Whoever ends us ends the suite as well.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    maru, name, rest = os.path.abspath(sys.argv[1]), sys.argv[2], sys.argv[3:]
    begin, places = {"postgres": (postgres, 2), "redis": (redis, 1)}[name]
    with tempfile.TemporaryDirectory(prefix="maru-suites-", dir="/var/tmp") as folder:
        os.chmod(folder, 0o755)
        outcomes = begin(maru, folder, *map(os.path.abspath, rest[:places]))
        direct, diffs, said, _ = outcomes(None, 0)
        bad = sorted(test for test, result in direct.items() if result != "ok")
        print(f"{name}: {len(direct)} tests directly, not ok: {bad}", flush=True)
        if len(direct) < 50:
            print(said[-4000:])
            return 1
        for mode in rest[places:]:
            for again in (1, 2):
                begun = time.monotonic()
                with_maru, other_diffs, said, calls = outcomes(mode, again)
                other = sorted(test for test in {*direct, *with_maru} if direct.get(test) != with_maru.get(test))
                print(f"{name} under {mode}: {len(with_maru)} tests in {time.monotonic() - begun:.0f} s, {calls} calls delegated, otherwise than directly: {other}, diffs {'the same' if diffs == other_diffs else 'not the same'}", flush=True)
                assert calls > 1000
                if not other and diffs == other_diffs:
                    break
            else:
                print(said[-6000:] + other_diffs[-6000:])
                return 1
    return 0


sys.exit(main())
