# SPDX-License-Identifier: Apache-2.0
"""Implicit state of sequences on GPUs, played ones: where a backend writes it, it stays."""
import concurrent.futures
import re

import pytest
import tritonclient.grpc as triton
from conftest import wait_for
from gpus import fake_gpus
from state_models import ask, batching, controls, first, make_stateful, state, told
from tritonclient.utils import InferenceServerException

HOST, PINNED, GPU = 0, 1, 2  # TRITONSERVER_MemoryType
GROWS = "use_same_buffer_for_input_output: true use_growable_memory: true"
GRANULE = 2 << 20


@pytest.fixture
def gpus(tmp_path):
    return fake_gpus(tmp_path, 2)


def start(start_server, repository, gpus, *flags, more="", dims="[ -1 ]", strategy="direct { }", max_batch_size=0):
    of = state(dims=dims, more=f'{first(dims="[ 1 ]")} {more}')
    make_stateful(repository, "m", batching(of, controls(), strategy=strategy), max_batch_size=max_batch_size, kind_of_instance="KIND_GPU gpus: [ 1 ]")
    server = start_server(repository, flags=flags, variables=gpus.variables)
    return server, triton.InferenceServerClient(f"localhost:{server.grpc_port}")


def advance(client, values, sequence=1, **options):
    """The state, and where it was read and written."""
    answer = ask(client, "m", values, sequence, gpu=1, **options)
    return answer.as_numpy("OUTPUT").reshape(-1).tolist(), *(told(answer, name) for name in ("from", "from_at", "to", "to_at"))


def pool_used(server):
    text = server.ask("/metrics", port=server.metrics_port).text
    return sum(float(value) for value in re.findall(r"^nereid_gpu_memory_pool_used_bytes{.*} (.*)$", text, re.M))


def test_a_state_is_read_where_it_was_written(start_server, repository, gpus):
    server, client = start(start_server, repository, gpus, dims="[ 1 ]")
    value, source, _, to, at = advance(client, [5], start=True)
    assert (value, source, to) == ([5], HOST, GPU)  # the first one is on the host, as in Triton
    places = {at}
    before = gpus.counters()
    for i in range(1, 5):
        value, source, source_at, to, next_at = advance(client, [1])
        assert (value, source, source_at, to) == ([5 + i], GPU, at, GPU)
        at = next_at
        places.add(at)
    assert len(places) == 2  # two buffers change places
    since = gpus.counters().since(before)
    assert since["allocations"] == 0 and since["bytes_to_host"] == since["bytes_to_device"] == 4 * 4  # the backend's own
    assert pool_used(server) > 0
    advance(client, [1], end=True)
    wait_for("the pool is as before", lambda: pool_used(server) == 0)


def test_one_buffer_is_written_over(start_server, repository, gpus):
    server, client = start(start_server, repository, gpus, dims="[ 1 ]", more="use_same_buffer_for_input_output: true")
    _, _, _, to, at = advance(client, [5], start=True)
    for i in range(1, 4):
        assert advance(client, [1]) == ([5 + i], GPU, at, GPU, at)


def test_without_room_on_the_gpu_a_state_is_elsewhere(start_server, repository, gpus):
    server, client = start(start_server, repository, gpus, "--cuda-memory-pool-byte-size=1:0", "--pinned-memory-pool-byte-size=0", dims="[ 1 ]")
    assert advance(client, [5], start=True)[3] == HOST
    assert advance(client, [2])[:2] == ([7], HOST)


def test_a_state_grows_in_its_place(start_server, repository, gpus):
    server, client = start(start_server, repository, gpus, "--cuda-virtual-address-size=1:8388608", more=GROWS)
    value, source, place, to, at = advance(client, [1], start=True, do="grow")
    assert (value, source, to, at) == ([0, 1], GPU, GPU, place)  # the first one, too
    before = gpus.counters()
    for i in range(2, 6):
        assert advance(client, [i], do="grow") == ([0, *range(1, i + 1)], GPU, place, GPU, place)
    assert gpus.counters().since(before)["cuMemCreate"] == 0
    large = list(range(GRANULE // 4))
    value, *where = advance(client, large, do="grow")
    assert value == [0, 1, 2, 3, 4, 5, *large] and where == [GPU, place, GPU, place]
    assert gpus.counters().since(before)["cuMemCreate"] == 1
    assert advance(client, [1], do="grow")[0][-2:] == [large[-1], 1]


def test_a_state_that_outgrows_its_addresses_is_an_error(start_server, repository, gpus):
    server, client = start(start_server, repository, gpus, f"--cuda-virtual-address-size=1:{GRANULE}", more=GROWS)
    assert advance(client, [1], start=True, do="grow")[0] == [0, 1]
    with pytest.raises(InferenceServerException) as failure:
        advance(client, list(range(GRANULE // 4)), do="grow")
    assert failure.value.message() == ("Failed to resize the GrowableMemory. The requested size is larger than the virtual page size. requested "
                                       f"size: {GRANULE + 8}, virtual_address_size:{GRANULE}")
    assert advance(client, [2], do="grow")[0] == [0, 1, 2]


def test_regions_go_from_one_sequence_to_the_next(start_server, repository, gpus):
    server, client = start(start_server, repository, gpus, more=GROWS, strategy="oldest { max_candidate_sequences: 4 }")
    for sequence in range(1, 6):
        assert advance(client, [sequence], sequence, start=True, do="grow")[0] == [0, sequence]
        assert advance(client, [9], sequence, end=True, do="grow")[0] == [0, sequence, 9]
    assert gpus.counters()["cuMemAddressReserve"] == 1
    with concurrent.futures.ThreadPoolExecutor() as threads:
        def run(sequence):
            for i in range(4):
                value = advance(client, [sequence], sequence, start=i == 0, end=i == 3, do="grow")[0]
                assert value == [0] + [sequence] * (i + 1)
        list(threads.map(run, range(10, 18)))
    assert gpus.counters()["cuMemAddressReserve"] <= 4


def test_regions_go_with_their_model(start_server, repository, gpus):
    server, client = start(start_server, repository, gpus, "--model-control-mode=explicit", "--load-model=*", more=GROWS)
    advance(client, [1], start=True, do="grow")
    assert server.ask("/v2/repository/models/m/unload", b"{}").status == 200
    wait_for("the device is as before", lambda: gpus.counters()["used.1"] == 0)


def test_a_region_that_cannot_be_had_refuses_the_request(start_server, repository, gpus):
    server, client = start(start_server, repository, gpus, more=GROWS)
    gpus.fault("cuMemCreate", 2)
    with pytest.raises(InferenceServerException, match="GPU 1: no 2097152 bytes of device memory: out of memory"):
        advance(client, [1], start=True, do="grow")
    assert advance(client, [1], start=True, do="grow")[0] == [0, 1]


def test_growable_states_want_instances_on_gpus_only(start_server, repository, gpus):
    of = state(dims="[ 1 ]", more=GROWS)
    make_stateful(repository, "m", batching(of), kind_of_instance="KIND_GPU } instance_group { kind: KIND_CPU")
    server = start_server(repository, variables=gpus.variables)
    assert "'use_growable_memory' can only work with KIND_GPU model instances right now." in server.log
