# SPDX-License-Identifier: Apache-2.0
"""What a server does while something in it fails: each scenario makes its models and returns what asks, and knows what is right."""
import concurrent.futures
import contextlib
import gzip
import hashlib
import itertools
import json
import os
import re
import shutil
import struct
import time
import zlib

from client_memory import BASE, inference, place, region
from conftest import BUILD, copy_model, make_faulty, make_identity
from ensembles import chain, make_ensemble, step
from fault_replies import Touch, ask, ask_on, connect, gives_back, json_body, ok, with_json
from fault_sequences import infer_backlog, infer_sequences, iterative, load_sequences, states
from streaming import events, make_streaming
from test_ragged import make_sums


# ---- inference ----


def infer_classes(repository):
    make_identity(repository, "m")
    body = json_body([1.0, 3.0, 2.0], "FP32", outputs=[{"name": "OUTPUT0", "parameters": {"classification": 2}}])
    return lambda server: [ask(server, gives_back(["3.000000:1", "2.000000:2"]), "/v2/models/m/infer", body)]


def shared_memory(repository):
    """Memory of the client: each step needs the one before."""
    count = 20_000
    body = inference("INT32", [1, count], place("r", 4 * count), place("r", 4 * count, 4 * count))
    make_identity(repository, "m", type="TYPE_INT32")

    def act(server):
        with region(8 * count) as made:
            made.memory[: 4 * count] = os.urandom(4 * count)
            registration = json.dumps({"key": made.key, "byte_size": made.size}).encode()
            steps = [(f"{BASE}/unregister", b""), (f"{BASE}/region/r/register", registration), ("/v2/models/m/infer", body),
                     (f"{BASE}/region/r/status", None), (f"{BASE}/unregister", b"")]
            replies = []
            for path, content in steps:
                replies.append(ask(server, ok, path, content))
                if not replies[-1].is_right():
                    return replies
            written = made.memory[: 4 * count] == made.memory[4 * count :]
            replies[2].right = lambda status, headers, body: status == 200 and written
            return replies

    return act


def infer_cached(repository):
    """What the cache has not, then what it has."""
    make_identity(repository, "m", type="TYPE_INT32", more="response_cache { enable: true }")
    rounds = itertools.count()

    def act(server):
        data = [next(rounds), 7]
        return [ask(server, gives_back(data), "/v2/models/m/infer", json_body(data, "INT32")) for _ in range(3)]

    return act


def infer_with(type, datatype, data):
    """A scenario that sends `data` as JSON."""

    def scenario(repository):
        make_identity(repository, "m", type=type)
        return lambda server: [ask(server, gives_back(data), "/v2/models/m/infer", json_body(data, datatype))]

    return scenario


def infer_ensemble(repository):
    """Two branches, one of them an ensemble; each model runs once for a request."""
    for name in "abcd":
        make_identity(repository, name)
    make_ensemble(repository, "inner", chain("b", "c"))
    make_ensemble(repository, "m", [*chain("a", "inner"), step("d", {"INPUT0": "INPUT0"}, {"OUTPUT0": "OUTPUT1"})], outputs=("OUTPUT0", "OUTPUT1"))
    data = [float(i) for i in range(300)]

    def right(status, headers, body):
        return status == 200 and [output["data"] for output in json.loads(body)["outputs"]] == [data, data]

    return lambda server: [ask(server, right, "/v2/models/m/infer", json_body(data, "FP32"))]


def ensemble_stream(repository):
    """Three responses of a decoupled step, each through a step of its own."""
    make_streaming(repository, "words")
    make_identity(repository, "copy", type="TYPE_STRING", max_batch_size=0)
    make_ensemble(repository, "m", [step("words", {"INPUT": "INPUT"}, {"OUTPUT": "word"}), step("copy", {"INPUT0": "word"}, {"OUTPUT0": "OUTPUT"})],
                  inputs=("INPUT",), outputs=("OUTPUT",), kind="TYPE_STRING", max_batch_size=0, more="model_transaction_policy { decoupled: true }")
    right = lambda status, _, body: status == 200 and [event.get("OUTPUT") for event in events(body.decode())] == ["grüße"] * 3
    body = json.dumps({"INPUT": "grüße", "count": 3}).encode()
    return lambda server: [ask(server, right, "/v2/models/m/generate_stream", body)]


