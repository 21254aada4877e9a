# SPDX-License-Identifier: Apache-2.0
"""Models in a process of their own: the same as inside in all that a client sees, and what only a process can promise.

NEREID_ISOLATE=1 gives each model of all other tests a process of its own too (docs/testing.md).
"""
import json
import os
import re
import signal

import proc
import pytest
from conftest import BUILD, Starter, copy_model, environment, make_faulty, make_identity, wait_for
from safety import Client, on_threads, tensor
from streaming import make_streaming

pytestmark = pytest.mark.gpu_host

EXPLICIT = ["--model-control-mode=explicit"]
ISOLATE = 'parameters { key: "isolate" value { string_value: "process" } }\n'
LIMIT = 'parameters { key: "isolate_memory_limit" value { string_value: "%s" } }\n'
NO_LEAK_CHECK = {"ASAN_OPTIONS": environment()["ASAN_OPTIONS"].replace("detect_leaks=1", "detect_leaks=0")}


def make_xy(repository, name, fault=""):
    """A faulty model whose tensors have the names that the backend's answers have."""
    directory = make_faulty(repository, name, fault)
    config = directory / "config.pbtxt"
    config.write_text(config.read_text().replace("INPUT0", "X").replace("OUTPUT0", "Y"))
    return directory


def isolate(directory, more=""):
    with (directory / "config.pbtxt").open("a") as config:
        config.write(ISOLATE + more)
    return directory


def processes(server):
    """Of models: pid by the server's children."""
    return [pid for pid, process in proc.processes().items()
            if process.parent == server.process.pid and process.state != "Z" and "nereid-model-host" in proc.read(pid, "cmdline")]


# ---- the contract: what is asked of `<model>_in` and `<model>_out` has the same answer


@pytest.fixture(scope="module")
def sides(nereid, backends, tmp_path_factory):
    repository = tmp_path_factory.mktemp("sides")
    for side in ("in", "out"):
        made = [
            make_identity(repository, f"batched_{side}", more="dynamic_batching { }\n"),
            make_identity(repository, f"strings_{side}", "TYPE_STRING"),
            make_identity(repository, f"plain_{side}", max_batch_size=0, more="instance_group { count: 3 kind: KIND_CPU }\n"),  # on a machine with GPUs too
            make_xy(repository, f"faulty_{side}"),
            make_streaming(repository, f"streaming_{side}", more="instance_group { kind: KIND_CPU }\n"),
        ]
        reshaped = repository / f"reshaped_{side}"
        (reshaped / "1").mkdir(parents=True)
        (reshaped / "config.pbtxt").write_text(
            'backend: "identity" max_batch_size: 4\n'
            'input { name: "INPUT0" data_type: TYPE_FP32 dims: [ 2, 3 ] reshape { shape: [ 6 ] } }\n'
            'output { name: "OUTPUT0" data_type: TYPE_FP32 dims: [ 2, 3 ] reshape { shape: [ 6 ] } }\n')
        digits = repository / f"digits_{side}"  # its configuration is completed by the backend
        copy_model(repository, "digits").rename(digits)
        with (digits / "config.pbtxt").open("a") as config:
            config.write("\n")
        made += [reshaped, digits]
        if side == "out":
            for directory in made:
                isolate(directory)
    starter = Starter(nereid, backends, tmp_path_factory.mktemp("server"))
    server = starter(repository, flags=EXPLICIT + ["--load-model=*"])
    assert len(processes(server)) == 7
    yield server
    starter.stop_all()


def both(server, ask):
    """`ask` of the two sides; what it gives, as text without what must differ."""
    with Client(server) as client:
        answers = []
        for side in ("in", "out"):
            answer = ask(client, side)
            text = re.sub(rf"(batched|strings|plain|faulty|streaming|reshaped|digits)_{side}(?![a-z])", r"\1", answer.text)
            text = re.sub(r'(,?)"isolate":\{"string_value":"process"\}', "", text).replace('{,', "{")
            answers.append((answer.status, text))
    return answers


