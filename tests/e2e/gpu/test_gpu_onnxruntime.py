# SPDX-License-Identifier: Apache-2.0
"""The onnxruntime backend on GPUs: everything but ONNX Runtime's own kernels, which are played (tests/fakes/ort) on a played driver."""
import base64
import json
import pathlib
import shutil

import numpy as np
import pytest
import tritonclient.http as triton
from conftest import BUILD, DEADLINE, TOGETHER, wait_for
from gpus import Client, fake_gpus
from state_models import IDLE

PACKAGES = BUILD / "tests/fakes/ort/packages"
GPU = "instance_group [{ kind: KIND_GPU }]\n"


class Played:
    """GPUs and an ONNX Runtime, and what it was told."""

    def __init__(self, directory, devices=1, packages=PACKAGES):
        self.gpus = fake_gpus(directory, devices)
        self.calls_file = pathlib.Path(directory) / "ort.jsonl"
        self.library = next((packages / "onnxruntime/capi").glob("libonnxruntime.so.*"))
        self.flags = [f"--backend-config=onnxruntime,library={self.library}"]

    @property
    def variables(self):
        return self.gpus.variables | {"NEREID_FAKE_ORT": str(self.calls_file)}

    def calls(self, name=None):
        lines = self.calls_file.read_text().splitlines() if self.calls_file.exists() else []
        calls = [json.loads(line) for line in lines]
        return [call for call in calls if name in (None, call["call"])]


def save(repository, name, config="", graph="input X FP32 -1 4\noutput Y FP32 -1 4\n"):
    (repository / name / "1").mkdir(parents=True)
    (repository / name / "1/model.onnx").write_text(graph)
    (repository / name / "config.pbtxt").write_text(f'backend: "onnxruntime"\nmax_batch_size: 8\n{config}')


def cuda(**parameters):
    return "optimization { execution_accelerators { gpu_execution_accelerator [{ name: \"cuda\" %s }] } }\n" % " ".join(
        f'parameters {{ key: "{key}" value: "{value}" }}' for key, value in parameters.items())


def parameters(**values):
    return "".join(f'parameters {{ key: "{key}" value {{ string_value: "{value}" }} }}\n' for key, value in values.items())


def client_of(server):
    return triton.InferenceServerClient(server.url, network_timeout=DEADLINE, connection_timeout=DEADLINE, concurrency=8)


def rows(count, first=0.0):
    return np.arange(first, first + 4 * count, dtype=np.float32).reshape(count, 4)


def ask(client, model, data, name="X", **more):
    tensor = triton.InferInput(name, data.shape, {np.float32: "FP32", np.int32: "INT32", np.object_: "BYTES"}[data.dtype.type])
    return client.infer(model, [tensor.set_data_from_numpy(data)], **more)


def doubled(client, model, data):
    np.testing.assert_array_equal(ask(client, model, data).as_numpy("Y"), 2 * data)


def test_a_model_computes_on_the_device(start_server, repository, tmp_path):
    played = Played(tmp_path)
    save(repository, "m", GPU)
    server = start_server(repository, flags=played.flags, variables=played.variables)
    with client_of(server) as client:
        doubled(client, "m", rows(3))


def start(start_server, repository, played, *flags, **more):
    return start_server(repository, flags=[*played.flags, *flags], variables=played.variables, **more)


def load_error(server, model):
    return json.loads(server.ask(f"/v2/repository/models/{model}/load", b"{}").body)["error"]


