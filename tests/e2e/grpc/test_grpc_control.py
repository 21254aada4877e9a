# SPDX-License-Identifier: Apache-2.0
"""The gRPC methods but for inference, with the unmodified client: what they answer, and how they refuse.

Google's own reader of the JSON that HTTP answers is the measure of what the same question gives over gRPC.
"""
import json
import threading

import grpc
import pytest
import tritonclient.grpc as triton
from client_memory import region
from conftest import DEADLINE, EVERYTHING, ROOT, WITHOUT_GPUS, Starter, make_identity
from google.protobuf import descriptor_pb2, json_format
from grpc_tools import protoc
from tritonclient.grpc import model_config_pb2, service_pb2, service_pb2_grpc

PREFIX = "/inference.GRPCInferenceService/"
HEALTH = "/grpc.health.v1.Health/"
SERVING, NOT_SERVING = b"\x08\x01", b"\x08\x02"
UNKNOWN = "Request for unknown model: 'none' is not found"
NO_NUMBER = (
    "failed to get model version from specified version string 'x' (details: stol), version should be an integral value > 0"
)
NEGATIVE = "invalid model version specified '-2' , version should be an integral value > 0"


def stub_of(server, address="127.0.0.1"):
    return service_pb2_grpc.GRPCInferenceServiceStub(grpc.insecure_channel(f"{address}:{server.grpc_port}"))


def refusal(call, *arguments, **named):
    """Status and text of a call that must fail."""
    with pytest.raises(grpc.RpcError) as raised:
        call(*arguments, timeout=DEADLINE, **named)
    return raised.value.code(), raised.value.details()


def raw(server, path):
    """A unary method that takes and gives bytes."""
    channel = grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}")
    return channel.unary_unary(path, request_serializer=None, response_deserializer=None)


@pytest.fixture
def stub(target):
    return stub_of(target)


@pytest.fixture
def client(target):
    return triton.InferenceServerClient(f"127.0.0.1:{target.grpc_port}")


@pytest.fixture
def explicit(start_server, repository):
    """A server of which a test may load and unload everything: 'spare' is loaded, 'other' is not."""
    make_identity(repository, "spare")
    make_identity(repository, "other")
    return start_server(repository, flags=["--model-control-mode=explicit", "--load-model=spare",
                                           "--grpc-address=0.0.0.0"])


# ---- the messages ----

def fields_of(message):
    """What of a message's fields the wire and the client's code depend on; the messages within are named below."""
    return {f.name: (f.number, f.type, f.label, f.type_name.rsplit(".", 1)[-1]) for f in message.field}


def messages_of(file, prefix="", within=None):
    for message in file.message_type if within is None else within.nested_type:
        yield prefix + message.name, message
        yield from messages_of(file, f"{prefix}{message.name}.", message)


def test_our_messages_are_those_of_the_client(tmp_path):
    out = tmp_path / "set"
    assert protoc.main(["protoc", f"-I{ROOT}/src", f"--descriptor_set_out={out}", "--include_imports",
                        "frontend/grpc/proto/grpc_service.proto"]) == 0
    ours = {f.name.rsplit("/", 1)[-1]: f for f in descriptor_pb2.FileDescriptorSet.FromString(out.read_bytes()).file}
    for module in (service_pb2, model_config_pb2):
        theirs = descriptor_pb2.FileDescriptorProto()
        module.DESCRIPTOR.CopyToProto(theirs)
        mine = ours[theirs.name]
        assert mine.package == theirs.package
        have = dict(messages_of(mine))
        for name, message in messages_of(theirs):
            missing = fields_of(message).items() - fields_of(have[name]).items()
            assert not missing, f"{name}: {missing}"
        for service, wanted in zip(mine.service, theirs.service, strict=True):
            rows = [{(m.name, m.input_type, m.output_type, m.client_streaming, m.server_streaming) for m in s.method}
                    for s in (service, wanted)]
            assert service.name == wanted.name and rows[0] == rows[1]


# ---- answers ----

