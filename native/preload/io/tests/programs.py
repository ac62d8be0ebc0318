"""Real servers with every call delegated that can be: the same bytes as without.

    programs.py MARU nginx|httpd|redis|sqlite|postgres|hadoop|hdfs MODE...

One session of requests, against the program alone and under each mode of --io-delegate; what the
clients got, and what the program left on disk, must be the same. Each runs in a folder of its own,
on the loopback, and ends within its time. Hadoop's jars are in $MARU_HADOOP. Status 77: the program is not
installed.
"""
import hashlib, http.client, json, os, pwd, shutil, signal, socket, subprocess, sys, tempfile, time

LONG = 120  # s: for one answer, or an end
POSTGRES = "/usr/lib/postgresql/15/bin/"


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def under(maru, mode, report):
    """Words before a command's own."""
    return [] if mode is None else [maru, "run", "--io-delegate=" + mode, "--report", report, "--"]


def delegated(mode, report):
    """Whether it was: a run in which everything went direct would show nothing."""
    found = json.load(open(report))["after"]["io"]
    print(f"  {mode}: {found['delegated']} calls delegated, {found['merged']} with a neighbour, {found['handed_back']} handed back", flush=True)
    assert found["delegated"] > 100, found


class Server:
    """`command`, alone (mode None) or under maru, from when it answers on its port."""

    def __init__(self, maru, mode, folder, command, port, before=(), name=""):
        self.report = os.path.join(folder, name + "report.json")
        self.mode, self.errors = mode, os.path.join(folder, name + "errors")
        with open(self.errors, "wb") as errors:
            self.process = subprocess.Popen([*before, *under(maru, mode, self.report), *command], stdin=subprocess.DEVNULL, stdout=errors, stderr=errors, cwd=folder)
        self.port, end = port, time.monotonic() + LONG
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=LONG).close()
                return
            except OSError:
                if self.process.poll() is not None or time.monotonic() > end:
                    self.process.kill()
                    sys.exit(f"{command[0]} does not answer: {open(self.errors, errors='replace').read()[-2000:]}")
                time.sleep(0.02)

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(LONG)
        except subprocess.TimeoutExpired:
            self.process.kill()
            sys.exit("does not end")
        if kind is None and self.mode is not None:
            delegated(self.mode, self.report)


def ended(folder, command, before=()):
    """What it prints."""
    result = subprocess.run([*before, *command], capture_output=True, cwd=folder, timeout=4 * LONG)
    assert result.returncode == 0, (command[-3:], result.stderr[-2000:])
    return result.stdout


# ---- web servers

def fetch(port, pages):
    """What a client on one connection sees of them; the connection is kept."""
    seen = []
    client = http.client.HTTPConnection("127.0.0.1", port, timeout=LONG)
    for method in ("GET", "HEAD"):
        for page in [*pages, "absent"]:
            for extra in ({}, {"Range": "bytes=0-0"}, {"Range": "bytes=100-4200"}, {"Range": "bytes=-50"}, {"Range": "bytes=99999999-"}):
                client.request(method, "/" + page, headers=extra)
                answer = client.getresponse()
                body = answer.read()
                headers = sorted((k, v) for k, v in answer.getheaders() if k not in ("Date",))
                seen.append((method, page, extra, answer.status, headers, len(body), hashlib.sha256(body).hexdigest()))
    # Many requests at once, before the first answer is read.
    with socket.create_connection(("127.0.0.1", port), timeout=LONG) as raw:
        raw.sendall(b"".join(b"GET /%s HTTP/1.1\r\nHost: x\r\n%s\r\n" % (p.encode(), b"Connection: close\r\n" if p == pages[-1] else b"") for p in pages))
        got = b""
        while part := raw.recv(1 << 16):
            got += part
        lines = [l for l in got.split(b"\r\n") if not l.startswith(b"Date: ")]
        seen.append(("pipelined", len(got), hashlib.sha256(b"\n".join(lines)).hexdigest()))
    return seen


def web(maru, mode, folder, base, command, configuration):
    seen = []
    pages = os.listdir(os.path.join(base, "pages"))
    pages.sort()
    for sendfile in ("on", "off"):
        port = free_port()
        path = os.path.join(folder, "server.conf")
        with open(path, "w") as file:
            file.write(configuration(folder, base, port, sendfile))
        with Server(maru, mode, folder, command(folder, path), port):
            seen += fetch(port, pages)
    return seen


