# SPDX-License-Identifier: Apache-2.0
"""scripts/gpu_check, run on the played driver as it is on a real one (docs/gpu.md)."""
import json
import os
import subprocess
import types

import gpu_check
import pytest
from conftest import BUILD, PATIENCE, ROOT, environment
from gpu_sides import RUNTIME
from gpus import fake_gpus

pytestmark = pytest.mark.once


@pytest.fixture
def run(tmp_path):
    """Runs it; gives the process, and the rows of results.json by step."""
    def run(variables, *arguments, seconds=PATIENCE):
        output = tmp_path / "results.json"
        done = subprocess.run(
            [ROOT / "scripts/gpu_check", f"--output={output}", f"--seconds={seconds}", *arguments], capture_output=True, text=True,
            env=environment() | {"NEREID_BUILD": str(BUILD), "PATH": os.environ["PATH"], gpu_check.RUNTIME: str(RUNTIME)} | variables)
        results = json.loads(output.read_text()) if output.exists() else None
        return done, results, {row["step"]: row for row in results["steps"]} if results else {}
    return run


def test_a_machine_without_a_gpu_is_told_so(run, tmp_path):
    for variables in ({"CUDA_VISIBLE_DEVICES": "-1"}, fake_gpus(tmp_path, devices=0).variables):
        done, results, rows = run(variables)
        assert done.returncode == 77
        assert done.stdout.startswith("no GPU here: ") and results["why"] == done.stdout.strip()
        assert results["gpu"] is None and rows == {}


def test_each_step_gives_its_figures(run, tmp_path):
    steps = ("devices", "allocations", "latency", "handles", "descriptors", "descriptors_in_a_sandbox", "shared_memory")
    done, results, rows = run(fake_gpus(tmp_path, [{"name": "NVIDIA Fake H200", "capability": "9.0"}]).variables, *steps)
    assert done.returncode == 0, done.stdout + done.stderr
    assert [row["result"] for row in rows.values()] == ["passed"] * len(steps), done.stdout
    assert results["gpu"]["devices"][0]["name"] == rows["devices"]["figures"]["name"] == "NVIDIA Fake H200"
    assert rows["latency"]["figures"]["round_trip_4k_p50_us"] > 0 and rows["handles"]["figures"]["bytes"] == 3 << 20
    assert f"{len(steps)} passed, 0 failed" in done.stdout.splitlines()[-1]


@pytest.mark.slow
def test_a_step_that_fails_or_hangs_says_why_and_the_next_ones_run(run, tmp_path):
    gpus = fake_gpus(tmp_path)
    gpus.fault("cuIpcOpenMemHandle_v2", 101, times=0)
    done, _, rows = run(gpus.variables, "handles", "devices")
    assert done.returncode == 1
    assert rows["handles"]["result"] == "failed" and "--pid=host" in rows["handles"]["why"]
    assert rows["devices"]["result"] == "passed"
    gpus.heal()
    gpus.fault("cuMemHostAlloc", 2, times=0, hang=True)
    done, _, rows = run(gpus.variables, "allocations", seconds=2)
    assert done.returncode == 1 and rows["allocations"]["why"] == "it took more than 2 seconds"


@pytest.mark.slow
def test_what_an_older_driver_lacks_is_named(run, tmp_path):
    gpus = fake_gpus(tmp_path)
    done, _, rows = run(gpus.variables_with(missing=["cuMemCreate"]), "devices", "descriptors", "handles")
    assert done.returncode == 1
    assert rows["devices"]["figures"]["missing"] == "cuMemCreate"
    assert rows["descriptors"]["why"] == "GPU 0: no regions of virtual memory: the NVIDIA driver has no cuMemCreate"
    assert rows["handles"]["result"] == "passed"  # without it all else works
    done, _, _ = run(gpus.variables_with(missing=["cuMemAlloc_v2"]))
    assert done.returncode == 77
    assert done.stdout == "no GPU here: the NVIDIA driver is too old: libcuda.so.1 has no cuMemAlloc_v2\n"