def test_health_and_readiness(client, stub):
    assert client.is_server_live() and client.is_server_ready()
    assert client.is_model_ready("canary") and client.is_model_ready("canary", "1")
    for request in (dict(name="canary", version="7"), dict(name="none")):
        assert not stub.ModelReady(service_pb2.ModelReadyRequest(**request)).ready


def test_server_metadata_is_that_of_http(client, target):
    expected = json_format.Parse(target.ask("/v2").text, service_pb2.ServerMetadataResponse())
    assert client.get_server_metadata() == expected and expected.name == "triton"


@pytest.mark.parametrize("version", ["", "1"])
def test_model_metadata_is_that_of_http(client, target, version):
    text = target.ask("/v2/models/t_bytes").text
    expected = json_format.Parse(text, service_pb2.ModelMetadataResponse())
    assert client.get_model_metadata("t_bytes", version) == expected
    assert list(expected.inputs[0].shape) == [-1, -1] and expected.inputs[0].datatype == "BYTES"


def test_a_configuration_is_that_of_http(start_server, repository):
    """All kinds of fields: enums, nested messages, maps, oneofs, numbers that JSON shows as strings."""
    more = """
      dynamic_batching { preferred_batch_size: [2, 4] max_queue_delay_microseconds: 123456789012
                         default_queue_policy { timeout_action: DELAY allow_timeout_override: true } }
      parameters { key: "a" value { string_value: "x \\"y\\" \\303\\274" } }
      parameters { key: "b" value { string_value: "" } }
      instance_group { count: 2 kind: KIND_CPU }
      version_policy { specific { versions: [1] } }
      optimization { execution_accelerators { cpu_execution_accelerator { name: "a" parameters { key: "k" value: "v" } } } }
    """
    make_identity(repository, "rich", more=more)
    server = start_server(repository)
    expected = json_format.Parse(server.ask("/v2/models/rich/config").text, model_config_pb2.ModelConfig())
    got = stub_of(server).ModelConfig(service_pb2.ModelConfigRequest(name="rich")).config
    assert got == expected
    assert got.dynamic_batching.max_queue_delay_microseconds == 123456789012
    assert got.parameters["a"].string_value == 'x "y" ü'


def test_statistics_are_those_of_http(start_server, repository):
    make_identity(repository, "one")
    make_identity(repository, "two")
    server = start_server(repository)
    body = json.dumps({"inputs": [{"name": "INPUT0", "datatype": "FP32", "shape": [2, 1], "data": [1, 2]}]}).encode()
    assert server.ask("/v2/models/one/infer", body).status == 200
    stub = stub_of(server)
    for path, request in {
        "/v2/models/stats": service_pb2.ModelStatisticsRequest(),
        "/v2/models/one/versions/1/stats": service_pb2.ModelStatisticsRequest(name="one", version="1"),
    }.items():
        expected = json_format.Parse(server.ask(path).text, service_pb2.ModelStatisticsResponse())
        assert stub.ModelStatistics(request) == expected
    assert len(stub.ModelStatistics(service_pb2.ModelStatisticsRequest()).model_stats) == 2
    one = expected.model_stats[0]
    assert (one.inference_count, one.execution_count, one.batch_stats[0].batch_size) == (2, 1, 2)
    assert one.inference_stats.success.count == 1 and one.inference_stats.success.ns > 0 and one.last_inference > 0


def test_the_index_is_that_of_http(explicit):
    stub = stub_of(explicit)
    for ready in (False, True):
        rows = json.loads(explicit.ask("/v2/repository/index", json.dumps({"ready": ready}).encode()).text)
        expected = json_format.ParseDict({"models": rows}, service_pb2.RepositoryIndexResponse())
        assert stub.RepositoryIndex(service_pb2.RepositoryIndexRequest(ready=ready)) == expected
        assert len(expected.models) == (1 if ready else 2)


# ---- refusals ----