def infer_binary(repository):
    make_identity(repository, "m")
    tensor = struct.pack("=5000f", *range(5000))
    parameters = {"binary_data_size": len(tensor)}
    head = {
        "inputs": [{"name": "INPUT0", "shape": [1, 5000], "datatype": "FP32", "parameters": parameters}],
        "outputs": [{"name": "OUTPUT0", "parameters": {"binary_data": True}}],
        "parameters": {"a": 1, "b": "two"},
    }
    text = json.dumps(head).encode()
    headers = {"Inference-Header-Content-Length": str(len(text))}

    def right(status, headers, body):
        size = int(headers.get("Inference-Header-Content-Length", 0))
        return status == 200 and size > 0 and body[size:] == tensor

    return lambda server: [ask(server, right, "/v2/models/m/infer", text + tensor, headers)]


def infer_raw(repository):
    make_identity(repository, "m", max_batch_size=0)
    tensor = struct.pack("=4f", 1, 2, 3, 4)
    headers = {"Inference-Header-Content-Length": "0", "Content-Type": "application/octet-stream"}
    right = lambda status, _, body: status == 200 and body.endswith(tensor)
    return lambda server: [ask(server, right, "/v2/models/m/infer", tensor, headers)]


def infer_packed(coding, pack, unpack):
    def scenario(repository):
        make_identity(repository, "m")
        data = [float(i) for i in range(2000)]
        body = pack(json_body(data, "FP32"))

        def right(status, headers, body):
            packed = headers.get("Content-Encoding")
            return packed in (None, coding) and gives_back(data)(status, headers, unpack(body) if packed else body)

        headers = {"Content-Encoding": coding, "Accept-Encoding": coding}
        return lambda server: [ask(server, right, "/v2/models/m/infer", body, headers)]

    return scenario


def infer_packed_large(repository):
    """Unpacked by a job, off the loop."""
    make_identity(repository, "m")
    data = [1.0] * 200_000
    body = gzip.compress(json_body(data, "FP32", outputs=[{"name": "OUTPUT0", "parameters": {"binary_data": True}}]), 1)
    right = lambda status, _, body: status == 200 and body.endswith(struct.pack("=200000f", *data))
    return lambda server: [ask(server, right, "/v2/models/m/infer", body, {"Content-Encoding": "gzip"})]


def infer_chunked(repository):
    make_identity(repository, "m")
    data = [1.0, 2.0]
    body = json_body(data, "FP32")
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in (body[:9], body[9:], b""))
    return lambda server: [
        ask(server, gives_back(data), "/v2/models/m/infer", iter([chunks]), {"Transfer-Encoding": "chunked"})
    ]


def generate(text):
    def scenario(repository):
        make_identity(repository, "m", type="TYPE_STRING")
        body = json.dumps({"INPUT0": text, "id": "seven", "parameters": {"a": 1}}).encode()
        right = with_json(lambda answer: answer["OUTPUT0"] == text and answer["id"] == "seven")

        def right_event(status, headers, body):
            return status == 200 and [event.get("OUTPUT0") for event in events(body.decode())] == [text]

        return lambda server: [
            ask(server, right, "/v2/models/m/generate", body),
            ask(server, right_event, "/v2/models/m/generate_stream", body),
        ]

    return scenario


def infer_batched(repository):
    batching = "dynamic_batching { preferred_batch_size: [ 3 ] max_queue_delay_microseconds: 3000 }"
    make_identity(repository, "m", more=batching + ' parameters { key: "execute_delay_ms" value { string_value: "1" } }')
    pool = concurrent.futures.ThreadPoolExecutor(3)

    def one(server, data):
        return ask(server, gives_back(data), "/v2/models/m/infer", json_body(data, "FP32"))

    return lambda server: list(pool.map(lambda i: one(server, [float(i), 2.0]), range(3)))


def infer_padded(repository):
    """Its batch is padded and its output cut back."""
    values = {"padding": "INPUT0=3", "padding_to": "8", "padding_length": "N", "padding_outputs": "OUTPUT0"}
    make_identity(repository, "m", more="".join(f'parameters {{ key: "{key}" value {{ string_value: "{value}" }} }}' for key, value in values.items()))
    data = [[1.0, 2.0, 3.0], [4.0] * 9]
    return lambda server: [ask(server, gives_back(some), "/v2/models/m/infer", json_body(some, "FP32")) for some in data]


def infer_objective(repository):
    """Batches of a model that learns how long they take."""
    make_identity(repository, "m", more='dynamic_batching { } parameters { key: "latency_objective_us" value { string_value: "60000000" } }')
    pool = concurrent.futures.ThreadPoolExecutor(3)
    one = lambda server, data: ask(server, gives_back(data), "/v2/models/m/infer", json_body(data, "FP32"))  # noqa: E731
    return lambda server: list(pool.map(lambda i: one(server, [float(i), 2.0]), range(3)))


