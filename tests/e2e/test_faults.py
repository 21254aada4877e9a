"""Memory that runs out and system calls that fail, one site after another, while a server starts, serves and stops.

After each failure the process lives, the request has a well-formed answer or its connection is closed, and the next one is
answered exactly right. NEREID_FAULT_SITES=all fails every site (scripts/torture).
"""
import concurrent.futures
import errno
import gzip
import http.client
import json
import os
import signal
import struct

import pytest
from conftest import DEADLINE, SANITIZER_REPORT, Starter, copy_model, make_faulty, make_identity, wait_for
from faults import LIBRARIES, SHORT, Faults, await_descriptors, await_quiet, descriptors, select

# What fails: sets, errno (0: what fits each call).
KINDS = {
    "memory": (["memory"], 0),
    "calls": (["accept", "epoll", "descriptors", "files", "map", "threads", "net"], 0),
    "interrupted": (["accept", "wait", "read", "write"], errno.EINTR),
    "short": (["read", "write"], SHORT),
    "again": (["accept", "read", "write"], errno.EAGAIN),
    "reset": (["read", "write"], errno.ECONNRESET),
}
FLAGS = ["--model-control-mode=explicit", "--load-model=*", "--http-thread-count=2"]
SITES = 25
PROCESS_SITES = 12  # where each site costs a process


# ---- what a scenario asks, and what is right ----


class Reply:
    """An answer and what it should be: `right` is called with it."""

    def __init__(self, answer, right):
        self.answer, self.right = answer, right

    def is_right(self):
        return self.answer is not None and self.right(*self.answer)

    def is_fair(self):
        """Right, or a failure that is told as one, or a closed connection."""
        if self.answer is None or self.is_right():
            return True
        status, headers, body = self.answer
        if status not in (400, 500, 503) or headers.get_content_type() != "application/json":
            return False
        return isinstance(json.loads(body)["error"], str)

    def __repr__(self):
        return f"{self.answer and (self.answer[0], self.answer[2][:300])}"


def ask(server, right, path, body=None, headers=(), port=None):
    """One request on a connection of its own; no answer when the server closes it (or is gone, which is looked at later)."""
    connection = http.client.HTTPConnection("127.0.0.1", port or server.http_port, timeout=20)
    try:
        connection.request("GET" if body is None else "POST", path, body, dict(headers))
        answer = connection.getresponse()
        return Reply((answer.status, answer.headers, answer.read()), right)
    except (http.client.RemoteDisconnected, http.client.IncompleteRead, ConnectionError):
        return Reply(None, right)
    finally:
        connection.close()


def with_json(check):
    return lambda status, headers, body: status == 200 and check(json.loads(body))


def json_body(data, datatype, **more):
    tensor = {"name": "INPUT0", "shape": [1, len(data)], "datatype": datatype, "data": data}
    return json.dumps({"id": "seven", "inputs": [tensor], **more}).encode()


def gives_back(data):
    return with_json(lambda answer: answer["id"] == "seven" and answer["outputs"][0]["data"] == data)


# ---- scenarios: each makes its models and returns what asks ----


def infer_json(repository):
    make_identity(repository, "m")
    data = [1.5, -2.0, 3.25]
    return lambda server: [ask(server, gives_back(data), "/v2/models/m/infer", json_body(data, "FP32"))]


def infer_large_json(repository):
    make_identity(repository, "m")
    data = [float(i) for i in range(5000)]
    return lambda server: [ask(server, gives_back(data), "/v2/models/m/infer", json_body(data, "FP32"))]


def infer_binary(repository):
    make_identity(repository, "m")
    tensor = struct.pack("=5000f", *range(5000))
    head = {
        "inputs": [{"name": "INPUT0", "shape": [1, 5000], "datatype": "FP32", "parameters": {"binary_data_size": len(tensor)}}],
        "outputs": [{"name": "OUTPUT0", "parameters": {"binary_data": True}}],
        "parameters": {"a": 1, "b": "two"},
    }
    text = json.dumps(head).encode()
    headers = {"Inference-Header-Content-Length": str(len(text))}
    return lambda server: [
        ask(server, lambda status, _, body: status == 200 and body.endswith(tensor), "/v2/models/m/infer", text + tensor, headers)
    ]


def infer_bytes(repository):
    make_identity(repository, "m", type="TYPE_STRING")
    data = ["", "one", "grüße", "x" * 3000]
    return lambda server: [ask(server, gives_back(data), "/v2/models/m/infer", json_body(data, "BYTES"))]