REFUSALS = {
    "unknown model, metadata": ("ModelMetadata", dict(name="none"), "NOT_FOUND", UNKNOWN),
    "unknown model, config": ("ModelConfig", dict(name="none"), "NOT_FOUND", UNKNOWN),
    "unknown model, statistics": ("ModelStatistics", dict(name="none"), "INVALID_ARGUMENT",
                                  "requested model 'none' is not available"),
    "no number, ready": ("ModelReady", dict(name="canary", version="x"), "INVALID_ARGUMENT", NO_NUMBER),
    "no number, metadata": ("ModelMetadata", dict(name="canary", version="x"), "INVALID_ARGUMENT", NO_NUMBER),
    "no number, config": ("ModelConfig", dict(name="canary", version="x"), "INVALID_ARGUMENT", NO_NUMBER),
    "no number, statistics": ("ModelStatistics", dict(name="canary", version="x"), "INVALID_ARGUMENT", NO_NUMBER),
    "negative": ("ModelMetadata", dict(name="canary", version="-2"), "INVALID_ARGUMENT", NEGATIVE),
    "a repository, index": ("RepositoryIndex", dict(repository_name="r"), "UNIMPLEMENTED",
                            "'repository_name' specification is not supported"),
    "a repository, load": ("RepositoryModelLoad", dict(repository_name="r", model_name="canary"), "UNIMPLEMENTED",
                           "'repository_name' specification is not supported"),
    "a repository, unload": ("RepositoryModelUnload", dict(repository_name="r", model_name="canary"), "UNIMPLEMENTED",
                             "'repository_name' specification is not supported"),
}


@pytest.mark.parametrize("method, request_fields, code, text", REFUSALS.values(), ids=REFUSALS)
def test_requests_that_are_refused(stub, method, request_fields, code, text):
    request = getattr(service_pb2, f"{method}Request")(**request_fields)
    assert refusal(getattr(stub, method), request) == (grpc.StatusCode[code], text)


WITH_REQUEST = [m.name for m in service_pb2.DESCRIPTOR.services_by_name["GRPCInferenceService"].methods
                if m.input_type.fields and not m.client_streaming
                and m.name not in ("SystemSharedMemoryRegister", "CudaSharedMemoryRegister")]


@pytest.mark.parametrize("method", WITH_REQUEST)
def test_bytes_that_are_no_request_are_refused(target, method):
    call = raw(target, PREFIX + method)
    for message in (b"\x0a\x05ab", b"\x0a", b"\x07", b"\x0b", b"\x0a\xff\xff\xff\xff\x0f"):
        code, text = refusal(call, message)
        assert code == grpc.StatusCode.INVALID_ARGUMENT
        assert text == "Unable to parse request: it is not a message in protobuf's wire format"
    if method in ("TraceSetting", "LogSettings"):
        return  # begin with a map
    for message, why in ((b"\x0a\x01\xff", "is not UTF-8"), (b"\x0a\x02a\x00", "has a NUL character")):
        assert refusal(call, message) == (grpc.StatusCode.INVALID_ARGUMENT, f"Unable to parse request: a string {why}")


def test_a_request_of_many_fields_is_refused(target):
    """Rows 10 and 17: what would cost a hundred times its size is not built."""
    call = raw(target, PREFIX + "RepositoryModelLoad")
    text = "expected a message of at most 16384 fields"
    assert refusal(call, b"\x1a\x00" * 16385) == (grpc.StatusCode.INVALID_ARGUMENT, text)
    assert refusal(call, b"\x12\x01m" + b"\x1a\x04\x12\x02\x08\x01" * 5462) == (grpc.StatusCode.INVALID_ARGUMENT, text)


# ---- the repository ----

def identity_config(**more):
    return json.dumps({
        "backend": "identity", "max_batch_size": 8,
        "input": [{"name": "INPUT0", "data_type": "TYPE_FP32", "dims": [-1]}],
        "output": [{"name": "OUTPUT0", "data_type": "TYPE_FP32", "dims": [-1]}], **more,
    })


def test_models_are_loaded_and_unloaded(explicit):
    client = triton.InferenceServerClient(f"127.0.0.1:{explicit.grpc_port}")
    client.load_model("other")
    assert client.is_model_ready("other")
    client.load_model("other", config=identity_config(max_batch_size=5))
    assert client.get_model_config("other").config.max_batch_size == 5
    client.load_model("made", config=identity_config(), files={"file:1/data.bin": b"\x00\xff" * 1000})
    assert client.is_model_ready("made")
    client.unload_model("made", unload_dependents=True)
    client.unload_model("other")
    assert [m.name for m in client.get_model_repository_index().models if m.state == "READY"] == ["spare"]


