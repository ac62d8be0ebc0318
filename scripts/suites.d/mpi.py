"""mpi4py's tests and MPICH's, on Open MPI and on MPICH: blocking beside non-blocking beside maru.

`maru run --wait` puts non-blocking calls in the place of blocking ones.  nonblocking.c does that alone, without maru: a
test that differs under both shows what the MPI's own non-blocking call does."""

import functools
import os
import re
import shutil
import subprocess
from pathlib import Path

from calls import cases_of, first_missing
from runner import Unit, Way, compiled, fresh, made, version_from, word_of

HERE = Path(__file__).resolve().parent
MPIS = ("openmpi", "mpich")
# Of the Python that has what mpi4py is built with (setuptools, Cython).
PYTHON = os.environ.get("SUITES_PYTHON", "/usr/bin/python3")

# No network, and as many ranks as are asked for on few cores.
ENVIRONMENT = (
    ("OMPI_MCA_btl", "self,vader"),
    ("OMPI_MCA_rmaps_base_oversubscribe", "1"),
    ("OMPI_MCA_hwloc_base_binding_policy", "none"),
    ("OMPI_MCA_plm_rsh_agent", "false"),  # no other host, so no ssh is needed
    ("HYDRA_LAUNCHER", "fork"),
    # Over TCP between ranks of one host, MPICH 4.0.2 hangs in MPI_Finalize now and then.
    ("UCX_TLS", "self,sm"),
)


def launch(mpi, ranks):
    return {"openmpi": ("mpirun.openmpi", "--oversubscribe", "-n", str(ranks)), "mpich": ("mpirun.mpich", "-n", str(ranks))}[mpi]


def ranks_waited(after):
    return after["wait"]["ranks"] > 0


def ways(mpi, build):
    return [
        Way("non-blocking, without maru", ("env", f"LD_PRELOAD={shim(mpi, build)}"), maru=False),
        Way("--wait adaptive", ("--wait", "adaptive"), active=ranks_waited),
        # On CPUs that nobody waits for, adaptive leaves calls to the MPI; yield never does.
        Way("--wait yield", ("--wait", "yield"), active=ranks_waited),
    ]


@functools.lru_cache
def shim(mpi, build):
    library = build / f"libnonblocking-{mpi}.so"
    build.mkdir(parents=True, exist_ok=True)
    if not made():
        subprocess.run([f"mpicc.{mpi}", "-O1", "-shared", "-fPIC", str(HERE / "nonblocking.c"), "-o", str(library)], check=True)
    return library


def installed(mpi):
    needed = [f"mpirun.{mpi}"] if made() else [f"mpirun.{mpi}", f"mpicc.{mpi}"]
    return None if all(map(shutil.which, needed)) else f"no {' and '.join(needed)}"


# ---- mpi4py ---------------------------------------------------------------------

# Not those that start processes on their own, or look at the source's layout.
LEFT = ("test_spawn", "test_dynproc", "test_doc", "test_toplevel", "test_package", "test_mpiapi", "test_ulfm")


def mpi4py_missing(mpi, folder):
    return installed(mpi) or first_missing(folder, "mpi4py/test/mpiunittest.py")


def mpi4py(mpi, folder, build, _jobs):
    place = build / f"mpi4py-{mpi}"
    if not made():
        make_mpi4py(mpi, folder, place)
    tests = place / "source/test"
    environment = (*ENVIRONMENT, ("PYTHONPATH", f"{place}/library:{tests}"), ("PYTHONDONTWRITEBYTECODE", "1"))
    units = []
    for path in sorted(tests.glob("test_*.py")):
        if path.stem not in LEFT:
            command = (*launch(mpi, 3), PYTHON, str(HERE / "cases.py"), "@SCRATCH/outcomes", path.stem)
            units.append(Unit(path.stem, command, seconds=120, environment=environment, read=cases_of))
    return units, {}, version_from(folder / "mpi4py/src/mpi4py/__init__.py", r"__version__ = ['\"](.*)['\"]")