REQUESTS = {
    "numbers": ("batched", tensor(data=[1.5, -2], shape=[1, 2], id="a")),
    "rows": ("batched", tensor(data=range(6), shape=[3, 2])),
    "more rows than a batch has": ("batched", tensor(data=range(9), shape=[9, 1])),
    "no elements": ("batched", tensor(data=[], shape=[1, 0])),
    "strings": ("strings", tensor(datatype="BYTES", data=["", "größer", "x" * 100_000], shape=[1, 3])),
    "parameters": ("batched", tensor(parameters={"text": "t", "number": 7, "truth": True, "real": 0.5, "sequence_id": 9})),
    "sequence of a name": ("batched", tensor(parameters={"sequence_id": "s", "sequence_start": True})),
    "a large tensor": ("plain", tensor(data=[1] * 300_000, shape=[300_000])),
    "a reshaped tensor": ("reshaped", tensor(data=range(6), shape=[1, 2, 3])),
    "an onnx model": ("digits", tensor("image", shape=[1, 64], data=[0] * 64)),
    "an unknown input": ("batched", tensor("NO")),
    "a wrong datatype": ("batched", tensor(datatype="INT32")),
    "a wrong shape": ("reshaped", tensor(data=range(3), shape=[1, 3])),
    "an unknown output": ("batched", tensor(outputs=[{"name": "NO"}])),
}
FAULTS = ["good", "error_response", "long_error", "empty_error", "execute_error", "error_with_outputs", "odd_parameters",
          "unknown_output", "unknown_datatype", "many_dims", "two_outputs", "short_buffer", "no_buffer", "buffer_twice",
          "no_answer", "second_response", "send_twice", "future_statistics", "repeated_statistics"]


@pytest.mark.parametrize("what", REQUESTS)
def test_answers_are_as_inside(sides, what):
    model, body = REQUESTS[what]
    inside, outside = both(sides, lambda client, side: client.ask(f"/v2/models/{model}_{side}/infer", body))
    assert inside == outside
    assert inside[0] == (400 if what.startswith(("an unknown", "a wrong", "more")) else 200), inside


@pytest.mark.parametrize("fault", FAULTS)
def test_a_backends_faults_are_as_inside(sides, fault):
    body = tensor("X", "INT32", [1], [1], parameters={"fault": fault})
    inside, outside = both(sides, lambda client, side: client.ask(f"/v2/models/faulty_{side}/infer", body))
    assert inside == outside


@pytest.mark.parametrize("model", ["batched", "plain", "reshaped", "streaming", "digits"])
@pytest.mark.parametrize("path", ["", "/config", "/ready"])
def test_what_is_said_of_a_model_is_as_inside(sides, model, path):
    inside, outside = both(sides, lambda client, side: client.ask(f"/v2/models/{model}_{side}{path}"))
    assert inside == outside and inside[0] == 200


@pytest.mark.parametrize("members", [dict(count=3), dict(count=0), dict(count=4, fail_at=2), dict(count=2, early=True),
                                     dict(count=3, early=True, final="with"), dict(bytes=200_000)], ids=str)
def test_streams_are_as_inside(sides, members):
    body = json.dumps({"INPUT": "hi", **members}).encode()
    inside, outside = both(sides, lambda client, side: client.ask(f"/v2/models/streaming_{side}/generate_stream", body))
    assert inside == outside and inside[0] == 200


def test_statistics_are_as_inside(start_server, repository):
    counts = []
    for side in ("in", "out"):
        directory = make_xy(repository, f"faulty_{side}")
        config = directory / "config.pbtxt"
        config.write_text(config.read_text() + "max_batch_size: 8\ndynamic_batching { }\n")
        if side == "out":
            isolate(directory)
    server = start_server(repository)
    with Client(server) as client:
        for side in ("in", "out"):
            for fault in ("future_statistics", "zero_statistics", "error_response", "execute_error", "batch_statistics"):
                client.ask(f"/v2/models/faulty_{side}/infer", tensor("X", "INT32", [2, 1], [1, 2], parameters={"fault": fault}))
            stats = json.loads(client.ask(f"/v2/models/faulty_{side}/stats").body)["model_stats"][0]
            counts.append({
                "requests": {name: row["count"] for name, row in stats["inference_stats"].items()},
                "rows": stats["inference_count"], "executions": stats["execution_count"],
                "batches": [(row["batch_size"], row["compute_infer"]["count"]) for row in stats["batch_stats"]],
            })
    assert counts[0] == counts[1]
    assert counts[0]["executions"] >= 1 <= counts[0]["requests"]["success"]