def test_a_load_that_fails_says_why(explicit):
    code, text = refusal(stub_of(explicit).RepositoryModelLoad,
                         service_pb2.RepositoryModelLoadRequest(model_name="none"))
    assert code == grpc.StatusCode.INTERNAL and text.startswith("failed to load 'none', failed to poll from model repository")
    bad = service_pb2.RepositoryModelLoadRequest(model_name="other")
    bad.parameters["config"].string_param = "{"
    code, text = refusal(stub_of(explicit).RepositoryModelLoad, bad)
    assert code == grpc.StatusCode.INVALID_ARGUMENT
    assert text.startswith("failed to load 'other', failed to poll from model repository: Invalid config override: ")


LOAD_PARAMETERS = {
    "config of bytes": ("config", dict(bytes_param=b"{}"),
                        "invalid value type for load parameter 'config', expected string_param."),
    "config of nothing": ("config", {}, "invalid value type for load parameter 'config', expected string_param."),
    "file of a string": ("file:1/a", dict(string_param="a"),
                         "invalid value type for load parameter 'file:1/a', expected bytes_param."),
    "another": ("what", dict(bool_param=True), "unrecognized load parameter 'what'."),
}


@pytest.mark.parametrize("name, value, text", LOAD_PARAMETERS.values(), ids=LOAD_PARAMETERS)
def test_load_parameters_that_are_refused(stub, name, value, text):
    request = service_pb2.RepositoryModelLoadRequest(model_name="canary")
    request.parameters[name].CopyFrom(service_pb2.ModelRepositoryParameter(**value))
    assert refusal(stub.RepositoryModelLoad, request) == (grpc.StatusCode.INVALID_ARGUMENT, text)


def test_unload_parameters_that_are_refused(stub):
    request = service_pb2.RepositoryModelUnloadRequest(model_name="canary")
    request.parameters["unload_dependents"].int64_param = 1
    assert refusal(stub.RepositoryModelUnload, request) == (
        grpc.StatusCode.INVALID_ARGUMENT, "invalid value type for 'unload_dependents' parameter, expected bool_param.")


def test_of_a_parameter_that_comes_twice_the_last_counts(explicit):
    """What only hand-made messages have: a map's key twice."""
    request = service_pb2.RepositoryModelLoadRequest(model_name="other")
    request.parameters["config"].string_param = "no JSON"
    later = service_pb2.RepositoryModelLoadRequest()
    later.parameters["config"].string_param = identity_config(max_batch_size=6)
    raw(explicit, PREFIX + "RepositoryModelLoad")(request.SerializeToString() + later.SerializeToString(), timeout=DEADLINE)
    config = stub_of(explicit).ModelConfig(service_pb2.ModelConfigRequest(name="other")).config
    assert config.max_batch_size == 6


def test_strangers_bring_no_code(explicit, machine_address):
    """As over HTTP (docs/security.md)."""
    stranger = stub_of(explicit, machine_address)

    def load(**parameters):
        request = service_pb2.RepositoryModelLoadRequest(model_name="spare")
        for name, value in parameters.items():
            if isinstance(value, bytes):
                request.parameters[name].bytes_param = value
            else:
                request.parameters[name].string_param = value
        return request

    stranger.RepositoryModelLoad(load(), timeout=DEADLINE)
    stranger.RepositoryModelLoad(load(config=identity_config(max_batch_size=4)), timeout=DEADLINE)
    for request, words in ((load(config=identity_config(backend="onnxruntime")), "sets 'backend'"),
                           (load(**{"file:1/model.bin": b"x"}), "a file of a model")):
        code, text = refusal(stranger.RepositoryModelLoad, request)
        assert code == grpc.StatusCode.PERMISSION_DENIED and words in text and "--allow-model-upload" in text