def test_the_provider_is_told_where_and_how(start_server, repository, tmp_path):
    played = Played(tmp_path, 2)
    save(repository, "m", "instance_group [{ kind: KIND_GPU count: 2 }]\n"
         + cuda(gpu_mem_limit="1000000", use_ep_level_unified_stream="ON", use_tf32="0")
         + parameters(arena_extend_strategy="1", cudnn_conv_algo_search="2"))
    server = start(start_server, repository, played)
    with client_of(server) as client:
        for asked in [client.async_infer("m", [triton.InferInput("X", [2, 4], "FP32").set_data_from_numpy(rows(2))]) for _ in range(8)]:
            np.testing.assert_array_equal(asked.get_result().as_numpy("Y"), 2 * rows(2))
    told = [call["options"] for call in played.calls("UpdateCUDAProviderOptions")]
    # nothing is put over what the accelerator says, and every session has its own device and stream
    assert all(options == {"gpu_mem_limit": "1000000", "use_ep_level_unified_stream": "1", "use_tf32": "0", "arena_extend_strategy": "kSameAsRequested",
                           "cudnn_conv_algo_search": "DEFAULT", "device_id": options["device_id"], "has_user_compute_stream": "1"} for options in told)
    assert sorted(options["device_id"] for options in told) == ["0", "0", "1", "1"]
    streams = [call["value"] for call in played.calls("UpdateCUDAProviderOptionsWithValue")]
    assert len(set(streams)) == 4 and all(streams)
    # one session an instance: the one that the signature was read from is used
    assert sorted(call["device"] for call in played.calls("CreateSession")) == [0, 0, 1, 1]
    assert sorted(call["device"] for call in played.calls("CreateMemoryInfo") if call["name"] == "Cuda") == [0, 0, 1, 1]
    assert all(call["no_sync"] == "1" and call["graph"] == "" for call in played.calls("RunWithBinding"))


def test_tensorrt_gets_its_device_with_and_without_parameters(start_server, repository, tmp_path):
    played = Played(tmp_path, 2)
    save(repository, "plain", "instance_group [{ kind: KIND_GPU gpus: [1] }]\n" + 'optimization { execution_accelerators { gpu_execution_accelerator [{ name: "tensorrt" }] } }')
    save(repository, "full", "instance_group [{ kind: KIND_GPU gpus: [1] }]\n"
         + cuda(precision_mode="FP16", max_workspace_size_bytes="1073741824", int8_use_native_calibration_table="off", trt_engine_cache_path="/x").replace('"cuda"', '"tensorrt"'))
    server = start(start_server, repository, played)
    with client_of(server) as client:
        doubled(client, "plain", rows(1))
        doubled(client, "full", rows(1))
    told = [call["options"] for call in played.calls("UpdateTensorRTProviderOptions")]
    place = {"device_id": "1", "has_user_compute_stream": "1"}
    assert place in told
    assert {"trt_fp16_enable": "1", "trt_max_workspace_size": "1073741824", "trt_int8_use_native_calibration_table": "0", "trt_engine_cache_path": "/x"} | place in told
    assert all(call["value"] for call in played.calls("UpdateTensorRTProviderOptionsWithValue"))
    assert [call["device"] for call in played.calls("AppendCUDA")] == [1, 1]  # behind it, for what it does not take
    assert played.gpus.counters()["contexts.0"] == 0  # nobody is there


WRONG = [
    (cuda(do_copy_in_default_stream="maybe"), "failed to convert 'maybe' to boolean"),
    (cuda(colour="red"), 'Unknown provider option: \\"colour\\".'),
    (cuda().replace('"cuda"', '"rocm"'), "unknown Execution Accelerator 'rocm' is requested"),
    (cuda(precision_mode="FP8").replace('"cuda"', '"tensorrt"'), "unsupported precision mode 'FP8' is requested"),
    (cuda(trt_colour="red").replace('"cuda"', '"tensorrt"'), "unknown parameter 'trt_colour' is provided for TensorRT Execution Accelerator"),
    (cuda(trt_dla_core="x").replace('"cuda"', '"tensorrt"'), "failed to convert 'x' to integral number"),
    (parameters(cudnn_conv_algo_search="3"), "unsupported cudnn_conv_algo_search value '3' is requested"),
    (parameters(arena_extend_strategy="2"), "unsupported arena_extend_strategy value '2' is requested"),
]


def test_options_that_cannot_be_are_refused_by_name(start_server, repository, tmp_path):
    played = Played(tmp_path)
    for i, (config, _) in enumerate(WRONG):
        save(repository, f"m{i}", GPU + config)
    server = start(start_server, repository, played, "--model-control-mode=explicit")
    for i, (_, text) in enumerate(WRONG):
        assert text.replace("\\", "") in load_error(server, f"m{i}")
    assert played.gpus.counters()["used.0"] == 0
    assert played.gpus.counters()["streams"] == 0


