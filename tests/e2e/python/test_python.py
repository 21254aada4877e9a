# SPDX-License-Identifier: Apache-2.0
"""Python models through real clients: data of all kinds, batches, configuration, life of workers."""
import json
import os
import pathlib

import numpy as np
import pytest
import tritonclient.http as triton
from conftest import PATIENCE, TOGETHER, WITHOUT_GPUS, wait_for
from python_models import ECHO, PID, ask, children, infer, make_python, reason, tensor, together, worker_of
from streaming import events
from tritonclient.utils import InferenceServerException

TYPES = {
    "BOOL": np.array([True, False]),
    "UINT8": np.array([0, 255], np.uint8),
    "UINT16": np.array([0, 65535], np.uint16),
    "UINT32": np.array([0, 2**32 - 1], np.uint32),
    "UINT64": np.array([0, 2**64 - 1], np.uint64),
    "INT8": np.array([-128, 127], np.int8),
    "INT16": np.array([-(2**15), 1], np.int16),
    "INT32": np.array([-(2**31), 1], np.int32),
    "INT64": np.array([-(2**63), 1], np.int64),
    "FP16": np.array([1.5, -2], np.float16),
    "FP32": np.array([0.1, -2], np.float32),
    "FP64": np.array([0.1, -2], np.float64),
    "BYTES": np.array([b"", b"\x00\xff", "größer".encode(), b"x" * 70000], dtype=np.object_),
}


def test_every_type_comes_back_as_it_went(start_server, repository):
    for name in TYPES:
        make_python(repository, name.lower(), kind="TYPE_STRING" if name == "BYTES" else f"TYPE_{name}")
    server = start_server(repository)
    for name, data in TYPES.items():
        for sent in (data, data[:0]):
            assert infer(server, name.lower(), sent, name).tolist() == sent.tolist(), name


def test_megabytes_come_back_as_they_went(start_server, repository):
    make_python(repository, "echo", kind="TYPE_FP32")
    server = start_server(repository)
    data = np.random.default_rng(1).random(3_000_001, np.float32)
    for _ in range(5):
        assert np.array_equal(infer(server, "echo", data, "FP32"), data)


ADD_SUB = """
backend: "python"
input { name: "INPUT0" data_type: TYPE_FP32 dims: [ 4 ] }
input { name: "INPUT1" data_type: TYPE_FP32 dims: [ 4 ] }
output { name: "OUTPUT0" data_type: TYPE_FP32 dims: [ 4 ] }
output { name: "OUTPUT1" data_type: TYPE_FP32 dims: [ 4 ] }
"""


def test_add_sub_gives_the_outputs_that_are_asked_for(start_server, repository):
    make_python(repository, "add_sub", """
        def execute(self, requests):
            responses = []
            for request in requests:
                a, b = value(request, "INPUT0"), value(request, "INPUT1")
                wanted = request.requested_output_names()
                outputs = [pb_utils.Tensor("OUTPUT0", a + b), pb_utils.Tensor("OUTPUT1", a - b)]
                assert set(wanted) <= {"OUTPUT0", "OUTPUT1"}, wanted
                responses.append(pb_utils.InferenceResponse(outputs))
            return responses
        """, config=ADD_SUB)
    server = start_server(repository)
    a, b = np.arange(4, dtype=np.float32), np.ones(4, np.float32)
    inputs = [tensor(a, "FP32", "INPUT0"), tensor(b, "FP32", "INPUT1")]
    with triton.InferenceServerClient(server.url) as client:
        both = client.infer("add_sub", inputs)
        assert both.as_numpy("OUTPUT0").tolist() == (a + b).tolist()
        assert both.as_numpy("OUTPUT1").tolist() == (a - b).tolist()
        one = client.infer("add_sub", inputs, outputs=[triton.InferRequestedOutput("OUTPUT1")])
        assert one.as_numpy("OUTPUT0") is None
        assert one.as_numpy("OUTPUT1").tolist() == (a - b).tolist()