def test_a_load_fails_as_inside(start_server, repository):
    answers = []
    server = start_server(repository, flags=EXPLICIT)
    with Client(server) as client:
        for fault in ("model_initialize", "instance_initialize", "config_negative_batch"):
            for side in ("in", "out"):
                directory = make_xy(repository, f"{fault}_{side}", fault)
                if side == "out":
                    isolate(directory)
                answer = client.load(directory.name)
                answers.append((answer.status, answer.text.replace(directory.name, "x")))
    assert [a[0] for a in answers] == [400] * 6
    assert answers[::2] == answers[1::2]
    assert processes(server) == []


def test_a_cancelled_request_stops_inside_its_process(start_server, repository):
    isolate(make_streaming(repository))
    server = start_server(repository)
    connection = Client(server)
    body = json.dumps({"INPUT": "hi", "count": 1000, "delay_us": 20_000}).encode()
    connection.connection.request("POST", "/v2/models/streaming/generate_stream", body)
    wait_for("the stream", lambda: "streaming: began 1000" in server.log)
    connection.connection.sock.close()
    connection.connection.close()
    sent = wait_for("the cancellation", lambda: re.search(r"sent (\d+) of 1000, cancelled 1", server.log))
    assert int(sent.group(1)) < 1000


# ---- what only a process can promise


def test_a_process_that_ends_costs_its_own_requests_only(start_server, repository):
    isolate(make_streaming(repository, "slow", decoupled=False))
    make_identity(repository, "m")
    server = start_server(repository)
    [process] = processes(server)
    answers = []

    def ask(_):
        with Client(server) as client:
            answers.append(client.ask("/v2/models/slow/generate", json.dumps({"INPUT": "hi", "delay_us": 600_000_000}).encode()))

    def end(_):
        with Client(server) as client:
            wait_for("the execution", lambda: "streaming: began 1" in server.log)
            assert client.ask("/v2/models/m/infer", tensor()).status == 200
            os.kill(process, signal.SIGKILL)

    on_threads(2, lambda i: (ask, end)[i](i))
    assert answers[0].status == 500, answers[0].text
    assert "the process of model 'slow' ended: it was ended by signal SIGKILL" in answers[0].text
    wait_for("the next process", lambda: [p for p in processes(server) if p != process])
    wait_for("readiness", lambda: server.ask("/v2/models/slow/ready").status == 200)
    with Client(server) as client:
        assert client.ask("/v2/models/m/infer", tensor()).status == 200
    stats = json.loads(server.ask("/v2/models/slow/stats").body)["model_stats"][0]
    assert stats["inference_stats"]["fail"]["count"] == 1


def test_requests_wait_for_the_next_process(start_server, repository):
    isolate(make_identity(repository, "m"))
    server = start_server(repository)
    with Client(server) as client:
        assert client.ask("/v2/models/m/infer", tensor()).status == 200
        [process] = processes(server)
        os.kill(process, signal.SIGKILL)
        wait_for("the end", lambda: process not in processes(server))
        answers = [client.ask("/v2/models/m/infer", tensor()) for _ in range(3)]
        # One that came before the end was seen is lost with the process; the others were kept.
        assert [a.status for a in answers[1:]] == [200, 200], [a.text for a in answers]
        assert answers[0].status in (200, 500), answers[0].text


def test_a_leak_is_bounded(start_server, repository):
    isolate(make_xy(repository, "faulty"))
    server = start_server(repository, flags=EXPLICIT + ["--load-model=faulty"], variables=NO_LEAK_CHECK)
    [process] = processes(server)
    base = proc.status(process, "RssAnon") // 1024
    leak = tensor("X", "INT32", [1], [1], parameters={"fault": "leaked_mebibytes"})
    with Client(server) as client:
        config = json.loads(client.ask("/v2/models/faulty/config").body)
        config["parameters"]["isolate_memory_limit"] = {"string_value": f"{base + 100}M"}
        assert client.load("faulty", config).status == 200
        wait_for("the process without a limit to end", lambda: process not in processes(server))
        seen = set()
        for _ in range(1000):
            answer = client.ask("/v2/models/faulty/infer", leak)
            assert answer.status == 200 or "isolate_memory_limit" in server.log, answer.text
            seen |= set(processes(server))
            if len(seen) > 1:
                break
        assert len(seen) > 1, server.log
    assert "isolate_memory_limit" in server.log