def web_pages(base):
    os.mkdir(os.path.join(base, "pages"))
    for size in (0, 1, 511, 4095, 4096, 4097, 65536, 65537, 1 << 20, 5000001):
        with open(os.path.join(base, "pages", f"of-{size}"), "wb") as file:
            file.write(hashlib.shake_128(str(size).encode()).digest(size))
        os.utime(file.name, (1000000000, 1000000000))


def nginx(maru, mode, folder, base):
    def configuration(folder, base, port, sendfile):
        temporary = "".join(f"{kind}_temp_path {folder}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        return (f"daemon off; user root; worker_processes 2; pid {folder}/pid; error_log {folder}/log; events {{}}\n"
                f"http {{ access_log {folder}/access; sendfile {sendfile}; etag off; {temporary} output_buffers 2 64k;\n"
                f"server {{ listen 127.0.0.1:{port}; root {base}/pages; }} }}\n")
    return web(maru, mode, folder, base, lambda folder, path: ["nginx", "-p", folder, "-c", path], configuration)


def httpd(maru, mode, folder, base):
    modules = "/usr/lib/apache2/modules/mod_"
    def configuration(folder, base, port, sendfile):
        return (f"ServerName localhost\nPidFile {folder}/pid\nErrorLog {folder}/log\nLoadModule mpm_event_module {modules}mpm_event.so\n"
                f"LoadModule authz_core_module {modules}authz_core.so\nListen 127.0.0.1:{port}\nDocumentRoot {base}/pages\n"
                f"EnableSendfile {sendfile}\nEnableMMAP Off\nFileETag None\nUser www-data\nGroup www-data\n")
    return web(maru, mode, folder, base, lambda folder, path: ["apache2", "-d", folder, "-f", path, "-DFOREGROUND"], configuration)


# ---- Redis

class Redis:
    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=LONG)
        self.file = self.socket.makefile("rb")

    def send(self, *words):
        words = [w if isinstance(w, bytes) else str(w).encode() for w in words]
        self.socket.sendall(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in words))

    def answer(self):
        line = self.file.readline()
        if line.startswith((b"-", b"+")):
            return line
        kind, rest = line[:1], line[1:-2]
        if kind == b"$":
            return None if rest == b"-1" else self.file.read(int(rest) + 2)[:-2]
        if kind == b"*":
            return [self.answer() for _ in range(int(rest))]
        assert kind == b":", line
        return line

    def __call__(self, *words):
        self.send(*words)
        return self.answer()


def redis(maru, mode, folder, base):
    port, seen = free_port(), []
    command = ["redis-server", "--bind", "127.0.0.1", "--port", str(port), "--dir", folder, "--save", "", "--appendonly", "yes", "--appendfsync", "always", "--hash-max-listpack-entries", "128"]
    def idle(client):
        end = time.monotonic() + LONG
        while any(b"_in_progress:1" in part for part in client("INFO", "persistence").split()):
            assert time.monotonic() < end
            time.sleep(0.05)
    with Server(maru, mode, folder, command, port):
        client = Redis(port)
        for i in range(3000):  # without waiting
            client.send("SET", f"key{i % 700}", hashlib.shake_128(str(i).encode()).digest(i % 3000))
            client.send("RPUSH", f"list{i % 10}", i)
            client.send("HSET", f"hash{i % 7}", i, "v" * (i % 50))
            client.send("INCR", "counter")
        seen += [client.answer() for _ in range(12000)]
        seen.append(client("SET", "large", hashlib.shake_128(b"large").digest(3000000)))
        seen.append(client("BGREWRITEAOF"))  # a child that writes
        idle(client)
        seen.append(client("SAVE"))
        for i in range(500):
            seen.append(client("GETRANGE", "large", i * 1000, i * 1000 + 300))
        seen.append(client("DBSIZE"))
    with Server(maru, mode, folder, command, port):  # it reads what it wrote
        client, end = Redis(port), time.monotonic() + LONG
        while client("PING") != b"+PONG\r\n":
            assert time.monotonic() < end
            time.sleep(0.05)
        for key in sorted(client("KEYS", "*")):
            seen.append((key, client("TYPE", key), client("DUMP", key) if not key.startswith(b"hash") else sorted(client("HGETALL", key))))
        client.socket.close()
    return seen


# ---- SQLite

def sqlite(maru, mode, folder, base):
    """Steps a way to keep a journal: more in make soak."""
    report, data = os.path.join(folder, "report.json"), os.path.join(folder, "data")
    os.mkdir(data)
    said = ended(data, [sys.executable, os.path.join(os.path.dirname(os.path.abspath(__file__)), "sqlite.py"), os.environ.get("STEPS", "6")], under(maru, mode, report))
    if mode is not None:
        delegated(mode, report)
    return said.splitlines()