def test_batches_are_gathered_and_dealt_on_the_device(start_server, repository, tmp_path):
    played = Played(tmp_path)
    save(repository, "m", GPU + TOGETHER % 8,
         graph="input X FP32 -1 4\ninput N INT32 -1 2\ninput S STRING -1 1\noutput Y FP32 -1 4\noutput M INT32 -1 2\noutput T STRING -1 1\n")
    server = start(start_server, repository, played)
    strings = [b"", b"one", "größer".encode(), b"\0\0"]

    def inputs(i):
        return [triton.InferInput("X", [2, 4], "FP32").set_data_from_numpy(rows(2, 100.0 * i)),
                triton.InferInput("N", [2, 2], "INT32").set_data_from_numpy(np.full((2, 2), i, np.int32)),
                triton.InferInput("S", [2, 1], "BYTES").set_data_from_numpy(np.array([[strings[i]], [b"x"]], np.object_))]

    with client_of(server) as client:
        asked = [client.async_infer("m", inputs(i)) for i in range(4)]
        for i, answer in enumerate(answer.get_result() for answer in asked):
            np.testing.assert_array_equal(answer.as_numpy("Y"), 2 * rows(2, 100.0 * i))
            np.testing.assert_array_equal(answer.as_numpy("M"), np.full((2, 2), 2 * i, np.int32))
            assert answer.as_numpy("T").tolist() == [[strings[i]], [b"x"]]
    assert len(played.calls("RunWithBinding")) == 1


def test_ragged_batches_are_gathered_on_the_device(start_server, repository, tmp_path):
    played = Played(tmp_path)
    save(repository, "m", GPU + TOGETHER % 3 + """
        input { name: "X" data_type: TYPE_FP32 dims: [ -1 ] allow_ragged_batch: true }
        output [ { name: "Y" data_type: TYPE_FP32 dims: [ -1 ] }, { name: "COUNTS" data_type: TYPE_FP32 dims: [ 1 ] reshape { shape: [ ] } } ]
        batch_input { kind: BATCH_ELEMENT_COUNT target_name: "N" data_type: TYPE_FP32 source_input: "X" }
        batch_output { target_name: "Y" kind: BATCH_SCATTER_WITH_INPUT_SHAPE source_input: "X" }
    """, graph="input X FP32 -1\ninput N FP32 -1\noutput Y FP32 -1\noutput COUNTS FP32 -1\n")
    server = start(start_server, repository, played)
    data = [np.arange(10.0 * i, 10.0 * i + count, dtype=np.float32)[None] for i, count in enumerate((3, 1, 5))]
    with client_of(server) as client:
        asked = [client.async_infer("m", [triton.InferInput("X", each.shape, "FP32").set_data_from_numpy(each)]) for each in data]
        for each, answer in zip(data, [answer.get_result() for answer in asked]):
            np.testing.assert_array_equal(answer.as_numpy("Y"), 2 * each)
            assert answer.as_numpy("COUNTS").tolist() == [[2 * each.size]]
    assert len(played.calls("RunWithBinding")) == 1


def test_an_output_may_be_larger_than_was_known(start_server, repository, tmp_path):
    played = Played(tmp_path)
    save(repository, "m", graph="input X FP32 -1 4\noutput Y FP32 -1 4 grown\n")
    config = 'max_batch_size: 0 input [{ name: "X" data_type: TYPE_FP32 dims: [-1, 4] }] output [{ name: "Y" data_type: TYPE_FP32 dims: [-1, 4] }]'
    (repository / "m/config.pbtxt").write_text(f'backend: "onnxruntime"\n{GPU}{config}')
    save(repository, "left", GPU, graph="input X FP32 -1 4\noutput Y FP32 -1 4 grown\n")  # a row that is nobody's
    server = start(start_server, repository, played)
    with client_of(server) as client:
        for count in (1, 5, 0, 3):
            expected = np.concatenate([2 * rows(count), np.zeros((1, 4), np.float32)])
            np.testing.assert_array_equal(ask(client, "m", rows(count)).as_numpy("Y"), expected)
        doubled(client, "left", rows(2))
    assert [call["outputs"] for call in played.calls("RunWithBinding")] == [{"Y": "made"}] * 5


def test_nothing_is_allocated_and_once_is_waited(start_server, repository, tmp_path):
    played = Played(tmp_path)
    save(repository, "m", GPU)
    server = start(start_server, repository, played)
    with client_of(server) as client:
        for _ in range(3):
            doubled(client, "m", rows(8))
        before = played.gpus.counters()
        for i in range(20):
            doubled(client, "m", rows(8, i))
    spent = played.gpus.counters().since(before)
    assert spent["allocations"] == spent["cuMemFree_v2"] == spent["cuMemFreeHost"] == 0
    # the last one, and no other; that the device is looked at now and then records events, too, and waits for none
    assert spent["cuStreamSynchronize"] == 0 and spent["syncs"] <= 20 <= spent["cuEventRecord"]
    assert spent["pageable_copies"] == 0
    assert (spent["copies_to_device"], spent["copies_to_host"]) == (40, 40)  # one each way, and the played kernel's own