def infer_gzip(repository):
    make_identity(repository, "m")
    data = [float(i) for i in range(2000)]
    headers = {"Content-Encoding": "gzip", "Accept-Encoding": "gzip"}

    def right(status, headers, body):
        plain = gzip.decompress(body) if headers.get("Content-Encoding") == "gzip" else body
        return gives_back(data)(status, headers, plain)

    return lambda server: [ask(server, right, "/v2/models/m/infer", gzip.compress(json_body(data, "FP32")), headers)]


def infer_batched(repository):
    batching = "dynamic_batching { preferred_batch_size: [ 3 ] max_queue_delay_microseconds: 3000 }"
    make_identity(repository, "m", more=batching + ' parameters { key: "execute_delay_ms" value { string_value: "1" } }')
    pool = concurrent.futures.ThreadPoolExecutor(3)

    def one(server, data):
        return ask(server, gives_back(data), "/v2/models/m/infer", json_body(data, "FP32"))

    return lambda server: list(pool.map(lambda i: one(server, [float(i), 2.0]), range(3)))


def infer_onnx(repository):
    copy_model(repository, "add_sub")
    tensors = [
        {"name": f"INPUT{i}", "shape": [1, 16], "datatype": "FP32", "data": [i + 1.0] * 16} for i in range(2)
    ]
    body = json.dumps({"inputs": tensors}).encode()

    def right(answer):
        return {o["name"]: o["data"] for o in answer["outputs"]} == {"OUTPUT0": [3.0] * 16, "OUTPUT1": [-1.0] * 16}

    return lambda server: [ask(server, with_json(right), "/v2/models/add_sub/infer", body)]


def statistics(repository):
    make_identity(repository, "m")
    make_identity(repository, "n")
    right = with_json(lambda answer: [m["name"] for m in answer["model_stats"]] == ["m", "n"])
    return lambda server: [ask(server, right, "/v2/models/stats")]