@pytest.mark.slow
def test_what_a_platform_does_not_have_is_no_failure(run, tmp_path):
    """As WSL2, and integrated GPUs."""
    steps = ("handles", "descriptors", "shared_memory", "shared_memory_latency")
    done, _, rows = run(fake_gpus(tmp_path, [{"ipc": False, "vmm": False, "fds": False}]).variables, *steps)
    assert done.returncode == 0, done.stdout + done.stderr
    assert [rows[step]["result"] for step in steps] == ["lacking"] * len(steps), done.stdout
    assert "this platform has no CUDA IPC" in rows["handles"]["why"] and "system shared memory" in rows["shared_memory"]["why"]


def test_a_step_that_is_not_there_is_refused(run):
    done, results, _ = run({}, "devises")
    assert done.returncode == 2 and "no such step: devises" in done.stderr and results is None


@pytest.mark.slow
def test_the_whole_of_it_runs_to_its_end(run, tmp_path):
    readable = f"--read={tmp_path}:{ROOT / 'tests'}"  # where a sanitizer's suppressions are
    # In `overlap` four requests write to one place, as a client may have it: to TSan each of the bytes is a race.
    steps = [step for step in gpu_check.STEPS if BUILD.name != "tsan" or step != "overlap"]
    done, _, rows = run(fake_gpus(tmp_path, [{"memory": 1 << 28}]).variables, readable, *steps)
    assert done.returncode == 0, done.stdout + done.stderr
    assert {row["result"] for row in rows.values()} <= {"passed", "lacking", "not tried"}
    assert rows["identity"]["result"] == rows["ensemble"]["result"] == rows["metrics"]["result"] == rows["unit_tests"]["result"] == "passed"
    goals = [found for row in rows.values() for found in row.get("goals", ())]
    assert {found["goal"].split()[0] for found in goals} >= {"G1", "G3", "G7", "G9"} and ("overlap" not in rows or rows["overlap"]["goals"]) and all(found["value"] >= 0 for found in goals if found["goal"][:2] not in ("G3", "G7"))
    met = [found["met"] for found in goals]
    assert f"; goals: {met.count(True)} met, {met.count(False)} missed; " in done.stdout.splitlines()[-1]


def test_what_is_not_tried_has_a_row_with_what_it_needs(run, tmp_path):
    done, _, rows = run(fake_gpus(tmp_path).variables, "python", "onnxruntime")
    assert done.returncode == 0 and done.stdout.startswith("not tried  python ")
    assert rows["python"]["result"] == rows["onnxruntime"]["result"] == "not tried"
    assert rows["python"]["why"].startswith("PyTorch ") and "pip install onnxruntime-gpu" in rows["onnxruntime"]["why"]
    assert "0 passed, 0 failed, 0 lacking, 2 not tried; " in done.stdout.splitlines()[-1]


def test_it_builds_unless_a_build_is_named(monkeypatch):
    built = []
    monkeypatch.setattr(gpu_check.subprocess, "run", lambda command, **_: built.append(command) or types.SimpleNamespace(returncode=len(built) - 1))
    monkeypatch.setenv("NEREID_BUILD", str(BUILD))
    gpu_check.build()
    assert built == []
    monkeypatch.delenv("NEREID_BUILD")
    gpu_check.build()
    assert built == [[ROOT / "scripts/build"]]
    with pytest.raises(SystemExit, match="scripts/setup"):
        gpu_check.build()


def test_a_goal_that_is_missed_changes_no_result(monkeypatch):
    monkeypatch.setattr(gpu_check, "REACHED", [])
    gpu_check.goal("G1 part", 0.5, least=0.9)
    gpu_check.goal("G7 ms", 50, most=50)
    row = {"result": "passed", "figures": {"a": 1}, "goals": gpu_check.REACHED}
    assert gpu_check.text_of(row) == "a 1, G1 part 0.5 (at least 0.9): MISSED, G7 ms 50 (at most 50): met"


def test_what_the_step_of_onnx_runtime_compares():
    """Without a GPU: on the provider that is here."""
    figures = gpu_check.digits_beside_bare("CPUExecutionProvider", "instance_group [ { kind: KIND_CPU } ]")
    assert figures["p50_us"] > 0 and figures["alone_p50_us"] > 0