PROXIED = [
    *(((name, "127.0.0.1"),) for name in ("forwarded", "x-forwarded-for", "x-forwarded-proto", "x-real-ip", "via", "cf-connecting-ip",
                                          "true-client-ip", "x-original-host", "x_forwarded_for", "grpcgateway-user-agent")),
    (("x-forwarded-for", ""),),
    (("via", "a"), ("via", "b"), ("x-real-ip", "c")),
    (("x-forwarded-for-bin", b"127.0.0.1"),),
]
AUTHORITIES = {  # of a channel to 127.0.0.1; grpc itself refuses to send some others (tests/unit/frontend/http/posture_test.c)
    "localhost": True, "LOCALHOST:8001": True, "127.0.0.1": True, "[::1]:8001": True, "attacker.example": False,
    "localhost.attacker.example": False, "localhost.": False, "localhost:80@attacker.example": False, "127.1": False, "0x7f.1": False,
}


def test_a_proxy_on_this_machine_does_not_lend_its_address(explicit):
    request = service_pb2.RepositoryModelLoadRequest(model_name="spare")
    request.parameters["config"].string_param = identity_config(backend="onnxruntime")
    for metadata in PROXIED:
        code, text = refusal(stub_of(explicit).RepositoryModelLoad, request, metadata=metadata)
        assert code == grpc.StatusCode.PERMISSION_DENIED and "a proxy forwarded it" in text, metadata
    for authority, ours in AUTHORITIES.items():
        with grpc.insecure_channel(f"127.0.0.1:{explicit.grpc_port}", options=[("grpc.default_authority", authority)]) as channel:
            code, text = refusal(service_pb2_grpc.GRPCInferenceServiceStub(channel).RepositoryModelLoad, request)
        if "@" in authority and code == grpc.StatusCode.INTERNAL:
            continue  # newer versions of libnghttp2 take no user in an authority, and reset the stream
        assert (code == grpc.StatusCode.PERMISSION_DENIED) != ours, f"{authority}: {code} {text}"
        assert ours or "its authority does not name localhost" in text, text
    code, text = refusal(stub_of(explicit).RepositoryModelLoad, request, metadata=[("host", "attacker.example")])
    assert code == grpc.StatusCode.PERMISSION_DENIED and "its authority does not name localhost" in text


def test_a_client_on_a_unix_socket_is_on_this_machine(start_server, repository, tmp_path):
    make_identity(repository, "spare")
    address = f"unix:{tmp_path}/grpc.sock"
    start_server(repository, flags=["--model-control-mode=explicit", "--load-model=*", f"--grpc-address={address}"])
    with triton.InferenceServerClient(address) as client:
        with pytest.raises(triton.InferenceServerException, match="no_such"):  # tried
            client.load_model("spare", config=identity_config(backend="no_such"))
        with pytest.raises(triton.InferenceServerException, match="a proxy forwarded it"):
            client.load_model("spare", config=identity_config(backend="no_such"), headers={"via": "x"})


def admin_calls(stub):
    return {
        stub.RepositoryIndex: service_pb2.RepositoryIndexRequest(),
        stub.RepositoryModelLoad: service_pb2.RepositoryModelLoadRequest(model_name="spare"),
        stub.RepositoryModelUnload: service_pb2.RepositoryModelUnloadRequest(model_name="spare"),
        stub.SystemSharedMemoryStatus: service_pb2.SystemSharedMemoryStatusRequest(),
        stub.TraceSetting: service_pb2.TraceSettingRequest(),
        stub.LogSettings: service_pb2.LogSettingsRequest(),
    }


