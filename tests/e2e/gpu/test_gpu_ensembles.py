# SPDX-License-Identifier: Apache-2.0
"""Ensembles whose steps run on GPUs, played ones: what one step writes there the next one reads there."""
import concurrent.futures
import json

import numpy as np
import pytest
import tritonclient.http as triton
from conftest import make_identity, wait_for
from ensembles import make_ensemble
from gpus import fake_gpus

GPU = "instance_group [ { kind: KIND_GPU gpus: [ 0 ] } ]"
OTHER_GPU = "instance_group [ { kind: KIND_GPU gpus: [ 1 ] } ]"
CPU = "instance_group [ { kind: KIND_CPU } ]"
SIZE = 4096
DATA = np.arange(SIZE, dtype=np.float32)[None]


def chain(*models):
    """Each model reads what the one before wrote: t1, t2, …, the last one OUTPUT0."""
    names = ["INPUT0", *(f"t{i}" for i in range(1, len(models))), "OUTPUT0"]
    return [(model, {"INPUT0": names[i]}, {"OUTPUT0": names[i + 1]}) for i, model in enumerate(models)]


def infer(server, name, data=DATA, outputs=("OUTPUT0",)):
    with triton.InferenceServerClient(server.url) as client:
        tensor = triton.InferInput("INPUT0", list(data.shape), "FP32")
        tensor.set_data_from_numpy(data)
        result = client.infer(name, [tensor], outputs=[triton.InferRequestedOutput(output) for output in outputs])
        return [result.as_numpy(output) for output in outputs]


@pytest.fixture
def gpus(tmp_path):
    return fake_gpus(tmp_path, 2)


@pytest.fixture
def models(repository):
    for name, group in (("a", GPU), ("b", GPU), ("c", GPU), ("other", OTHER_GPU), ("cpu", CPU)):
        make_identity(repository, name, more=group)
    return repository


def measure(server, gpus, name, outputs=("OUTPUT0",), requests=4):
    """What each request costs the devices, once it has run."""
    infer(server, name, outputs=outputs)
    before = gpus.counters()
    for _ in range(requests):
        for array in infer(server, name, outputs=outputs):
            np.testing.assert_array_equal(array, DATA)
    since = gpus.counters().since(before)
    assert since["allocations"] == 0
    return {kind: since[f"bytes_{kind}"] / requests / DATA.nbytes for kind in ("to_device", "to_host")}


def test_between_steps_on_a_gpu_nothing_comes_to_the_host(start_server, models, gpus):
    make_ensemble(models, "one", chain("a"))
    make_ensemble(models, "three", chain("a", "b", "c"))
    server = start_server(models, variables=gpus.variables)
    assert measure(server, gpus, "one") == {"to_device": 1, "to_host": 1}
    assert measure(server, gpus, "three") == {"to_device": 1, "to_host": 1}


def test_what_is_an_output_and_is_read_stays_on_the_gpu(start_server, models, gpus):
    """It is copied into the answer once, and the step that reads it needs no copy back."""
    make_ensemble(models, "e", [("a", {"INPUT0": "INPUT0"}, {"OUTPUT0": "MIDDLE"}), ("b", {"INPUT0": "MIDDLE"}, {"OUTPUT0": "OUTPUT0"})],
                  outputs=("MIDDLE", "OUTPUT0"))
    server = start_server(models, variables=gpus.variables)
    assert measure(server, gpus, "e", ("MIDDLE", "OUTPUT0")) == {"to_device": 1, "to_host": 2}
    for output in ("MIDDLE", "OUTPUT0"):
        assert measure(server, gpus, "e", (output,)) == {"to_device": 1, "to_host": 1}


@pytest.mark.parametrize("steps", [("a", "cpu", "b"), ("cpu", "a", "cpu"), ("a", "other", "a"), ("cpu", "cpu")], ids="-".join)
def test_steps_may_run_anywhere(start_server, models, gpus, steps):
    make_ensemble(models, "e", chain(*steps))
    server = start_server(models, variables=gpus.variables)
    for _ in range(3):
        for data in (DATA, DATA[:, :1], np.repeat(DATA, 8, axis=0)):
            np.testing.assert_array_equal(infer(server, "e", data)[0], data)


def test_a_full_pool_is_made_up_for(start_server, models, gpus):
    """What has no room on the GPU lies in pinned memory, or on the heap; the answer is the same."""
    make_ensemble(models, "e", chain("a", "b", "c"))
    server = start_server(models, flags=["--cuda-memory-pool-byte-size=0:4096", "--pinned-memory-pool-byte-size=4096"], variables=gpus.variables)
    for _ in range(3):
        np.testing.assert_array_equal(infer(server, "e")[0], DATA)


def test_a_copy_that_fails_fails_the_request_by_its_output(start_server, models, gpus):
    make_ensemble(models, "e", [("a", {"INPUT0": "INPUT0"}, {"OUTPUT0": "MIDDLE"}), ("b", {"INPUT0": "MIDDLE"}, {"OUTPUT0": "OUTPUT0"})],
                  outputs=("MIDDLE", "OUTPUT0"))
    server = start_server(models, variables=gpus.variables)
    outputs = ("MIDDLE", "OUTPUT0")
    np.testing.assert_array_equal(infer(server, "e", outputs=outputs)[0], DATA)
    gpus.fault("cuMemcpyDtoH*", 1, at=2)  # behind that of the last step
    with pytest.raises(Exception, match="in ensemble 'e', .*output 'MIDDLE'.*invalid argument"):
        infer(server, "e", outputs=outputs)
    gpus.heal()
    np.testing.assert_array_equal(infer(server, "e", outputs=outputs)[0], DATA)


