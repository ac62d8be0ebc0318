"""glibc's tests of POSIX threads and the Open POSIX suite, under every lock of the overlay and under the profile."""

from runner import Unit, Way, compiled, fresh, made, one_test, version_from


def overlay(after):
    return after["lock"]["processes"] > 0


def ways():
    return [Way(f"--lock {lock}", ("--lock", lock), active=overlay) for lock in ("pass", "fifo", "cna", "shfl", "malthusian")] + [
        Way("--lock-profile", ("--lock-profile",), active=overlay)
    ]


# ---- glibc ----------------------------------------------------------------------

# What glibc's own build would say, for programs that use the libc that is installed.
PRELUDE = """#include <limits.h>
#include <sys/socket.h>
#define attribute_hidden
#define libc_hidden_proto(name)
#define libc_hidden_def(name)
#define _STACK_GROWS_DOWN 1
#define DEFAULT_STACK_PERMS 7
"""
# Of the folders that are searched after the system's.
AFTER = ("include", ".", "sysdeps/generic", "sysdeps/nptl", "sysdeps/x86", "sysdeps/x86_64", "sysdeps/unix/sysv/linux")
PATHS = ("OBJDIR", "SRCDIR", "INSTDIR", "LIBDIR", "BINDIR", "SBINDIR", "ROOTSBINDIR", "COMPLOCALEDIR", "LOCALEDIR", "SYSCONFDIR", "OBJDIR_ELF_LDSO", "SLIBDIR")


def nptl_missing(folder):
    return None if (folder / "glibc/nptl").is_dir() else "no folder glibc with glibc's sources"


def nptl(folder, build, jobs):
    source, place = folder / "glibc", fresh(build / "nptl")
    flags = flags_of(source, place)
    library = place / "libsupport.a"
    if not made():
        make_support(source, place, flags, library, jobs)
    sources = {path.stem: path for part in ("sysdeps/pthread", "nptl") for path in sorted((source / part).glob("tst*.c")) if "mod" not in path.stem and "static" not in path.stem}
    programs, missing = compiled(
        [(name, [*flags, str(path), str(library), "-o", str(place / name), "-lpthread", "-lrt", "-ldl", "-lm"]) for name, path in sources.items()], jobs, place.joinpath
    )
    units = [Unit(name, (str(place / name),), seconds=100, environment=(("TIMEOUTFACTOR", "3"),), read=one_test()) for name in programs]
    return units, missing, version_from(source / "version.h", r'VERSION "(.*)"')


def flags_of(source, place):
    flags = ["cc", "-D_GNU_SOURCE", "-std=gnu11", "-O2", "-w", "-DMODULE_NAME=testsuite", "-DTIMEOUTFACTOR=1", "-include", str(place / "include/prelude.h")]
    flags += [f"-I{path}" for path in (place / "include", source / "support", source / "nptl", source / "sysdeps/pthread")]
    for after in AFTER:
        flags += ["-idirafter", str(source / after)]
    return flags + [f'-D{name}_PATH="/nowhere"' for name in PATHS]


def make_support(source, place, flags, library, jobs):
    """The support library, without what has a main function of its own."""
    (place / "include").mkdir()
    for name, text in (("prelude.h", PRELUDE), ("stackinfo.h", ""), ("config.h", ""), ("abi-versions.h", "")):
        (place / "include" / name).write_text(text)
    (place / "include/support").symlink_to(source / "support")
    mains = ("tst-", "links-", "true-", "false-", "echo-", "shell-", "test-")
    parts = [path for path in sorted((source / "support").glob("*.c")) if not path.name.startswith(mains)]
    there, _ = compiled([(path.stem, [*flags, "-c", str(path), "-o", str(place / f"{path.stem}.o")]) for path in parts], jobs, place.joinpath)
    compiled([("library", ["ar", "rcs", str(library), *(str(place / f"{name}.o") for name in there)])], 1, place.joinpath)


# ---- the Open POSIX suite ---------------------------------------------------------

POSIX = "ltp/testcases/open_posix_testsuite"
STATUSES = {1: "failed", 2: "unresolved", 4: "unsupported", 5: "untested"}
INTERFACES = ("pthread_", "sem_", "mq_", "sched_")


def posix_programs(folder):
    found = sorted((folder / POSIX / "conformance/interfaces").glob("*/*.run-test"))
    return [path for path in found if path.parent.name.startswith(INTERFACES)]


def posix_missing(folder):
    if not (folder / POSIX).is_dir():
        return f"no folder {POSIX}"
    return None if posix_programs(folder) else f"{POSIX} is not built"


def posix(folder, _build, _jobs):
    units = []
    for path in posix_programs(folder):
        name = f"{path.parent.name}/{path.name.removesuffix('.run-test')}"
        units.append(Unit(name, (str(path),), seconds=120, read=one_test(STATUSES)))
    return units, {}, version_of_ltp(folder)


def version_of_ltp(folder):
    return version_from(folder / "ltp/VERSION", r"^(\S+)")
