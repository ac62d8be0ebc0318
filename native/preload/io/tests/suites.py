"""Programs' own test suites with every call delegated that can be: test by test what they say without.

    suites.py MARU postgres SOURCE DEVELOPMENT MODE...
    suites.py MARU redis SOURCE MODE...

SOURCE is the program's unpacked source (scripts/test.d/59-io-suites fetches it), DEVELOPMENT the unpacked package
postgresql-server-dev-15. The programs are those that are installed. Each mode has one run, and each test must come out
of it as it did directly: one that fails either way must print the same bytes. SOURCE may be of another minor version than
what is installed; some tests fail directly then.
"""
import json, os, pwd, re, shutil, signal, socket, subprocess, sys, tempfile, time

POSTGRES = "/usr/lib/postgresql/15/bin/"
LIBRARY = "/usr/lib/postgresql/15/lib/"
LONG = 3000  # s: for a suite
STOP = 60  # s: for a server that was told to end, and writes all it has
HURRY = 8  # s: the same when we are told to end; the caller's patience after SIGTERM is 10


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
        end_group(process)


def end_group(process):
    """With all that it left in its group; those are gone when this returns, and write nothing more."""
    for _ in range(50):
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            break
        process.poll()
        time.sleep(0.1)
    process.wait()


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
            server = subprocess.Popen([*as_user, *under(maru, mode, out + "/report.json"), POSTGRES + "postgres", "-D", data, "-p", str(port), "-k", data, "-c", "listen_addresses=127.0.0.1", "-c", "fsync=off"], stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=out, start_new_session=True)
        try:
            end = time.monotonic() + 60
            while subprocess.run([POSTGRES + "pg_isready", "-q", "-h", "127.0.0.1", "-p", str(port)]).returncode != 0:
                assert server.poll() is None and time.monotonic() < end, open(out + "/server.log").read()[-2000:]
                time.sleep(0.1)
            said = run([*as_user, LIBRARY + "pgxs/src/test/regress/pg_regress", "--bindir=" + POSTGRES, "--inputdir=" + tests, "--outputdir=" + out, "--dlpath=" + library, "--host=127.0.0.1", f"--port={port}", "--user=postgres", "--no-locale", "--encoding=UTF8", "--max-connections=10", f"--schedule={tests}/parallel_schedule"], cwd=out)
        finally:
            server.send_signal(signal.SIGINT)
            try:
                server.wait(STOP)
            finally:
                end_group(server)
        found = {name: result for name, result in re.findall(r"^(?:test| +)\s*(\S+) +\.\.\. (ok|FAILED|failed \(ignored\))", said, re.M)}
        # What each printed otherwise than it should, but for where and when, belongs to its outcome.
        diffs = open(out + "/regression.diffs", errors="replace").read() if os.path.exists(out + "/regression.diffs") else ""
        for diff in re.split(r"^(?=diff .* \S+/results/\S+\.out$)", diffs, flags=re.M)[1:]:
            name = re.match(r"diff .*/results/(\S+)\.out\n", diff)[1]
            body = re.sub(r"^(diff|---|\+\+\+) .*\n", lambda m: m[1] + "\n", diff, flags=re.M)
            found[name] = found.get(name, "not counted") + "\n" + body.replace(out, "OUT").replace(str(port), "PORT")
        return found, said, delegated(mode, out + "/report.json")
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
        # One name may stand for a test of several encodings.
        found = {}
        for result, name in re.findall(r"^\[(ok|err|exception|timeout)\]: (.*?)(?: \(\d+ ms\)| in tests/\S+)?$", said, re.M):
            found[name] = " ".join(sorted([*found.get(name, "").split(), result]))
        return found, said, delegated(mode, report)
    return outcomes


# ---- main

def main():
    # Whoever ends us ends the suite as well, and does so once.
    def end(*_):
        global STOP
        STOP = HURRY
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        sys.exit(143)

    signal.signal(signal.SIGTERM, end)
    maru, name, rest = os.path.abspath(sys.argv[1]), sys.argv[2], sys.argv[3:]
    begin, places = {"postgres": (postgres, 2), "redis": (redis, 1)}[name]
    with tempfile.TemporaryDirectory(prefix="maru-suites-", dir="/var/tmp") as folder:
        os.chmod(folder, 0o755)
        outcomes = begin(maru, folder, *map(os.path.abspath, rest[:places]))
        direct, said, _ = outcomes(None, 0)
        bad = {test: len(result) for test, result in sorted(direct.items()) if set(result.split()) != {"ok"}}
        print(f"{name}: {len(direct)} tests directly, not ok (length of what they say): {bad}", flush=True)
        if len(direct) < 50:
            print(said[-4000:])
            return 1
        differ = 0
        for again, mode in enumerate(rest[places:], 1):
            begun = time.monotonic()
            with_maru, said, calls = outcomes(mode, again)
            print(f"{name} under {mode}: {len(with_maru)} tests in {time.monotonic() - begun:.0f} s, {calls} calls delegated", flush=True)
            for test in sorted({*direct, *with_maru}):
                one, other = direct.get(test, "not run"), with_maru.get(test, "not run")
                if one == other:
                    continue
                print(f"  otherwise than directly: {test}\n    directly: {one[-1500:]}\n    under maru: {other[-1500:]}", flush=True)
                differ += 1
            if calls <= 1000:
                print("  too few calls were delegated to say anything")
                differ += 1
        if differ:
            print(said[-4000:])
    return 1 if differ else 0


sys.exit(main())
