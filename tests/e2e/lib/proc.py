# SPDX-License-Identifier: Apache-2.0
"""What /proc says of a process. Processes, threads and descriptors go away while they are read: what is gone is left out, and its files are empty."""
import collections
import contextlib
import itertools
import os
import pathlib
import re

PROC = pathlib.Path("/proc")
Socket = collections.namedtuple("Socket", "port peer state unread link")  # both ports, a number below, bytes, what a descriptor is a link to
Process = collections.namedtuple("Process", "name state parent")
ESTABLISHED, LISTEN = 1, 10
NO_SOCKET = "socket:[0]"  # a connection that only waits for late packets


def read(pid, file):
    """Of a process, or of one of its threads ("task/7/comm")."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return (PROC / str(pid) / file).read_text(errors="replace")
    return ""


def _names(pid, directory):
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return os.listdir(PROC / str(pid) / directory)
    return []


def is_gone(pid):
    return not (PROC / str(pid)).exists()


def _stat(pid):
    """The fields behind the name, which may have anything in it: proc(5) counts them from 3."""
    return read(pid, "stat").rpartition(")")[2].split()


def state(pid):
    """The letter; none when it is gone."""
    return "".join(_stat(pid)[:1])


def has_ended(pid):
    """Gone, or dead and not reaped: who reaps orphans, and when, is not the server's affair."""
    return state(pid) in ("", "Z")


def status(pid, field):
    """A number of `status`: VmRSS, VmHWM in KiB, Threads."""
    found = re.search(rf"^{field}:\s+(\d+)", read(pid, "status"), re.M)
    assert found, f"process {pid} is gone, or has no {field}"
    return int(found[1])


def reset_peak(pid):
    """From here on VmHWM is the peak of what follows."""
    (PROC / str(pid) / "clear_refs").write_text("5")


def cpu_seconds(pid):
    """Of all its threads, those that have ended too."""
    fields = _stat(pid)
    assert fields, f"process {pid} is gone"
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def of_threads(pid, file):
    """{thread: what its file says}"""
    texts = {int(task): read(pid, f"task/{task}/{file}") for task in _names(pid, "task")}
    return {task: text for task, text in texts.items() if text}


def threads(pid):
    """{thread: its name}"""
    return {task: name.removesuffix("\n") for task, name in of_threads(pid, "comm").items()}


def thread_states(pid):
    """{thread: the letter of its state}"""
    return {task: text.rpartition(")")[2].split()[0] for task, text in of_threads(pid, "stat").items()}


def children(pid):
    """Those that its threads have started and that nobody has reaped."""
    return [int(child) for text in of_threads(pid, "children").values() for child in text.split()]


def descriptors(pid):
    """{number: what it is a link to}"""
    found = {}
    for number in _names(pid, "fd"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            found[int(number)] = os.readlink(PROC / str(pid) / "fd" / number)
    return found


def sockets(pid="self"):
    """TCP over IPv4, of all processes that are on the network of this one. The kernel gives the table in pieces: where others come and go between two of
    them, a row is missing or stands twice. So it is read three times."""
    found = {}
    for line in itertools.chain.from_iterable(read(pid, "net/tcp").splitlines()[1:] for _ in range(3)):
        row = line.split()
        ports = [int(end.partition(":")[2], 16) for end in row[1:3]]
        link = f"socket:[{row[9]}]"
        if link != NO_SOCKET:
            found[link] = Socket(*ports, int(row[3], 16), int(row[4].partition(":")[2], 16), link)
    return list(found.values())


def sockets_of(pid):
    """Those that the process has descriptors of."""
    found = sockets(pid)
    links = set(descriptors(pid).values())
    return [socket for socket in found if socket.link in links]


def processes():
    """All there are: {pid: Process}"""
    found = {}
    for pid in filter(str.isdigit, os.listdir(PROC)):
        match = re.match(r"\d+ \((.*)\) (\w) (\d+)", read(pid, "stat"), re.S)
        if match:
            found[int(pid)] = Process(match[1], match[2], int(match[3]))
    return found
