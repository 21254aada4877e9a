# SPDX-License-Identifier: Apache-2.0
"""Backends that break the rules of the C ABI (tests/fakes/faulty_*.c): each request is answered or times out at its client,
the reason is in the answer or the log, and the server goes on as if nothing had been."""
import json
import pathlib
import re
import shutil
import struct
import urllib.error

import pytest
from conftest import DEADLINE, environment, make_faulty, make_identity, wait_for
from safety import Client, tensor

EXPLICIT = ["--model-control-mode=explicit"]

# What a request's fault gives: status, words in the answer.
FAULTS = {
    "good": (200, '"data":[7]'),
    "no_response": (500, "released the request without an answer"),
    "response_deleted": (500, "released the request without an answer"),
    "double_final": (200, '"data":[7]'),
    "not_final": (500, ""),
    "two_answers": (500, ""),
    "flags_only": (500, ""),
    "flags_after_final": (200, '"data":[7]'),
    "odd_flags": (200, '"data":[7]'),
    "output_after_final": (200, '"data":[7]'),
    "release_before_respond": (200, '"data":[7]'),
    "release_before_send": (200, '"data":[7]'),
    "reschedule": (200, '"data":[7]'),
    "execute_error": (500, "faulty backend: execute_error"),
    "error_after_answer": (200, '"data":[7]'),
    "error_after_release": (200, '"data":[7]'),
    "error_after_empty_release": (500, ""),
    "late": (200, '"data":[7]'),
    "eight_threads": (200, '"data":[7]'),
    "foreign_release": (200, '"data":[7]'),
    "no_outputs": (200, '"outputs":[]'),
    "unknown_output": (200, '"data":[7]'),
    "empty_name": (200, '"outputs":[]'),
    "long_name": (200, '"outputs":[]'),
    "output_twice": (200, '"data":[7]'),
    "wrong_datatype": (200, '"datatype":"FP64"'),
    "unknown_datatype": (500, "'Y'"),
    "invalid_datatype": (500, "'Y'"),
    "lying_bytes": (500, "'Y'"),
    "cut_bytes": (500, "'Y'"),
    "short_buffer": (500, "'Y'"),
    "long_buffer": (500, "'Y'"),
    "empty_buffer": (500, "'Y'"),
    "no_buffer": (500, "'Y'"),
    "buffer_twice": (200, '"data":[7]'),
    "gpu_buffer": (200, '"data":[7]'),
    "negative_shape": (500, "'Y'"),
    "zero_shape": (200, '"data":[]'),
    "larger_shape": (500, "'Y'"),
    "overflowing_shape": (500, "'Y'"),
    "wrapping_shape": (500, "'Y'"),
    "no_dims": (200, '"data":[7]'),
    "many_dims": (200, '"data":'),
    "many_parameters": (200, '"p999":999'),
    "odd_parameters": (200, '"data":[7]'),
    "error_response": (500, "faulty backend: error_response"),
    "error_with_outputs": (500, "faulty backend: error_with_outputs"),
    "long_error": (500, "eeee"),
    "odd_error": (400, "%s%n"),
    "empty_error": (400, '"error":""'),
    "out_of_bounds": (500, "7 refused"),
    "late_configuration": (400, "only be changed while the model initializes"),
    "asks_the_server": (200, '"data":[7]'),
    "backward_statistics": (200, '"data":[7]'),
    "future_statistics": (200, '"data":[7]'),
    "zero_statistics": (200, '"data":[7]'),
    "repeated_statistics": (200, '"data":[7]'),
    "batch_statistics": (200, '"data":[7]'),
}
LEAKS = {  # the fault: whether the request is answered
    "leaked_request": False,
    "leaked_answered_request": True,
    "leaked_response": False,
    "leaked_factory": False,
    "leaked_second_response": True,
    "leaked_memory": True,
}
DYNAMIC = "dynamic_batching { %s max_queue_delay_microseconds: 0 }"
WAYS = {  # ways of a request through the core
    "json": "",
    "binary": "",
    "ordered": DYNAMIC % "preserve_ordering: true",
    "on an instance's thread": DYNAMIC % "",
}


def make(repository, name="faulty", fault="", more=""):
    directory = make_faulty(repository, name, fault)
    config = (directory / "config.pbtxt").read_text().replace("INPUT0", "X").replace("OUTPUT0", "Y")
    (directory / "config.pbtxt").write_text(config + ("max_batch_size: 4\n" if more else "") + more)
    return directory


def ask(client, fault, **parameters):
    return client.ask("/v2/models/faulty/infer", tensor("X", "INT32", [1], [1], parameters={"fault": fault, **parameters}))


