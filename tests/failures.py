# SPDX-License-Identifier: Apache-2.0
"""How a test that failed is told: at once, with the command that runs it alone, and whether a second run may excuse it.

NEREID_FAILURES names a file that gets a line for each test that failed: `hard` or `soft`, the test's name, that command (scripts/test reads it).
Hard is what no second run can excuse: a sanitizer's report, an assert of the product, a crash, a leak.
"""
import os
import re
import shlex
import signal

import pytest

# What sanitizers, assert() and the C library print, and what Python says of a process that a signal ended.
HARD = re.compile(r"Sanitizer:|runtime error:|: Assertion `|\*\*\* stack smashing|(malloc|free|realloc|calloc)\(\): |died with <Signals")
CHOICES = ("NEREID_BUILD", "NEREID_WORKER", "NEREID_FAKE_GPUS", "NEREID_ISOLATE")  # variables that change what a test does


# NVIDIA's libraries run in these tests, some of them in our process: a signal that ends it is theirs as likely as ours, so a second run decides.
FOREIGN = re.compile(r"_triton\.py::|\btriton\b.*\]$")


class Crash(AssertionError):
    """A process of the product ended as no test asked it to."""


CRASHES = {-number for number in (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGILL, signal.SIGFPE, signal.SIGTRAP)}
SANITIZERS = {98, 99}  # environment() in e2e/conftest.py tells them to end so


def ended_badly(status):
    """Whether a process's return code is one that no test asks for."""
    return status in CRASHES | SANITIZERS


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if report.failed:
        crashed = call.excinfo.errisinstance(Crash) and not FOREIGN.search(item.nodeid)
        report.hard = crashed or HARD.search(report.longreprtext) is not None
    return report


def again(nodeid):
    chosen = [f"{name}={shlex.quote(os.environ[name])}" for name in CHOICES if name in os.environ]
    return " ".join([*chosen, ".venv/bin/python -m pytest", shlex.quote(nodeid)])


class Teller:
    """In the process that talks to the terminal."""

    def __init__(self, reporter):
        self.reporter = reporter
        self.hard = {}  # of each test that failed

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report):
        """A run that is cut off has named what failed."""
        if report.failed:
            crash = getattr(report.longrepr, "reprcrash", None)
            lines = (crash.message if crash else str(report.longrepr)).strip().splitlines()
            self.reporter.ensure_newline()
            self.reporter.write_line(f"FAILED ({report.when}) {report.nodeid}: {' | '.join(lines[:3])[:600]}")
            # "???" is xdist's own report of a process of the tests that ended.
            self.hard[report.nodeid] = self.hard.get(report.nodeid, False) or getattr(report, "hard", report.when == "???")

    def pytest_collectreport(self, report):
        if report.failed:
            self.hard[report.nodeid] = True

    def pytest_terminal_summary(self):
        for nodeid in sorted(self.hard):
            self.reporter.write_line(f"again: {again(nodeid)}")

    def pytest_sessionfinish(self):
        if "NEREID_FAILURES" in os.environ:
            with open(os.environ["NEREID_FAILURES"], "a") as file:
                file.writelines(f"{'hard' if hard else 'soft'}\t{nodeid}\t{again(nodeid)}\n" for nodeid, hard in sorted(self.hard.items()))


@pytest.hookimpl(trylast=True)
def pytest_sessionstart(session):
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None and not hasattr(session.config, "workerinput"):
        session.config.pluginmanager.register(Teller(reporter))