def limited(repository):
    """Instances come and go that need a resource, and a request waits for it."""
    touch = Touch()

    def act(server):
        group = f"instance_group {{ count: {1 + touch.seconds % 2} kind: KIND_CPU rate_limiter {{ resources {{ name: \"r\" count: {1 + touch.seconds % 3} }} }} }}"
        make_identity(repository, "m", more=group)
        touch(repository / "m/1")
        return [ask(server, ok, "/v2/repository/models/m/load", b""), ask(server, gives_back([7.0]), "/v2/models/m/infer", json_body([7.0], "FP32"))]

    make_identity(repository, "m")
    return act


def infer_kept(repository):
    """Two requests on one connection; after a failure the second may need another one."""
    make_identity(repository, "m")
    data = [[7.0], [8.0]]

    def act(server):
        with contextlib.closing(connect(server.http_port)) as connection:
            return [
                ask_on(connection, gives_back(some), "/v2/models/m/infer", json_body(some, "FP32")) for some in data
            ]

    return act


def infer_onnx(repository):
    copy_model(repository, "add_sub")
    tensors = [
        {"name": f"INPUT{i}", "shape": [1, 16], "datatype": "FP32", "data": [i + 1.0] * 16} for i in range(2)
    ]
    body = json.dumps({"inputs": tensors}).encode()

    def right(answer):
        return {o["name"]: o["data"] for o in answer["outputs"]} == {"OUTPUT0": [3.0] * 16, "OUTPUT1": [-1.0] * 16}

    return lambda server: [ask(server, with_json(right), "/v2/models/add_sub/infer", body)]


def infer_wrong(repository):
    """What is refused: it is so in as few words while memory is short."""
    make_identity(repository, "m")
    bodies = [b"{", json_body([1.0], "INT32"), json_body(["x"], "FP32"), json_body([1.0], "FP32", outputs=[{"name": "no"}])]
    wrong = lambda status, _, body: status == 400 and "error" in json.loads(body)
    absent = lambda status, _, body: status == 404 and "error" in json.loads(body)
    return lambda server: [ask(server, wrong, "/v2/models/m/infer", body) for body in bodies] + [
        ask(server, absent, "/nothing"),
        ask(server, absent, "/v2/models/no/infer", bodies[1]),
    ]


def infer_fails(repository):
    """The backend answers with an error."""
    make_faulty(repository, fault="error_response")
    right = lambda status, _, body: status == 500 and "faulty backend" in json.loads(body)["error"]
    body = b'{"inputs":[{"name":"INPUT0","shape":[1],"datatype":"INT32","data":[7]}]}'
    return lambda server: [ask(server, right, "/v2/models/faulty/infer", body)]


# ---- questions ----


def statistics(repository):
    make_identity(repository, "m")
    make_identity(repository, "n")
    right = with_json(lambda answer: [m["name"] for m in answer["model_stats"]] == ["m", "n"])
    return lambda server: [ask(server, right, "/v2/models/stats")]


def questions(repository):
    make_identity(repository, "m")
    return lambda server: [
        ask(server, with_json(lambda a: a["name"] == "triton" and len(a["extensions"]) > 3), "/v2"),
        ask(server, with_json(lambda a: a["name"] == "m" and a["versions"] == ["1"]), "/v2/models/m"),
        ask(server, with_json(lambda a: a["max_batch_size"] == 8 and a["input"][0]["dims"] == [-1]), "/v2/models/m/config"),
        ask(server, ok, "/v2/health/ready"),
    ]


def metrics(repository):
    make_identity(repository, "m")

    def right(status, headers, body):
        wanted = (b'nv_inference_count{model="m",version="1"} 0', b"nv_cpu_utilization", b"nereid_")
        return status == 200 and all(text in body for text in wanted)

    return lambda server: [ask(server, right, "/metrics", port=server.metrics_port)]


def index(repository):
    make_identity(repository, "m", versions=(1, 2), more="version_policy { all {} }")
    make_identity(repository, "n")
    rows = [{"name": name, "version": v, "state": "READY"} for name, v in (("m", "1"), ("m", "2"), ("n", "1"))]
    right = with_json(lambda answer: answer == rows)
    return lambda server: [ask(server, right, "/v2/repository/index", b"")]