def test_an_answer_is_not_awaited_from_a_gpu_that_has_gone(start_server, models, gpus):
    """Its copy never ends, and its models go all the same."""
    make_ensemble(models, "e", [("a", {"INPUT0": "INPUT0"}, {"OUTPUT0": "MIDDLE"}), ("b", {"INPUT0": "MIDDLE"}, {"OUTPUT0": "OUTPUT0"})],
                  outputs=("MIDDLE", "OUTPUT0"))
    server = start_server(models, flags=["--model-control-mode=explicit", "--load-model=*"], variables=gpus.variables)
    wait_for("the watch", lambda: gpus.counters()["nvmlDeviceRegisterEvents"] > 0)
    begun = gpus.counters()["cuMemcpyDtoHAsync_v2"]
    gpus.fault("cuMemcpyDtoH*", later=True, hang=True, at=2)  # behind that of the last step
    with concurrent.futures.ThreadPoolExecutor() as threads:
        waiting = threads.submit(infer, server, "e", outputs=("MIDDLE", "OUTPUT0"))
        wait_for("its copy", lambda: gpus.counters()["cuMemcpyDtoHAsync_v2"] == begun + 2)
        gpus.devices[0]["xids"] = [79]
        gpus.write()
        with pytest.raises(Exception, match=r"in ensemble 'e', .*output 'MIDDLE'.* GPU 0: the GPU has fallen off the bus \(Xid 79\)"):
            waiting.result()
    for name in ("e", "a", "b", "c"):
        assert server.ask(f"/v2/repository/models/{name}/unload", b"{}").status == 200
    wait_for("their end", lambda: server.log.count("successfully unloaded") == 4)
    np.testing.assert_array_equal(infer(server, "other")[0], DATA)
    gpus.heal()  # what the other GPU's memory is freed with waits for both


def test_pools_are_as_before_when_requests_are_over(start_server, models, gpus):
    make_ensemble(models, "e", chain("a", "b", "cpu", "c"))
    server = start_server(models, variables=gpus.variables)
    infer(server, "e")

    def used():
        lines = server.ask("/metrics", port=server.metrics_port).text.splitlines()
        return [float(line.split()[-1]) for line in lines if "pool_used_bytes" in line and "#" not in line]
    before = used()  # and what the first request may still have
    for _ in range(5):
        infer(server, "e")
    wait_for("what requests had", lambda: all(now <= then for now, then in zip(used(), before)))
    assert json.loads(server.ask("/v2/models/e/stats").text)["model_stats"][0]["inference_count"] == 6


def ask(server, name, array, kind):
    with triton.InferenceServerClient(server.url) as client:
        tensor = triton.InferInput("INPUT0", list(array.shape), kind)
        tensor.set_data_from_numpy(array)
        return client.infer(name, [tensor]).as_numpy("OUTPUT0")


def test_texts_on_a_gpu_are_fetched_for_who_reads_them(start_server, repository, gpus):
    for name, group in (("a", GPU), ("b", GPU), ("cpu", CPU)):
        make_identity(repository, name, "TYPE_STRING", more=group)
    make_ensemble(repository, "e", chain("a", "b", "cpu"), kind="TYPE_STRING")
    server = start_server(repository, variables=gpus.variables)
    texts = np.array([[b"", b"one", b"x" * 5000]], object)
    for _ in range(2):
        np.testing.assert_array_equal(ask(server, "e", texts, "BYTES"), texts)


def test_a_step_that_pads_reads_what_is_on_a_gpu(start_server, repository, gpus):
    make_identity(repository, "a", more=GPU)
    make_identity(repository, "b", more=GPU + ' parameters { key: "padding" value { string_value: "INPUT0" } } '
                                              'parameters { key: "padding_outputs" value { string_value: "OUTPUT0" } } '
                                              'parameters { key: "padding_to" value { string_value: "8" } }')
    make_ensemble(repository, "e", chain("a", "b", "a"))
    server = start_server(repository, variables=gpus.variables)
    for data in (DATA[:, :3], DATA[:, :8]):
        np.testing.assert_array_equal(infer(server, "e", data)[0], data)


def test_a_step_in_a_process_of_its_own_is_given_a_copy(start_server, repository, gpus):
    make_identity(repository, "a", more=GPU)
    make_identity(repository, "alone", more=CPU + ' parameters { key: "isolate" value { string_value: "process" } }')
    make_ensemble(repository, "e", chain("a", "alone", "a"))
    server = start_server(repository, variables=gpus.variables)
    for _ in range(2):
        np.testing.assert_array_equal(infer(server, "e")[0], DATA)


def test_a_cached_step_is_computed_where_it_cannot_be_looked_up(start_server, repository, gpus):
    """As in Triton: what lies on a GPU is no part of a key, and no entry of the cache."""
    make_identity(repository, "a", more=GPU)
    make_identity(repository, "cached", more=GPU + " response_cache { enable: true }")
    make_ensemble(repository, "e", chain("a", "cached", "a"))
    make_ensemble(repository, "first", chain("cached", "a"))
    server = start_server(repository, flags=["--cache-config=local,size=1048576"], variables=gpus.variables)
    for _ in range(3):
        for name in ("e", "first"):
            np.testing.assert_array_equal(infer(server, name)[0], DATA)
    for _ in range(2):
        np.testing.assert_array_equal(infer(server, "cached")[0], DATA)
    statistics = json.loads(server.ask("/v2/models/cached/stats").text)["model_stats"][0]["inference_stats"]
    assert statistics["cache_hit"]["count"] == 1
