# SPDX-License-Identifier: Apache-2.0
"""What servers trace: their JSON files as Triton's summary reads them, and a collector of OpenTelemetry's spans."""
import base64
import collections
import http.server
import json
import re
import threading

from conftest import wait_for
from google.protobuf import json_format
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

ON = ("--trace-config=rate=1", "--trace-config=level=TIMESTAMPS")
TENSORS = "--trace-config=level=TENSORS"
LARGEST_BODY = 20 << 20  # what collectors take unless told otherwise
CORE = ["REQUEST_START", "QUEUE_START", "COMPUTE_START", "COMPUTE_INPUT_END", "COMPUTE_OUTPUT_START", "COMPUTE_END", "REQUEST_END"]
HTTP = ["HTTP_RECV_START", "HTTP_RECV_END", "INFER_RESPONSE_COMPLETE", "HTTP_SEND_START", "HTTP_SEND_END"]


def to_file(path):
    return f"--trace-config=triton,file={path}"


class Trace:
    """All entries of one id, put together."""

    def __init__(self):
        self.facts, self.moments, self.tensors = {}, {}, []

    def __getitem__(self, key):
        return self.facts[key]

    @property
    def names(self):
        return list(self.moments)

    def in_order(self, *names):
        times = [self.moments[name] for name in names]
        assert times == sorted(times), self.moments


def read_traces(path):
    """The file's traces by id, in the order of the requests: a trace ends after its reply, so that the file may have another order.
    Each entry has a form that Triton's has."""
    traces = collections.defaultdict(Trace)
    for entry in json.loads(path.read_text()):
        trace = traces[entry["id"]]
        if "model_name" in entry:
            assert set(entry) <= {"id", "model_name", "model_version", "request_id", "parent_id"}, entry
            assert not trace.facts, "named twice"
            trace.facts = entry
        elif "timestamps" in entry:
            assert set(entry) == {"id", "timestamps"}, entry
            for moment in entry["timestamps"]:
                assert set(moment) == {"name", "ns"}, entry
                trace.moments[moment["name"]] = moment["ns"]
        else:
            assert set(entry) == {"id", "activity", "tensor"}, entry
            assert set(entry["tensor"]) == {"name", "data", "shape", "dtype"}, entry
            trace.tensors.append((entry["activity"], entry["tensor"]))
    return dict(sorted(traces.items(), key=lambda entry: int(entry[0])))


class Collector:
    """Listens where --trace-config=opentelemetry,url points and keeps what comes."""

    def __init__(self, status=200):
        self.status, self.requests, self.resources, self.headers = status, 0, [], []
        self.spans = []
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                outer.take(self.headers, self.rfile.read(int(self.headers["Content-Length"])), self.path)
                self.send_response(outer.status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.02,))

    def take(self, headers, body, path):
        assert path == "/v1/traces" and len(body) <= LARGEST_BODY
        message = decode(headers["Content-Type"], body)
        self.requests += 1
        self.headers.append(dict(headers))
        if self.status != 200:
            return
        for group in message.resource_spans:
            self.resources.append(attributes(group.resource))
            for scope in group.scope_spans:
                assert scope.scope.name == "triton-server"
                self.spans += scope.spans

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server.server_port}/v1/traces"

    def flags(self, *more, delay=50):
        settings = ["mode=opentelemetry", f"opentelemetry,url={self.url}", f"opentelemetry,bsp_schedule_delay={delay}", *more]
        return [f"--trace-config={setting}" for setting in settings]

    def await_spans(self, count):
        wait_for(f"{count} spans", lambda: len(self.spans) >= count)
        assert len(self.spans) == count, [span.name for span in self.spans]
        return self.spans

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


def decode(content_type, body):
    """nereid sends protobuf; Triton 2.51 sends JSON, in which ids are in hexadecimal and not in base64."""
    if content_type == "application/x-protobuf":
        return ExportTraceServiceRequest.FromString(body)
    assert content_type == "application/json"
    text = re.sub(r'("(?:traceId|spanId|parentSpanId)":)"(\w+)"',
                  lambda found: f'{found[1]}"{base64.b64encode(bytes.fromhex(found[2])).decode()}"', body.decode())
    return json_format.Parse(text, ExportTraceServiceRequest())


def attributes(thing):
    return {pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in thing.attributes}


def by_name(spans):
    found = {}
    for span in spans:
        assert span.name not in found, f"two spans {span.name}"
        found[span.name] = span
    return found


def event_names(span):
    return [event.name for event in span.events]
