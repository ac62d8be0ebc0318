#!/usr/bin/env python3
"""A corpus to time checkers with, from real sources, the same on every machine.

  corpus.py N OUT MARU SOURCE...   N programs into the folder OUT; MARU is the command

A quarter of the programs is composed: classes, or stretches of the members of long ones, drawn until
a size is reached that is drawn itself (log-normal): 1000 programs from the sources of homework
projects have 4 MB, and a median of 650 tokens. Imports stand on top and braces match, so that a parser takes them. The others are copies of these,
disguised. Such a corpus shares more than a class does: its figures of time are no better than those
of real programs.
"""
import os
import random
import re
import subprocess
import sys

TOKEN = re.compile(rb'//[^\n]*|/\*.*?\*/|"""(?:\\.|.)*?"""|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|[{};]|\bimport\b|\bpackage\b', re.S)


def pieces(text, depth_wanted):
    """The stretches of a text that end at that depth of braces, by a semicolon or a brace."""
    depth, start = 0, 0
    for match in TOKEN.finditer(text):
        word = match.group()
        depth += {b"{": 1, b"}": -1}.get(word, 0)
        if depth < depth_wanted:
            return
        if depth == depth_wanted and word in (b"}", b";"):
            yield text[start:match.end()]
            start = match.end()


def parts(text):
    """The imports of a source, and its classes as (head, members); others as (whole, None)."""
    imports, types = [], []
    for piece in pieces(text, 0):
        code = re.sub(TOKEN, lambda m: m.group() if m.group()[:1] not in b"/" else b" ", piece).strip()
        if code.startswith(b"import"):
            imports.append(code)
        elif re.match(rb"[^{(]*\bclass\b[^{(]*\{", code):
            head, _, body = piece.partition(b"{")
            types.append((head, list(pieces(body, 0))))
        elif code.endswith(b"}"):
            types.append((piece, None))
    return imports, types


def stretch(types, size, rng):
    """Its classes, or as many members in a row of one as have about that size."""
    whole = [h if m is None else h + b"{" + b"".join(m) + b"\n}" for h, m in types]
    if sum(map(len, whole)) <= 2 * size:
        return b"\n".join(whole)
    head, members = rng.choice([t for t in types if t[1]] or [(types[0][0], None)])
    if members is None:
        return head
    first, taken = rng.randrange(len(members)), []
    for member in members[first:] + members[:first]:
        if sum(map(len, taken)) >= size:
            break
        taken.append(member)
    return head + b"{" + b"".join(taken) + b"\n}"


def compose(sources, rng):
    size, imports, bodies = min(20000, rng.lognormvariate(7.89, 0.3)), [], []
    while sum(map(len, bodies)) < size:
        named, types = rng.choice(sources)
        imports += [i for i in named if i not in imports]
        bodies.append(stretch(types, size, rng))
    return b"\n".join(sorted(imports) + bodies) + b"\n"


def main():
    if len(sys.argv) < 5:
        sys.exit(__doc__)
    n, out, maru = int(sys.argv[1]), sys.argv[2], sys.argv[3]
    rng = random.Random(108)
    sources = []
    for path in sys.argv[4:]:
        with open(path, "rb") as file:
            found = parts(file.read())
            if found[1]:
                sources.append(found)
    os.makedirs(out, exist_ok=True)
    names = [os.path.join(out, "s%05d.java" % i) for i in range((n + 3) // 4)]
    for name in names:
        with open(name, "wb") as file:
            file.write(compose(sources, rng))
    if n > len(names):
        copies = out.rstrip("/") + ".copies"
        # Of some files at a time: a command line has an end.
        each, labels = (n - len(names)) // len(names) if n % 4 == 0 else 0, []
        for first in range(0, len(names), 2000):
            some = names[first:first + 2000]
            count = each * len(some) if each else n - len(names)
            subprocess.run([maru, "similar", "generate", "--seed", str(7 + first), "--count", str(count), "--out", copies, *(some if each else names)], check=True)
            with open(os.path.join(copies, "labels.csv")) as file:
                labels += file.readlines()[1 if labels else 0:]
            os.remove(os.path.join(copies, "labels.csv"))
            for name in os.listdir(copies):
                os.rename(os.path.join(copies, name), os.path.join(out, name))
            if not each:
                break
        os.rmdir(copies)
        with open(out.rstrip("/") + ".labels.csv", "w") as file:
            file.writelines(labels)


if __name__ == "__main__":
    main()
