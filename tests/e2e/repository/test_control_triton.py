# SPDX-License-Identifier: Apache-2.0
"""Control requests over gRPC and loads with a configuration, to nereid and to Triton 2.51: the same words, the same effect.

test_http_triton.py has the words over HTTP.
"""
import json

import grpc
import pytest
from conftest import PATIENCE, make_identity
from grpc_sides import NEREID, TRITON, client_of
from test_http_triton import answer, post, servers, side  # noqa: F401 - fixtures
from tritonclient.grpc import service_pb2, service_pb2_grpc

LOAD = "/v2/repository/models/{}/load"
# A cache that the server does not have, and a warm-up: answers are the same without.
IDLE = """response_cache { enable: true }
model_warmup { name: "w" batch_size: 1 inputs { key: "INPUT0" value { data_type: TYPE_FP32 dims: [ 1 ] zero_data: true } } }"""


def make(directory):
    for name in ("canary", "batched"):
        make_identity(directory, name)
    make_identity(directory, "versions", versions=(1, 3), more="version_policy { all {} }")
    make_identity(directory, "idle", more=IDLE)
    return directory


# ---- words ----


def load(model="canary", repository="", **parameters):
    request = service_pb2.RepositoryModelLoadRequest(model_name=model, repository_name=repository)
    for name, value in parameters.items():
        request.parameters[name.replace("__", ":")].CopyFrom(service_pb2.ModelRepositoryParameter(**value))
    return "RepositoryModelLoad", request


def unload(model="none", repository="", **parameters):
    request = service_pb2.RepositoryModelUnloadRequest(model_name=model, repository_name=repository)
    for name, value in parameters.items():
        request.parameters[name].CopyFrom(service_pb2.ModelRepositoryParameter(**value))
    return "RepositoryModelUnload", request


def trace(model="", **settings):
    request = service_pb2.TraceSettingRequest(model_name=model)
    for name, values in settings.items():
        request.settings[name].value.extend(values)
    return "TraceSetting", request


def log(**settings):
    request = service_pb2.LogSettingsRequest()
    for name, value in settings.items():
        request.settings[name].CopyFrom(service_pb2.LogSettingsRequest.SettingValue(**value))
    return "LogSettings", request


def memory(**fields):
    return "SystemSharedMemoryRegister", service_pb2.SystemSharedMemoryRegisterRequest(**fields)


OF_A_MODEL = {"ModelMetadata": service_pb2.ModelMetadataRequest, "ModelConfig": service_pb2.ModelConfigRequest,
              "ModelStatistics": service_pb2.ModelStatisticsRequest}
WORDS = {
    "load, absent": load("none"),
    "load, no name": load(""),
    "load, a repository": load(repository="r"),
    "load, config of a number": load(config=dict(int64_param=1)),
    "load, config of bytes": load(config=dict(bytes_param=b"{}")),
    "load, config that is none": load(config=dict(string_param="x")),
    "load, a file without config": load(file__1=dict(bytes_param=b"x")),
    "load, a file of text": load(file__1=dict(string_param="x")),
    "load, another parameter": load(what=dict(string_param="x")),
    "unload, a repository": unload(repository="r"),
    "unload, dependents of text": unload(unload_dependents=dict(string_param="x")),
    "index, a repository": ("RepositoryIndex", service_pb2.RepositoryIndexRequest(repository_name="r")),
    **{f"{method}, {name or 'no name'} {version}": (method, of(name=name, version=version)) for method, of in OF_A_MODEL.items()
       for name, version in (("none", ""), ("none", "7"), ("canary", "7"), ("canary", "x"), ("canary", "-1"), ("canary", "9" * 20))},
    "region, absent": memory(name="r", key="/nereid_none", byte_size=8),
    "region, no key": memory(name="r", key="", byte_size=8),
    "region, a path": memory(name="r", key="/a/b", byte_size=8),
    "region's status": ("SystemSharedMemoryStatus", service_pb2.SystemSharedMemoryStatusRequest(name="r")),
    "GPU region's status": ("CudaSharedMemoryStatus", service_pb2.CudaSharedMemoryStatusRequest(name="r")),
    "trace, no rate": trace(trace_rate=["x"]),
    "trace, two rates": trace(trace_rate=["1", "2"]),
    "trace, a rate beyond 32 bits": trace(trace_rate=["99999999999"]),
    "trace, no count": trace(trace_count=["x"]),
    "trace, a file": trace(trace_file=["x"]),
    "log, a file": log(log_file=dict(string_param="/x")),
    "log, info of text": log(log_info=dict(string_param="x")),
    "log, level of text": log(log_verbose_level=dict(string_param="1")),
    "log, no format": log(log_format=dict(string_param="x")),
}