@pytest.mark.parametrize("rows_name, copies", [("batch", 0), ("-1", 1)])
def test_regions_on_the_device_are_computed_in(start_server, repository, tmp_path, rows_name, copies):
    """No copy for one request: the session reads and writes the client's memory. Where the model does not promise the rows, one on the device."""
    played = Played(tmp_path)
    save(repository, "m", GPU, graph=f"input X FP32 batch 4\noutput Y FP32 {rows_name} 4\n")
    server = start(start_server, repository, played, "--allow-client-shm=true")
    data = rows(8)
    with Client(played.gpus) as client, client_of(server) as http:
        memory = {name: client.allocate(data.nbytes, device=0) for name in ("in", "out")}
        client.write(memory["in"], data.tobytes())
        for name, address in memory.items():
            http.register_cuda_shared_memory(name, base64.b64encode(client.handle(address)), 0, data.nbytes)
        tensor, wanted = triton.InferInput("X", [8, 4], "FP32"), triton.InferRequestedOutput("Y")
        tensor.set_shared_memory("in", data.nbytes)
        wanted.set_shared_memory("out", data.nbytes)
        for _ in range(2):
            http.infer("m", [tensor], outputs=[wanted])
        before = played.gpus.counters(server.process.pid)
        http.infer("m", [tensor], outputs=[wanted])
        spent = played.gpus.counters(server.process.pid).since(before)
        assert client.read(memory["out"], data.nbytes) == (2 * data).tobytes()
    kernel = 1  # the played one works on the host
    assert (spent["copies_to_device"], spent["copies_to_host"], spent["copies_on_device"]) == (kernel, kernel, copies)
    assert spent["allocations"] == spent["cuStreamSynchronize"] == 0
    assert played.calls("RunWithBinding")[-1]["outputs"] == {"Y": "made" if copies else "given"}


def test_graphs_replay_at_places_that_stay(start_server, repository, tmp_path):
    played = Played(tmp_path)
    graph = "input X FP32 -1 4\ninput N INT32 -1 2\noutput Y FP32 -1 4\noutput M INT32 -1 2\n"
    save(repository, "m", GPU + cuda(enable_cuda_graph="1"), graph=graph)
    server = start(start_server, repository, played)

    def infer(client, count, first, *wanted):
        inputs = [triton.InferInput("X", [count, 4], "FP32").set_data_from_numpy(rows(count, first)),
                  triton.InferInput("N", [count, 2], "INT32").set_data_from_numpy(np.full((count, 2), first, np.int32))]
        answer = client.infer("m", inputs, outputs=[triton.InferRequestedOutput(name) for name in wanted])
        if "Y" in wanted:
            np.testing.assert_array_equal(answer.as_numpy("Y"), 2 * rows(count, first))
        if "M" in wanted:
            np.testing.assert_array_equal(answer.as_numpy("M"), np.full((count, 2), 2 * first, np.int32))

    with client_of(server) as client:
        infer(client, 3, 1, "Y")  # captured with one output wanted,
        infer(client, 3, 2, "Y", "M")  # replayed with two
        infer(client, 8, 3, "M")
        infer(client, 1, 4, "Y", "M")
        infer(client, 3, 5, "M")
        infer(client, 8, 6, "Y", "M")
    runs = played.calls("RunWithBinding")
    assert [run["graph"] for run in runs] == ["3", "3", "8", "1", "3", "8"]
    assert all(run["outputs"] == {"Y": "given", "M": "given"} for run in runs)


def test_a_graph_takes_no_other_shape(start_server, repository, tmp_path):
    """Where the configuration leaves open what the model does not: a graph that is replayed would not look."""
    played = Played(tmp_path)
    tensors = 'input [{ name: "X" data_type: TYPE_FP32 dims: [ -1 ] }]\noutput [{ name: "Y" data_type: TYPE_FP32 dims: [ -1 ] }]\n'
    save(repository, "m", GPU + tensors + cuda(enable_cuda_graph="1"))
    server = start(start_server, repository, played)
    with client_of(server) as client:
        doubled(client, "m", rows(2))
        for columns in (3, 5, 100000):
            with pytest.raises(triton.InferenceServerException, match=rf"input 'X' has shape \[2,{columns}\], the model's CUDA graph takes \[2,4\]"):
                ask(client, "m", np.ones((2, columns), np.float32))
        doubled(client, "m", rows(2, 7))


