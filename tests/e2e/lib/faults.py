# SPDX-License-Identifier: Apache-2.0
"""Steers tests/fakes/fault_injector.c: which calls of a server are counted, and which of them fail.

A *site* is a place in the program, told by its call stack: failing each distinct stack once finds more than failing calls
that a loop repeats.
"""
import contextlib
import json
import mmap
import os
import re
import struct
import subprocess
import time

import proc
from conftest import BUILD, PATIENCE, SANITIZER_REPORT, environment, wait_for

INJECTOR = BUILD / "tests/fakes/fault_injector.so"
SETS = {
    name: 1 << bit
    for bit, name in enumerate(
        ["memory", "accept", "epoll", "wait", "descriptors", "read", "write", "files", "map", "threads", "net"]
    )
}
OWN, LIBRARIES, ALL = range(3)

# Calls that are not made to fail, since what then happens is no work of nereid. Functions and libraries (how their names
# begin) with the reason.
SPARED_FUNCTIONS = {
    "json_loadb": "jansson 2.14: lex_save() in load.c does not look whether its buffer grew, and dies by SIGSEGV",
}
SPARED_LIBRARIES = {
    "libonnxruntime": "1.31.1 dies by SIGSEGV when CreateSession lacks memory",
    "libgmp": "6.2.1 aborts by design when it lacks memory, in GnuTLS's handshakes",
    "libgnutls": "3.7.9 dies by SIGSEGV when certificates lack memory",
    "libtasn1": "the same",
    "libasan": "a sanitizer",
    "libtsan": "a sanitizer",
    "libubsan": "a sanitizer",
    "libtriton_faulty": "a fake that misbehaves on purpose",
    "libtriton_stateful": "a fake that aborts without memory",
    "libcuda": "a driver that is played: its calls fail by themselves",
    "libnvidia-ml": "the same",
    "?": "code that no library holds: there is no telling whose it is",
}
SHORT = -1  # instead of an errno: one byte is read or written
PAUSE = -2  # the call is made, and its thread stays there until it is released

# Where things lie in fault_control.
ARMED, PLAN, RELEASED, CALLS, FAILED, REPORT, STACKS = 0, 4, 12, 40, 48, 56, 56 + 4096
STACKS_MAX = 1 << 16
SIZE = STACKS + 8 * STACKS_MAX


class Faults:
    """The control block of one server."""

    def __init__(self, path):
        self.path = path
        path.write_bytes(bytes(SIZE))
        with path.open("r+b") as file:
            self.memory = mmap.mmap(file.fileno(), SIZE)

    @property
    def variables(self):
        assert INJECTOR.exists(), f"{INJECTOR} is missing: NEREID_BUILD must name a build with tests"
        options = os.environ.get("ASAN_OPTIONS", "detect_leaks=1:abort_on_error=0:exitcode=99")
        return {
            "LD_PRELOAD": str(INJECTOR),
            "NEREID_FAULT_CONTROL": str(self.path),
            "NEREID_FAULT_SPARED_FUNCTIONS": "".join(f"{name} " for name in SPARED_FUNCTIONS),
            "NEREID_FAULT_SPARED_LIBRARIES": "".join(f"{name} " for name in SPARED_LIBRARIES),
            "ASAN_OPTIONS": options + ":verify_asan_link_order=0",
        }

    def arm(self, sets, at=0, count=1, scope=LIBRARIES, error=0, stack=0):
        """Counts calls of `sets` from here on and fails `count` of them from number `at` on (0: none)."""
        self.disarm()
        self.memory[CALLS : REPORT + 1] = bytes(REPORT + 1 - CALLS)
        struct.pack_into("=IiIQQQ", self.memory, PLAN, scope, error, 0, at, count, stack)
        struct.pack_into("=I", self.memory, ARMED, sum(SETS[name] for name in sets))

    def release(self, count):
        """Lets the first `count` go on of those that pause."""
        struct.pack_into("=I", self.memory, RELEASED, count)

    def disarm(self):
        struct.pack_into("=I", self.memory, ARMED, 0)

    @property
    def calls(self):
        return struct.unpack_from("=Q", self.memory, CALLS)[0]

    @property
    def failed(self):
        return struct.unpack_from("=Q", self.memory, FAILED)[0]

    def stacks(self):
        """The stack of each call since it was armed."""
        return struct.unpack_from(f"={min(self.calls, STACKS_MAX)}Q", self.memory, STACKS)

    def where(self):
        """The stack of the first call that failed, for people."""
        text = self.memory[REPORT:STACKS].split(b"\0")[0].decode(errors="replace")
        return re.sub(r"^(nereid|libtriton\S*\.so)\+(0x\w+)$", self._named, text, flags=re.M)

    def _named(self, match):
        directories = {"nereid": "bin", "libtritonserver.so": "lib"}
        name = match[1]
        directory = directories.get(name, "backends/" + name.removeprefix("libtriton_").removesuffix(".so"))
        found = subprocess.run(
            ["addr2line", "-f", "-s", "-e", str(BUILD / directory / name), match[2]], capture_output=True, text=True
        )
        return " ".join(found.stdout.split()) or match[0]


