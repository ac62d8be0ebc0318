"""What scripts share that try moments drawn by chance."""

import pathlib
import random
import shutil
import sys
import tempfile


def children(pid):
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
            return [int(word) for word in file.read().split()]
    except OSError:
        return []


def launcher_of(watcher):
    """Of a job with checkpoints: the process that keeps the images, below the one that was started;
    None: it is not there."""
    return next(iter(children(watcher)), None)


def play(sorts, name, moment):
    """ARGUMENTS of the script: MARU JOB MOMENTS [SEED]. Each sort of moment comes once before any
    comes again: moment(maru, program, draw, sort) gives its name, and what was wrong or None. The
    program is JOB by a name of its own, so that its processes can be told. Prints one line for each
    that went wrong, then "N passed, M failed" and the seed; whether any did."""
    maru, job, moments = sys.argv[1], sys.argv[2], int(sys.argv[3])
    seed = int(sys.argv[4]) if len(sys.argv) > 4 else random.randrange(1 << 32)
    draw = random.Random(seed)
    failed, left = 0, []
    with tempfile.TemporaryDirectory() as scratch:
        program = pathlib.Path(scratch).resolve() / name
        shutil.copy(job, program)
        for number in range(moments):
            left = left or draw.sample(sorts, len(sorts))
            what, wrong = moment(maru, program, draw, left.pop())
            if wrong:
                failed += 1
                print(f"FAILED  {what} (seed {seed}, moment {number}): {wrong}", flush=True)
    print(f"{moments - failed} passed, {failed} failed (seed {seed})")
    return failed > 0
