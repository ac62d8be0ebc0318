#!/usr/bin/env python3
"""A corpus to time checkers with, from real sources, the same on every machine.

  corpus.py N OUT MARU SOURCE...   N programs into the folder OUT; MARU is the command

A quarter of the programs is composed: sources, or stretches of long ones, drawn until a size is
reached that is drawn itself (log-normal, median 3.3 KB, at most 20 KB: some 660 tokens). The others
are copies of these, disguised. Such a corpus shares more than a class does: its figures of time are
no better than those of real programs.
"""
import os
import random
import subprocess
import sys


def stretch(text, size, rng):
    """A source, or as many of its lines as have about that size."""
    if len(text) <= 2 * size:
        return text
    lines = text.split(b"\n")
    first = rng.randrange(len(lines))
    return b"\n".join(lines[first:first + int(size / 30)])


def compose(texts, rng):
    size, parts = min(20000, rng.lognormvariate(8.1, 0.6)), []
    while sum(map(len, parts)) < size:
        parts.append(stretch(rng.choice(texts), size, rng))
    return b"\n".join(parts)


def main():
    if len(sys.argv) < 5:
        sys.exit(__doc__)
    n, out, maru, sources = int(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4:]
    rng = random.Random(108)
    texts = []
    for source in sources:
        with open(source, "rb") as file:
            texts.append(file.read())
    os.makedirs(out, exist_ok=True)
    names = [os.path.join(out, "s%05d.java" % i) for i in range((n + 3) // 4)]
    for name in names:
        with open(name, "wb") as file:
            file.write(compose(texts, rng))
    if n > len(names):
        copies = out.rstrip("/") + ".copies"
        subprocess.run([maru, "similar", "generate", "--seed", "7", "--count", str(n - len(names)), "--out", copies, *names], check=True)
        os.rename(os.path.join(copies, "labels.csv"), out.rstrip("/") + ".labels.csv")
        for name in os.listdir(copies):
            os.rename(os.path.join(copies, name), os.path.join(out, name))
        os.rmdir(copies)


if __name__ == "__main__":
    main()
