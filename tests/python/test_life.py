# SPDX-License-Identifier: Apache-2.0
"""How a worker starts, what stops a model from loading, and how a worker ends."""

import signal
import socket
import struct
import subprocess
import sys
import time

import numpy as np
import pytest

import host as testing
from host import ROOT, Host, text
from patience import PATIENCE

sys.path.append(str(ROOT / "tests/e2e/lib"))
import proc  # noqa: E402


def refused(write_model, code):
    """(reason, traceback) of a model that does not load or start."""
    with Host() as host:
        with pytest.raises(RuntimeError) as problem:
            host.start(write_model(code))
    return problem.value.args


def test_a_worker_says_hello_with_its_python():
    with Host() as host:
        said = host.hello
        assert said.get("BI") == (1, 6)
        assert said.text() == ".".join(map(str, sys.version_info[:3]))
        assert said.text() == sys.executable


def test_what_is_wrong_with_a_model_is_said_with_its_place_and_in_full(write_model, tmp_path):
    file = tmp_path / "m/1/model.py"
    reason, full = refused(write_model, "def f(:\n")
    assert reason == "SyntaxError: invalid syntax (model.py, line 3)" and 'model.py", line 3' in full
    reason, full = refused(write_model, "import nothing_of_this_name")
    assert reason == f"ModuleNotFoundError: No module named 'nothing_of_this_name'\n\nAt:\n  {file}(3): <module>"
    reason, full = refused(write_model, "x = 1")
    assert "has no attribute 'TritonPythonModel'" in reason
    reason, full = refused(write_model, """
        class TritonPythonModel:
            def initialize(self, args):
                raise OSError("no weights")
    """)  # fmt: skip
    assert reason == f"OSError: no weights\n\nAt:\n  {file}(6): initialize"
    assert full.startswith("Traceback (most recent call last):\n") and 'raise OSError("no weights")' in full
    assert "nereid_worker" not in full
    assert refused(write_model, "raise SystemExit(4)")[0] == f"SystemExit: 4\n\nAt:\n  {file}(3): <module>"
    reason, full = refused(write_model, "pb_utils.Tensor('', np.zeros(1))")
    assert reason == f"TritonModelException: Tensor name cannot be an empty string.\n\nAt:\n  {file}(3): <module>"
    assert refused(write_model, "raise ValueError")[0].startswith("ValueError: <EMPTY MESSAGE>\n\nAt:\n")


def test_a_missing_numpy_is_named_with_its_interpreter(write_model):
    with Host(arguments=("-S",)) as host:  # without site-packages
        with pytest.raises(RuntimeError) as problem:
            host.load(write_model(""))
    reason = problem.value.args[0]
    assert reason.startswith("numpy is needed by Python models, and '")
    assert f"(Python {'.'.join(map(str, sys.version_info[:3]))}) cannot import it: No module named 'numpy'" in reason


def test_initialize_gets_its_arguments_and_the_model_its_directories(write_model):
    directory = write_model("""
        import helper, sys

        class TritonPythonModel:
            @staticmethod
            def auto_complete_config(config):
                config.add_input({"name": "A", "data_type": "TYPE_FP32", "dims": [1]})
                return config

            def initialize(self, args):
                print(args, pb_utils.get_model_dir(), __name__, sys.modules["triton_python_backend_utils"] is pb_utils)
    """)
    (directory / "1" / "helper.py").write_text("")
    with Host() as host:
        assert host.load(directory) == (1, 0, 0)
        completed = host.ask(testing.AUTO_COMPLETE, text('{"name": "m", "input": []}')).text()
        assert completed == '{"name": "m", "input": [{"name": "A", "data_type": "TYPE_FP32", "dims": [1]}]}'
        host.initialize(model_name="m", model_config="{}")
        said = host.output()
    assert said == f"{{'model_name': 'm', 'model_config': '{{}}', 'model_instance_name': 'm_0_0'}} {directory}/1 1.model True\n"


