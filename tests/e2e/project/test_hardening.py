# SPDX-License-Identifier: Apache-2.0
"""Row 58: what the release binary and libraries are built with, as readelf tells; no descriptor is left to a child process.

The files are those of build/release, whatever build the other tests run: sanitizers replace the hardening.
"""
import re
import subprocess
import threading

import proc
import pytest
from conftest import ROOT, make_identity

RELEASE = ROOT / "build/release"
LIBRARY = "lib*/**/libtritonserver.so"  # lib64 on some systems
FILES = ["bin/nereid", LIBRARY, "backends/identity/libtriton_identity.so",
         "backends/onnxruntime/libtriton_onnxruntime.so"]


def path_of(file):
    found = list(RELEASE.glob(file))
    assert len(found) == 1, f"{file} is missing or there are several: run scripts/build first"
    return found[0]


def readelf(file, *what):
    return subprocess.run(["readelf", "--wide", *what, path_of(file)], capture_output=True, text=True, check=True).stdout


def segments(file):
    """[(type, flags)], flags as in 'R E'."""
    return re.findall(r"^  (\w+) +0x\S+ 0x\S+ 0x\S+ 0x\S+ 0x\S+ ([R ][W ][E ])", readelf(file, "--segments"), re.M)


def dynamic(file):
    return readelf(file, "--dynamic")


def imports(file):
    return set(re.findall(r" UND (\w+)", readelf(file, "--dyn-syms")))


@pytest.mark.parametrize("file", FILES)
def test_code_is_at_random_places_and_never_writable(file):
    assert "DYN (" in readelf(file, "--file-header")
    found = segments(file)
    assert {"LOAD", "GNU_STACK", "GNU_RELRO"} <= {kind for kind, _ in found}, found
    assert not [kind for kind, flags in found if "W" in flags and "E" in flags]
    assert "TEXTREL" not in dynamic(file)


@pytest.mark.parametrize("file", FILES)
def test_the_linkers_tables_are_read_only_from_the_start(file):
    assert re.search(r"\(FLAGS_1\) .*\bNOW\b", dynamic(file))


@pytest.mark.parametrize("file", FILES)
def test_stacks_have_canaries_and_copies_are_checked(file):
    names = imports(file)
    assert "__stack_chk_fail" in names
    assert [name for name in names if name.endswith("_chk")], names


def test_jumps_and_returns_are_guarded_where_the_processor_can():
    """Of our objects: whether a linked file is marked too depends on the start-up code of the C library."""
    wanted = {"X86-64": ["IBT", "SHSTK"], "AArch64": ["BTI"]}
    machine = re.search(r"Machine: .*\b(X86-64|AArch64)", readelf("bin/nereid", "--file-header"))
    assert machine, "a processor that this test does not know"
    archives = [str(path.relative_to(RELEASE)) for path in RELEASE.glob("**/libnereid_*.a")]
    assert len(archives) > 8
    for archive in archives:
        members = re.split(r"^File: ", readelf(archive, "--notes"), flags=re.M)[1:]
        for member in members:
            features = re.search(r"(?:x86|AArch64) feature: (.*)", member)
            assert features and all(name in features.group(1) for name in wanted[machine.group(1)]), member


@pytest.mark.parametrize("file", FILES)
def test_libraries_are_searched_beside_the_file_only(file):
    for path in re.findall(r"\((?:RPATH|RUNPATH)\) .*\[(.*)\]", dynamic(file)):
        for directory in path.split(":"):  # an empty one is the working directory
            assert directory.startswith("$ORIGIN"), path
            beside = path_of(file).parent / directory.replace("$ORIGIN", ".")
            assert RELEASE in beside.resolve().parents, path


def test_the_executable_is_marked_as_one():
    """The loader refuses to load it as a library."""
    assert re.search(r"\(FLAGS_1\) .*\bPIE\b", dynamic("bin/nereid"))


def test_the_library_shows_the_abi_and_nothing_else():
    names = re.findall(r" (?:FUNC|OBJECT) +GLOBAL +DEFAULT +\d+ (\w+)", readelf(LIBRARY, "--dyn-syms"))
    assert len(names) > 100
    assert [name for name in names if not name.startswith(("TRITONSERVER_", "TRITONBACKEND_", "TRITONCACHE_", "TRITONREPOAGENT_", "NEREID_"))] == []


CLOSE_ON_EXEC = 0o2000000


def inherited_by_a_child(pid):
    """Descriptors above standard error that an exec would leave open, with what they are."""
    found = {}
    for number, target in proc.descriptors(pid).items():
        flags = re.search(r"^flags:\s*([0-7]+)", proc.read(pid, f"fdinfo/{number}"), re.M)
        if number > 2 and flags and not int(flags[1], 8) & CLOSE_ON_EXEC:  # without flags it was closed meanwhile
            found[number] = target
    return found


def test_no_descriptor_is_left_to_a_child_process(start_server, repository, tmp_path):
    """Looked at again and again while requests, scrapes and loads open and close sockets and files."""
    make_identity(repository, "m")
    log = tmp_path / "log"
    log.touch()
    server = start_server(repository, flags=["--model-control-mode=explicit", "--load-model=m", f"--log-file={log}"], wait=False)
    errors, server.log_path = server.log_path, log
    server.await_ports()
    server.await_ready()
    server.log_path = errors
    body = b'{"inputs":[{"name":"INPUT0","datatype":"INT32","shape":[1],"data":[1]}]}'
    done = threading.Event()
    asked = [0]

    def ask():
        while not done.is_set():
            server.ask("/v2/models/m/infer", body)
            server.ask("/metrics", port=server.metrics_port)
            server.ask("/v2/repository/models/m/load", b"{}")
            asked[0] += 1

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        looks = 0
        while looks < 200 or asked[0] < 20:
            assert inherited_by_a_child(server.process.pid) == {}
            looks += 1
    finally:
        done.set()
        for thread in threads:
            thread.join()
