#!/usr/bin/env python3
"""How well do checkers rank copies above independent work? ROC-AUC, average precision, best F1 and
recall at precision 0.95, each with a bootstrap interval, and our figure less each peer's, paired.

  evaluate.py --maru build/bin/maru --corpus FOLDER [--peer NAME=COMMAND]...

The corpus is the folder that holds homework-108, its labels and projects. Sets: homework-108 (an
original with each other work on its task; and all pairs), and fresh copies, disguised with the seed
that is given. A peer's command is run with the folder and an output file, to which it writes lines
left,right,score...; `sim_java` is known by name. A pair that a tool does not list has score 0.
"maru lexer" is ours without a grammar. Nothing is tuned here: every tool has its defaults.
"""
import argparse, csv, os, random, re, shutil, subprocess, tempfile, time


def run(tool, command, folder):
    """Scores by pair, processor seconds."""
    with tempfile.TemporaryDirectory() as scratch:
        out = os.path.join(scratch, "out")
        before = os.times()
        if command == "sim_java":
            files = sorted(os.listdir(folder))
            text = subprocess.run(["sim_java", "-e", "-s", "-p", "-t", "1", *files], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout.decode()
            scores = {}
            for line in text.splitlines():
                words = line.split()
                if "consists for" in line:
                    pair = tuple(sorted((words[0], words[6])))
                    scores.setdefault(pair, []).append(float(words[3]) / 100)
            scores = {p: sum(s) / 2 for p, s in scores.items()}
        else:
            subprocess.run(command.split() + [os.path.abspath(folder), out], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            scores = read(out)
        after = os.times()
    return scores, after.children_user + after.children_system - before.children_user - before.children_system


def read(path):
    scores = {}
    for row in csv.reader(open(path, newline="")):
        if len(row) > 2 and row[0] != "left":
            scores[tuple(sorted(row[:2]))] = float(row[2])
    return scores


def ours(maru, mode, prefix=None):
    environment = dict(os.environ, MARU_PREFIX=prefix) if prefix else None

    def of(folder):
        with tempfile.NamedTemporaryFile() as out:
            before = os.times()
            subprocess.run([maru, "similar", "--mode", mode, "--backend", "sequential", "--csv", out.name, folder], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)
            after = os.times()
            return read(out.name), after.children_user + after.children_system - before.children_user - before.children_system
    return of


def ranking(scores, pairs):
    """Positions of the pairs in groups of the same score, the best first."""
    value = [scores.get(p, 0.0) for p in pairs]
    groups, last = [], None
    for i in sorted(range(len(pairs)), key=lambda i: -value[i]):
        if value[i] != last:
            groups.append([])
            last = value[i]
        groups[-1].append(i)
    return groups


def figures(groups, positive, times):
    """AUC, average precision, best F1, recall at precision .95, of pairs taken so many times."""
    total = sum(t for t, p in zip(times, positive) if p)
    rest = sum(times) - total
    tp = fp = auc = ap = best = recall = 0
    for group in groups:
        p = sum(times[i] for i in group if positive[i])
        n = sum(times[i] for i in group) - p
        auc += n * (tp + p / 2)
        tp, fp = tp + p, fp + n
        if tp:
            precision = tp / (tp + fp)
            ap += p * precision
            best = max(best, 2 * tp / (tp + fp + total))
            if precision >= 0.95:
                recall = tp / total
    return auc / (total * rest), ap / total, best, recall


def resampled(positive, rng):
    """How often each pair is drawn: as many positives and as many negatives as there are."""
    times = [0] * len(positive)
    for kind in (True, False):
        of = [i for i, p in enumerate(positive) if p == kind]
        for i in rng.choices(of, k=len(of)):
            times[i] += 1
    return times


def interval(values):
    values = sorted(values)
    return values[int(0.025 * len(values))], values[int(0.975 * len(values))]


NAMES = ("AUC", "AP", "F1", "recall at .95")


def evaluate(title, results, truth, rounds, best_of):
    pairs = sorted(truth)
    positive = [truth[p] for p in pairs]
    rng = random.Random(108)
    draws = [resampled(positive, rng) for _ in range(rounds)]
    print("\n%s: %d copies, %d independent pairs" % (title, sum(positive), len(pairs) - sum(positive)))
    samples = {}
    for tool, scores in results.items():
        groups = ranking(scores, pairs)
        samples[tool] = [figures(groups, positive, d) for d in draws]
        point = figures(groups, positive, [1] * len(pairs))
        print("  %-12s" % tool + "  ".join("%s %.3f [%.3f, %.3f]" % (n, point[k], *interval([s[k] for s in samples[tool]])) for k, n in enumerate(NAMES)))
    for tool in results:
        if tool != best_of:
            print("  %s - %-12s" % (best_of, tool) + "  ".join("%s [%+.3f, %+.3f]" % (n, *interval([a[k] - b[k] for a, b in zip(samples[best_of], samples[tool])])) for k, n in enumerate(NAMES)))


def homework(labels):
    rows = {r["file"]: (r["case"], r["kind"]) for r in csv.DictReader(open(labels, newline=""))}
    files = sorted(rows)
    task, everything = {}, {}
    for i, a in enumerate(files):
        for b in files[i + 1:]:
            same, kinds = rows[a][0] == rows[b][0], (rows[a][1], rows[b][1])
            everything[a, b] = same and "non-plagiarized" not in kinds
            if same and "original" in kinds:
                task[a, b] = everything[a, b]
    return task, everything


def lineage(folder):
    """Copies of one source, or a copy and its source."""
    files = sorted(os.listdir(folder))
    source = {f: re.sub(r"-s[1-6]-[0-9]+$", "", f.removesuffix(".java")) for f in files}
    return {(a, b): source[a] == source[b] for i, a in enumerate(files) for b in files[i + 1:]}


def disguised(maru, sources, strength, seed, into):
    """The sources and a copy of each for each strength, A-B."""
    first, last = map(int, strength.split("-"))
    copies, names = last - first + 1, []
    os.makedirs(into)
    for path in sources:
        name = os.path.join(into, os.path.basename(os.path.dirname(path)) + "-" + os.path.basename(path))
        shutil.copy(path, name)
        names.append(name)
    made = into + ".copies"
    subprocess.run([maru, "similar", "generate", "--seed", str(seed), "--strength", strength, "--count", str(copies * len(names)), "--out", made, *names], check=True)
    for name in os.listdir(made):
        if name.endswith(".java"):
            os.rename(os.path.join(made, name), os.path.join(into, name))


def under(folder, wanted):
    return sorted(os.path.join(d, f) for d, _, fs in os.walk(folder) for f in fs if f.endswith(".java") and wanted(f))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--maru", required=True)
    parser.add_argument("--corpus", required=True)
    parser.add_argument("--own", help="a folder of more sources; files with 'copy' in their names are not taken")
    parser.add_argument("--peer", action="append", default=[])
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--rounds", type=int, default=200)
    args = parser.parse_args()
    # Below this prefix there is no grammar.
    tools = {"maru": ours(args.maru, "score"), "maru lexer": ours(args.maru, "score", "/nonexistent"), "maru seed": ours(args.maru, "seed")}
    for peer in args.peer:
        name, _, command = peer.partition("=")
        tools[name] = lambda folder, name=name, command=command or name: run(name, command, folder)
    print("seed of the disguised copies: %d" % args.seed)
    with tempfile.TemporaryDirectory() as scratch:
        folder = os.path.join(args.corpus, "homework-108")
        task, everything = homework(folder + ".labels.csv")
        independent = under(folder, lambda f: "_np_" in f or "_orig" in f)
        larger = under(os.path.join(args.corpus, "projects", "4-src"), lambda f: True) + (under(args.own, lambda f: "copy" not in f) if args.own else [])
        folders = [(folder, [("homework-108, an original and each other work on its task", task), ("homework-108, all pairs", everything)])]
        made = [("homework", independent, "1-2"), ("larger programs", larger, "1-3"), ("homework", independent, "4-6"), ("larger programs", larger, "4-6")]
        for n, (what, sources, strength) in enumerate(made):
            where = os.path.join(scratch, "made%d" % n)
            disguised(args.maru, sources, strength, args.seed + n, where)
            folders.append((where, [("copies of %s, disguised with strengths %s" % (what, strength), lineage(where))]))
        for where, sets in folders:
            results = {}
            for tool, of in tools.items():
                results[tool], seconds = of(where)
                print("%-12s %.2f CPU seconds" % (tool, seconds))
            for title, truth in sets:
                evaluate(title, results, truth, args.rounds, "maru")


if __name__ == "__main__":
    main()