def test_a_model_of_open_shapes_has_no_graphs_and_says_so(start_server, repository, tmp_path):
    played = Played(tmp_path)
    save(repository, "m", GPU + cuda(enable_cuda_graph="1"), graph="input X FP32 -1 -1\noutput Y FP32 -1 -1\n")
    server = start(start_server, repository, played)
    assert "model 'm' runs without CUDA graphs: they need tensors whose shapes are known but for the batch, and 'X' is none" in server.log
    with client_of(server) as client:
        doubled(client, "m", rows(2))
    assert [run["graph"] for run in played.calls("RunWithBinding")] == ["-1"]


def test_an_arena_shrinks_where_the_instance_is(start_server, repository, tmp_path):
    played = Played(tmp_path, 2)
    save(repository, "m", GPU + parameters(**{"memory.enable_memory_arena_shrinkage": "cpu:0;gpu:0;gpu:1"}))
    server = start(start_server, repository, played)
    with client_of(server) as client:
        wait = [client.async_infer("m", [triton.InferInput("X", [1, 4], "FP32").set_data_from_numpy(rows(1))]) for _ in range(16)]
        for asked in wait:
            asked.get_result()
    seen = {(run["device"], run["shrink"]) for run in played.calls("RunWithBinding")}
    assert seen <= {(0, "cpu:0;gpu:0"), (1, "cpu:0;gpu:1")} and seen


def test_a_copy_that_fails_fails_its_request_alone(start_server, repository, tmp_path):
    played = Played(tmp_path)
    save(repository, "m", GPU)
    server = start(start_server, repository, played)
    with client_of(server) as client:
        doubled(client, "m", rows(2))
        played.gpus.fault("cuMemcpy*", 1)
        with pytest.raises(triton.InferenceServerException, match="X: failed to perform CUDA copy: invalid argument"):
            ask(client, "m", rows(2))
        doubled(client, "m", rows(2))


def test_a_dead_device_fails_requests_and_readiness(start_server, repository, tmp_path):
    played = Played(tmp_path)
    save(repository, "m", GPU)
    server = start(start_server, repository, played)
    with client_of(server) as client:
        doubled(client, "m", rows(2))
        played.gpus.fault("cuMemcpyDtoH*", 700, later=True, times=0)
        with pytest.raises(triton.InferenceServerException, match="an illegal memory access was encountered"):
            ask(client, "m", rows(2))
        wait_for("the server not to be ready", lambda: not client.is_server_ready())
        with pytest.raises(triton.InferenceServerException, match="an illegal memory access was encountered"):
            ask(client, "m", rows(2))
        assert client.is_server_live()


def test_states_of_sequences_are_on_the_device(start_server, repository, tmp_path):
    played = Played(tmp_path)
    state = 'state [{ input_name: "S" output_name: "T" data_type: TYPE_INT32 dims: [2] initial_state { name: "one" data_type: TYPE_INT32 dims: [2] data_file: "one" } }]'
    save(repository, "m", GPU + "sequence_batching { %s %s }\n" % (IDLE, state), graph="input X FP32 -1 4\ninput S INT32 -1 2\noutput Y FP32 -1 4\noutput T INT32 -1 2\n")
    (repository / "m/initial_state").mkdir()
    np.array([3, 5], np.int32).tofile(repository / "m/initial_state/one")
    server = start(start_server, repository, played)
    with client_of(server) as client:
        for step in range(1, 4):
            tensor = triton.InferInput("X", [1, 4], "FP32").set_data_from_numpy(rows(1, step))
            answer = client.infer("m", [tensor], sequence_id=7, sequence_start=step == 1, sequence_end=step == 3,
                                  outputs=[triton.InferRequestedOutput("Y"), triton.InferRequestedOutput("T")])
            np.testing.assert_array_equal(answer.as_numpy("Y"), 2 * rows(1, step))
            np.testing.assert_array_equal(answer.as_numpy("T"), [[3 << step, 5 << step]])