def test_under_secure_admin_methods_want_a_key_or_the_admin_address(start_server, repository, machine_address, tmp_path):
    make_identity(repository, "spare")
    admin = f"unix:{tmp_path}/admin.sock"
    flags = ["--model-control-mode=explicit", "--secure", "--allow-root", "--grpc-address=0.0.0.0", f"--admin-grpc-address={admin}",
             "--grpc-restricted-protocol=trace:the-key=Secret-1"]
    server = start_server(repository, flags=flags)
    local, stranger = stub_of(server), stub_of(server, machine_address)
    for stub in (local, stranger):
        for call, request in admin_calls(stub).items():
            if call == stub.TraceSetting:
                assert refusal(call, request)[0] == grpc.StatusCode.UNAVAILABLE
                call(request, metadata=[("triton-grpc-protocol-the-key", "Secret-1")], timeout=DEADLINE)
                continue
            code, text = refusal(call, request, metadata=[("triton-grpc-protocol-the-key", "Secret-1")])
            assert code == grpc.StatusCode.PERMISSION_DENIED and "want a key or the admin address (--secure)" in text, text
        assert stub.ServerMetadata(service_pb2.ServerMetadataRequest(), timeout=DEADLINE).name == "triton"
    with triton.InferenceServerClient(admin) as operator:  # what docs/security.md says
        operator.load_model("spare", config=identity_config(max_batch_size=3))
        assert operator.get_model_config("spare").config.max_batch_size == 3
        assert operator.get_trace_settings().settings["trace_rate"].value == ["1000"]
    with grpc.insecure_channel(admin) as channel:
        for call, request in admin_calls(service_pb2_grpc.GRPCInferenceServiceStub(channel)).items():
            call(request, metadata=[("x-forwarded-for", "10.0.0.1")], timeout=DEADLINE)


# ---- shared memory ----

@pytest.fixture(scope="module")
def sharing(nereid, backends, targets, tmp_path_factory):
    starter = Starter(nereid, backends, tmp_path_factory.mktemp("sharing"))
    yield starter(targets, flags=["--allow-client-shm=true"], variables=WITHOUT_GPUS)
    starter.stop_all()


def test_regions_are_registered_listed_and_unregistered(sharing):
    client = triton.InferenceServerClient(f"127.0.0.1:{sharing.grpc_port}")
    with region(8192) as made:
        client.register_system_shared_memory("a", made.key, 4096)
        client.register_system_shared_memory("b", made.key, 1024, offset=4096)
        regions = client.get_system_shared_memory_status().regions
        assert {name: (r.name, r.key, r.offset, r.byte_size) for name, r in regions.items()} == {
            "a": ("a", made.key, 0, 4096), "b": ("b", made.key, 4096, 1024)}
        assert list(client.get_system_shared_memory_status("b").regions) == ["b"]
        stub = stub_of(sharing)
        again = service_pb2.SystemSharedMemoryRegisterRequest(name="a", key=made.key, byte_size=1)
        assert refusal(stub.SystemSharedMemoryRegister, again) == (
            grpc.StatusCode.ALREADY_EXISTS, "shared memory region 'a' already in manager")
        client.unregister_system_shared_memory("a")
        assert list(client.get_system_shared_memory_status().regions) == ["b"]
        client.unregister_system_shared_memory()
        assert not client.get_system_shared_memory_status().regions
        assert refusal(stub.SystemSharedMemoryStatus, service_pb2.SystemSharedMemoryStatusRequest(name="a")) == (
            grpc.StatusCode.NOT_FOUND, "Unable to find system shared memory region: 'a'")


def test_cuda_memory_without_a_gpu(start_server, repository):
    stub = stub_of(start_server(repository, flags=["--allow-client-shm=true"], variables={"CUDA_VISIBLE_DEVICES": ""}))
    request = service_pb2.CudaSharedMemoryRegisterRequest(name="c", raw_handle=b"x" * 64, byte_size=1)
    code, text = refusal(stub.CudaSharedMemoryRegister, request)
    assert code == grpc.StatusCode.INVALID_ARGUMENT
    assert text.startswith("failed to register CUDA shared memory region: 'c', GPUs not supported: "), text
    assert not stub.CudaSharedMemoryStatus(service_pb2.CudaSharedMemoryStatusRequest()).regions
    stub.CudaSharedMemoryUnregister(service_pb2.CudaSharedMemoryUnregisterRequest())


def test_shared_memory_is_off_by_default(stub):
    """Row 24."""
    text = "Client shared memory is disabled. Start the server with '--allow-client-shm=true' to enable."
    for method in ("SystemSharedMemoryRegister", "CudaSharedMemoryRegister", "SystemSharedMemoryUnregister",
                   "CudaSharedMemoryUnregister"):
        request = getattr(service_pb2, f"{method}Request")(name="r")
        assert refusal(getattr(stub, method), request) == (grpc.StatusCode.UNIMPLEMENTED, text)