def test_the_models_directory_stays_as_it_is(write_model, monkeypatch, tmp_path):
    """And other modules are kept as ever."""
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "elsewhere"))
    for directory in ("m/1", "m", "elsewhere"):
        (tmp_path / directory).mkdir(parents=True, exist_ok=True)
        (tmp_path / directory / f"beside_{directory[0]}{len(directory)}.py").write_text("")
    model = write_model("import beside_m3, beside_m1, beside_e9\nclass TritonPythonModel:\n    def execute(self, requests):\n        return []\n")
    before = sorted(model.rglob("*"))
    with Host() as host:
        host.start(model)
    assert sorted(model.rglob("*")) == before and len(before) == 4
    assert (tmp_path / "elsewhere/__pycache__").exists()


def test_is_ready_is_the_models_word(started):
    host = started("""
        class TritonPythonModel:
            answers = iter([True, False, 1])

            def is_ready(self):
                return next(self.answers)
    """)
    assert [host.ask(testing.IS_READY).get("B") for _ in range(2)] == [1, 0]
    with pytest.raises(RuntimeError, match="must return a boolean value"):
        host.ask(testing.IS_READY)


def test_finalize_runs_then_the_destructor_and_exit_handlers_and_the_worker_ends_with_zero(started):
    host = started("""
        import atexit, threading, time
        atexit.register(print, "at exit")

        class TritonPythonModel:
            def initialize(self, args):
                threading.Thread(target=time.sleep, args=(1000,)).start()  # nobody waits for it

            def execute(self, requests):
                return [None]

            def finalize(self):
                print("finalize")

            def __del__(self):
                print("gone")
    """)
    assert host.finalize() == 0
    assert host.output() == "finalize\ngone\nat exit\n"


def test_prints_come_line_by_line(started):
    host = started("""
        class TritonPythonModel:
            def execute(self, requests):
                print("printed")
                return [pb_utils.InferenceResponse()]
    """)
    host.execute([{}])
    assert host.output() == "printed\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_workers_leave_signals_for_the_server_to_it_and_their_programs_do_not(started, number):
    host = started(f"""
        import os, subprocess, time

        class TritonPythonModel:
            def execute(self, requests):
                os.kill(os.getpid(), {number})
                program = subprocess.Popen(["sleep", "1000"])
                program.send_signal({number})
                reading, writing = os.pipe()
                child = os.fork()
                if child == 0:
                    os.write(writing, b"x")
                    time.sleep(1000)
                os.read(reading, 1)
                os.kill(child, {number})
                said = {{"program": program.wait(), "child": -os.WTERMSIG(os.waitpid(child, 0)[1])}}
                return [pb_utils.InferenceResponse(parameters=said)]
    """)
    host.process.send_signal(number)
    _, [response], _ = host.execute([{}])
    assert response.parameters == f'{{"program": {-number}, "child": {-number}}}', response.message
    host.process.send_signal(number)
    assert host.execute([{}])[1][0].kind == 1


@pytest.mark.parametrize("code", ["time.sleep(1000)", "while True: pass", "signal.pthread_sigmask(0, range(1, 60)); time.sleep(1000)"])
def test_a_worker_ends_with_its_host_and_takes_its_children_along(started, code):
    host = started(f"""
        import subprocess, signal, time

        class TritonPythonModel:
            def initialize(self, args):
                child = subprocess.Popen(["sleep", "1000"])
                print(child.pid)

            def execute(self, requests):
                {code}
    """)
    child = int(host.output())
    host._block  # the channel stays; what goes is the socket, as when the server is killed
    host.send(testing.WORK, testing.EXECUTE, 1, 0, 1, host._block(lambda _: struct.pack("=I", 0)))
    host.socket.shutdown(socket.SHUT_RDWR)
    host.process.wait(PATIENCE)
    deadline = time.monotonic() + PATIENCE
    while not proc.has_ended(child):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_models_may_fork(started):
    host = started("""
        import multiprocessing, os

        def double(values):
            return (values * 2 + np.ones(1 << 16, np.float32)[0]).sum()

        class TritonPythonModel:
            def execute(self, requests):
                values = requests[0].inputs()[0].as_numpy() + 0
                with multiprocessing.get_context("fork").Pool(2) as pool:
                    total = sum(pool.map(double, [values] * 4))
                child = os.fork()
                if child == 0:
                    pb_utils.Tensor("X", values)
                    os._exit(7)
                status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
                return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.array([total, status]))])]
    """)
    for _ in range(3):
        _, [response], _ = host.execute([{"inputs": {"X": np.ones(1 << 15, np.float32)}}])
        assert response.kind == 1, response.message
        assert list(response.outputs["OUT"]) == [4 * 3 * (1 << 15), 7]