def select(sites, most):
    """At most `most` of the sites, evenly spread; NEREID_FAULT_SITES=all or a number changes how many.

    TSan, which takes three times as long, gets a third, but three: all builds have the same sites, and races show at few of them.
    """
    usual = max(most // 3, min(most, 3)) if BUILD.name == "tsan" else most
    wanted = os.environ.get("NEREID_FAULT_SITES", str(usual))
    count = len(sites) if wanted == "all" else min(len(sites), int(wanted))
    return [sites[i * len(sites) // count] for i in range(count)]


def descriptors(server):
    return len(proc.descriptors(server.process.pid))


def listening_ports(pid):
    """On 127.0.0.1; none when the process is gone."""
    return [socket.port for socket in proc.sockets_of(pid) if socket.state == proc.LISTEN]


def await_descriptors(server, count):
    """Closed connections leave a moment after their clients know."""
    try:
        wait_for("closed descriptors", lambda: descriptors(server) <= count)
    except AssertionError:
        raise AssertionError(f"{count} descriptors became {list(proc.descriptors(server.process.pid).values())}")


@contextlib.contextmanager
def telling(more):
    """What fails inside says `more()` besides, which may take long: a stack takes a process for each of its functions."""
    try:
        yield
    except (AssertionError, TimeoutError) as failure:
        raise type(failure)(f"{failure}\n{more()}") from None


class Unanswered(AssertionError):
    """Nothing comes of it: the next site would be waited for as long."""


def await_quiet(faults):
    """Until nothing more is called that belongs to the last request."""
    seen, since, end = faults.calls, time.monotonic(), time.monotonic() + PATIENCE
    while time.monotonic() - since < 0.03:
        if faults.calls != seen:
            seen, since = faults.calls, time.monotonic()
        if time.monotonic() > end:
            raise Unanswered(f"calls go on and on: {faults.calls}, {faults.failed} of which have failed")
        time.sleep(0.005)


def threads(server):
    """What each thread waits for, for people."""
    told = [proc.of_threads(server.process.pid, file) for file in ("comm", "wchan", "syscall")]
    return "\n".join(sorted(" ".join(texts.get(thread, "").strip() for texts in told) for thread in told[0]))


class Tally:
    """What became of the sites of one scenario; NEREID_FAULT_TABLE names a file for a line of it.

    A site that was not reached again does not count as failed: what a thread does in time may differ from run to run.
    """

    def __init__(self, scenario, kind, sites):
        self.row = {"scenario": scenario, "kind": kind, "sites": sites, "failed": 0, "survived": 0}
        self.failures = []
        self.unanswered = False

    def run(self, faults, fail):
        """`fail` lets one site fail and looks at what comes of it."""
        survived = False
        try:
            fail()
            survived = True
        except (AssertionError, TimeoutError) as failure:
            self.failures.append(str(failure))
            self.unanswered = isinstance(failure, (TimeoutError, Unanswered))
        reached = faults.failed > 0
        self.row["failed"] += reached
        self.row["survived"] += reached and survived

    def finish(self):
        table = os.environ.get("NEREID_FAULT_TABLE")
        if table:
            with open(table, "a") as out:
                out.write(json.dumps(self.row) + "\n")
        assert not self.failures, "\n\n".join(self.failures)
        assert self.row["failed"] > 0 or self.row["sites"] == 0, f"no site was reached: {self.row}"


def runs_of_command(nereid, tmp_path, words, variables, runs):
    """Runs a command with memory failing once, at places spread over all of it; gives each (status, output, what it said)."""
    control = Faults(tmp_path / "faults")

    def run(at, count):
        control.arm(["memory"], at=at, count=count, scope=OWN)
        done = subprocess.run([nereid, *map(str, words)], capture_output=True, text=True, timeout=PATIENCE,
                              env=environment() | control.variables | dict(variables))
        assert not SANITIZER_REPORT.search(done.stderr), (at, done.stderr)
        return done

    whole = run(0, 0)
    calls = control.calls
    assert calls > runs
    return whole, [run(at, 1) for at in sorted({*range(1, runs // 3), *(calls * i // runs for i in range(runs))})]
