"""How a program ends, and nothing left of what it started: a seeded fault may be that a process never
learns of another's end.
"""
import contextlib
import os
import signal
import subprocess
import tempfile


def outcome(command, seconds, **options):
    """Its status and what it printed; None where it does not end in so many seconds.

    It has a group of its own, which is killed however this function ends. The output is looked at
    until the program ends, not until all have that hold it.
    """
    with tempfile.TemporaryFile("w+", errors="replace") as output:
        program = subprocess.Popen(list(map(str, command)), stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, start_new_session=True, **options)
        try:
            status = program.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            return None
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(program.pid, signal.SIGKILL)
            program.wait()
        output.seek(0)
        return status, output.read()
