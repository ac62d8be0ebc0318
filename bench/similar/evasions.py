#!/usr/bin/env python3
"""Which disguises hide a copy?  32 evasions of programs of 200 tokens and more: single operators of
`maru similar generate`, pairs of them, combinations of seven, and its strengths 1 to 6.

  evasions.py MARU OUT.csv SEED CORPUS [OWN]

Two collections of independent work. CORPUS holds homework-108: a submission is what one student wrote
for both tasks, the original is one more. One of two that its makers suspect to be copies is left out.
OWN has programs TASK-STUDENT.java, those of one task independent; `copy` in a name: not taken.

A copy is found when its similarity with its source is above the 99th percentile of the innocent pairs
of its class: those of different origin on the same task, disguised ones among them. Of fewer than a
hundred that is the most similar. A class is the collection with one copy ("alone"), and again with a
copy of each program by the same evasion ("all").

OUT.csv has a line for each copy and way; printed is the share that was found, by evasion and by
strength. Status 1 where fewer than 95 % were found at a strength of 3 at most, in either collection,
in either way.
"""
import collections
import csv
import glob
import itertools
import os
import random
import shutil
import subprocess
import sys
import tempfile

# With the strength that has them all.
STRENGTH = {"layout": 1, "comments": 1, "rename": 2, "method-swap": 3, "dead-declarations": 3, "for-to-while": 4, "increment": 4, "parentheses": 4, "comparisons": 4, "split-declarations": 5, "assignments": 5, "conditions": 5, "prints": 5, "statements": 6}
LEAST = 200
SUSPECT = "15"
COPY = "~copy"

Copy = collections.namedtuple("Copy", "evasion strength collection source way similarity bar found")


def evasions(rng):
    """Single ones, all; six strengths; pairs and combinations of seven, drawn: 32 in all."""
    names = sorted(STRENGTH)
    chosen = [(n,) for n in names]
    strengths = [tuple(n for n in names if STRENGTH[n] <= s) for s in range(1, 7)]
    easy = [n for n in names if STRENGTH[n] <= 3]
    pairs = rng.sample(list(itertools.combinations(easy, 2)), 4)
    sevens = rng.sample(list(itertools.combinations(names, 7)), 8)
    return chosen + [s for s in strengths if s not in chosen] + pairs + sevens


def homework(corpus):
    """The files of each submission; all are on one task."""
    numbers = sorted(os.path.basename(f)[len("case-02_np_"):-len(".java")] for f in glob.glob(os.path.join(corpus, "homework-108", "case-02_np_*.java")))
    kinds = ["np_" + n for n in numbers if n != SUSPECT] + ["orig"]
    return {"homework-" + k: [os.path.join(corpus, "homework-108", "case-%s_%s.java" % (case, k)) for case in ("02", "06")] for k in kinds}


def own(folder):
    return {os.path.basename(f)[:-len(".java")]: [f] for f in sorted(glob.glob(os.path.join(folder, "*.java"))) if "copy" not in f}


def task(submission):
    return submission.split("-")[0]


def put(files, folder):
    os.makedirs(folder)
    for file in files:
        shutil.copy(file, folder)


def compared(maru, folder):
    """Rows of all pairs."""
    with tempfile.NamedTemporaryFile() as out:
        subprocess.run([maru, "similar", "--backend", "sequential", "--csv", out.name, "--pairs", "1000000", folder], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return list(csv.DictReader(open(out.name, newline="")))


def long_enough(maru, folder):
    return sorted({row[side] for row in compared(maru, folder) for side in ("left", "right") if int(row[side + "_tokens"]) >= LEAST})


def judged(maru, folder):
    """The similarity of each copy with its source, and the bar of its class."""
    innocent, copies = [], {}
    for row in compared(maru, folder):
        left, right = (row[side].removesuffix(COPY) for side in ("left", "right"))
        if left == right:
            copies[left] = float(row["similarity"])
        elif task(left) == task(right):
            innocent.append(float(row["similarity"]))
    return copies, sorted(innocent)[int(0.99 * len(innocent))]


def disguised(maru, way, seed, files, folder):
    subprocess.run([maru, "similar", "generate", "--operators", "+".join(way), "--seed", str(seed), "--count", str(len(files)), "--out", folder, *files], check=True)
    os.remove(os.path.join(folder, "labels.csv"))


def evade(maru, name, submissions, ways, seed, scratch):
    """A Copy for each evasion, program of LEAST tokens and way."""
    folder = os.path.join(scratch, name)
    for submission, files in submissions.items():
        put(files, os.path.join(folder, submission))
    sources = long_enough(maru, folder)
    for k, way in enumerate(ways):
        made = {s: os.path.join(scratch, s + COPY) for s in sources}
        for source in sources:
            disguised(maru, way, seed + k, submissions[source], made[source])
        strength = max(STRENGTH[n] for n in way)

        def classed(title, some):
            for source in some:
                shutil.copytree(made[source], os.path.join(folder, source + COPY))
            copies, bar = judged(maru, folder)
            for source in some:
                shutil.rmtree(os.path.join(folder, source + COPY))
                value = copies.get(source, 0.0)
                yield Copy("+".join(way), strength, name, source, title, "%.6f" % value, "%.6f" % bar, int(value > bar))

        for source in sources:
            yield from classed("alone", [source])
        yield from classed("all", sources)
        for source in sources:
            shutil.rmtree(made[source])


def share(copies):
    return "%4d of %4d (%5.1f %%)" % (sum(c.found for c in copies), len(copies), 100 * sum(c.found for c in copies) / len(copies))


def report(found):
    """Whether the share is enough where it has to be."""
    enough = True
    for (name, way), copies in itertools.groupby(sorted(found, key=lambda c: (c.collection, c.way, c.strength)), key=lambda c: (c.collection, c.way)):
        copies = list(copies)
        print("%s, %s: %d programs; bars %s to %s" % (name, way, len({c.source for c in copies}), min(c.bar for c in copies), max(c.bar for c in copies)))
        for evasion in sorted({c.evasion for c in copies}, key=lambda e: (max(STRENGTH[n] for n in e.split("+")), len(e), e)):
            of = [c for c in copies if c.evasion == evasion]
            print("  %d  %s  median %s  %s" % (of[0].strength, share(of), sorted(c.similarity for c in of)[len(of) // 2], evasion))
        for strength in sorted({c.strength for c in copies}):
            print("  strength %d: %s" % (strength, share([c for c in copies if c.strength == strength])))
        easy = [c for c in copies if c.strength <= 3]
        enough = enough and sum(c.found for c in easy) >= 0.95 * len(easy)
    return enough


def main():
    if len(sys.argv) not in (5, 6):
        sys.exit(__doc__)
    maru, out, seed = sys.argv[1], sys.argv[2], int(sys.argv[3])
    collections_ = {"homework": homework(sys.argv[4])}
    if len(sys.argv) > 5:
        collections_["own"] = own(sys.argv[5])
    ways = evasions(random.Random(seed))
    with tempfile.TemporaryDirectory() as scratch:
        found = [c for name, submissions in collections_.items() for c in evade(maru, name, submissions, ways, seed, scratch)]
    with open(out, "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(Copy._fields)
        writer.writerows(found)
    if not report(found):
        sys.exit("fewer than 95 % were found up to strength 3")


if __name__ == "__main__":
    main()
