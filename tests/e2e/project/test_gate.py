# SPDX-License-Identifier: Apache-2.0
"""What scripts/test makes of failures: which are red at once, which run once more, and what its last lines say."""
import os
import subprocess
import sys
import textwrap

import pytest
from conftest import PATIENCE, ROOT, Server
from failures import Crash

pytestmark = pytest.mark.once
SEEDED = """
    import os, time
    import pytest
    from failures import Crash

    def test_good(): pass
    def test_assertion(): assert 1 + 1 == 3
    def test_crash(): raise Crash("the server ended with -11")
    @pytest.mark.parametrize("side", ["triton"])
    def test_foreign(side): raise Crash("the server ended with -6")
    def test_product_assert(): assert not "nereid: thread.c:9: begin: Assertion `b != NULL' failed."
    def test_leak(): assert not "==7==ERROR: LeakSanitizer: detected memory leaks"
    def test_race(): assert not "WARNING: ThreadSanitizer: data race (pid=7)"
    def test_undefined(): assert not "thread.c:9:1: runtime error: signed integer overflow"

    @pytest.fixture
    def torn():
        yield
        raise Crash("the server ended with 99")
    def test_crash_at_the_end(torn): assert 1 + 1 == 3

    @pytest.mark.timeout(1)
    def test_hang(): time.sleep(600)
    def test_process_ends(): os._exit(3)
"""
HARD = {"crash", "product_assert", "leak", "race", "undefined", "crash_at_the_end", "process_ends"}


def rows(path):
    return {name.rpartition("test_")[2]: (kind, command) for kind, name, command in (line.split("\t") for line in path.read_text().splitlines())}


def test_each_kind_of_failure_is_told_with_its_name_and_command(tmp_path):
    (tmp_path / "test_seeded.py").write_text(textwrap.dedent(SEEDED))
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    told = tmp_path / "failures.tsv"
    done = subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "failures", "-p", "no:cacheprovider", "-n", "1", "test_seeded.py"],
                          cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE,
                          env=os.environ | {"PYTHONPATH": str(ROOT / "tests"), "NEREID_FAILURES": str(told), "NEREID_BUILD": "build/asan"})
    assert done.returncode == 1, done.stdout
    found = rows(told)
    assert set(found) == HARD | {"assertion", "hang", "foreign[triton]"}, done.stdout
    assert {name for name, (kind, _) in found.items() if kind == "hard"} == HARD
    assert found["assertion"][1] == "NEREID_BUILD=build/asan .venv/bin/python -m pytest test_seeded.py::test_assertion"
    assert f"again: {found['hang'][1]}" in done.stdout


def test_unit_tests_that_fail_are_told_too(tmp_path):
    cases = {"good": "true", "wrong": "echo 'exceptions are rare'; exit 1", "crash": "kill -SEGV $$", "abort": "kill -ABRT $$",
             "race": "echo 'WARNING: ThreadSanitizer: data race'; exit 66", "unchecked": "echo 'LeakSanitizer has encountered a fatal error'; exit 1", "hang": "sleep 600"}
    (tmp_path / "CTestTestfile.cmake").write_text("".join(f'add_test({name} "/bin/sh" "-c" [==[{command}]==])\n' for name, command in cases.items())
                                                    + "set_tests_properties(hang PROPERTIES TIMEOUT 5)\n")
    report, log = tmp_path / "ctest.xml", tmp_path / "ctest.log"
    subprocess.run(["ctest", "--test-dir", tmp_path, "--output-junit", report, "--output-log", log, "-j8"], capture_output=True, timeout=PATIENCE)
    done = subprocess.run([sys.executable, ROOT / "scripts/unit_failures.py", tmp_path, report, log], capture_output=True, text=True, check=True)
    kinds = {name.rpartition(": ")[2]: kind for kind, name, command in (line.split("\t") for line in done.stdout.splitlines())}
    assert kinds == {"wrong": "soft", "unchecked": "soft", "hang": "soft", "crash": "hard", "abort": "hard", "race": "hard"}


@pytest.mark.parametrize("failed, green, last", [
    ([], True, []),
    ([("soft", "a", "true")], True, ["flaky: a"]),
    ([("soft", "a", "false")], False, ["FAILED: a", "again: false"]),
    ([("hard", "a", "true")], False, ["FAILED: a", "again: true"]),
    ([("hard", "a", "false"), ("soft", "b", "true")], False, ["FAILED: a", "again: false", "flaky: b"]),
    ([("soft", f"t{i:02}", "true") for i in range(21)], False, [f"FAILED: t{i:02}" for i in range(21)] + ["again: true"] * 21),
])
def test_what_fails_beside_others_and_passes_alone_is_flaky(tmp_path, failed, green, last):
    (tmp_path / "rows").write_text("".join("\t".join(row) + "\n" for row in failed))
    done = subprocess.run([ROOT / "scripts/repeat_failures", tmp_path / "rows", tmp_path / "verdict"], capture_output=True, text=True, timeout=PATIENCE)
    assert (done.returncode == 0) == green, done.stderr
    assert (tmp_path / "verdict").read_text().splitlines() == last


@pytest.mark.parametrize("said, ending, crashed", [
    ("", "exit 0", False), ("", "exit 1", False), ("", "kill -KILL $$", False), ("", "kill -SEGV $$", True), ("", "kill -ABRT $$", True), ("", "exit 99", True),
    ("==1==ERROR: LeakSanitizer: detected memory leaks", "exit 0", True), ("LeakSanitizer has encountered a fatal error", "exit 99", False),
])
def test_a_server_that_ends_by_a_signal_or_a_report_has_crashed(tmp_path, said, ending, crashed):
    log = tmp_path / "log"
    log.write_text(said)
    process = subprocess.Popen(["/bin/sh", "-c", ending])
    assert process.wait(PATIENCE) is not None
    if crashed:
        with pytest.raises(Crash):
            Server(process, log).check_end()
    else:
        Server(process, log).check_end()