def refused(repository):
    """A body that is too large is answered while it comes, and the connection lingers."""
    make_identity(repository, "m")
    headers = {"Content-Length": str(1 << 40)}
    return lambda server: [ask(server, lambda status, *_: status == 413, "/v2/models/m/infer", b"{", headers)]


# ---- control ----


def reload(repository):
    make_identity(repository, "m")
    make_identity(repository, "n")
    right = with_json(lambda answer: answer["outputs"][0]["data"] == [7])
    body = b'{"inputs":[{"name":"INPUT0","shape":[1,1],"datatype":"FP32","data":[7]}]}'
    touch = Touch()

    def act(server):
        make_identity(repository, "m", max_batch_size=8 + touch.seconds % 2)
        touch(repository / "m/1")
        return [
            ask(server, ok, "/v2/repository/models/m/load", b""),
            ask(server, right, "/v2/models/m/infer", body),  # the old one or the new one
            ask(server, right, "/v2/models/n/infer", body),
        ]

    return act


def instances(repository):
    """The same model goes on with more instances, or fewer: none is exchanged for another."""
    make_identity(repository, "m")
    touch = Touch()

    def act(server):
        log_size = len(server.log)
        count = 1 + touch(repository / "m") % 3
        make_identity(repository, "m", more="instance_group { count: %d }" % count)
        load = ask(server, ok, "/v2/repository/models/m/load", b"")
        exchanged = re.search(r"[1-9]\d* instances came, [1-9]\d* went", server.log[log_size:])
        changed = with_json(lambda a: a["instance_group"][0]["count"] == count and not exchanged)
        return [
            load,
            ask(server, changed if load.is_right() else ok, "/v2/models/m/config"),
            ask(server, gives_back([1.0]), "/v2/models/m/infer", json_body([1.0], "FP32")),
        ]

    return act


def routed(repository):
    """Labels, split and shadows change; each split request is copied to the other version, or the same."""
    make_identity(repository, "m", versions=(1, 2, 3), more="version_policy { all {} } parameters { key: 'version_shadow' value { string_value: '3=50' } }")
    turn = itertools.count()

    def act(server):
        version = 1 + next(turn) % 2
        change = {"labels": {"new": version}, "split": {"1": 1, "2": 1}, "shadow": {"3": 100}}
        right = with_json(lambda a: {name: a[name] for name in change} == change)
        body = json_body([1.0], "FP32")
        return [
            ask(server, right, "/v2/models/m/routing", json.dumps(change).encode()),
            ask(server, gives_back([1.0]), "/v2/models/m/infer", body),
            ask(server, gives_back([1.0]), "/v2/models/m/versions/new/infer", body),
            ask(server, ok, "/v2/models/m/routing"),
        ]

    return act


def unload(repository):
    make_identity(repository, "m")
    return lambda server: [
        ask(server, ok, "/v2/repository/models/m/unload", b""),
        ask(server, ok, "/v2/repository/models/m/load", b""),
        ask(server, ok, "/v2/models/m/ready"),
    ]


def demand(repository):
    """A model that each first request has to load anew. One whose load failed is tried again after a second."""
    make_identity(repository, "demanded", "TYPE_FP32")

    def act(server):
        replies = [
            ask(server, ok, "/v2/repository/models/demanded/unload", b"{}"),
            ask(server, gives_back([7.0]), "/v2/models/demanded/infer", json_body([7.0], "FP32")),
            ask(server, ok, "/v2/models/demanded/config"),
        ]
        if not all(reply.is_right() for reply in replies):
            time.sleep(1.1)
        return replies
    return act


def load_override(repository):
    make_identity(repository, "m")
    names = [("input", "INPUT0"), ("output", "OUTPUT0")]
    config = {"backend": "identity", "max_batch_size": 4}
    config |= {kind: [{"name": name, "data_type": "TYPE_FP32", "dims": [-1]}] for kind, name in names}
    body = json.dumps({"parameters": {"config": json.dumps(config)}}).encode()
    touch = Touch()

    def act(server):
        touch(repository / "m/1")
        return [ask(server, ok, "/v2/repository/models/m/load", body)]

    return act


def load_failure(repository):
    make_identity(repository, "m")
    directory = make_faulty(repository.parent / "later", fault="model_initialize")

    def right(status, _, body):
        return status == 400 and "faulty backend: model_initialize" in json.loads(body)["error"]

    def act(server):
        if not (repository / "faulty").exists():
            directory.rename(repository / "faulty")
        return [ask(server, right, "/v2/repository/models/faulty/load", b""), ask(server, ok, "/v2/models/m/ready")]

    return act