def test_an_unloaded_model_leaves_nothing(start_server, repository, tmp_path):
    played = Played(tmp_path)
    save(repository, "m", GPU)
    server = start(start_server, repository, played, "--model-control-mode=explicit")
    for _ in range(2):
        assert server.ask("/v2/repository/models/m/load", b"{}").status == 200
        with client_of(server) as client:
            doubled(client, "m", rows(4))
            assert played.gpus.counters()["used.0"] > 0
            client.unload_model("m")
        wait_for("the device to be left", lambda: played.gpus.counters()["contexts.0"] == 0)
    assert played.gpus.counters()["used.0"] == 0 and played.gpus.counters()["streams"] == 0


# ---- which ONNX Runtime ----

def copy_of_packages(directory, *without):
    packages = pathlib.Path(shutil.copytree(PACKAGES, directory / "site-packages"))
    for path in without:
        (packages / path).unlink()
    return packages


def test_what_a_provider_lacks_is_named_with_the_line_for_pip(start_server, repository, tmp_path):
    packages = copy_of_packages(tmp_path, "nvidia/cu13/lib/libcublas.so.13", "nvidia/cu13/lib/libcurand.so.10")
    played = Played(tmp_path, packages=packages)
    save(repository, "wants", GPU)
    save(repository, "any")
    server = start(start_server, repository, played, "--model-control-mode=explicit")
    text = load_error(server, "wants")
    assert "model 'wants' has instances of KIND_GPU: libonnxruntime_providers_cuda.so needs libcublas.so.13, libcurand.so.10: not found in " in text
    assert f"'{packages}/nvidia/cu13/lib'" in text and "nor in the loader's path" in text
    assert "; pip install nvidia-cublas nvidia-curand;" in text
    assert server.ask("/v2/repository/models/any/load", b"{}").status == 200  # it says nowhere that it needs a GPU
    with client_of(server) as client:
        doubled(client, "any", rows(2))
    assert server.log.count("onnxruntime: models without an instance group run on the CPU, though there is a GPU: ") == 1
    assert played.calls("Run") and not played.calls("RunWithBinding")
    assert played.gpus.counters()["contexts.0"] == 0


@pytest.mark.parametrize("runtime", ["beside it", "within it"])
def test_what_only_some_models_need_is_a_warning(start_server, repository, tmp_path, runtime):
    packages = copy_of_packages(tmp_path, "nvidia/cudnn/lib/libcudnn.so.9")
    if runtime == "within it":  # so that no libcudart says which CUDA it is
        provider = packages / "onnxruntime/capi/libonnxruntime_providers_cuda.so"
        provider.write_bytes(provider.read_bytes().replace(b"libcudart.so.13", b"libcurand.so.10"))
    played = Played(tmp_path, packages=packages)
    save(repository, "m", "instance_group [{ kind: KIND_GPU count: 2 }]\n")  # two sessions
    save(repository, "n", GPU)
    server = start(start_server, repository, played)
    assert server.log.count("models with operators of cuDNN, cuFFT or NVRTC may not run on a GPU") == 1
    assert "pip install nvidia-cudnn-cu13 nvidia-cufft nvidia-cuda-nvrtc" in server.log
    with client_of(server) as client:
        doubled(client, "m", rows(2))


def test_a_provider_that_links_an_older_cudnn_needs_no_other(start_server, repository, tmp_path):
    packages = copy_of_packages(tmp_path, "nvidia/cudnn/lib/libcudnn.so.9")
    newer = (PACKAGES / "nvidia/cudnn/lib/libcudnn.so.9").read_bytes()
    (packages / "nvidia/cudnn/lib/libcudnn.so.8").write_bytes(newer.replace(b"libcudnn.so.9", b"libcudnn.so.8"))
    provider = packages / "onnxruntime/capi/libonnxruntime_providers_cuda.so"
    provider.write_bytes(provider.read_bytes().replace(b"libcurand.so.10", b"libcudnn.so.8\0\0"))
    save(repository, "m", GPU)
    server = start(start_server, repository, Played(tmp_path, packages=packages))
    assert "pip install nvidia-cufft nvidia-cuda-nvrtc" in server.log and "libcudnn.so.9" not in server.log


def test_a_library_that_does_not_open_says_why(start_server, repository, tmp_path):
    packages = copy_of_packages(tmp_path)
    (packages / "nvidia/cu13/lib/libcublasLt.so.13").write_bytes(b"\x7fELF and nothing else")
    played = Played(tmp_path, packages=packages)
    save(repository, "m", GPU)
    server = start(start_server, repository, played, "--model-control-mode=explicit")
    assert "libcublasLt.so.13' is no 64-bit shared object" in load_error(server, "m")