def questions(repository):
    make_identity(repository, "m")
    return lambda server: [
        ask(server, with_json(lambda a: a["name"] == "triton"), "/v2"),
        ask(server, with_json(lambda a: a["platform"] == "identity" or a["name"] == "m"), "/v2/models/m"),
        ask(server, with_json(lambda a: a["max_batch_size"] == 8), "/v2/models/m/config"),
        ask(server, lambda status, _, body: status == 200, "/v2/health/ready"),
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
    return lambda server: [ask(server, lambda status, _, body: status == 413, "/v2/models/m/infer", b"{", headers)]


def reload(repository):
    make_identity(repository, "m")
    make_identity(repository, "n")
    right = with_json(lambda answer: answer["outputs"][0]["data"] == [7])
    body = b'{"inputs":[{"name":"INPUT0","shape":[1,1],"datatype":"FP32","data":[7]}]}'
    changes = [4_000_000_000]

    def act(server):
        changes[0] += 1
        make_identity(repository, "m", more="instance_group { count: %d }" % (1 + changes[0] % 2))
        os.utime(repository / "m", ns=(0, changes[0] * 10**9))
        return [
            ask(server, lambda status, _, body: status == 200, "/v2/repository/models/m/load", b""),
            ask(server, right, "/v2/models/m/infer", body),  # the old one or the new one
            ask(server, right, "/v2/models/n/infer", body),
        ]

    return act


def unload(repository):
    make_identity(repository, "m")

    def act(server):
        return [
            ask(server, lambda status, _, body: status == 200, "/v2/repository/models/m/unload", b""),
            ask(server, lambda status, _, body: status == 200, "/v2/repository/models/m/load", b""),
            ask(server, lambda status, _, body: status == 200, "/v2/models/m/ready"),
        ]

    return act


def load_override(repository):
    make_identity(repository, "m")
    config = 'backend: "identity" max_batch_size: 4'
    names = [("input", "INPUT0"), ("output", "OUTPUT0")]
    config = {"backend": "identity", "max_batch_size": 4}
    config |= {kind: [{"name": name, "data_type": "TYPE_FP32", "dims": [-1]}] for kind, name in names}
    body = json.dumps({"parameters": {"config": json.dumps(config)}}).encode()
    return lambda server: [ask(server, lambda status, _, body: status == 200, "/v2/repository/models/m/load", body)]


def load_failure(repository):
    make_identity(repository, "m")
    folder = make_faulty(repository.parent / "later", fault="model_initialize")

    def right(status, _, body):
        return status == 400 and "faulty backend: model_initialize" in json.loads(body)["error"]

    def act(server):
        if not (repository / "faulty").exists():
            folder.rename(repository / "faulty")
        return [
            ask(server, right, "/v2/repository/models/faulty/load", b""),
            ask(server, lambda status, _, body: status == 200, "/v2/models/m/ready"),
        ]

    return act


def onnx_load(repository):
    copy_model(repository, "add_sub")
    changes = [4_000_000_000]

    def act(server):
        changes[0] += 1
        os.utime(repository / "add_sub/config.pbtxt", ns=(0, changes[0] * 10**9))
        return [ask(server, lambda status, _, body: status == 200, "/v2/repository/models/add_sub/load", b"")]

    return act


SCENARIOS = [
    infer_json, infer_large_json, infer_binary, infer_bytes, infer_gzip, infer_batched, infer_onnx, statistics, questions,
    metrics, index, refused, reload, unload, load_override, load_failure, onnx_load,
]


# ---- a server that serves ----


@pytest.fixture
def faults(tmp_path):
    return Faults(tmp_path / "faults")


def find_sites(server, faults, sets, act):
    """The stacks of all calls while `act` goes well, in order."""
    for _ in range(2):  # the second time nothing is made that stays
        faults.arm(sets)
        replies = act(server)
        assert all(reply.is_right() for reply in replies), f"without a failure: {replies}\n{server.log}"
        await_quiet(faults)
        faults.disarm()
    return list(faults.stacks())


def fail_one(server, faults, act, sets, **plan):
    """Arms, acts and acts again; returns the replies. `plan`: see Faults.arm."""
    log_size = len(server.log)
    faults.arm(sets, **plan)
    try:
        broken = act(server)
        await_quiet(faults)
    finally:
        faults.disarm()
    told = lambda: f"{plan} at {faults.where()}\nthen {broken}\n{server.log[log_size:]}"
    assert server.process.poll() is None, f"the server ended\n{told()}"
    assert all(reply.is_fair() for reply in broken), told()
    right = act(server)
    assert all(reply.is_right() for reply in right), f"the next time {right}, after {told()}"
    return broken + right


def check_counters(server, replies):
    """No request that was answered is missing in the counters, and none is thought to be inside."""
    for model in json.loads(server.ask("/v2/models/stats").body)["model_stats"]:
        counted = model["inference_stats"]["success"]["count"]
        lost = sum(reply.answer is None for reply in replies)
        answered = sum(reply.answer is not None and reply.answer[0] == 200 for reply in replies)
        assert answered <= counted <= answered + lost, f"{counted} counted, {answered} answered, {lost} lost"
    text = server.ask("/metrics", port=server.metrics_port).text
    pending = [line for line in text.splitlines() if line.startswith("nv_inference_pending_request_count{")]
    assert pending and all(line.endswith(" 0") for line in pending), pending


def serve(start_server, repository, faults, scenario):
    """A server that the scenario has visited, its act, and the replies so far."""
    act = scenario(repository)
    server = start_server(repository, flags=FLAGS, variables=faults.variables)
    return server, act, act(server) + act(server)


def finish(server, scenario, replies, open_before):
    await_descriptors(server, open_before)
    if scenario.__name__.startswith("infer"):
        check_counters(server, replies)
    server.stop()


@pytest.mark.parametrize("kind", ["memory", "calls"])
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_a_server_outlives_each_failure(start_server, repository, faults, scenario, kind):
    server, act, replies = serve(start_server, repository, faults, scenario)
    open_before = descriptors(server)
    sets, error = KINDS[kind]
    stacks = find_sites(server, faults, sets, act)
    for stack in select(list(dict.fromkeys(stacks)), SITES):
        replies += fail_one(server, faults, act, sets, at=1, error=error, stack=stack)
    finish(server, scenario, replies, open_before)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_a_server_outlives_a_time_without_memory(start_server, repository, faults, scenario):
    """From one call on there is no memory at all, until the scenario is over."""
    server, act, replies = serve(start_server, repository, faults, scenario)
    open_before = descriptors(server)
    count = len(find_sites(server, faults, ["memory"], act))
    for at in select(range(1, count + 1), SITES // 2):
        replies += fail_one(server, faults, act, ["memory"], at=at, count=1 << 40)
    finish(server, scenario, replies, open_before)


TRANSFERS = [infer_large_json, infer_binary, infer_gzip, metrics, refused, reload]


@pytest.mark.parametrize("kind", ["interrupted", "short", "again", "reset"])
@pytest.mark.parametrize("scenario", TRANSFERS, ids=lambda scenario: scenario.__name__)
def test_transfers_that_stop_halfway_are_gone_on_with(start_server, repository, faults, scenario, kind):
    server, act, replies = serve(start_server, repository, faults, scenario)
    open_before = descriptors(server)
    sets, error = KINDS[kind]
    for at in select(range(1, len(find_sites(server, faults, sets, act)) + 1), SITES // 2):
        some = fail_one(server, faults, act, sets, at=at, error=error)
        assert kind == "reset" or all(reply.is_right() for reply in some), f"{kind} at {faults.where()}: {some}\n{server.log}"
    finish(server, scenario, replies, open_before)


# ---- the start and the end: a process for each site ----


BODY = b'{"inputs":[{"name":"INPUT0","shape":[1,1],"datatype":"FP32","data":[7]}]}'


class Life:
    """One server from its start to its end, with a control block of its own."""

    def __init__(self, nereid, backends, folder, repository):
        folder.mkdir()
        self.faults = Faults(folder / "faults")
        self.starter = Starter(nereid, backends, folder)
        self.repository = repository
        self.server = None

    def start(self):
        """True when the server is ready, False when it ended."""
        self.server = self.starter(self.repository, flags=FLAGS, variables=self.faults.variables, wait=False)

        def ended_or_ready():
            if self.server.process.poll() is not None:
                return "ended"
            log = self.server.log
            if log.count("Started ") < 2 or "Started Metrics Service" not in log:
                return None
            self.server.await_ports()
            return self.server.ask("/v2/health/ready").status == 200 and "ready"

        return wait_for("the end or readiness", ended_or_ready, deadline=20) == "ready"

    def told(self):
        return f"{self.faults.where()}\n{self.server.log}"

    def check_failed_start(self):
        lines = [line for line in self.server.log.splitlines() if line.startswith("error: ")]
        assert self.server.process.returncode == 1 and len(lines) == 1, self.told()
        assert not SANITIZER_REPORT.search(self.server.log), self.told()

    def check_service(self):
        answer = self.server.ask("/v2/models/m/infer", BODY)
        assert answer.status == 200 and json.loads(answer.body)["outputs"][0]["data"] == [7], self.told()

    def stop(self, deadline=20):
        self.server.process.send_signal(signal.SIGTERM)
        assert self.server.process.wait(deadline) == 0, self.told()
        assert not SANITIZER_REPORT.search(self.server.log), self.told()

    def kill(self):
        if self.server is not None and self.server.process.poll() is None:
            self.server.process.kill()
            self.server.process.wait()


@pytest.fixture
def new_life(nereid, backends, tmp_path, repository):
    make_identity(repository, "m")
    lives = []

    def make():
        lives.append(Life(nereid, backends, tmp_path / f"life{len(lives)}", repository))
        return lives[-1]

    yield make
    for life in lives:
        life.kill()


def find_process_sites(life, sets, during):
    """Distinct stacks of the calls while the server starts or stops."""
    if during == "start":
        life.faults.arm(sets)
    assert life.start(), life.server.log
    life.faults.disarm()
    if during == "stop":
        life.faults.arm(sets)
    life.stop()
    return list(dict.fromkeys(life.faults.stacks()))


def in_pairs(call, arguments):
    """Two processes at a time."""
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for _ in pool.map(call, arguments):
            pass


@pytest.mark.parametrize("kind", ["memory", "calls"])
def test_a_start_that_fails_says_so_in_one_line(new_life, kind):
    sets, error = KINDS[kind]

    def try_site(planned):
        life, stack = planned
        life.faults.arm(sets, at=1, error=error, stack=stack)
        ready = life.start()
        life.faults.disarm()
        if not ready:
            life.check_failed_start()
            return
        life.check_service()
        life.stop()

    stacks = find_process_sites(new_life(), sets, "start")
    in_pairs(try_site, [(new_life(), stack) for stack in select(stacks, PROCESS_SITES)])


@pytest.mark.parametrize("kind", ["memory", "calls"])
def test_a_stop_ends_in_good_order_whatever_fails(new_life, kind):
    sets, error = KINDS[kind]

    def try_site(planned):
        life, stack = planned
        assert life.start(), life.server.log
        life.check_service()
        life.faults.arm(sets, at=1, error=error, stack=stack)
        life.stop()

    stacks = find_process_sites(new_life(), sets, "stop")
    in_pairs(try_site, [(new_life(), stack) for stack in select(stacks, PROCESS_SITES)])