def test_requests_that_arrive_together_are_one_batch(start_server, repository):
    make_python(repository, "count", """
        def execute(self, requests):
            return [answer(np.full((len(value(r)), 1), len(requests), np.int32)) for r in requests]
        """, max_batch_size=8, more=TOGETHER % 3)
    server = start_server(repository)
    sizes = together(3, lambda i: infer(server, "count", np.array([[i]], np.int32)))
    assert [size.tolist() for size in sizes] == [[[3]]] * 3
    statistics = json.loads(server.ask("/v2/models/count/stats").body)["model_stats"][0]
    assert statistics["inference_count"] == 3 and statistics["execution_count"] == 1
    assert [entry["batch_size"] for entry in statistics["batch_stats"]] == [3]
    assert statistics["inference_stats"]["success"]["count"] == 3


def test_a_request_tells_and_a_response_takes_parameters(start_server, repository):
    make_python(repository, "tell", """
        def execute(self, requests):
            request, = requests
            seen = dict(json.loads(request.parameters()), id=request.request_id(), correlation=request.correlation_id(),
                        flags=request.flags(), timeout=request.timeout())
            return [answer(value(request), parameters={"seen": json.dumps(seen), "i": 7, "b": True})]
        """)
    server = start_server(repository)
    with triton.InferenceServerClient(server.url) as client:
        result = client.infer("tell", [tensor(np.array([1], np.int32))], request_id="me", sequence_id=5, sequence_start=True,
                              timeout=900, parameters={"text": "\"ü", "n": -3, "yes": True})
    parameters = result.get_response()["parameters"]
    seen = json.loads(parameters.pop("seen"))
    assert parameters == {"i": 7, "b": True}
    assert seen["text"] == '"ü' and seen["n"] == -3 and seen["yes"] is True
    assert (seen["id"], seen["correlation"], seen["flags"], seen["timeout"]) == ("me", 5, 1, 900)