def test_a_forked_child_keeps_what_it_had_and_cannot_change_its_parents(started):
    host = started("""
        import os, signal

        class TritonPythonModel:
            child = None

            def execute(self, requests):
                given = requests[0].inputs()[0].as_numpy()
                if self.child is None:
                    made, texts = given + 1, np.full(1 << 16, None)
                    self.kept = made
                    self.child, (self.asked, ask), (answer, self.answered) = 0, os.pipe(), os.pipe()
                    self.ask, self.answer = ask, answer
                    self.child = os.fork()
                    if self.child == 0:
                        os.close(ask)
                        os.read(self.asked, 1)  # until the parent has used its memory anew
                        good = (given == 1).all() and (made == 2).all() and all(text is None for text in texts)
                        made[:] = 9
                        texts[:] = "child"
                        os.write(self.answered, b"good" if good else b"changed")
                        os._exit(0)
                    os.close(self.asked)
                    return [pb_utils.InferenceResponse()]
                self.kept += 5
                again = [np.full(given.shape, 4.0, np.float32) for _ in range(4)]
                if requests[0].request_id() != "last":
                    return [pb_utils.InferenceResponse()]
                os.close(self.ask)
                said = os.read(self.answer, 100).decode()
                os.waitpid(self.child, 0)
                return [pb_utils.InferenceResponse(
                    [pb_utils.Tensor("KEPT", self.kept)], parameters={"child": said})]
    """)
    host.execute([{"inputs": {"X": np.ones(1 << 16, np.float32)}}])
    for name in ("", "last"):
        _, [response], _ = host.execute([{"id": name, "inputs": {"X": np.full(1 << 16, 3.0, np.float32)}}])
    assert response.parameters == '{"child": "good"}'
    assert (response.outputs["KEPT"] == 12).all()


def test_an_idle_worker_uses_no_processor(started):
    host = started("class TritonPythonModel:\n    def execute(self, requests):\n        return [pb_utils.InferenceResponse()]")
    host.execute([{}])

    def used():
        pid = host.process.pid
        return proc.cpu_seconds(pid), proc.status(pid, "voluntary_ctxt_switches"), proc.status(pid, "nonvoluntary_ctxt_switches")

    def is_idle(seconds):
        before = used()
        time.sleep(seconds)
        return used() == before

    end = time.monotonic() + PATIENCE
    while not is_idle(1.5):  # it settles first
        assert time.monotonic() < end
    assert is_idle(2)


def test_the_extension_uses_the_stable_abi_of_3_8_only():
    extension = testing.WORKER / "_nereid.abi3.so"
    symbols = subprocess.run(["nm", "-D", "--undefined-only", extension], capture_output=True, text=True, check=True)
    used = {line.split()[-1] for line in symbols.stdout.splitlines()}
    used = {name for name in used if name.startswith(("Py", "_Py"))}
    listed = (testing.ROOT / "tests/python/stable_abi_3_8.txt").read_text().splitlines()
    allowed = {line for line in listed if not line.startswith("#")}
    allowed |= {"PyArg_ParseTuple", "Py_BuildValue"}  # as headers from 3.13 on call them: the same functions, in 3.8 too
    assert used
    assert used - allowed == set()
    needed = subprocess.run(["readelf", "-d", extension], capture_output=True, text=True, check=True).stdout
    assert "libpython" not in needed