# ---- settings ----

LOG_DEFAULTS = dict(log_file="", log_info=True, log_warning=True, log_error=True, log_verbose_level=0, log_format="default")


def log_settings(client, **changes):
    """What is set after the changes: names and values, which must be of the type that clients expect."""
    types = dict.fromkeys(("log_info", "log_warning", "log_error"), "bool_param") | {"log_verbose_level": "uint32_param"}
    settings = client.update_log_settings(changes).settings if changes else client.get_log_settings().settings
    assert {name: value.WhichOneof("parameter_choice") for name, value in settings.items()} == {
        name: types.get(name, "string_param") for name in LOG_DEFAULTS}
    return {name: getattr(value, value.WhichOneof("parameter_choice")) for name, value in settings.items()}


def test_log_settings_are_read_and_changed(explicit):
    client = triton.InferenceServerClient(f"127.0.0.1:{explicit.grpc_port}")
    assert log_settings(client) == LOG_DEFAULTS
    changes = dict(log_info=False, log_verbose_level=1, log_format="ISO8601")
    assert log_settings(client, **changes) == LOG_DEFAULTS | changes
    assert json.loads(explicit.ask("/v2/logging").text) == LOG_DEFAULTS | changes


LOG_REFUSALS = {
    "log_file": ("log_file", dict(string_param="/x"), "UNIMPLEMENTED",
                 "log file location can not be updated through network protocol"),
    "no boolean": ("log_info", dict(uint32_param=1), "INVALID_ARGUMENT", "expect boolean for 'log_info'"),
    "no number": ("log_verbose_level", dict(bool_param=True), "INVALID_ARGUMENT", "expect int32 for 'log_verbose_level'"),
    "nothing": ("log_error", {}, "INVALID_ARGUMENT", "expect boolean for 'log_error'"),
    "no text": ("log_format", dict(bool_param=True), "INVALID_ARGUMENT", "expect string for 'log_format'"),
    "no format": ("log_format", dict(string_param="x"), "INVALID_ARGUMENT", "invalid argument for log_format, got: x"),
}


@pytest.mark.parametrize("name, value, code, text", LOG_REFUSALS.values(), ids=LOG_REFUSALS)
def test_log_settings_that_are_refused_change_nothing(stub, client, name, value, code, text):
    request = service_pb2.LogSettingsRequest()
    request.settings["log_warning"].bool_param = False
    request.settings[name].CopyFrom(service_pb2.LogSettingsRequest.SettingValue(**value))
    assert refusal(stub.LogSettings, request) == (grpc.StatusCode[code], text)
    assert log_settings(client) == LOG_DEFAULTS


def test_all_log_settings_that_are_wrong_are_told(stub, client):
    request = service_pb2.LogSettingsRequest()
    request.settings["log_info"].uint32_param = 1
    request.settings["log_error"].bool_param = False
    request.settings["log_format"].string_param = "x"
    code, text = refusal(stub.LogSettings, request)
    assert code == grpc.StatusCode.INVALID_ARGUMENT
    assert sorted(text.split("; ")) == ["expect boolean for 'log_info'", "invalid argument for log_format, got: x"]
    assert log_settings(client) == LOG_DEFAULTS


def test_unknown_settings_are_ignored_and_told_in_the_log(explicit):
    client = triton.InferenceServerClient(f"127.0.0.1:{explicit.grpc_port}")
    assert log_settings(client, no_such_log_setting=1) == LOG_DEFAULTS
    assert trace_settings(client.update_trace_settings(None, {"no_such_trace_setting": "x"})) == TRACE_DEFAULTS
    for what in ("log", "trace"):
        assert f"a request for {what} settings names what cannot be set there, which is ignored: 'no_such_{what}_setting'" in explicit.log


TRACE_DEFAULTS = dict(trace_level=["OFF"], trace_rate=["1000"], trace_count=["-1"], log_frequency=["0"],
                      trace_file=[""], trace_mode=["triton"])