def test_initialize_is_told_who_and_where_it_is(start_server, repository):
    directory = make_python(repository, "who", """
        def initialize(self, args):
            config = json.loads(args.pop("model_config"))
            print("told", json.dumps(dict(args, name=config["name"], dims=config["input"][0]["dims"],
                                          threads=os.environ["OMP_NUM_THREADS"], more=sorted(map(type, args.values()), key=str)
                                          == [str] * len(args))))
        """ + ECHO.replace("\n", "\n        "), count=2, more="version_policy { all {} }")
    server = start_server(repository)
    wait_for("what they print", lambda: server.log.count("told ") == 2)
    told = [json.loads(line.split("told ")[1].rstrip('"').replace('\\"', '"')) for line in server.log.splitlines() if "told " in line]
    assert len(told) == 2
    assert sorted(each.pop("model_instance_name") for each in told) == ["who_0_0", "who_0_1"]
    threads = int(told[0].pop("threads"))
    assert 1 <= threads <= max(1, len(os.sched_getaffinity(0)) // 2)  # fewer where a control group says so
    assert told[0] == {
        "model_instance_kind": "CPU", "model_instance_device_id": "0", "model_repository": str(directory), "model_version": "1",
        "model_name": "who", "name": "who", "dims": [-1], "more": True,
    }


def test_variables_of_the_user_stay(start_server, repository):
    make_python(repository, "threads", """
        def execute(self, requests):
            return [answer(np.array([int(os.environ["OMP_NUM_THREADS"]), "NOTIFY_SOCKET" in os.environ], np.int32))]
        """)
    server = start_server(repository, variables={"OMP_NUM_THREADS": "17", "NOTIFY_SOCKET": "/nowhere/at/all"})
    assert infer(server, "threads").tolist() == [17, 0]


def test_the_worker_that_completes_the_configuration_becomes_the_first_instance(start_server, repository):
    make_python(repository, "auto", """
        @staticmethod
        def auto_complete_config(config):
            config.add_input({"name": "IN", "data_type": "TYPE_INT32", "dims": [-1]})
            config.add_output({"name": "OUT", "data_type": "TYPE_INT32", "dims": [-1]})
            config.set_max_batch_size(0)
            print("completed by", os.getpid())
            return config
        """ + PID.replace("\n", "\n        "), config='backend: "python"\ninstance_group { count: 1 kind: KIND_CPU }\n')
    server = start_server(repository)
    config = json.loads(server.ask("/v2/models/auto/config").body)
    assert [i["name"] for i in config["input"] + config["output"]] == ["IN", "OUT"]
    pid = worker_of(server, "auto")
    wait_for("what it prints", lambda: f"completed by {pid}" in server.log)
    assert len(children(server.process.pid)) == 1


@pytest.mark.parametrize("added", [
    'config.add_output({"name": "MORE", "data_type": "TYPE_FLOAT", "dims": [4]})',
    'config.add_output({"name": "MORE", "data_type": "TYPE_FP32", "dims": ["a"]})',
    'config.as_dict()["nonsense"] = 1',
])
def test_what_is_completed_to_no_configuration_is_left_out_and_told(start_server, repository, added):
    """Triton 2.51 loads such models too, without a word."""
    make_python(repository, "echo", f"""
        @staticmethod
        def auto_complete_config(config):
            {added}
            return config
        """ + ECHO.replace("\n", "\n        "))
    server = start_server(repository)
    assert infer(server, "echo", [1, 2]).tolist() == [1, 2]
    assert "model 'echo': what auto_complete_config gave is no configuration and is left out" in server.log


@pytest.mark.parametrize("size", [3, 40000])
def test_what_a_model_writes_does_not_reach_its_clients_memory(start_server, repository, size):
    make_python(repository, "writes", """
        def execute(self, requests):
            for request in requests:
                array = value(request)
                array *= 2
            return [answer(value(request)) for request in requests]
        """)
    server = start_server(repository, flags=["--allow-client-shm=true"])
    key, sent = f"nereid-writes-{os.getpid()}", np.arange(size, dtype=np.int32)
    path = pathlib.Path("/dev/shm") / key
    path.write_bytes(sent.tobytes())
    try:
        with triton.InferenceServerClient(server.url) as client:
            client.register_system_shared_memory("r", f"/{key}", sent.nbytes)
            asked = triton.InferInput("IN", [size], "INT32")
            asked.set_shared_memory("r", sent.nbytes)
            for _ in range(2):
                assert (client.infer("writes", [asked]).as_numpy("OUT") == 2 * sent).all()
        assert path.read_bytes() == sent.tobytes()
    finally:
        path.unlink()


def test_instances_are_processes(start_server, repository):
    # Both are at work at once: each waits for the other.
    make_python(repository, "pair", """
        def execute(self, requests):
            open(f"{self.directory}/{os.getpid()}", "w").close()
            while len(os.listdir(self.directory)) < 2:
                time.sleep(0.01)
            return [answer(np.array([os.getpid()], np.int32)) for _ in requests]
        def initialize(self, args):
            self.directory = os.path.join(args["model_repository"], "here")
        """, count=2)
    (repository / "pair/here").mkdir()
    server = start_server(repository)
    pids = {int(array[0]) for array in together(2, lambda i: infer(server, "pair"))}
    assert pids == set(children(server.process.pid)) and len(pids) == 2


def test_coroutines_of_requests_overlap(start_server, repository):
    make_python(repository, "together", """
        import asyncio
        def initialize(self, args):
            self.here, self.all = 0, None
        async def execute(self, requests):
            self.all = self.all or __import__("asyncio").Event()
            self.here += len(requests)
            if self.here >= 10:
                self.all.set()
            await self.all.wait()
            return [answer(value(request)) for request in requests]
        """)
    server = start_server(repository)
    assert [int(a[0]) for a in together(10, lambda i: infer(server, "together", [i]))] == list(range(10))
    statistics = json.loads(server.ask("/v2/models/together/stats").body)["model_stats"][0]
    assert statistics["inference_stats"]["success"]["count"] == 10


def test_responses_come_from_threads_after_execute(start_server, repository):
    make_python(repository, "later", """
        def execute(self, requests):
            for request in requests:
                threading.Thread(target=self.finish, args=[request.get_response_sender(), value(request) + 1]).start()
            return None
        def finish(self, sender, array):
            time.sleep(0.05)
            if array[0] == 13:
                sender.send(pb_utils.InferenceResponse(error=pb_utils.TritonError("unlucky")), pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
            elif array[0] == 14:
                sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
            else:
                sender.send(answer(array), pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
        """)
    server = start_server(repository)
    replies = together(14, lambda i: ask(server, "later", [i]))
    assert [reply["outputs"][0]["data"] for _, reply in replies[:12]] == [[i + 1] for i in range(12)]
    assert replies[12] == (500, {"error": "unlucky"})
    assert replies[13][0] == 500 and "without" in replies[13][1]["error"]


def test_lines_of_a_worker_are_lines_of_the_log(start_server, repository):
    make_python(repository, "chatty", """
        def execute(self, requests):
            print("to stdout")
            print("to stderr", file=sys.stderr)
            print("x" * 9000 + "THE-END")
            os.write(1, b"\\0a\\0b\\0\\n\\0\\n")
            os.write(1, b"no end of line")
            pb_utils.Logger.log_warn("a warning")
            return [answer(value(request)) for request in requests]
        """)
    server = start_server(repository)
    infer(server, "chatty")
    server.stop()
    for text in ("to stdout", "to stderr", "x" * 8192 + " [cut]", " a b ", " ", "no end of line"):
        assert f"model 'chatty', instance 'chatty_0_0': {text}\"" in server.log, text
    assert "THE-END" not in server.log
    assert [line[0] for line in server.log.splitlines() if "a warning" in line] == ["W"]


# ---- loads that fail

BROKEN = {
    "syntax": ("def execute(self, requests):\n    return [", "SyntaxError"),
    "raises": ("def initialize(self, args):\n    raise ValueError('no weights here')", "ValueError: no weights here"),
    "exits": ("def initialize(self, args):\n    sys.exit(4)", "4"),
    "ends": ("def initialize(self, args):\n    print('last words', file=sys.stderr)\n    os._exit(5)",
             "it exited with status 5; it last printed: last words"),
    "dies": ("os.kill(os.getpid(), 11)", "it was ended by signal SIGSEGV"),
    "imports": ("import no_such_module_at_all", "No module named 'no_such_module_at_all'"),
}


def test_what_ends_a_load_is_its_reason(start_server, repository):
    for name, (body, _) in BROKEN.items():
        make_python(repository, name, body)
    make_python(repository, "nowhere")
    (repository / "nowhere/1/model.py").unlink()
    make_python(repository, "gpu", more="", config='backend: "python"\ninstance_group { count: 1 kind: KIND_GPU gpus: [0] }')
    make_python(repository, "sound")
    server = start_server(repository, flags=["--exit-on-error=false"], ready=False, variables=WITHOUT_GPUS)
    expected = {name: text for name, (_, text) in BROKEN.items()}
    expected["nowhere"] = f"Python model file not found in '{repository}/nowhere/1/model.py'"
    expected["gpu"] = "GPU"
    for name, text in expected.items():
        wait_for(f"the reason of {name}", lambda: reason(server, name))
        assert text in reason(server, name), (name, reason(server, name))
    wait_for("sound", lambda: ask(server, "sound")[0] == 200)
    wait_for("the traceback", lambda: "Traceback (most recent call last)" in server.log and "no weights here" in server.log)
    wait_for("the ends of the others' workers", lambda: len(children(server.process.pid)) == 1)


def fake_python(tmp_path, script):
    path = tmp_path / "python"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(
    "script, seconds, expected",
    [
        (None, None, "no Python interpreter '"),
        ("echo this is no Python >&2; exit 9", None, "it exited with status 9; it last printed: this is no Python"),
        ("exec sleep 1000", 1, "did not start within 1 seconds"),
        ("exec /usr/bin/env -i /usr/bin/python3 -I -c \"import sys; sys.exit('no numpy')\"", None, "no numpy"),
    ],
)
def test_an_interpreter_that_is_none_fails_the_load(start_server, repository, tmp_path, script, seconds, expected):
    make_python(repository, "echo")
    path = tmp_path / "missing" if script is None else fake_python(tmp_path, script)
    server = start_server(
        repository, ready=False,
        flags=["--exit-on-error=false", f"--backend-config=python,python-executable={path}",
               f"--backend-config=python,stub-timeout-seconds={seconds or PATIENCE}"],
    )
    wait_for("the reason", lambda: reason(server, "echo"))
    assert expected in reason(server, "echo")
    assert not children(server.process.pid)


# ---- settings

@pytest.mark.parametrize(
    "setting, expected",
    [
        ("shm-growth-byte-size=0", "shm-growth-byte-size can't be smaller than or equal to zero."),
        ("shm-default-byte-size=1000", "shm-default-byte-size can't be smaller than 4 MiBs"),
        ("thread-pool-size=0", "thread-pool-size can't be less than 1."),
        ("stub-timeout-seconds=0", "stub-timeout-seconds can't be smaller than or equal to zero."),
        ("hand-ahead-us=-1", "hand-ahead-us can't be smaller than zero."),
        ("stub-timeout-seconds=soon", "stub-timeout-seconds: 'soon' is not an integer"),
    ],
)
def test_settings_out_of_range_are_refused(start_server, repository, setting, expected):
    make_python(repository, "echo")
    server = start_server(repository, flags=["--exit-on-error=false", f"--backend-config=python,{setting}"], ready=False)
    wait_for("the reason", lambda: expected in reason(server, "echo"))


def test_settings_that_are_not_needed_or_unknown_are_told(start_server, repository):
    make_python(repository, "echo")
    server = start_server(repository, flags=["--backend-config=python,shm-default-byte-size=4194304",
                                             "--backend-config=python,colour=green"])
    assert infer(server, "echo").tolist() == [1]
    told = [line for line in server.log.splitlines() if "backend 'python': " in line]
    assert [(line[0], "shm-default-byte-size" in line, "colour" in line) for line in told] == [("I", True, False), ("W", False, True)]


# ---- what comes back (test_outputs.py has what is not as configured)



def batch_of_three(server, model):
    def one(i):
        try:
            return infer(server, model, np.array([[i]], np.int32)).tolist()
        except InferenceServerException as error:
            return error.status(), error.message()

    return together(3, one)


@pytest.mark.parametrize("one", ["pb_utils.InferenceResponse(error=pb_utils.TritonError('not this', pb_utils.TritonError.NOT_FOUND))",
                                 "answer(value(r).astype(np.float32))"])
def test_an_error_of_one_request_of_a_batch_is_its_own(start_server, repository, one):
    make_python(repository, "mixed", f"""
        def execute(self, requests):
            assert len(requests) == 3
            return [{one} if value(r)[0, 0] == 1 else answer(value(r)) for r in requests]
        """, max_batch_size=8, more=TOGETHER % 3)
    server = start_server(repository, flags=["--strict-outputs=true"])
    replies = batch_of_three(server, "mixed")
    assert replies[0] == [[0]] and replies[2] == [[2]]
    assert "not this" in replies[1][1] or "is FP32" in replies[1][1]


@pytest.mark.parametrize(
    "body, expected",
    [
        ("raise KeyError('all of it')", "KeyError: 'all of it'"),
        ("return [answer(value(r)) for r in requests[1:]]", "InferenceRequest(s) size is:3, and InferenceResponse(s) size is:2"),
        ("return 5", "Expected a list in the execute return"),
        ("return [5] * len(requests)", "Expected an 'InferenceResponse' object"),
    ],
)
def test_what_execute_does_wrong_fails_the_whole_batch(start_server, repository, body, expected):
    make_python(repository, "fails", f"""
        def execute(self, requests):
            if requests[0].request_id() == "fine":
                return [answer(value(r)) for r in requests]
            {body}
        """, max_batch_size=8, more=TOGETHER % 3)
    server = start_server(repository)
    for status, message in batch_of_three(server, "fails"):
        assert status == "500"
        assert message.startswith("Failed to process the request(s) for model '") and expected in message, message
    fine = together(3, lambda i: infer(server, "fails", np.array([[i]], np.int32), request_id="fine"))
    assert [a.tolist() for a in fine] == [[[0]], [[1]], [[2]]]


def test_what_a_decoupled_model_sent_before_it_failed_comes_first(start_server, repository):
    make_python(repository, "fails", """
        def execute(self, requests):
            for request in requests:
                for size in (1, 1 << 20, 2):
                    request.get_response_sender().send(answer(np.zeros(size, np.int32)))
            raise RuntimeError("late")
        """, more="model_transaction_policy { decoupled: true }")
    server = start_server(repository)
    for _ in range(10):
        reply = server.ask("/v2/models/fails/generate_stream", b'{"IN": 1}')
        *sent, last = events(reply.text)
        assert [np.size(event["OUT"]) for event in sent] == [1, 1 << 20, 2]
        assert "RuntimeError: late" in last["error"]

    def counted():
        counts = json.loads(server.ask("/v2/models/fails/stats").body)["model_stats"][0]["inference_stats"]
        return counts["success"]["count"], counts["fail"]["count"]

    wait_for("all ten in the statistics", lambda: counted() == (0, 10))