def refusal(server, method, message):
    with grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}") as channel, pytest.raises(grpc.RpcError) as caught:
        getattr(service_pb2_grpc.GRPCInferenceServiceStub(channel), method)(message, timeout=PATIENCE)
    return caught.value.code().name, caught.value.details()


@pytest.mark.parametrize("name", WORDS)
def test_nereid_begins_with_tritons_words(servers, name):
    ours, theirs = (refusal(server, *WORDS[name]) for server in servers.values())
    assert ours[1].startswith(theirs[1])
    assert ours[0] == theirs[0] or (ours[0], theirs[0]) == ("INVALID_ARGUMENT", "INTERNAL")


@pytest.mark.parametrize("version", ["1x", "1.0", " 1", "+1", "01"])
def test_a_version_ends_with_its_digits(servers, side, version):
    with client_of(servers[side]) as client:
        assert client.get_model_metadata("canary", version).versions == ["1"]
        assert client.is_model_ready("canary", version)


# ---- loads with a configuration ----

OVERRIDE = json.dumps({
    "backend": "identity", "max_batch_size": 4, "version_policy": {"latest": {"num_versions": 1}},
    "input": [{"name": "INPUT0", "data_type": "TYPE_FP32", "dims": [-1]}], "output": [{"name": "OUTPUT0", "data_type": "TYPE_FP32", "dims": [-1]}],
    "instance_group": [{"count": 2, "kind": "KIND_CPU"}], "parameters": {"x": {"string_value": "y"}},
})


def load_over_http(server, **parameters):
    status, _, body = answer(server, *post(LOAD.format("versions"), parameters=parameters))
    assert status == 200, body


def load_over_grpc(server, **parameters):
    with client_of(server) as client:
        client.load_model("versions", **parameters)


def served(server):
    """What an override can change, and the versions that serve."""
    config = answer(server, "/v2/models/versions/config")[-1]
    index = answer(server, "/v2/repository/index", b"")[-1]
    return (config["max_batch_size"], config["version_policy"], config["instance_group"][0]["count"], config["parameters"],
            [row["version"] for row in index if row["name"] == "versions" and row["state"] == "READY"])


@pytest.mark.parametrize("load", [load_over_http, load_over_grpc])
def test_a_plain_load_after_an_override_goes_back_to_the_directory(servers, side, load):
    server = servers[side]
    directory = (8, {"all": {}}, 1, {}, ["1", "3"])
    override = (4, {"latest": {"num_versions": 1}}, 2, {"x": {"string_value": "y"}}, ["3"])
    assert served(server) == directory
    load(server, config=OVERRIDE)
    assert served(server) == override
    load(server)
    # Triton 2.51 keeps all of it until the directory changes or the model is unloaded.
    assert served(server) == (directory if side is NEREID else override)
    load(server)
    assert served(server) == (directory if side is NEREID else override)
    answer(server, "/v2/repository/models/versions/unload", b"")
    load(server)
    assert served(server) == directory


def test_a_plain_load_of_what_did_not_change_leaves_it(servers):
    """The same model goes on: its statistics are not new."""
    server = servers[NEREID]
    body = b'{"inputs":[{"name":"INPUT0","shape":[1,1],"datatype":"FP32","data":[7]}]}'
    assert answer(server, "/v2/models/batched/infer", body)[0] == 200
    assert answer(server, LOAD.format("batched"), b"")[0] == 200
    assert answer(server, "/v2/models/batched/stats")[-1]["model_stats"][0]["inference_count"] == 1


def test_a_model_that_asks_for_a_cache_and_for_warming_up_is_served(servers, side):
    server = servers[side]
    body = b'{"inputs":[{"name":"INPUT0","shape":[1,1],"datatype":"FP32","data":[7]}]}'
    status, _, content = answer(server, "/v2/models/idle/infer", body)
    assert status == 200 and content["outputs"][0]["data"] == [7]
    config = answer(server, "/v2/models/idle/config")[-1]
    assert config["response_cache"] == {"enable": True} and config["model_warmup"][0]["name"] == "w"
    if side is NEREID:
        assert server.log.count("model 'idle' has 'response_cache', but the server has no cache") == 1