def trace_settings(answer):
    return {name: list(value.value) for name, value in answer.settings.items()}


def test_trace_settings_are_read_and_changed(explicit):
    client = triton.InferenceServerClient(f"127.0.0.1:{explicit.grpc_port}")
    assert trace_settings(client.get_trace_settings()) == TRACE_DEFAULTS
    changes = dict(trace_rate=["7"], trace_count=["3"])
    assert trace_settings(client.update_trace_settings("spare", changes)) == TRACE_DEFAULTS | changes
    assert trace_settings(client.get_trace_settings("spare")) == TRACE_DEFAULTS | changes
    assert trace_settings(client.get_trace_settings()) == TRACE_DEFAULTS
    assert json.loads(explicit.ask("/v2/models/spare/trace/setting").text)["trace_rate"] == "7"
    cleared = client.update_trace_settings("spare", dict(trace_rate=[], trace_count=[]))
    assert trace_settings(cleared) == TRACE_DEFAULTS


TRACE_REFUSALS = {
    "trace_file": ("trace_file", ["/x"], "UNIMPLEMENTED", "trace file location can not be updated through network protocol"),
    "two rates": ("trace_rate", ["1", "2"], "INVALID_ARGUMENT", "expect only 1 value for 'trace_rate'"),
    "no rate": ("trace_rate", ["x"], "INVALID_ARGUMENT", "Unable to parse 'trace_rate', got: x"),
    "OFF and more": ("trace_level", ["OFF", "TIMESTAMPS"], "INVALID_ARGUMENT",
                     "Expect only one trace level 'OFF' is specified"),
    "many": ("trace_level", ["TENSORS"] * 17, "INVALID_ARGUMENT", "'trace_level' has more than 16 values"),
}


@pytest.mark.parametrize("name, values, code, text", TRACE_REFUSALS.values(), ids=TRACE_REFUSALS)
def test_trace_settings_that_are_refused_change_nothing(stub, name, values, code, text):
    request = service_pb2.TraceSettingRequest()
    request.settings["trace_count"].value.append("5")
    request.settings[name].value.extend(values)
    assert refusal(stub.TraceSetting, request) == (grpc.StatusCode[code], text)
    assert trace_settings(stub.TraceSetting(service_pb2.TraceSettingRequest())) == TRACE_DEFAULTS


def test_trace_settings_of_an_unknown_model(stub):
    """Triton answers OK with nothing."""
    request = service_pb2.TraceSettingRequest(model_name="none")
    assert refusal(stub.TraceSetting, request) == (grpc.StatusCode.NOT_FOUND, "Request for unknown model : none")


# ---- gRPC's health service ----

@pytest.mark.parametrize("service", [b"", b"\x0a\x09inference", b"\x0a\x04none"])
def test_check_answers_for_the_server_whatever_is_asked_for(target, service):
    assert raw(target, HEALTH + "Check")(service, timeout=DEADLINE) == SERVING


def test_watch_tells_when_it_changes_and_ends_with_the_server(start_server, repository):
    make_identity(repository, "one")
    server = start_server(repository)
    channel = grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}")
    watch = channel.unary_stream(HEALTH + "Watch", request_serializer=None, response_deserializer=None)(b"")
    assert next(watch) == SERVING
    stopping = threading.Thread(target=server.stop)
    stopping.start()
    assert next(watch) == NOT_SERVING
    with pytest.raises(grpc.RpcError) as raised:
        next(watch)
    assert raised.value.code() == grpc.StatusCode.UNAVAILABLE
    stopping.join(DEADLINE)
    assert server.process.poll() == 0


def test_watchers_that_leave_are_forgotten(start_server, repository):
    make_identity(repository, "one")
    server = start_server(repository)
    channel = grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}")
    method = channel.unary_stream(HEALTH + "Watch", request_serializer=None, response_deserializer=None)
    for _ in range(20):
        watch = method(b"")
        assert next(watch) == SERVING
        watch.cancel()
    for message in (b"\x0a\x05", b"\x0a\x01\xff"):
        with pytest.raises(grpc.RpcError) as raised:
            next(method(message))
        assert raised.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    server.stop()
