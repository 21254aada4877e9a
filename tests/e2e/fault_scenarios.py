"""What a server does while something in it fails: each scenario makes its models and returns what asks, and knows what is right."""
import concurrent.futures
import contextlib
import gzip
import http.client
import json
import os
import struct
import zlib

from client_memory import BASE, inference, place, region
from conftest import copy_model, make_faulty, make_identity
from streaming import events


# Triton's status is 400 when a model does not load, whatever the reason, and for a model that is not there now.
AS_TRITON = ("load failed for model ", "Model version not ready")


class Reply:
    """An answer and what it should be: `right` is called with it."""

    def __init__(self, answer, right):
        self.answer, self.right = answer, right

    def is_right(self):
        return self.answer is not None and self.right(*self.answer)

    def is_fair(self):
        """Right, or a failure that is told as one, or a closed connection."""
        if self.answer is None:
            return True
        status, headers, body = self.answer
        if headers.get_content_type() == "text/event-stream" and not self.is_right():
            return status in (200, 500, 503) and "error" in events(body.decode())[-1]
        if headers.get_content_type() != "application/json" or status < 400:
            return self.is_right()
        error = json.loads(body)["error"]
        return status in (500, 503) or self.is_right() or (status == 400 and error.startswith(AS_TRITON))

    def __repr__(self):
        return f"{self.answer and (self.answer[0], self.answer[2][:300])}"


def connect(port):
    return http.client.HTTPConnection("127.0.0.1", port, timeout=60)


def ask(server, right, path, body=None, headers=(), port=None):
    """One request on a connection of its own."""
    with contextlib.closing(connect(port or server.http_port)) as connection:
        return ask_on(connection, right, path, body, headers)


def ask_on(connection, right, path, body=None, headers=()):
    """One request; no answer when the server closes the connection (or is gone, which is looked at later)."""
    try:
        connection.request("GET" if body is None else "POST", path, body, dict(headers))
        answer = connection.getresponse()
        return Reply((answer.status, answer.headers, answer.read()), right)
    except (http.client.RemoteDisconnected, http.client.IncompleteRead, ConnectionError):
        connection.close()
        return Reply(None, right)


def ok(status, headers, body):
    return status == 200


def with_json(check):
    return lambda status, headers, body: status == 200 and check(json.loads(body))


def json_body(data, datatype, **more):
    tensor = {"name": "INPUT0", "shape": [1, len(data)], "datatype": datatype, "data": data}
    return json.dumps({"id": "seven", "inputs": [tensor], **more}).encode()


def gives_back(data):
    return with_json(lambda answer: answer["id"] == "seven" and answer["outputs"][0]["data"] == data)


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


def infer_with(type, datatype, data):
    """A scenario that sends `data` as JSON."""

    def scenario(repository):
        make_identity(repository, "m", type=type)
        return lambda server: [ask(server, gives_back(data), "/v2/models/m/infer", json_body(data, datatype))]

    return scenario


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


class Touch:
    """Gives a file a new time each time, so that its model counts as changed."""

    def __init__(self):
        self.seconds = 4_000_000_000

    def __call__(self, path):
        self.seconds += 1
        os.utime(path, ns=(0, self.seconds * 10**9))
        return self.seconds


def reload(repository):
    make_identity(repository, "m")
    make_identity(repository, "n")
    right = with_json(lambda answer: answer["outputs"][0]["data"] == [7])
    body = b'{"inputs":[{"name":"INPUT0","shape":[1,1],"datatype":"FP32","data":[7]}]}'
    touch = Touch()

    def act(server):
        make_identity(repository, "m", more="instance_group { count: %d }" % (1 + touch.seconds % 2))
        touch(repository / "m")
        return [
            ask(server, ok, "/v2/repository/models/m/load", b""),
            ask(server, right, "/v2/models/m/infer", body),  # the old one or the new one
            ask(server, right, "/v2/models/n/infer", body),
        ]

    return act


def unload(repository):
    make_identity(repository, "m")
    return lambda server: [
        ask(server, ok, "/v2/repository/models/m/unload", b""),
        ask(server, ok, "/v2/repository/models/m/load", b""),
        ask(server, ok, "/v2/models/m/ready"),
    ]


def load_override(repository):
    make_identity(repository, "m")
    names = [("input", "INPUT0"), ("output", "OUTPUT0")]
    config = {"backend": "identity", "max_batch_size": 4}
    config |= {kind: [{"name": name, "data_type": "TYPE_FP32", "dims": [-1]}] for kind, name in names}
    body = json.dumps({"parameters": {"config": json.dumps(config)}}).encode()
    return lambda server: [ask(server, ok, "/v2/repository/models/m/load", body)]


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
    parameters { key: "p" value { string_value: "q" } }
    """
    make_identity(repository, "m", more=more, versions=(1, 2, 3))
    touch = Touch()

    def act(server):
        touch(repository / "m/config.pbtxt")
        return [
            ask(server, ok, "/v2/repository/models/m/load", b""),
            ask(server, with_json(lambda a: a["dynamic_batching"]["priority_levels"] == 3), "/v2/models/m/config"),
            ask(server, gives_back([1.0]), "/v2/models/m/versions/3/infer", json_body([1.0], "FP32")),
        ]

    return act


def load_onnx(repository):
    copy_model(repository, "add_sub")
    touch = Touch()

    def act(server):
        touch(repository / "add_sub/config.pbtxt")
        return [ask(server, ok, "/v2/repository/models/add_sub/load", b"")]

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
    "infer-int64": infer_with("TYPE_INT64", "INT64", [-(2**63), 2**63 - 1, 0]),
    "infer-bool": infer_with("TYPE_BOOL", "BOOL", [True, False]),
    "infer-half": infer_with("TYPE_FP16", "FP16", [0.5, -2.0]),
    "infer-bytes": infer_with("TYPE_STRING", "BYTES", ["", "one", "grüße", "x" * 3000]),
    "infer-binary": infer_binary,
    "infer-raw": infer_raw,
    "infer-gzip": infer_packed("gzip", gzip.compress, gzip.decompress),
    "infer-deflate": infer_packed("deflate", zlib.compress, zlib.decompress),
    "infer-gzip-large": infer_packed_large,
    "infer-chunked": infer_chunked,
    "infer-classes": infer_classes,
    "shared-memory": shared_memory,
    "infer-batched": infer_batched,
    "infer-kept": infer_kept,
    "infer-onnx": infer_onnx,
    "generate": generate("grüße"),
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
    "unload": unload,
    "load-override": load_override,
    "load-failure": load_failure,
    "load-wide": load_wide,
    "load-onnx": load_onnx,
}

MORE_FLAGS = {  # of a scenario
    "logged": ["--access-log=/dev/null", "--log-verbose=1"],
    "traced": ["--trace-config=level=TIMESTAMPS", "--trace-config=level=TENSORS", "--trace-config=rate=1",
               "--trace-config=triton,file=/dev/null"],
}
