# SPDX-License-Identifier: Apache-2.0
"""What somebody else's backend leaves unwritten (tests/fakes/half_backend.c) is zeros, on GPUs, played ones, and on the host: never what another
request left in that memory."""
import re

import numpy as np
import pytest
import tritonclient.grpc as triton
import tritonclient.http as triton_http
from conftest import make_identity, wait_for
from ensembles import chain, make_ensemble
from gpus import fake_gpus
from state_models import batching, controls, first, state

GPU = "instance_group [ { kind: KIND_GPU gpus: [ 0 ] count: 1 } ]"
CPU = "instance_group [ { kind: KIND_CPU count: 1 } ]"
SIZE = 1024  # as much as AddressSanitizer soils of what malloc gives
DATA = np.arange(1, SIZE + 1, dtype=np.float32)
HALF = np.concatenate((DATA[:SIZE // 2], np.zeros(SIZE // 2, np.float32)))
SMALL_POOLS = ["--cuda-memory-pool-byte-size=0:16384", "--pinned-memory-pool-byte-size=16384"]  # four tensors: each place is used again
NO_POOLS = ["--cuda-memory-pool-byte-size=0:0", "--pinned-memory-pool-byte-size=0"]


def make_half(repository, into, name="half", more="", group=GPU):
    (repository / name / "1").mkdir(parents=True)
    tensors = " ".join(f'{what}put {{ name: "{what.upper()}PUT0" data_type: TYPE_FP32 dims: [ -1 ] }}' for what in ("in", "out"))
    (repository / name / "config.pbtxt").write_text(
        f'backend: "half" {tensors} {group} parameters {{ key: "into" value {{ string_value: "{into}" }} }} {more}')


def infer(server, name, data=DATA, module=triton, **options):
    with module.InferenceServerClient(f"localhost:{server.grpc_port}" if module is triton else server.url) as client:
        tensor = module.InferInput("INPUT0", list(data.shape), "FP32")
        tensor.set_data_from_numpy(data)
        return client.infer(name, [tensor], outputs=[module.InferRequestedOutput("OUTPUT0")], **options)


@pytest.fixture
def gpus(tmp_path):
    return fake_gpus(tmp_path)


@pytest.fixture
def models(repository):
    """Identity, and a chain of it: what they leave in each place is not zeros."""
    make_identity(repository, "full", max_batch_size=0, more=GPU)
    make_identity(repository, "next", max_batch_size=0, more=GPU)
    make_ensemble(repository, "fulls", chain("full", "next"), max_batch_size=0)
    return repository


def pools_are_free(server):
    text = server.ask("/metrics", port=server.metrics_port).text
    return {"0"} == set(re.findall(r"^(?:nv_pinned|nereid_gpu)_memory_pool_used_bytes\S* (\S+)$", text, re.MULTILINE))


def soil(server, data=DATA):
    """Leaves what is not zeros in each place of the pools; a request gives some back behind its answer."""
    for name in ("full", "fulls", "fulls"):
        for module in (triton, triton_http):
            np.testing.assert_array_equal(infer(server, name, -data, module).as_numpy("OUTPUT0"), -data)
    wait_for("the pools to be free", lambda: pools_are_free(server))


@pytest.mark.parametrize("module", [triton, triton_http], ids=["grpc", "http"])
@pytest.mark.parametrize("into, heard", [("pinned", "CPU_PINNED"), ("gpu", "CPU")])
def test_an_output_in_pinned_memory(start_server, models, gpus, module, into, heard):
    """Who wanted the GPU hears of plain memory, as from Triton's front ends: NVIDIA's python backend leaves pinned memory as it was."""
    make_half(models, into)
    server = start_server(models, flags=SMALL_POOLS, variables=gpus.variables)
    for _ in range(3):
        soil(server)
        answer = infer(server, "half", module=module)
        told = answer.get_response()
        told = told["parameters"]["in"] if module is triton_http else told.parameters["in"].string_param
        assert told == heard
        np.testing.assert_array_equal(answer.as_numpy("OUTPUT0"), HALF)


@pytest.mark.parametrize("pools", [SMALL_POOLS, NO_POOLS], ids=["pools", "without_pools"])
@pytest.mark.parametrize("into", ["cpu", "pinned", "gpu"])
def test_a_tensor_between_steps(start_server, models, gpus, into, pools):
    make_half(models, into)
    make_ensemble(models, "e", chain("half", "next"), max_batch_size=0)
    server = start_server(models, flags=pools, variables=gpus.variables)
    for _ in range(3):
        soil(server)
        before = gpus.counters()
        np.testing.assert_array_equal(infer(server, "e").as_numpy("OUTPUT0"), HALF)
        assert gpus.counters().since(before)["cuMemsetD8Async"] == (into == "gpu" and pools is SMALL_POOLS)


def test_backends_that_fill_cost_nothing(start_server, models, gpus):
    server = start_server(models, variables=gpus.variables)
    soil(server)
    assert gpus.counters()["cuMemsetD8Async"] == 0


def test_memory_that_cannot_be_cleared_is_not_given(start_server, models, gpus):
    make_half(models, "gpu")
    make_ensemble(models, "e", chain("half", "next"), max_batch_size=0)
    server = start_server(models, variables=gpus.variables)
    gpus.fault("cuMemsetD8Async", 1)
    with pytest.raises(Exception, match="output 'OUTPUT0'.*invalid argument"):
        infer(server, "e")
    np.testing.assert_array_equal(infer(server, "e").as_numpy("OUTPUT0"), HALF)


def test_an_output_that_is_cut(start_server, models, gpus):
    """The backend writes it with its padding into memory of the core's."""
    padding = {"padding": "INPUT0", "padding_outputs": "OUTPUT0", "padding_to": str(SIZE)}
    make_half(models, "cpu", group=CPU, more=" ".join(f'parameters {{ key: "{key}" value {{ string_value: "{value}" }} }}' for key, value in padding.items()))
    server = start_server(models, variables=gpus.variables)
    for _ in range(3):
        soil(server)
        np.testing.assert_array_equal(infer(server, "half", DATA[:-1]).as_numpy("OUTPUT0"), HALF[:-1])


@pytest.mark.parametrize("more", ["", "use_same_buffer_for_input_output: true", "use_same_buffer_for_input_output: true use_growable_memory: true"],
                         ids=["two_buffers", "one_buffer", "growing"])
@pytest.mark.parametrize("into", ["cpu", "pinned", "gpu"])
def test_a_state(start_server, models, gpus, into, more):
    """Of the sequence: what the one before left in that place is not told to this one."""
    of = state(kind="TYPE_FP32", dims="[ -1 ]", more=f'{first(kind="TYPE_FP32", dims="[ 1 ]")} {more}')
    make_half(models, into, more=batching(of, controls()))
    server = start_server(models, flags=SMALL_POOLS, variables=gpus.variables)
    for sequence in range(1, 4):
        soil(server)
        infer(server, "half", -DATA, sequence_id=2 * sequence - 1, sequence_start=True, sequence_end=True)  # its half is not zeros
        infer(server, "half", -np.roll(DATA, SIZE // 2), sequence_id=2 * sequence - 1, sequence_start=True, sequence_end=True)
        infer(server, "half", sequence_id=2 * sequence, sequence_start=True)
        last = infer(server, "half", sequence_id=2 * sequence, sequence_end=True)
        np.testing.assert_array_equal(last.as_numpy("OUTPUT0"), HALF)