def load_wide(repository):
    """All that a configuration may say."""
    more = """
    version_policy { specific { versions: [ 1, 3 ] } } instance_group { count: 2 name: "a" }
    dynamic_batching { preferred_batch_size: [ 2, 4 ] priority_levels: 3 default_priority_level: 2
      priority_queue_policy { key: 1 value { timeout_action: DELAY default_timeout_microseconds: 9000000 } } }
    parameters { key: "p" value { string_value: "q" } } response_cache { enable: true }
    """
    make_identity(repository, "m", more=more, versions=(1, 2, 3))
    touch = Touch()

    def act(server):
        for version in "13":
            touch(repository / "m" / version)
        return [
            ask(server, ok, "/v2/repository/models/m/load", b""),
            ask(server, with_json(lambda a: a["dynamic_batching"]["priority_levels"] == 3), "/v2/models/m/config"),
            ask(server, gives_back([1.0]), "/v2/models/m/versions/3/infer", json_body([1.0], "FP32")),
        ]

    return act


def load_with_agents(repository):
    directory = make_identity(repository, "m")
    (directory / "1/data").write_bytes(b"data")
    agent = 'agents { name: "checksum" parameters { key: "SHA256:1/data" value: "%s" } }' % hashlib.sha256(b"data").hexdigest()
    with (directory / "config.pbtxt").open("a") as config:
        config.write(f"model_repository_agents {{ {agent} {agent} }}")
    touch = Touch()

    def act(server):
        touch(directory / "1/data")
        return [ask(server, ok, "/v2/repository/models/m/load", b""), ask(server, gives_back([1.0]), "/v2/models/m/infer", json_body([1.0], "FP32"))]

    return act


def load_warm(repository):
    """Samples of each kind, on two instances."""
    value = 'model_warmup { name: "%s" batch_size: 2 inputs { key: "INPUT0" value { data_type: TYPE_FP32 dims: 3 %s } } }'
    more = "instance_group { count: 2 }" + "".join(
        value % (what.split(":")[0], what) for what in ("zero_data: true", "random_data: true", 'input_data_file: "f"'))
    directory = make_identity(repository, "m", more=more)
    (directory / "warmup").mkdir()
    (directory / "warmup/f").write_bytes(b"x" * 12)
    touch = Touch()

    def act(server):
        touch(repository / "m/1")
        return [ask(server, ok, "/v2/repository/models/m/load", b""), ask(server, ok, "/v2/models/m/ready")]

    return act


def load_onnx(repository):
    copy_model(repository, "add_sub")
    touch = Touch()

    def act(server):
        touch(repository / "add_sub/1")
        return [ask(server, ok, "/v2/repository/models/add_sub/load", b"")]

    return act


def load_ragged(repository):
    """A load and an inference of an ONNX model with batch inputs and outputs, whose batches a custom library forms."""
    make_sums(repository, together=1, more='parameters { key: "MAX_BATCH_VOLUME_BYTES" value { string_value: "100" } }')
    shutil.copy(BUILD / "test-strategies/volume_strategy.so", repository / "sums/1/batchstrategy.so")
    body = json.dumps({"inputs": [{"name": "X", "shape": [1, 3], "datatype": "FP32", "data": [1, 2, 3]}]}).encode()
    right = with_json(lambda answer: {o["name"]: o["data"] for o in answer["outputs"]} == {"SUM": [6], "TWICE": [2, 4, 6]})
    touch = Touch()

    def act(server):
        touch(repository / "sums/1/model.onnx")
        return [ask(server, ok, "/v2/repository/models/sums/load", b""), ask(server, right, "/v2/models/sums/infer", body)]

    return act


def load_ensemble(repository):
    """A load and an inference of an ensemble, one of whose steps changed; the other one stays."""
    make_identity(repository, "a")
    make_identity(repository, "b")
    make_ensemble(repository, "m", chain("a", "b"))
    body = json_body([7.0], "FP32")
    touch = Touch()

    def act(server):
        touch(repository / "a/1")
        touch(repository / "m/1")
        return [ask(server, ok, "/v2/repository/models/m/load", b""), ask(server, gives_back([7.0]), "/v2/models/m/infer", body)]

    return act