# ---- PostgreSQL

SCRIPT = r"""
\set ON_ERROR_STOP 0
create table a(k integer primary key, t text, n numeric, at timestamp);
insert into a select i, repeat(md5(i::text), 1 + i % 40), i / 7.0, timestamp '2000-01-01' + i * interval '1 minute' from generate_series(1, 30000) i;
create index on a(n); create index on a using hash(t); analyze a;
select count(*), sum(n), max(length(t)), md5(string_agg(t, ',' order by k)) from a;
explain (costs off) select * from a where k = 7;
select * from a where k in (1, 777, 29999) order by k;
begin; update a set n = n + 1 where k % 3 = 0; savepoint s; delete from a where k > 20000; select count(*) from a; rollback to s; commit;
select sum(n) from a;
create table b as select k, large.l from a, lateral (select string_agg(md5((k * j)::text), '') l from generate_series(1, 200) j) large where k <= 300;
alter table b alter l set storage external; update b set l = l || l;
select md5(string_agg(l, '' order by k)) from b;
copy (select * from a order by k) to stdout \g 'FOLDER/copied'
create table c (like a); \copy c from 'FOLDER/copied'
select count(*), sum(n) from c;
insert into a values (1, 'twice', 0, now());
select 1 / 0;
select lo_from_bytea(4711, decode(repeat('00ff', 100000), 'hex')); select md5(lo_get(4711));
set work_mem = '64kB'; select count(*) from (select t from a order by t, n desc offset 100) s; select count(distinct t) from a;
set max_parallel_workers_per_gather = 2; set parallel_setup_cost = 0; set min_parallel_table_scan_size = 0; select count(*), sum(length(t)) from a where n > 100;
delete from a where k % 2 = 0; vacuum full a; cluster a using a_pkey; reindex table a; checkpoint;
select count(*), sum(n), md5(string_agg(t, ',' order by k)) from a;
create view v as select k, t from a where k < 10; create function f(i integer) returns integer language sql as 'select i + 1'; select f(k) from v order by k;
"""


def postgres(maru, mode, folder, base):
    before = []
    if os.geteuid() == 0:
        user = pwd.getpwnam("postgres")
        before = ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]
        os.chown(folder, user.pw_uid, user.pw_gid)
    subprocess.run([*before, POSTGRES + "initdb", "-D", folder + "/data", "-A", "trust", "-U", "tester", "--locale=C.UTF-8", "-N"], check=True, stdout=subprocess.DEVNULL, cwd=folder, timeout=LONG)
    port = free_port()
    command = [POSTGRES + "postgres", "-D", folder + "/data", "-p", str(port), "-k", folder, "-c", "listen_addresses=127.0.0.1", "-c", "shared_buffers=2MB", "-c", "autovacuum=off", "-c", "wal_level=minimal", "-c", "max_wal_senders=0"]
    def client(program, *arguments, text=None):
        return subprocess.run([*before, POSTGRES + program, "-h", "127.0.0.1", "-p", str(port), "-U", "tester", *arguments], input=text, capture_output=True, cwd=folder, timeout=4 * LONG)
    def words(result):
        return [result.returncode, result.stdout.replace(folder.encode(), b""), result.stderr.replace(folder.encode(), b"").replace(str(port).encode(), b"")]
    seen = []
    for again in (False, True):  # the second time from what the first one left
        with Server(maru, mode, folder, command, port, before):
            end = time.monotonic() + LONG
            while client("pg_isready").returncode != 0:  # it may answer that it still starts
                assert time.monotonic() < end
                time.sleep(0.05)
            if not again:
                seen += words(client("psql", "-X", "-a", "postgres", text=SCRIPT.replace("FOLDER", folder).encode()))
            seen += words(client("psql", "-X", "-c", "select count(*), sum(n) from c", "postgres"))
            dumped = words(client("pg_dump", "postgres"))
            dumped[1] = b"\n".join(l for l in dumped[1].split(b"\n") if not l.startswith((b"\\restrict", b"\\unrestrict")))
            assert dumped[0] == 0 and len(dumped[1]) > 1000000, (len(dumped[1]), dumped[2][-1000:])
            seen += dumped
    return seen


# ---- Hadoop's WordCount

NODE = "org.apache.hadoop.hdfs.server."


