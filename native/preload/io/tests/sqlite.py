"""A seeded session of SQLite over its ways to keep a journal, in the current folder; prints what each step said.

    sqlite.py STEPS

Run again it prints the same and leaves the same bytes, but for what processes wrote that raced (bank-*.db): of those
the sums are printed. A database that does not check whole, or a transaction that is half there, ends it.
"""
import hashlib, os, random, resource, sqlite3, subprocess, sys, threading

# Journal, page size, synchronous, bytes that may be mapped, automatic vacuum.
WAYS = [("delete", 4096, "full", 0, "none"), ("truncate", 512, "normal", 0, "full"), ("persist", 1024, "extra", 0, "incremental"),
        ("wal", 4096, "normal", 0, "none"), ("wal", 8192, "full", 1 << 26, "incremental"), ("memory", 65536, "off", 1 << 26, "none"), ("off", 4096, "off", 0, "none")]


def connect(name, journal, page=4096, synchronous="full", mapped=0, vacuum="none"):
    db = sqlite3.connect(name, isolation_level=None, timeout=60)
    # A small cache: what is not committed yet is written to the file, too.
    for pragma in (f"page_size={page}", f"auto_vacuum={vacuum}", f"journal_mode={journal}", f"synchronous={synchronous}", f"mmap_size={mapped}", "cache_size=12", "temp_store=file"):
        db.execute("pragma " + pragma).fetchall()
    return db


def digest(*answers):
    found = hashlib.sha256()
    for rows in answers:
        for row in rows:
            for value in row:
                found.update(value if isinstance(value, bytes) else repr(value).encode())
    return found.hexdigest()[:16]


def check(db):
    for name in ("main", "other"):
        found = db.execute(f"pragma {name}.integrity_check").fetchall() if name in [row[1] for row in db.execute("pragma database_list")] else [("ok",)]
        assert found == [("ok",)], found