@pytest.mark.parametrize("parameter", ["isolate", "isolate_memory_limit"])
def test_a_wrong_parameter_is_named(start_server, repository, parameter):
    directory = make_identity(repository, "m")
    with (directory / "config.pbtxt").open("a") as config:
        config.write('parameters { key: "%s" value { string_value: "much" } }\n' % parameter)
        config.write(ISOLATE if parameter != "isolate" else "")
    server = start_server(repository, flags=EXPLICIT)
    with Client(server) as client:
        answer = client.load("m")
    assert answer.status == 400 and f"{parameter}: invalid value 'much', expected" in answer.text


@pytest.mark.slow
def test_loads_and_unloads_leave_nothing(start_server, repository):
    isolate(make_identity(repository, "m", more="instance_group { count: 2 }\n"))
    server = start_server(repository, flags=EXPLICIT)

    def held():
        """Descriptors and threads without those of jobs, which begin when they are needed, and stay."""
        pid = server.process.pid
        return {"descriptors": len(proc.descriptors(pid)), "threads": sum(name != "job" for name in proc.threads(pid).values())}

    with Client(server) as client:
        def cycle():
            assert client.load("m").status == 200
            assert client.ask("/v2/models/m/infer", tensor()).status == 200
            assert client.unload("m").status == 200
            wait_for("the unload", lambda: processes(server) == [])

        cycle()
        before = held()
        for _ in range(50):
            cycle()
        wait_for("what was there", lambda: all(number <= before[what] for what, number in held().items()))


def test_a_process_ends_with_its_server(start_server, repository):
    isolate(make_identity(repository, "m"))
    server = start_server(repository)
    [process] = processes(server)
    server.process.kill()
    server.process.wait()
    wait_for("its end", lambda: proc.has_ended(process))


def test_a_process_has_no_descriptors_of_the_server(start_server, repository):
    isolate(make_identity(repository, "m"))
    server = start_server(repository)
    [process] = processes(server)
    kinds = list(proc.descriptors(process).values())
    assert sum(kind.startswith("socket:") for kind in kinds) == 1, kinds
    assert not any(kind.endswith("server0.log") for kind in kinds), kinds


def test_a_model_that_changed_on_the_disk_is_not_started_again(start_server, repository):
    directory = isolate(copy_model(repository, "digits"))
    server = start_server(repository)
    make_changed = (directory / "1/model.onnx")
    from test_onnxruntime import identity as onnx_identity

    other = onnx_identity(repository, "other", 1)
    (other / "1/model.onnx").replace(make_changed)
    [process] = processes(server)
    os.kill(process, signal.SIGKILL)
    wait_for("the refusal", lambda: "is not the one on the disk any more" in server.log)
    assert server.ask("/v2/models/digits/ready").status != 200
    index = json.loads(server.ask("/v2/repository/index", b"").body)
    assert "not the one on the disk" in next(row for row in index if row["name"] == "digits").get("reason", "")


@pytest.mark.parametrize("variant", range(12))
def test_a_hostile_process_harms_nobody_else(start_server, repository, backends, tmp_path, variant):
    """tests/fakes/hostile_host.c plays the process and lies in a way of its own."""
    hostile = tmp_path / "backends"
    hostile.mkdir()
    for name in os.listdir(backends):
        if name != "isolated":
            (hostile / name).symlink_to(backends / name)
    (hostile / "isolated").mkdir()
    (hostile / "isolated/libtriton_isolated.so").symlink_to(BUILD / "backends/isolated/libtriton_isolated.so")
    (hostile / "isolated/nereid-model-host").symlink_to(BUILD / "tests/fakes/hostile_host")
    isolate(make_identity(repository, "hostile"))
    make_identity(repository, "m")
    server = start_server(repository, flags=[f"--backend-directory={hostile}"], variables={"HOSTILE": str(variant)})
    with Client(server) as client:
        for _ in range(3):
            answer = client.ask("/v2/models/hostile/infer", tensor())
            assert answer.status in (200, 400, 500, 503), answer.text
            json.loads(answer.text)
            assert client.ask("/v2/models/m/infer", tensor()).status == 200
    assert server.stop() == 0
