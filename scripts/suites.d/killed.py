"""SQLite, killed at random: killed.py JOURNAL ROUNDS SEED.  In each round a process writes transactions and notes each
that was committed; it is killed after a random time.  Then the database is whole, no transaction is half there, and
none that was noted is lost.  Prints "round N: OUTCOME"; status 0 if all are ok.  Run by scripts/suites."""

import os
import random
import signal
import sqlite3
import subprocess
import sys
import time

ROWS = 5  # of a transaction


def connect(journal):
    db = sqlite3.connect("killed.db", isolation_level=None, timeout=60)
    for pragma in (f"journal_mode={journal}", "synchronous=normal", "cache_size=8"):
        db.execute("pragma " + pragma).fetchall()
    return db


def write(journal):
    db = connect(journal)
    db.execute("create table if not exists log (number integer, row integer, body blob)")
    number = db.execute("select coalesce(max(number), 0) from log").fetchone()[0]
    noted = os.open("noted", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    while True:
        number += 1
        db.execute("begin immediate")
        db.executemany("insert into log values (?, ?, randomblob(3000))", [(number, row) for row in range(ROWS)])
        db.execute("commit")
        os.write(noted, b"%9d\n" % number)


def wrong(journal):
    """What does not hold, or None."""
    db = connect(journal)
    found = db.execute("pragma integrity_check").fetchall()
    if found != [("ok",)]:
        return f"integrity: {found[:2]}"
    if not db.execute("select name from sqlite_master where name = 'log'").fetchall():
        return "noted without a table" if os.path.exists("noted") else None
    half = db.execute("select number from log group by number having count(*) != ?", (ROWS,)).fetchall()
    there = db.execute("select count(distinct number), coalesce(max(number), 0) from log").fetchone()
    db.close()
    noted = open("noted").read().split() if os.path.exists("noted") else []
    if half or there[0] != there[1]:
        return f"half there: {half[:3]}, {there}"
    last = max(map(int, noted), default=0)
    return f"lost: {last} was noted, {there[1]} is there" if last > there[1] else None


def size_of_noted():
    return os.path.getsize("noted") if os.path.exists("noted") else 0


def main():
    if sys.argv[1] == "write":
        write(sys.argv[2])
    journal, rounds, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    chance, bad = random.Random(seed), 0
    for number in range(rounds):
        before = size_of_noted()
        writer = subprocess.Popen([sys.executable, __file__, "write", journal])
        # Some are killed as they begin.
        end = time.monotonic() + (60 if chance.random() < 0.8 else chance.uniform(0, 0.5))
        while size_of_noted() == before and writer.poll() is None and time.monotonic() < end:
            time.sleep(0.001)
        time.sleep(chance.uniform(0, 0.1))
        writer.send_signal(signal.SIGKILL)
        writer.wait()
        why = wrong(journal)
        print(f"round {number}: {why or 'ok'}", flush=True)
        bad += why is not None
    print(f"{size_of_noted() // 10} transactions noted")
    return 1 if bad or size_of_noted() == 0 else 0


sys.exit(main())
