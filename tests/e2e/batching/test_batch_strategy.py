# SPDX-License-Identifier: Apache-2.0
"""Custom batching libraries: one library, compiled by somebody else, in nereid and in NVIDIA's server of 2.51."""
import concurrent.futures
import re
import shutil

import numpy
import pytest
import tritonclient.grpc as triton
from conftest import BUILD, ROOT, wait_for
from grpc_sides import NEREID, TRITON
from python_sides import SideStarter
from test_ragged import give, in_order

VOLUME, INCOMPLETE = (ROOT / BUILD / f"test-strategies/{name}_strategy.so" for name in ("volume", "incomplete"))
LOADING = "Loading custom batching strategy library"


def make(repository, name="m", library=None, volume=100, together=4, calls=None, fail="", delay=60000000):
    """An identity whose batches have four requests at most; `library`: what TRITON_BATCH_STRATEGY_PATH says."""
    parameters = {"MAX_BATCH_VOLUME_BYTES": volume, "FAIL": fail, "CALLS": calls or "", "TRITON_BATCH_STRATEGY_PATH": library}
    (repository / name / "1").mkdir(parents=True)
    (repository / name / "config.pbtxt").write_text("\n".join([
        'backend: "identity"', f"max_batch_size: {together}",
        'input { name: "INPUT0" data_type: TYPE_FP32 dims: [ -1 ] allow_ragged_batch: true }', 'output { name: "OUTPUT0" data_type: TYPE_FP32 dims: [ -1 ] }',
        "dynamic_batching { max_queue_delay_microseconds: %d }" % delay,
        *(f'parameters {{ key: "{key}" value: {{ string_value: "{value}" }} }}' for key, value in parameters.items() if value is not None)]))
    return repository / name


@pytest.fixture(params=[NEREID] if BUILD.name == "tsan" else [NEREID, TRITON], ids=lambda side: side.name)
def start(request, tmp_path):
    """Starts servers of one side, whose backend directory may be changed."""
    backends = tmp_path / "backends"
    shutil.copytree(request.param.build / "backends/identity", backends / "identity")
    starter = SideStarter(request.param, request.param.backends(backends), tmp_path)
    starter.identity = backends / "identity"
    yield starter
    starter.stop_all()