def bytes_of(name):
    with open(name, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()[:16]


# ---- one connection: what a program does, in an order of its seed

def some(r):
    return r.randbytes(r.choice((0, 3, 40, 40, 900, 900, 5000, 30000)))


def insert(db, r):
    db.executemany("insert or replace into t values(?, ?, ?)", [(r.randrange(2000), r.randrange(50), some(r)) for _ in range(r.randrange(1, 80))])


def update(db, r):
    db.execute("update t set v = cast(substr(v, 1, 3000) || ? as blob), g = g + 1 where g = ?", (some(r), r.randrange(50)))


def delete(db, r):
    db.execute("delete from t where k between ? and ?", (low := r.randrange(2000), low + r.randrange(200)))


def names(db, r):
    db.executemany("insert into w values(?, ?) on conflict do update set n = n + 1", [(f"name {r.randrange(400)}" * r.randrange(1, 30), 1) for _ in range(60)])


def savepoints(db, r):
    db.execute("savepoint a")
    insert(db, r)
    db.execute("savepoint b")
    delete(db, r)
    update(db, r)
    db.execute(r.choice(("rollback to b", "release b")))
    db.execute(r.choice(("rollback to a", "release a")))
    if db.in_transaction:
        db.execute("release a")


def transaction(db, r):
    db.execute("begin immediate")
    for _ in range(r.randrange(1, 6)):
        r.choice((insert, update, delete, names))(db, r)
    db.execute(r.choice(("commit", "commit", "rollback")))


def two_files(db, r):
    db.execute("begin")
    db.execute("insert or replace into other.t select k + 100000, g, v from t where g = ?", (r.randrange(50),))
    db.execute("delete from other.t where k % 3 = ?", (r.randrange(3),))
    insert(db, r)
    db.execute(r.choice(("commit", "rollback")))


def in_place(db, r):
    row = db.execute("select k from t where length(v) > 800 order by k limit 1").fetchone()
    if row is None:
        return
    try:
        with db.blobopen("t", "v", row[0]) as blob:
            blob.seek(r.randrange(700))
            blob.write(r.randbytes(100))
    except sqlite3.OperationalError as e:  # an index holds it
        yield str(e)


def refused(db, r):
    for text in ("insert into t(k) select k from t limit 1", "insert into w values(null, 1)", "select absent from t", "create table t(x)"):
        try:
            db.execute(text)
        except sqlite3.Error as e:
            yield str(e)


def reorganised(db, r):
    db.execute(r.choice(("vacuum", "reindex", "pragma incremental_vacuum(20)", "analyze", "drop index if exists i", "create index if not exists i on t(g, length(v))")))


def copied(db, r):
    if os.path.exists("copy.db"):
        os.remove("copy.db")
    target = sqlite3.connect("copy.db")
    db.backup(target, pages=7)
    check(target)
    target.close()


def session(number, way, steps):
    r, name = random.Random(number), f"way-{number}.db"
    db = connect(name, *way)
    db.execute("attach ? as other", (f"way-{number}-other.db",))
    for schema in ("main", "other"):
        db.execute(f"create table {schema}.t(k integer primary key, g integer, v blob)")
    db.execute("create table w(name text primary key not null, n integer) without rowid")
    db.execute("create index i on t(g)")
    # Without a journal nothing can be taken back.
    acts = [insert, update, delete, names, in_place, reorganised, copied] + ([savepoints, transaction, two_files, refused] if way[0] != "off" else [])
    for step in range(steps):
        act = r.choice(acts)
        told = list(act(db, r) or [])
        content = (db.execute(text) for text in ("select * from t order by k", "select * from w order by name", "select * from other.t order by k", "select g, count(*), sum(length(v)) from t group by g order by g"))
        print(number, step, act.__name__, *told, digest(*content))
    check(db)
    print(number, "pages", *(db.execute("pragma " + p).fetchone()[0] for p in ("page_count", "freelist_count", "journal_mode")))
    db.close()


# ---- a process that ends in the middle, and one that may write no more

def half(name, journal):
    """Leaves a journal, and pages of a transaction that was not committed."""
    db = connect(name, journal)
    db.execute("begin")
    db.execute("update t set v = zeroblob(3000)")
    db.execute("delete from t where k % 2 = 0")
    os._exit(9)


def full(name, journal):
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
    db = connect(name, journal)
    try:
        for i in range(10000):
            db.execute("insert into t values(?, 1, ?)", (1000000 + i, bytes(20000)))
    except sqlite3.Error as e:
        print("full", i, e)
    db.close()


def whole(name, journal, way):
    db = connect(name, journal)
    db.execute("create table t(k integer primary key, g integer, v blob)")
    r = random.Random(name)
    insert(db, r)
    insert(db, r)
    before = db.execute("select * from t order by k").fetchall()
    db.close()
    out = subprocess.run([sys.executable, __file__, way, name, journal], capture_output=True, timeout=100)
    print(way, journal, out.returncode, out.stdout.decode().strip(), out.stderr.decode().strip(), sorted(f[len(name):] for f in os.listdir() if f.startswith(name)))
    db = connect(name, journal)
    check(db)
    after = db.execute("select * from t where k < 1000000 order by k").fetchall()
    assert after == before, "a transaction is half there"
    print(way, journal, db.execute("select count(*) from t").fetchone(), digest(after))
    db.close()


# ---- processes and threads that want the same

ACCOUNTS, SUM = 20, 2000


def bank(name, journal, seed):
    db, r = connect(name, journal), random.Random(seed)
    for _ in range(40):
        a, b = r.sample(range(ACCOUNTS), 2)
        db.execute("begin immediate")
        db.execute("update account set balance = balance - 1 where k = ?", (a,))
        db.execute("update account set balance = balance + 1 where k = ?", (b,))
        db.execute("insert into moved values(?, ?, ?)", (seed, a, b))
        db.execute("commit")
    db.close()


def look(name, journal, ended, sums):
    db = connect(name, journal)
    while not ended.is_set():
        sums.add(db.execute("select sum(balance) from account").fetchone()[0])
    db.close()


def contended(journal):
    name, ended, sums = f"bank-{journal}.db", threading.Event(), set()
    db = connect(name, journal)
    db.execute("create table account(k integer primary key, balance integer)")
    db.execute("create table moved(who integer, a integer, b integer)")
    db.executemany("insert into account values(?, ?)", [(k, SUM // ACCOUNTS) for k in range(ACCOUNTS)])
    readers = [threading.Thread(target=look, args=(name, journal, ended, sums)) for _ in range(2)]
    for reader in readers:
        reader.start()
    writers = [subprocess.Popen([sys.executable, __file__, "bank", name, journal, str(seed)]) for seed in range(3)]
    ends = [w.wait(100) for w in writers]
    ended.set()
    for reader in readers:
        reader.join()
    check(db)
    assert sums <= {SUM}, sums
    print("bank", journal, ends, digest(db.execute("select * from account order by k"), db.execute("select who, a, b, count(*) from moved group by 1, 2, 3 order by 1, 2, 3")))
    db.close()


def main():
    match sys.argv[1:]:
        case ["half", name, journal]:
            half(name, journal)
        case ["full", name, journal]:
            full(name, journal)
        case ["bank", name, journal, seed]:
            bank(name, journal, int(seed))
        case [steps]:
            for number, way in enumerate(WAYS):
                session(number, way, int(steps))
            for journal in ("delete", "persist", "wal"):
                whole(f"half-{journal}.db", journal, "half")
                whole(f"full-{journal}.db", journal, "full")
            for journal in ("delete", "wal"):
                contended(journal)
            for name in sorted(os.listdir()):
                if name.endswith(".db") and not name.startswith("bank-"):
                    print(name, bytes_of(name))


main()