def make_mpi4py(mpi, folder, place):
    library = folder / f"mpi4py-{mpi}/usr/lib/python3/dist-packages"
    if library.is_dir():
        shutil.copytree(folder / "mpi4py/test", fresh(place) / "source/test")
        (place / "library").symlink_to(library)
    elif not (place / "library/mpi4py").is_dir():
        shutil.copytree(folder / "mpi4py", fresh(place) / "source", symlinks=True)
        with open(place / "log", "w") as log:
            pip = [PYTHON, "-m", "pip", "install", "--no-index", "--no-deps", "--no-build-isolation", "--target", str(place / "library"), "."]
            compiler = shutil.which(f"mpicc.{mpi}")
            environment = {**os.environ, "MPICC": compiler, "MPI4PY_BUILD_MPICC": compiler}
            subprocess.run(pip, check=True, cwd=place / "source", stdout=log, stderr=log, env=environment)


# ---- MPICH's suite ----------------------------------------------------------------

PARTS = ("attr", "coll", "comm", "datatype", "errhan", "group", "info", "init", "pt2pt", "rma", "topo")
# What MPI-3.0 took away, and Open MPI's library still has.
FLAGS = "CFLAGS=-O0 -w -DOMPI_OMIT_MPI1_COMPAT_DECLS=0"
MOST = 4  # ranks: more say little else, and take long on few cores


def mpich_missing(mpi, folder):
    return installed(mpi) or first_missing(folder, "mpich/test/mpi/configure" if not made() else "mpich/test/mpi")


def mpich(mpi, folder, build, jobs):
    source, place = folder / "mpich/test/mpi", build / f"mpich-{mpi}"
    if not made() and not (place / "config.status").exists():
        configure_mpich(mpi, source, place)
    parts = [(part, ["make", "-C", str(place / part), "-k", f"-j{jobs}", FLAGS]) for part in ("util", "dtpools") if (place / part).is_dir()]
    compiled(parts, 1, lambda part: place / part)
    lines = [(part, line.split()) for part in PARTS for line in listed(place / part / "testlist", source / part / "testlist")]
    lines = [(part, words) for part, words in lines if int(words[1]) <= MOST]
    programs = sorted({(part, words[0]) for part, words in lines})
    there, missing = compiled([(f"{part}/{name}", ["make", "-C", str(place / part), FLAGS, name]) for part, name in programs], jobs, lambda name: place / name)
    units = []
    for part, words in lines:
        if f"{part}/{words[0]}" in there:
            options = [word.removeprefix("arg=") for word in words[2:] if word.startswith("arg=")]
            command = (*launch(mpi, words[1]), str(place / part / words[0]), *options)
            units.append(Unit(" ".join([f"{part}/{words[0]}", *words[1:]]), command, seconds=90, environment=ENVIRONMENT, read=no_errors))
    # A line may stand twice.
    return list({unit.name: unit for unit in units}.values()), missing, version_from(folder / "mpich/maint/version.m4", r"MPICH_VERSION_m4\],\[(.*?)\]")


def configure_mpich(mpi, source, place):
    fresh(place)
    tools = place.parent / f"mpi-{mpi}/bin"  # the suite takes MPI's tools by their plain names
    fresh(tools)
    for tool in ("mpicc", "mpicxx", "mpiexec", "mpirun"):
        (tools / tool).symlink_to(shutil.which(f"{tool}.{mpi}"))
    options = [f"--with-mpi={tools.parent}", "--disable-fortran", "--disable-cxx", "--disable-spawn", f"CC={shutil.which(f'mpicc.{mpi}')}"]
    with open(place / "log", "w") as log:
        subprocess.run([str(source / "configure"), *options], check=True, cwd=place, stdin=subprocess.DEVNULL, stdout=log, stderr=log)


def listed(*places):
    """The test list of a part: configured, else as it is in the source."""
    text = next((path.read_text() for path in places if path.exists()), "")
    return [line for line in text.splitlines() if re.match(r"\w+ \d+( |$)", line)]


def no_errors(status, said, _scratch, name):
    if status == 0 and not re.search(r"^ ?No Errors", said, re.M):
        return {name: "no verdict"}
    return {name: word_of(status)}