@pytest.mark.parametrize("way", WAYS)
def test_a_fault_costs_its_own_answer_and_nothing_else(start_server, repository, way):
    make(repository, more=WAYS[way])
    config = repository / "faulty/config.pbtxt"
    config.write_text(config.read_text().replace("max_batch_size: 4", ""))
    make_identity(repository, "m")
    server = start_server(repository, flags=[*EXPLICIT, "--load-model=*"])
    parameters = {"binary_data_output": True} if way == "binary" else {}
    wrong = {}
    assert len(FAULTS) + len(LEAKS) >= 40
    with Client(server) as client:
        for fault, (status, words) in FAULTS.items():
            for _ in range(2):
                answer = ask(client, fault, **parameters)
                text = answer.body.decode(errors="strict" if answer.status != 200 or way != "binary" else "replace")
                as_expected = answer.status == status and words in text
                if way == "binary":  # sizes and types are the client's to check there
                    as_expected = answer.status in (200, status)
                else:
                    json.loads(text)
                if not as_expected:
                    wrong[fault] = (answer.status, text[:300])
                assert ask(client, "good").status == 200, fault
                assert client.ask("/v2/models/m/infer", tensor()).status == 200, fault
        assert wrong == {}
        assert client.ask("/v2/models/faulty/stats").status == 200
        text = server.ask("/metrics", port=server.metrics_port).text
    assert 'nv_inference_pending_request_count{model="faulty",version="1"} 0' in text
    for model in ("faulty", "m"):  # one goes when the last of its requests is released: nothing may be left
        assert server.ask(f"/v2/repository/models/{model}/unload", b"").status == 200
        wait_for("the end of the model", lambda: f"successfully unloaded '{model}'" in server.log)  # noqa: B023
    assert server.stop() == 0
    assert "Found 0 in-flight inferences" in server.log


def test_a_buffer_that_no_machine_has_is_refused(start_server, repository):
    make(repository)
    options = {name: environment()[name] + ":allocator_may_return_null=1" for name in ("ASAN_OPTIONS", "TSAN_OPTIONS")}
    server = start_server(repository, variables=options)
    with Client(server) as client:
        for _ in range(2):
            answer = ask(client, "huge_buffer")
            assert answer.status == 503 and "as many bytes of answers as it may" in answer.text
            assert ask(client, "good").status == 200
    server.process.terminate()  # what a sanitizer says of that size is no finding
    assert server.process.wait(DEADLINE) == 0


def test_an_output_that_is_not_filled_shows_nothing_of_others(start_server, repository):
    make(repository)
    make_identity(repository, "m", "TYPE_INT32", max_batch_size=0)
    server = start_server(repository)
    secret = tensor(datatype="INT32", shape=[1000], data=[123456789] * 1000)
    with Client(server) as client:
        for parameters in ({}, {"binary_data_output": True}):
            assert client.ask("/v2/models/m/infer", secret).status == 200
            answer = ask(client, "unfilled_buffer", **parameters)
            assert answer.status == 200, answer.text
            if parameters:
                assert answer.body.endswith(b"}" + bytes(4000))
            else:
                assert json.loads(answer.body)["outputs"][0]["data"] == [0] * 1000


def test_wrong_times_do_not_spoil_the_counters(start_server, repository):
    make(repository)
    server = start_server(repository)
    with Client(server) as client:
        for fault in ("backward_statistics", "future_statistics", "zero_statistics", "batch_statistics"):
            assert ask(client, fault).status == 200
    numbers = [int(n) for n in re.findall(r'"ns":(\d+)', server.ask("/v2/models/faulty/stats").text)]
    assert numbers and max(numbers) < 10**15, "a duration went below zero"
    for line in server.ask("/metrics", port=server.metrics_port).text.splitlines():
        if "duration" in line and not line.startswith("#"):
            assert 0 <= float(line.rsplit(" ", 1)[1]) < 10**12, line


@pytest.mark.parametrize("fault", LEAKS)
def test_what_a_backend_leaks_holds_up_nobody_else(start_server, repository, fault):
    make(repository)
    make_identity(repository, "m")
    # That it leaks is the point, and threads that wait for what it keeps.
    options = {"ASAN_OPTIONS": environment()["ASAN_OPTIONS"].replace("detect_leaks=1", "detect_leaks=0"),
               "TSAN_OPTIONS": environment()["TSAN_OPTIONS"] + ":report_thread_leaks=0"}
    seconds = DEADLINE if fault == "leaked_memory" else 1  # nothing holds its end up
    server = start_server(repository, flags=[f"--exit-timeout-secs={seconds}"], variables=options)
    with Client(server) as client, Client(server) as patient:
        patient.connection.timeout = 0.3
        if LEAKS[fault]:
            assert ask(client, fault).status == 200
        else:
            with pytest.raises((TimeoutError, urllib.error.URLError)):
                ask(patient, fault)
        for _ in range(5):
            assert ask(client, "good").status == 200
            assert client.ask("/v2/models/m/infer", tensor()).status == 200
    server.process.terminate()
    status = server.process.wait(DEADLINE)
    assert "Sanitizer" not in server.log and "runtime error" not in server.log
    if fault == "leaked_memory":
        assert status == 0
    elif status != 0:  # what was kept is inside until the end; the log says which model holds it
        assert status == 1 and "Exit timeout expired" in server.log
        assert re.search(r"model 'faulty' \(version 1\)", server.log)


