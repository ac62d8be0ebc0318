#!/usr/bin/env python3
"""One measurement of map/peers: peer.py PEER LIBRARY KIND SIZE WORKERS

PEER is multiprocessing, joblib, mpire, ray or gnu-parallel. It prints `ready`, waits for a line, maps,
and prints a line of JSON. Starting workers and ending them is inside, importing modules outside. Of
maps in a row a first one comes before the clock starts.
"""
import ctypes
import json
import os
import resource
import subprocess
import sys
import tempfile
import time

PEER, LIBRARY, KIND = sys.argv[1:4]
SIZE, WORKERS = int(sys.argv[4]), int(sys.argv[5])
MARK = os.environ.get("MARU_BENCH_MARK", "")
RESULT = 4 << 20
LOOKS = 16
INPUT = 64 << 20
SPUN = {"nothing": 0, "us10": 10, "iterated": 10, "ms1": 1000, "killed": 1000, "ms100": 100000}
LARGE = bytes(range(251)) * (INPUT // 251 + 1) if KIND == "input" else b""
LARGE = memoryview(LARGE)[:INPUT] if PEER == "multiprocessing" or PEER == "mpire" else LARGE[:INPUT]

work = None
begun = 0


def library():
    """Loaded in each process: a handle does not travel."""
    global work
    if work is None:
        work = ctypes.CDLL(LIBRARY)
    return work


def item(index):
    if KIND == "results":
        return bytes([index % 256]) * RESULT
    if KIND == "killed" and index == 20:
        library().peers_die_once(MARK.encode())
    us = (20000 if index >= 60 else 1000) if KIND == "skewed" else SPUN[KIND]
    if us:
        library().peers_spin(ctypes.c_long(us))
    return index + 1


def look(large, index):
    return sum(large[(index * 1000003 + k * 65537) % INPUT] for k in range(LOOKS))


def look_global(index):
    return look(LARGE, index)


def summary(results):
    return sum(len(r) + r[0] for r in results) if KIND == "results" else sum(results)


def iterated(map_once):
    global begun
    map_once(range(8))
    begun = time.monotonic_ns()
    total = 0
    for k in range(1, SIZE + 1):
        total += sum(map_once([i + total % 2 for i in range(k, k + 8)]))
    return total


def single(map_once):
    """One map, or a row of them over workers that stay."""
    return iterated(map_once) if KIND == "iterated" else summary(map_once(range(1, SIZE + 1)))


def by_multiprocessing():
    import multiprocessing

    def run():
        with multiprocessing.Pool(WORKERS) as pool:
            chunk = 1 if KIND in ("skewed", "ms100") else None
            total = single(lambda xs: pool.map(look_global if KIND == "input" else item, xs, chunk))
            pool.close()
            pool.join()
        return total

    return run


def by_joblib():
    import joblib
    import numpy

    large = numpy.frombuffer(LARGE, dtype=numpy.uint8)

    def run():
        with joblib.Parallel(n_jobs=WORKERS) as pool:
            if KIND == "input":
                total = single(lambda xs: pool(joblib.delayed(look_int)(large, x) for x in xs))
            else:
                total = single(lambda xs: pool(joblib.delayed(item)(x) for x in xs))
        # Its workers stay for the next call; here they end, as all others' do.
        joblib.externals.loky.get_reusable_executor().shutdown(wait=True)
        return total

    return run


def look_int(large, index):
    return sum(int(large[(index * 1000003 + k * 65537) % INPUT]) for k in range(LOOKS))


def by_mpire():
    import mpire

    def run():
        with mpire.WorkerPool(WORKERS, keep_alive=KIND == "iterated", start_method="fork") as pool:
            chunk = 1 if KIND in ("skewed", "ms100") else None
            return single(lambda xs: pool.map(look_global if KIND == "input" else item, list(xs), chunk_size=chunk))

    return run


def by_ray():
    import numpy
    import ray
    from ray.util.multiprocessing import Pool

    large = numpy.frombuffer(LARGE, dtype=numpy.uint8)

    def run():
        ray.init(num_cpus=WORKERS, include_dashboard=False, logging_level="ERROR", log_to_driver=False)
        pool = Pool(WORKERS)
        chunk = 1 if KIND in ("skewed", "ms100") else None
        if KIND == "input":
            shared = ray.put(large)
            total = single(lambda xs: pool.map(lambda x: look_int(ray.get(shared), x), xs, chunksize=chunk))
        else:
            total = single(lambda xs: pool.map(item, xs, chunksize=chunk))
        pool.terminate()
        ray.shutdown()
        return total

    return run


def by_gnu_parallel():
    command = os.path.join(os.path.dirname(LIBRARY), "item")
    path = ""
    if KIND == "input":
        file = tempfile.NamedTemporaryFile()
        file.write(LARGE)
        file.flush()
        path = file.name

    def once(xs, keep=file if KIND == "input" else None):
        # Many items a process, but where they are long.
        pack = [] if KIND in ("skewed", "ms100", "killed", "results") else ["-X"]
        given = "".join(f"{x}\n" for x in xs).encode()
        done = subprocess.run(
            ["parallel", "--will-cite", "-j", str(WORKERS), "--retries", "3", *pack, command, KIND, path or "-", MARK or "-"],
            input=given, stdout=subprocess.PIPE, check=True)
        if KIND == "results":
            return [done.stdout[k : k + RESULT] for k in range(0, len(done.stdout), RESULT)]
        return [int(line) for line in done.stdout.split()]

    return lambda: single(once)


def cpu_ns(who):
    use = resource.getrusage(who)
    return round(1e9 * (use.ru_utime + use.ru_stime))


def main():
    global begun
    run = {"multiprocessing": by_multiprocessing, "joblib": by_joblib, "mpire": by_mpire, "ray": by_ray, "gnu-parallel": by_gnu_parallel}[PEER]()
    print("ready", flush=True)
    sys.stdin.readline()
    own, theirs = cpu_ns(resource.RUSAGE_SELF), cpu_ns(resource.RUSAGE_CHILDREN)
    begun = time.monotonic_ns()
    checksum = run()
    ended = time.monotonic_ns()
    meter = {"wall_ns": ended - begun, "cpu_self_ns": cpu_ns(resource.RUSAGE_SELF) - own}
    # Ray's workers are no children of ours.
    if PEER != "ray":
        meter["cpu_children_ns"] = cpu_ns(resource.RUSAGE_CHILDREN) - theirs
    print(json.dumps({"meter": meter, "checksum": int(checksum)}), flush=True)


if __name__ == "__main__":
    main()