def java(settings, program, *arguments):
    """The class path has the folder of the run, with a file of settings that says nothing: some programs want one."""
    folder = os.path.dirname(settings["hadoop.tmp.dir"])
    with open(folder + "/core-site.xml", "w") as file:
        file.write("<configuration/>")
    always = {"mapreduce.input.fileinputformat.split.maxsize": 1 << 20, "mapreduce.job.reduces": 2}
    return ["java", "-Xmx512m", "-XX:+UseSerialGC", "-Djava.net.preferIPv4Stack=true", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", f"{folder}:{os.environ['MARU_HADOOP']}/*", program,
            *(word for name, value in {**always, **settings}.items() for word in ("-D", f"{name}={value}")), *arguments]


def counted(maru, mode, folder, settings, source, target):
    report = os.path.join(folder, "job.json")
    ended(folder, java(settings, "org.apache.hadoop.examples.WordCount", source, target), under(maru, mode, report))
    if mode is not None:
        delegated(mode, report)


def words(base):
    path = os.path.join(base, "words")
    if not os.path.exists(path):
        with open(path, "wb") as file:
            for i in range(60000):
                file.write(b" ".join(hashlib.md5(b"%d" % (i * j % 9973)).hexdigest()[:j].encode() for j in range(1, 17)) + b"\n")
    return path


def hadoop(maru, mode, folder, base):
    """On files of this machine, one process."""
    settings = {"fs.defaultFS": "file:///", "hadoop.tmp.dir": folder + "/tmp"}
    counted(maru, mode, folder, settings, words(base), folder + "/out")
    return [(name, open(f"{folder}/out/{name}", "rb").read()) for name in sorted(os.listdir(folder + "/out"))]


def hdfs(maru, mode, folder, base):
    """Pseudo-distributed: a name node, a data node and the job, each under maru."""
    names, blocks = free_port(), free_port()
    settings = {"fs.defaultFS": f"hdfs://127.0.0.1:{names}", "hadoop.tmp.dir": folder + "/tmp", "dfs.replication": 1, "dfs.blocksize": 1 << 20,
                "dfs.namenode.http-address": "127.0.0.1:0", "dfs.namenode.safemode.min.datanodes": 1, "dfs.namenode.safemode.extension": 0,
                "dfs.namenode.datanode.registration.ip-hostname-check": "false", "dfs.datanode.address": "127.0.0.1:0",
                "dfs.datanode.http.address": "127.0.0.1:0", "dfs.datanode.ipc.address": f"127.0.0.1:{blocks}"}
    shell = lambda *arguments: ended(folder, java(settings, "org.apache.hadoop.fs.FsShell", *arguments))
    ended(folder, java(settings, NODE + "namenode.NameNode", "-format", "-force"))
    with Server(maru, mode, folder, java(settings, NODE + "namenode.NameNode"), names, name="names-"):
        with Server(maru, mode, folder, java(settings, NODE + "datanode.DataNode"), blocks, name="blocks-"):
            ended(folder, java(settings, "org.apache.hadoop.hdfs.tools.DFSAdmin", "-safemode", "wait"))
            ended(folder, java(settings, "org.apache.hadoop.fs.FsShell", "-put", words(base), "/words"), under(maru, mode, folder + "/put.json"))
            counted(maru, mode, folder, settings, "/words", "/out")
            assert shell("-cat", "/words") == open(words(base), "rb").read()
            return [shell("-cat", "/out/part-r-00000"), shell("-cat", "/out/part-r-00001")]


# ---- main

WHAT = {"hadoop": (hadoop, "java"), "hdfs": (hdfs, "java"), "nginx": (nginx, "nginx"), "httpd": (httpd, "apache2"), "redis": (redis, "redis-server"), "sqlite": (sqlite, sys.executable), "postgres": (postgres, POSTGRES + "postgres")}


def main():
    maru, name, modes = os.path.abspath(sys.argv[1]), sys.argv[2], sys.argv[3:]
    run, program = WHAT[name]
    if shutil.which(program) is None or program == "java" and "MARU_HADOOP" not in os.environ:
        print(f"{program} is not installed, or $MARU_HADOOP names no folder")
        return 77
    with tempfile.TemporaryDirectory(prefix="maru-programs-", dir="/var/tmp") as base:
        os.chmod(base, 0o755)
        web_pages(base)
        wanted = None
        for mode in [None, *modes]:
            folder = os.path.join(base, mode or "direct")
            os.mkdir(folder)
            seen = run(maru, mode, folder, base)
            if mode is None:
                wanted = seen
                print(f"{name}: {len(seen)} answers", flush=True)
            for number, (one, other) in enumerate(zip(wanted, seen)):
                if one != other:
                    print(f"{name} under {mode}: answer {number} differs:\n{str(one)[:2000]}\n{str(other)[:2000]}")
                    return 1
            assert len(seen) == len(wanted)
    return 0


sys.exit(main())
