#!/usr/bin/env python3
"""Which disguises hide a copy?  32 evasions of 15 programs of 200 tokens and more: single operators of
`maru similar generate`, pairs of them, combinations of seven, and its strengths 1 to 6.

  evasions.py MARU OUT.csv SEED SOURCE...

Each copy is compared with all programs at once. It is found when its similarity with its source is
above the 99th percentile of the pairs of different origin. OUT.csv has a line for each copy; printed is
the share that was found, by evasion and by strength. Status 1 where fewer than 95 % were found at a
strength of 3 at most.
"""
import csv
import itertools
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile

# With the strength that has them all.
STRENGTH = {"layout": 1, "comments": 1, "rename": 2, "method-swap": 3, "dead-declarations": 3, "for-to-while": 4, "increment": 4, "parentheses": 4, "comparisons": 4, "split-declarations": 5, "assignments": 5, "conditions": 5, "prints": 5, "statements": 6}


def evasions(rng):
    """Single ones, all; six strengths; pairs and combinations of seven, drawn: 32 in all."""
    names = sorted(STRENGTH)
    chosen = [(n,) for n in names]
    strengths = [tuple(n for n in names if STRENGTH[n] <= s) for s in range(1, 7)]
    easy = [n for n in names if STRENGTH[n] <= 3]
    pairs = rng.sample(list(itertools.combinations(easy, 2)), 4)
    sevens = rng.sample(list(itertools.combinations(names, 7)), 8)
    return chosen + [s for s in strengths if s not in chosen] + pairs + sevens


def programs(maru, sources, scratch):
    """The first 15 that have 200 tokens and more, of different tasks where there are so many."""
    folder = os.path.join(scratch, "all")
    os.makedirs(folder)
    for i, source in enumerate(sources):
        shutil.copy(source, os.path.join(folder, "%03d.java" % i))
    lengths = {}
    table = os.path.join(scratch, "all.csv")
    subprocess.run([maru, "similar", "--csv", table, folder], check=True, stdout=subprocess.DEVNULL)
    similar = {}
    with open(table, newline="") as out:
        for row in csv.DictReader(out):
            lengths[row["left"]], lengths[row["right"]] = int(row["left_tokens"]), int(row["right_tokens"])
            similar[frozenset((row["left"], row["right"]))] = float(row["similarity"])
    chosen = []
    for name in sorted(lengths):
        if lengths[name] >= 200 and all(similar.get(frozenset((name, other)), 0) < 0.5 for other in chosen):
            chosen.append(name)
    if len(chosen) < 15:
        sys.exit("only %d sources of 200 tokens that are no copies of each other; 15 are needed" % len(chosen))
    return [os.path.join(folder, name) for name in chosen[:15]]


def main():
    if len(sys.argv) < 5:
        sys.exit(__doc__)
    maru, out, seed, sources = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4:]
    with tempfile.TemporaryDirectory() as scratch:
        originals = programs(maru, sources, scratch)
        folder, origin, of = os.path.join(scratch, "in"), {}, {}
        os.makedirs(folder)
        for path in originals:
            shutil.copy(path, folder)
            origin[os.path.basename(path)] = os.path.basename(path)
        ways = evasions(random.Random(seed))
        for k, way in enumerate(ways):
            made = os.path.join(scratch, "made%d" % k)
            subprocess.run([maru, "similar", "generate", "--operators", "+".join(way), "--seed", str(seed + k), "--count", "15", "--out", made, *originals], check=True)
            for row in csv.DictReader(open(os.path.join(made, "labels.csv"), newline="")):
                name = "e%02d-%s" % (k, row["source"])
                os.rename(os.path.join(made, row["file"]), os.path.join(folder, name))
                origin[name], of[name] = row["source"], way
        pairs = os.path.join(scratch, "pairs.csv")
        subprocess.run([maru, "similar", "--csv", pairs, "--pairs", "1000000", folder], check=True, stdout=subprocess.DEVNULL)
        innocent, copies = [], {}
        for row in csv.DictReader(open(pairs, newline="")):
            left, right, value = row["left"], row["right"], float(row["similarity"])
            if origin[left] != origin[right]:
                innocent.append(value)
            elif left == origin[left] or right == origin[right]:
                copies[right if left == origin[left] else left] = value
        bar = sorted(innocent)[int(0.99 * len(innocent))]
        report(ways, of, copies, origin, bar, len(innocent), out)


def report(ways, of, copies, origin, bar, innocents, out):
    by_strength = {}
    with open(out, "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["evasion", "strength", "source", "similarity", "bar", "found"])
        for name, way in sorted(of.items()):
            value = copies.get(name, 0.0)
            strength = max(STRENGTH[n] for n in way)
            by_strength.setdefault(strength, []).append(value > bar)
            writer.writerow(["+".join(way), strength, origin[name], "%.6f" % value, "%.6f" % bar, int(value > bar)])
    print("99th percentile of %d pairs of different origin: %.3f" % (innocents, bar))
    for way in ways:
        values = sorted(copies.get(n, 0.0) for n in of if of[n] == way)
        print("  %-9s %2d of %2d, median %.3f  %s" % ("strength " + str(max(STRENGTH[n] for n in way)), sum(v > bar for v in values), len(values), values[len(values) // 2], "+".join(way)))
    for strength in sorted(by_strength):
        hits = by_strength[strength]
        print("strength %d: %d of %d found (%.1f %%)" % (strength, sum(hits), len(hits), 100 * sum(hits) / len(hits)))
    easy = [hit for s in by_strength if s <= 3 for hit in by_strength[s]]
    if sum(easy) < 0.95 * len(easy):
        sys.exit("fewer than 95 % were found up to strength 3")


if __name__ == "__main__":
    main()