def test_a_model_without_a_group_is_on_the_gpu_where_that_can_be(start_server, repository, tmp_path):
    played = Played(tmp_path)
    save(repository, "any")
    save(repository, "counted", "instance_group [{ count: 2 }]\n")
    save(repository, "cpu", "instance_group [{ kind: KIND_CPU }]\n" + cuda())
    save(repository, "model", "instance_group [{ kind: KIND_MODEL }]\n")  # as in Triton, the CPU
    server = start(start_server, repository, played)
    kinds = {name: [(group["kind"], group["count"]) for group in json.loads(server.ask(f"/v2/models/{name}/config").body)["instance_group"]] for name in ("any", "counted", "cpu", "model")}
    assert kinds == {"any": [("KIND_GPU", 1)], "counted": [("KIND_GPU", 2)], "cpu": [("KIND_CPU", 2)], "model": [("KIND_MODEL", 1)]}
    assert "model 'cpu' has instances on the CPU: its gpu_execution_accelerator is not used there" in server.log
    with client_of(server) as client:
        for name in kinds:
            doubled(client, name, rows(2))
    assert len(played.calls("Run")) == 2 and len(played.calls("RunWithBinding")) == 2


def test_the_wheel_for_cpus_keeps_working_on_a_machine_with_a_gpu(start_server, repository, tmp_path):
    from test_onnxruntime import identity
    played = Played(tmp_path)
    identity(repository, "any", 1)
    identity(repository, "counted", 1, config='backend: "onnxruntime" instance_group [{ count: 2 }]')
    identity(repository, "wants", 1, config=f'backend: "onnxruntime" {GPU}')
    server = start_server(repository, flags=["--model-control-mode=explicit", "--load-model=any", "--load-model=counted"], variables=played.variables)
    text = load_error(server, "wants")
    assert "model 'wants' has instances of KIND_GPU: CUDAExecutionProvider is needed, and ONNX Runtime " in text
    assert "is built without it (it has: " in text and "; pip install onnxruntime-gpu;" in text
    with client_of(server) as client:
        for name in ("any", "counted"):
            np.testing.assert_array_equal(ask(client, name, rows(2)).as_numpy("Y"), rows(2))
            assert {group["kind"] for group in client.get_model_config(name)["instance_group"]} == {"KIND_CPU"}
    assert server.log.count("onnxruntime: models without an instance group run on the CPU, though there is a GPU: ") == 1
    assert played.gpus.counters()["contexts.0"] == 0


def test_an_older_onnxruntime_keeps_working_on_the_cpu(start_server, repository, tmp_path):
    played = Played(tmp_path)
    played.library = next((BUILD / "tests/fakes/ort/old").glob("libonnxruntime.so.*"))
    played.flags = [f"--backend-config=onnxruntime,library={played.library}"]
    save(repository, "any")
    save(repository, "wants", GPU)
    server = start(start_server, repository, played, "--model-control-mode=explicit", "--load-model=any")
    assert "ONNX Runtime 1.15.0 from " in load_error(server, "wants")
    assert "is older than 1.16" in load_error(server, "wants")
    with client_of(server) as client:
        doubled(client, "any", rows(2))


def test_an_update_moves_instances_between_the_gpus_and_the_cpu(start_server, repository, tmp_path):
    played = Played(tmp_path, 2)
    save(repository, "m", "instance_group [{ kind: KIND_GPU gpus: [0] }]\n")
    server = start(start_server, repository, played, "--model-control-mode=explicit", "--load-model=m")
    config = (repository / "m/config.pbtxt").read_text()
    with client_of(server) as client:
        doubled(client, "m", rows(2))
        for group, call in (("kind: KIND_GPU gpus: [1]", "RunWithBinding"), ("kind: KIND_CPU count: 2", "Run"), ("kind: KIND_GPU gpus: [0, 1]", "RunWithBinding")):
            (repository / "m/config.pbtxt").write_text(config.replace("kind: KIND_GPU gpus: [0]", group))
            client.load_model("m")
            before = len(played.calls(call))
            doubled(client, "m", rows(2))
            assert len(played.calls(call)) == before + 1
    assert server.log.count("loading: m:1") == 1