def of(*bytes_of_each):
    return [give(("INPUT0", numpy.full((1, count // 4), number, numpy.float32))) for number, count in enumerate(bytes_of_each)]


def batches(client, model="m"):
    """How often a batch of each size was executed."""
    found = client.get_inference_statistics(model, as_json=True)["model_stats"][0].get("batch_stats", [])
    return {int(row["batch_size"]): int(row["compute_infer"]["count"]) for row in found}


# 40 and 40 fit into 100, the third does not; then 40, 40, 8 and 8 are a full batch.
SIZES = (40, 40, 40, 40, 8, 8)


def infer_sizes(server, sizes=SIZES, model="m"):
    requests = of(*sizes)
    answers, _ = in_order(server, model, requests)
    for number, size in enumerate(sizes):
        assert answers[number].as_numpy("OUTPUT0").tolist() == [[number] * (size // 4)]
    with triton.InferenceServerClient(f"127.0.0.1:{server.grpc_port}") as client:
        return batches(client, model)


def batches_in(path):
    """What was asked about each batch. One that was given up for a longer one is left out: Triton asks all over again at each arrival."""
    asked = [part.splitlines()[:-1] for part in re.findall(r"^initialize\n((?:include .*\n)*finalize\n)", path.read_text(), re.M)]
    return [batch for batch, following in zip(asked, [*asked[1:], []]) if batch and batch != following[:len(batch)]]


BATCHES = [["include 0 yes", "include 1 yes", "include 2 no"], ["include 2 yes", "include 3 yes", "include 4 yes", "include 5 yes"]]


def test_the_library_has_a_say_in_each_batch_in_tritons_order(start, tmp_path):
    repository, calls = tmp_path / "models", tmp_path / "calls"
    model = make(repository, library=repository / "m/volume.so", calls=calls)
    shutil.copy(VOLUME, model / "volume.so")
    server = start(repository, flags=["--load-model=m"])
    assert server.log.count(LOADING) == 1
    assert infer_sizes(server) == {2: 1, 4: 1}
    assert infer_sizes(server) == {2: 2, 4: 2}
    wait_for("the calls", lambda: batches_in(calls) == [*BATCHES, *BATCHES])
    assert server.ask("/v2/repository/models/m/unload", b"{}").status == 200
    wait_for("the end", lambda: calls.read_text().splitlines()[-1] == "batcher_finalize")
    assert calls.read_text().startswith("batcher_initialize\ninitialize\n") and calls.read_text().count("batcher_") == 2
    if start.side is NEREID:  # asks about each request once for each batch, and has finalized all that it initialized
        assert calls.read_text().count("\n") == 2 + 2 * (4 + sum(map(len, BATCHES)))


def test_the_library_is_looked_for_in_three_directories(start, tmp_path):
    """Each finds its own, told by the volume that fits: the version's before the model's before the backend's."""
    repository = tmp_path / "models"
    made = {name: make(repository, name, calls=tmp_path / name) for name in ("version", "model", "backend", "named")}
    lone = make(repository, "lone", calls=tmp_path / "lone", library=repository / "lone/1/../other.so")
    shutil.copy(VOLUME, lone / "other.so")
    shutil.copy(INCOMPLETE, lone / "batchstrategy.so")  # not looked at
    shutil.copy(VOLUME, made["version"] / "1/batchstrategy.so")
    shutil.copy(INCOMPLETE, made["version"] / "batchstrategy.so")
    shutil.copy(VOLUME, made["model"] / "batchstrategy.so")
    shutil.copy(VOLUME, start.identity / "batchstrategy.so")
    server = start(repository, flags=["--load-model=*"])
    found = {model: path for path, model in re.findall(rf'{LOADING} (\S+) for model ([^\s"]+)', server.log)}
    assert found["version"].endswith("version/1/batchstrategy.so") and found["model"].endswith("model/batchstrategy.so")
    assert found["backend"] == found["named"] and found["backend"].endswith("identity/batchstrategy.so")
    assert found["lone"].endswith("other.so")
    for name in ("version", "model", "backend", "lone"):
        assert infer_sizes(server, model=name) == {2: 1, 4: 1}
        wait_for("the calls", lambda: batches_in(tmp_path / name) == BATCHES)


def volume_of(batch, sizes):
    taken = [sizes[int(number) % len(sizes)] for number in re.findall(r"include (\d+) yes", "\n".join(batch))]
    return sum(taken), len(taken)


def test_many_clients_at_once_get_batches_that_the_library_allows(start, tmp_path):
    """Without a delay: requests are also executed by the threads that bring them."""
    repository, calls, sizes = tmp_path / "models", tmp_path / "calls", (40, 8, 60, 100, 20, 96)
    model = make(repository, calls=calls, delay=0)
    shutil.copy(VOLUME, model / "batchstrategy.so")
    server = start(repository, flags=["--load-model=m"])
    with concurrent.futures.ThreadPoolExecutor(4) as clients:
        for done in [clients.submit(in_order, server, "m", of(*sizes) * 5) for _ in range(8)]:
            done.result()
    with triton.InferenceServerClient(f"127.0.0.1:{server.grpc_port}") as client:
        executed = batches(client)
    assert sum(size * count for size, count in executed.items()) == 8 * 5 * len(sizes)
    assert executed.keys() <= {1, 2, 3, 4}
    asked = batches_in(calls)
    assert all(volume <= 100 and count <= 4 for volume, count in (volume_of(batch, sizes) for batch in asked))
    assert start.side is TRITON or calls.read_text().count("\ninitialize") == calls.read_text().count("\nfinalize")


def refusal(server, model):
    answer = server.ask(f"/v2/repository/models/{model}/load", b"{}")
    assert answer.status == 400
    return answer.text


def test_a_library_that_cannot_be_had_fails_the_load_in_tritons_words(start, tmp_path):
    repository = tmp_path / "models"
    make(repository, "absent", library=repository / "absent/no.so")
    shutil.copy(INCOMPLETE, make(repository, "incomplete") / "batchstrategy.so")
    (make(repository, "text") / "batchstrategy.so").write_text("no library")
    shutil.copy(VOLUME, make(repository, "failing", fail="batcher") / "batchstrategy.so")
    server = start(repository)
    assert f"Batching library path not found: {repository}/absent/no.so" in refusal(server, "absent")
    if start.side is TRITON:  # 2.51 hangs for ever once it has opened a library that it refuses
        return
    assert "incomplete/batchstrategy.so does not define all required custom batching functions for model incomplete" in refusal(server, "incomplete")
    assert "unable to load shared library" in refusal(server, "text")
    assert "Failure test case" in refusal(server, "failing")


def test_a_library_outside_of_the_models_directory_is_refused(start, tmp_path):
    """As newer versions of Triton do; 2.51 opens whatever it is told."""
    if start.side is TRITON:
        return
    repository = tmp_path / "models"
    outside = {"beside": repository / "other/volume.so", "above": repository / "above/../volume.so", "prefix": repository / "prefix.so",
               "itself": repository / "itself", "nowhere": "/no/where.so"}
    for model, library in outside.items():
        make(repository, model, library=library)
    make(repository, "empty", library="")
    for path in (make(repository, "other") / "volume.so", repository / "volume.so", repository / "prefix.so"):
        shutil.copy(VOLUME, path)
    server = start(repository)
    for model in outside:
        assert "Batching library path escapes model repository." in refusal(server, model)
    assert "TRITON_BATCH_STRATEGY_PATH of model 'empty' is empty" in refusal(server, "empty")


def test_what_the_library_says_amiss_is_logged(start, tmp_path):
    repository = tmp_path / "models"
    for fail in ("include", "finalize", "batcher_finalize"):
        shutil.copy(VOLUME, make(repository, fail, fail=fail, calls=tmp_path / fail) / "batchstrategy.so")
    server = start(repository, flags=["--load-model=*"])
    words = {"include": "Custom batching include function", "finalize": "Custom batching finalization function",
             "batcher_finalize": "Custom batcher finalization"}
    for fail, what in words.items():
        assert infer_sizes(server, model=fail) == {2: 1, 4: 1}
        assert server.ask(f"/v2/repository/models/{fail}/unload", b"{}").status == 200
        wait_for("the log", lambda: f"{what} failed for model {fail}: Failure test case" in server.log)


def test_without_dynamic_batching_the_library_is_initialized_and_not_asked(start, tmp_path):
    repository, calls = tmp_path / "models", tmp_path / "calls"
    model = make(repository, calls=calls)
    shutil.copy(VOLUME, model / "batchstrategy.so")
    config = model / "config.pbtxt"
    config.write_text(re.sub(r"dynamic_batching .*", "", config.read_text()))
    server = start(repository, flags=["--load-model=m"])
    assert infer_sizes(server) == {1: 6}
    assert "include" not in calls.read_text() and calls.read_text().startswith("batcher_initialize\n")


def test_a_request_that_no_batch_may_hold_goes_alone(start, tmp_path):
    """Triton 2.51 asks about it for ever, and executes nothing behind it."""
    if start.side is TRITON:
        return
    repository, calls = tmp_path / "models", tmp_path / "calls"
    shutil.copy(VOLUME, make(repository, calls=calls) / "batchstrategy.so")
    server = start(repository, flags=["--load-model=m"])
    assert infer_sizes(server, (400, 8, 8, 8, 8)) == {1: 1, 4: 1}
    assert batches_in(calls) == [["include 0 no"], [f"include {number} yes" for number in (1, 2, 3, 4)]]
    metrics = server.ask("/metrics", port=server.metrics_port).text
    assert 'nereid_batch_closed_total{model="m",reason="strategy",version="1"} 1' in metrics