def load_isolated(repository):
    """A load and an inference of a model in a process of its own: what fails may be that process's, too. The next load brings another."""
    make_identity(repository, "m", more='parameters { key: "isolate" value { string_value: "process" } }')
    body = json_body([7.0], "FP32")
    touch = Touch()

    def act(server):
        touch(repository / "m/1")
        return [ask(server, ok, "/v2/repository/models/m/load", b""), ask(server, gives_back([7.0]), "/v2/models/m/infer", body)]

    return act


def logged(repository):
    """An inference with an access log and verbose lines, and the log's settings."""
    infer = infer_with("TYPE_FP32", "FP32", [1.5, -2.0, 3.25])(repository)

    def act(server):
        right = with_json(lambda settings: settings["log_verbose_level"] == 1 and settings["log_info"] is True)
        return [*infer(server), ask(server, right, "/v2/logging", b'{"log_info":true,"log_format":"default"}')]

    return act


def traced(repository):
    """An inference, traced with its tensors, and the settings."""
    infer = infer_with("TYPE_FP32", "FP32", [1.5, -2.0, 3.25])(repository)

    def act(server):
        shown = with_json(lambda reply: reply["trace_rate"] == "1")
        replies = infer(server)
        replies.append(ask(server, shown, "/v2/trace/setting", b'{"trace_rate": "1"}'))
        return replies

    return act


SCENARIOS = {
    "infer-fp32": infer_with("TYPE_FP32", "FP32", [1.5, -2.0, 3.25]),
    "infer-fp32-large": infer_with("TYPE_FP32", "FP32", [float(i) for i in range(5000)]),
    "infer-cached": infer_cached,
    "infer-int64": infer_with("TYPE_INT64", "INT64", [-(2**63), 2**63 - 1, 0]),
    "infer-bool": infer_with("TYPE_BOOL", "BOOL", [True, False]),
    "infer-half": infer_with("TYPE_FP16", "FP16", [0.5, -2.0]),
    "infer-bytes": infer_with("TYPE_STRING", "BYTES", ["", "one", "grüße", "x" * 3000]),
    "infer-binary": infer_binary,
    "infer-ensemble": infer_ensemble,
    "infer-raw": infer_raw,
    "infer-gzip": infer_packed("gzip", gzip.compress, gzip.decompress),
    "infer-deflate": infer_packed("deflate", zlib.compress, zlib.decompress),
    "infer-gzip-large": infer_packed_large,
    "infer-chunked": infer_chunked,
    "infer-classes": infer_classes,
    "shared-memory": shared_memory,
    "infer-batched": infer_batched,
    "infer-padded": infer_padded,
    "infer-objective": infer_objective,
    "infer-direct": infer_sequences("direct { }"),
    "infer-oldest": infer_sequences("oldest { max_candidate_sequences: 4 }"),
    "infer-backlog": infer_backlog,
    "iterative": iterative,
    "states": states,
    "infer-kept": infer_kept,
    "infer-onnx": infer_onnx,
    "generate": generate("grüße"),
    "ensemble-stream": ensemble_stream,
    "generate-large": generate(["x" * 1000] * 400),
    "infer-wrong": infer_wrong,
    "infer-fails": infer_fails,
    "logged": logged,
    "traced": traced,
    "statistics": statistics,
    "questions": questions,
    "metrics": metrics,
    "index": index,
    "refused": refused,
    "reload": reload,
    "instances": instances,
    "routed": routed,
    "limited": limited,
    "unload": unload,
    "load-override": load_override,
    "demand": demand,
    "load-failure": load_failure,
    "load-wide": load_wide,
    "load-agents": load_with_agents,
    "load-warm": load_warm,
    "load-onnx": load_onnx,
    "load-ragged": load_ragged,
    "load-ensemble": load_ensemble,
    "load-sequences": load_sequences,
    "load-isolated": load_isolated,
}

# Each time one does so it loads a version, and not only looks at it; the others load none.
LOADS = ("reload", "limited", "unload", "load-override", "demand", "load-failure", "load-wide", "load-agents", "load-warm", "load-isolated", "load-onnx", "load-ragged",
         "load-ensemble", "load-sequences")

MORE_FLAGS = {  # of a scenario
    "demand": ["--model-control-mode=ondemand"],
    "infer-cached": ["--cache-config=local,size=4000"],
    "load-wide": ["--cache-config=local,size=4000"],
    "limited": ["--rate-limit=execution_count"],
    "logged": ["--access-log=/dev/null", "--log-verbose=1"],
    "traced": ["--trace-config=level=TIMESTAMPS", "--trace-config=level=TENSORS", "--trace-config=rate=1",
               "--trace-config=triton,file=/dev/null"],
}