ENTRY_POINTS = {  # the fault of a model: status of its load, words in the answer and in the log
    "model_initialize": (400, "Internal: faulty backend: model_initialize"),
    "instance_initialize": (400, "Internal: faulty backend: instance_initialize"),
    "second_instance_initialize": (400, "Internal: faulty backend: second_instance_initialize"),
    "model_finalize": (200, "failed to finalize model 'x': faulty backend: model_finalize"),
    "instance_finalize": (200, "failed to finalize instance 'x_0': faulty backend: instance_finalize"),
    "config_version": (400, "model configuration version 2 not supported"),
    "config_no_json": (400, ""),
    "config_empty": (400, ""),
    "config_unknown_field": (400, "no_such_field"),
    "config_negative_batch": (400, "max_batch_size"),
    "config_wrong_kind": (400, "max_batch_size"),
    "config_no_dims": (400, "dims"),
    "config_same_names": (400, "'X' is specified more than once"),
    "config_no_tensors": (200, ""),
}


def test_an_error_from_any_entry_point_fails_that_load_only(start_server, repository):
    for fault in ENTRY_POINTS:
        make(repository, fault, fault)
        config = repository / fault / "config.pbtxt"
        config.write_text(config.read_text() + 'instance_group { name: "x" count: 2 }')
    make_identity(repository, "m")
    server = start_server(repository, flags=[*EXPLICIT, "--load-model=m"])
    wrong = {}
    with Client(server) as client:
        for fault, (status, words) in ENTRY_POINTS.items():
            answer = client.load(fault)
            if answer.status != status or (status != 200 and words not in answer.text):
                wrong[fault] = (answer.status, answer.text)
            assert client.ask("/v2/models/m/infer", tensor()).status == 200
            assert client.unload(fault).status == 200
        assert wrong == {}
        for fault, (status, words) in ENTRY_POINTS.items():
            words = words.replace("model 'x'", f"model '{fault}'")
            wait_for(f"{words} in the log", lambda: words in server.log)
        wait_for("the end of all but m", lambda: [k for k, v in client.index().items() if v == "READY"] == [("m", "1")])


@pytest.mark.parametrize("fault", ["initialize", "attribute", "attribute_kind", "attribute_count", "finalize"])
def test_a_backend_that_fails_as_a_whole_fails_its_models_only(start_server, repository, fault):
    make(repository)
    make_identity(repository, "m")
    server = start_server(repository, flags=[*EXPLICIT, "--load-model=m"], variables={"FAULTY_BACKEND": fault})
    with Client(server) as client:
        for _ in range(2):
            answer = client.load("faulty")
            assert answer.status == (200 if fault == "finalize" else 400), answer.text
            if fault in ("initialize", "attribute"):
                assert f"faulty backend: {fault}" in answer.text
            assert client.ask("/v2/models/m/infer", tensor()).status == 200
    server.stop()
    # A backend that was initialized is finalized before its library is closed: once for each time.
    assert server.log.count("failed finalizing backend 'faulty': faulty backend: finalize") == {"finalize": 1, "attribute": 2}.get(fault, 0)


def loaded_bytes(library):
    """Where the last segment of an ELF file ends; debugging information may follow."""
    (table,), (count,) = struct.unpack_from("=Q", library, 32), struct.unpack_from("=H", library, 56)
    segments = [struct.unpack_from("=IIQQQQ", library, table + 56 * n) for n in range(count)]
    return max(offset + size for kind, _, offset, _, _, size in segments if kind == 1)


def test_a_library_that_is_no_backend_is_refused(start_server, repository, backends):
    whole = (backends / "identity/libtriton_identity.so").read_bytes()
    libraries = {
        "empty": b"", "text": b"no library", "elf": b"\x7fELF" + bytes(100),
        **{f"cut {tenth}": whole[: loaded_bytes(whole) * tenth // 10 - 1] for tenth in range(1, 11)},  # a copy half-way
    }
    for name, content in libraries.items():
        make_identity(repository, name, more='runtime: "libother.so"')
        (repository / name / "1/libother.so").write_bytes(content)
    make_identity(repository, "foreign", more='runtime: "libother.so"')
    libc = next(word for word in pathlib.Path("/proc/self/maps").read_text().split() if "/libc" in word)
    shutil.copy(libc, repository / "foreign/1/libother.so")
    server = start_server(repository, flags=EXPLICIT)
    with Client(server) as client:
        for name in libraries:
            answer = client.load(name)
            assert answer.status == 400 and "unable to load shared library" in answer.text, answer.text
        answer = client.load("foreign")
        assert answer.status == 400 and "is not a backend" in answer.text, answer.text
