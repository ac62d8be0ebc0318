"""Runs a module of unittest cases and writes how each ends, as it ends: cases.py FILE MODULE.

A line "begin ID" or "end ID OUTCOME" each.  A case that has begun and not ended when FILE is read was met by the end of
the process.  Ranks of an MPI job have a FILE each, with the rank at its end.  Run by scripts/suites."""

import importlib
import os
import re
import sys
import unittest


class Outcomes(unittest.TestResult):
    def __init__(self, file):
        super().__init__()
        self.file, self.worst = file, {}

    def write(self, *words):
        self.file.write(" ".join(words) + "\n")
        self.file.flush()

    @staticmethod
    def name(test):
        # Without the address of an object that is part of it.
        return re.sub(r"\s+", "_", re.sub(r" at 0x[0-9a-f]+", "", test.id()))

    def startTest(self, test):
        self.write("begin", self.name(test))

    def stopTest(self, test):
        self.write("end", self.name(test), self.worst.pop(self.name(test), "ok"))

    def note(self, test, outcome):
        if isinstance(test, unittest.TestCase):
            self.worst[self.name(test)] = outcome
        else:  # a class or module that could not be set up
            self.write("begin", self.name(test))
            self.write("end", self.name(test), outcome)

    def addError(self, test, err):
        print(self.name(test), *self._exc_info_to_string(err, test).splitlines()[-4:], sep="\n  ")
        self.note(test, "error")

    addFailure = addError

    def addSkip(self, test, reason):
        self.note(test, "skipped")

    def addExpectedFailure(self, test, err):
        self.note(test, "expected")

    def addUnexpectedSuccess(self, test):
        self.note(test, "unexpected")

    def addSubTest(self, test, subtest, err):
        if err is not None:
            self.addError(test, err)


def main():
    path, module = sys.argv[1], sys.argv[2]
    rank = os.environ.get("OMPI_COMM_WORLD_RANK") or os.environ.get("PMI_RANK") or "0"
    try:
        # Nothing that needs a network, a screen or gigabytes.
        importlib.import_module("test.support").use_resources = []
    except ImportError:
        pass
    with open(f"{path}.{rank}", "w") as file:
        unittest.defaultTestLoader.loadTestsFromName(module).run(Outcomes(file))


if __name__ == "__main__":
    main()
