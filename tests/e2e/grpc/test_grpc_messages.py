# SPDX-License-Identifier: Apache-2.0
"""Messages that lie about their size, their coding or what is in them, and tensors that lie about theirs.

Scorecard rows 10, 13, 17, 20 and 21 over gRPC.
"""
import gzip
import struct
import zlib

import pytest
from conftest import ELEMENT_SIZES, EVERYTHING, Starter, make_identity, wait_for
from http2 import (
    END_STREAM, INITIAL_WINDOW_SIZE, INTERNAL, INVALID_ARGUMENT, NOT_FOUND, OK, RESOURCE_EXHAUSTED, STREAM_INFER, Connection,
    UNAVAILABLE, Result, data, headers, infer_request, message, pending, request_block, reset_stream, window_update,
)
from oracle import MIB, peak, reset_peak, rss, survives
from tritonclient.grpc import service_pb2

pytestmark = pytest.mark.slow

BLOCK = request_block()
REQUEST = infer_request()


# --- framing


FRAMINGS = {
    "2^32-1 bytes": ([message(size=(1 << 32) - 1)], [], RESOURCE_EXHAUSTED, "larger than max"),
    "2^31 bytes": ([message(size=1 << 31)], [], RESOURCE_EXHAUSTED, "larger than max"),
    "flag 2": ([message(REQUEST, flag=2)], [], INTERNAL, "flag"),
    "flag 255": ([message(REQUEST, flag=255)], [], INTERNAL, "flag"),
    "packed without a coding": ([message(gzip.compress(REQUEST), flag=1)], [], INTERNAL, "no grpc-encoding"),
    "packed as another coding": ([message(gzip.compress(REQUEST), 1)], [("grpc-encoding", "deflate")], INTERNAL, "not what"),
    "cut while packed": ([message(gzip.compress(REQUEST)[:-9], 1)], [("grpc-encoding", "gzip")], INTERNAL, "not what"),
    "packed, and more": ([message(gzip.compress(REQUEST) + b"x", 1)], [("grpc-encoding", "gzip")], INTERNAL, "not what"),
    "wrong checksum": ([message(gzip.compress(REQUEST)[:-8] + bytes(8), 1)], [("grpc-encoding", "gzip")], INTERNAL, "not what"),
    "unknown coding": ([message(REQUEST, 1)], [("grpc-encoding", "snappy")], 12, "'snappy' is not supported"),
    "cut": ([message(REQUEST, size=len(REQUEST) + 1)], [], INTERNAL, "not complete"),
    "cut prefix": ([b"\0\0\0"], [], INTERNAL, "not complete"),
    "nothing": ([b""], [], INTERNAL, "no message"),
    "two": ([message(REQUEST), message(REQUEST)], [], INTERNAL, "more than one"),
}


@pytest.mark.parametrize("messages, more, status, text", FRAMINGS.values(), ids=FRAMINGS)
def test_a_message_that_is_none_is_told_why(target, messages, more, status, text):
    with survives(target, singing=False), Connection(target) as connection:
        result = connection.ask(messages=messages, more=more)
        assert result.status == status, result
        assert text in result.text, result
        assert connection.ask(messages=[message(REQUEST)]).status == OK


CODINGS = {"gzip": gzip.compress, "deflate": zlib.compress}


@pytest.mark.parametrize("coding", CODINGS)
def test_packed_messages_are_taken(target, coding):
    with survives(target, singing=False), Connection(target) as connection:
        result = connection.ask(messages=[message(CODINGS[coding](REQUEST), 1)], more=[("grpc-encoding", coding)])
        assert result.status == OK, result
        assert connection.ask(messages=[message(REQUEST)], more=[("grpc-encoding", coding)]).status == OK  # need not be


def test_a_message_may_come_byte_by_byte(target):
    with survives(target, singing=False), Connection(target) as connection:
        stream = connection.new_stream()
        connection.send(headers(stream, BLOCK), data(stream, message(REQUEST), END_STREAM, most=1))
        assert connection.result(stream).status == OK


def test_announced_bytes_cost_nothing(start_release, targets):
    """4,000 messages of 2 GiB that never come: no memory, and others are served meanwhile."""
    server = start_release(targets, flags=[*EVERYTHING, "--grpc-max-inflight-bytes=4000000000"])
    large = message(infer_request(shape=(1, 1 << 20), raw=[bytes(4 << 20)]))
    with survives(server, grown_bytes=16 * MIB):  # `large` takes eight of them, there and back
        memory = rss(server)
        reset_peak(server)
        held = [Connection(server) for _ in range(4)]
        for connection in held:
            for _ in range(1000):
                connection.call(messages=[message(b"x", size=(1 << 31) - 1)], end=False)
            connection.ping()
        assert peak(server) - memory < 4000 * 25_000  # calls, and the first page of each
        with Connection(server) as honest:
            assert honest.ask(messages=[large]).status == OK
        for connection in held:
            connection.socket.close()


@pytest.mark.parametrize("coding", CODINGS)
def test_bombs_stop_at_the_budget(start_release, targets, coding):
    """256 KiB that become 256 MiB, eight times at once."""
    limit = 64 * MIB
    server = start_release(targets, flags=[*EVERYTHING, f"--grpc-max-inflight-bytes={limit}"])
    bomb = message(CODINGS[coding](bytes(1 << 28)), 1)
    with survives(server, grown_bytes=8 * MIB):
        memory = rss(server)
        reset_peak(server)
        with Connection(server) as connection:
            streams = [connection.call(messages=[bomb], more=[("grpc-encoding", coding)]) for _ in range(8)]
            results = [connection.result(stream) for stream in streams]
        assert {result.status for result in results} == {RESOURCE_EXHAUSTED}, results
        assert peak(server) - memory < 3 * limit


def test_typed_contents_are_within_the_budget(start_release, targets):
    """20 MiB of INT64 of one byte each would be 160 MiB; 4 MiB may become 32."""
    limit = 64 * MIB
    server = start_release(targets, flags=[*EVERYTHING, f"--grpc-max-inflight-bytes={limit}"])
    large, small = (message(typed("t_int64", "INT64", size, int64_contents=[1] * size)) for size in (20 * MIB, 4 * MIB))
    with survives(server, grown_bytes=8 * MIB), Connection(server) as connection:
        memory = rss(server)
        reset_peak(server)
        refused = connection.ask(messages=[large])
        assert (refused.status, refused.text) == (
            UNAVAILABLE, "the server holds as many bytes of requests as it may, try again later")
        assert peak(server) - memory < limit
        assert connection.ask(messages=[small]).status == OK


def test_a_million_empty_messages_are_answered(release_target):
    """Each is a request without a model. The first 200,000 are sent by a client that reads nothing meanwhile."""
    with survives(release_target, grown_bytes=32 * MIB, singing=False):
        memory = rss(release_target)
        reset_peak(release_target)
        with Connection(release_target, values=[(INITIAL_WINDOW_SIZE, 0)]) as connection:
            stream = connection.call(STREAM_INFER, end=False)
            batch = message() * 200_000
            connection.upload(stream, batch)
            connection.ping()
            connection.send(window_update(1 << 30, stream))
            answers = connection.streams.setdefault(stream, Result())
            connection.read_until(lambda: len(answers.body) > 0)
            size = 5 + struct.unpack_from(">I", answers.body, 1)[0]
            for count in range(1, 6):
                connection.read_until(lambda: len(answers.body) == size * 200_000 * count)
                if count < 5:
                    connection.upload(stream, batch)
            connection.upload(stream, b"", END_STREAM)
            assert connection.result(stream).status == OK
            assert bytes(answers.body[:size]) * 1_000_000 == answers.body
        assert peak(release_target) - memory < 96 * MIB


# --- protobuf


def nested(depth):
    """A map entry's parameter in a parameter … as unknown groups: field 99, start and end."""
    return b"\x9b\x06" * depth + b"\x9c\x06" * depth


def varint(value):
    out = b""
    while value >= 128:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def tagged(field, payload):
    return varint(field << 3 | 2) + varint(len(payload)) + payload


PROTOBUF = {
    "groups 1,000,000 deep": lambda: nested(1_000_000),
    "groups that do not end": lambda: b"\x9b\x06" * 1000,
    "a group's end alone": lambda: b"\x9c\x06",
    "field 0": lambda: b"\x02\x01x",
    "wire type 7": lambda: b"\x0f",
    "varint of 11 bytes": lambda: b"\x08" + b"\xff" * 11,
    "length of 2^64-1": lambda: b"\x0a" + b"\xff" * 9 + b"\x01",
    "length beyond the end": lambda: b"\x0a\x7fx",
    "no valid UTF-8": lambda: tagged(1, b"\xff\xfe"),
    "1,000,000 inputs": lambda: tagged(5, b"") * 1_000_000,
    "1,000,000 outputs": lambda: tagged(1, b"t_fp32") + tagged(6, tagged(1, b"OUTPUT0")) * 1_000_000,
    "1,000,000 parameters": lambda: tagged(4, tagged(1, b"k") + tagged(2, b"\x08\x01")) * 1_000_000,
    "1,000,000 dimensions": lambda: REQUEST[: REQUEST.index(b"\x2a")] + tagged(5, tagged(1, b"INPUT0") + tagged(2, b"FP32") + tagged(3, b"\x01" * 1_000_000)),
    "1,000,000 raw contents": lambda: REQUEST + tagged(7, b"") * 1_000_000,
    "100,000 outputs": lambda: REQUEST + b"".join(tagged(6, tagged(1, b"OUTPUT%d" % i)) for i in range(100_000)),
}


@pytest.mark.parametrize("make", PROTOBUF.values(), ids=PROTOBUF)
def test_a_request_that_is_none_is_refused(target, release_target, make):
    request_bytes = make()
    with survives(target, singing=False), Connection(target) as connection:
        result = connection.ask(messages=[message(request_bytes)])
        assert result.status in (INVALID_ARGUMENT, RESOURCE_EXHAUSTED), result
        assert 0 < len(result.text) < 1024, result
    with survives(release_target, grown_bytes=8 * MIB, singing=False), Connection(release_target) as connection:
        memory = rss(release_target)
        reset_peak(release_target)
        assert connection.ask(messages=[message(request_bytes)]).status in (INVALID_ARGUMENT, RESOURCE_EXHAUSTED)
        assert peak(release_target) - memory < 5 * len(request_bytes) + MIB


# --- memory


def typed(model, datatype, count, **contents):
    request = service_pb2.ModelInferRequest(model_name=model)
    tensor = request.inputs.add(name="INPUT0", datatype=datatype, shape=(1, count))
    for name, values in contents.items():
        getattr(tensor.contents, name).extend(values)
    return request.SerializeToString()


MILLION = 1_000_000
LARGE = {  # request, bytes of its tensor
    "raw": lambda: (infer_request(shape=(1, MILLION), raw=[bytes(4 * MILLION)]), 4 * MILLION),
    "raw empty strings": lambda: (infer_request("t_bytes", (1, MILLION), [bytes(4 * MILLION)], "BYTES"), 4 * MILLION),
    "empty strings": lambda: (typed("t_bytes", "BYTES", MILLION, bytes_contents=[b""] * MILLION), 4 * MILLION),
    "INT64 of one byte": lambda: (typed("t_int64", "INT64", MILLION, int64_contents=[1] * MILLION), 8 * MILLION),
    "FP32": lambda: (typed("t_fp32", "FP32", MILLION, fp32_contents=[1.5] * MILLION), 4 * MILLION),
    "BOOL": lambda: (typed("t_bool", "BOOL", 4 * MILLION, bool_contents=[True] * 4 * MILLION), 4 * MILLION),
}


@pytest.mark.parametrize("make", LARGE.values(), ids=LARGE)
def test_a_request_takes_five_times_its_size_at_most(release_target, make):
    """Row 10; a million empty strings are CVE 2026-47479. The reply is as large as the tensor."""
    request, size = make()
    with survives(release_target, grown_bytes=8 * MIB, singing=False), Connection(release_target) as connection:
        connection.ping()
        memory = rss(release_target)
        reset_peak(release_target)
        result = connection.ask(messages=[message(request)])
        assert result.status == OK, result
        assert len(result.body) > size
        assert peak(release_target) - memory < 5 * max(size, len(request)) + MIB


def test_requests_that_wait_for_their_model_are_within_the_budget(start_release, repository):
    """Eight streams, 4,096 requests each: 40 bytes of a message are 5 KiB while it waits."""
    limit = 32 * MIB
    make_identity(repository, "canary")
    make_identity(repository, "slow", more='parameters { key: "execute_delay_ms" value { string_value: "3000" } }')
    server = start_release(repository, flags=[*EVERYTHING, f"--grpc-max-inflight-bytes={limit}"])
    request = message(infer_request("slow", shape=(1, 1), raw=[bytes(4)]))
    with survives(server, grown_bytes=16 * MIB):
        memory = rss(server)
        reset_peak(server)
        with Connection(server) as connection:
            streams = [connection.call(STREAM_INFER, end=False) for _ in range(8)]
            for stream in streams:
                connection.upload(stream, request * 4096)
            connection.ping()
            refused = [connection.streams[stream] for stream in streams if connection.is_over(stream)]
            assert refused and {result.status for result in refused} == {RESOURCE_EXHAUSTED}, refused
            assert "try again later" in refused[0].text
            assert peak(server) - memory < 2 * limit
        wait_for("nothing in flight", lambda: pending(server) == 0)


# --- tensors


@pytest.mark.parametrize("datatype", [name for name in ELEMENT_SIZES if name != "BYTES"])
def test_raw_contents_must_have_the_shape_s_size(target, datatype):
    size = 4 * ELEMENT_SIZES[datatype]
    model = f"t_{datatype.lower()}"
    with survives(target, singing=False), Connection(target) as connection:
        for difference, status in ((0, OK), (1, INVALID_ARGUMENT), (-1, INVALID_ARGUMENT), (-size, INVALID_ARGUMENT)):
            request = infer_request(model, raw=[bytes(size + difference)], datatype=datatype)
            result = connection.ask(messages=[message(request)])
            assert result.status == status, (difference, result)


@pytest.mark.parametrize("shape", [(1 << 62, 8), (-1, 4), (1, -4), ((1 << 63) - 1, 3), (1, 1 << 61), (0, 4), (1, 5), (1,), (1,) * 65], ids=str)
def test_shapes_that_are_none_are_refused(target, shape):
    with survives(target, singing=False), Connection(target) as connection:
        result = connection.ask(messages=[message(infer_request(shape=shape))])
        assert result.status == INVALID_ARGUMENT, result


PREFIXES = {
    "as it is": (struct.pack("<I", 4) + b"abcd", OK), "longer": (struct.pack("<I", 5) + b"abcd", INVALID_ARGUMENT),
    "shorter": (struct.pack("<I", 3) + b"abcd", INVALID_ARGUMENT), "2^32-1": (b"\xff" * 4 + b"abcd", INVALID_ARGUMENT),
    "half a prefix": (b"\0\0", INVALID_ARGUMENT), "two elements": (struct.pack("<I", 0) * 2, INVALID_ARGUMENT),
    "none": (b"", INVALID_ARGUMENT),
}


@pytest.mark.parametrize("raw, status", PREFIXES.values(), ids=PREFIXES)
def test_strings_must_be_as_long_as_they_say(target, raw, status):
    with survives(target, singing=False), Connection(target) as connection:
        result = connection.ask(messages=[message(infer_request("t_bytes", (1, 1), [raw], "BYTES"))])
        assert result.status == status, result


def edited(edit):
    request = service_pb2.ModelInferRequest.FromString(REQUEST)
    edit(request)
    return request.SerializeToString()


def add_parameter(name, **value):
    def edit(request):
        for field, content in value.items():
            setattr(request.parameters[name], field, content)
    return edit


REQUESTS = {
    "no input": (lambda r: (r.ClearField("inputs"), r.ClearField("raw_input_contents")), INVALID_ARGUMENT),
    "unknown input": (lambda r: setattr(r.inputs[0], "name", "INPUT1"), INVALID_ARGUMENT),
    "input twice": (lambda r: (r.inputs.append(r.inputs[0]), r.raw_input_contents.append(bytes(16))), INVALID_ARGUMENT),
    "no raw contents": (lambda r: r.ClearField("raw_input_contents"), INVALID_ARGUMENT),
    "raw and typed": (lambda r: r.inputs[0].contents.fp32_contents.append(1), INVALID_ARGUMENT),
    "typed as another type": (lambda r: (r.ClearField("raw_input_contents"), r.inputs[0].contents.int_contents.extend([1] * 4)),
                              INVALID_ARGUMENT),
    "unknown datatype": (lambda r: setattr(r.inputs[0], "datatype", "FP31"), INVALID_ARGUMENT),
    "another datatype": (lambda r: setattr(r.inputs[0], "datatype", "INT32"), INVALID_ARGUMENT),
    "unknown output": (lambda r: r.outputs.add(name="OUTPUT9"), INVALID_ARGUMENT),
    "unknown model": (lambda r: setattr(r, "model_name", "x"), NOT_FOUND),
    "unknown version": (lambda r: setattr(r, "model_version", "7"), NOT_FOUND),
    "version that is none": (lambda r: setattr(r, "model_version", "x"), INVALID_ARGUMENT),
    "sequence_id that is none": (add_parameter("sequence_id", double_param=1), INVALID_ARGUMENT),
    "sequence_start that is none": (add_parameter("sequence_start", int64_param=1), INVALID_ARGUMENT),
    "priority that is none": (add_parameter("priority", string_param="x"), INVALID_ARGUMENT),
    "timeout that is none": (add_parameter("timeout", bool_param=True), INVALID_ARGUMENT),
    "reserved parameter": (add_parameter("triton_x", int64_param=1), INVALID_ARGUMENT),
    "parameter without a value": (lambda r: r.parameters["x"].SetInParent(), INVALID_ARGUMENT),
}


@pytest.mark.parametrize("edit, status", REQUESTS.values(), ids=REQUESTS)
def test_requests_that_contradict_themselves_are_refused(target, edit, status):
    with survives(target, singing=False), Connection(target) as connection:
        result = connection.ask(messages=[message(edited(edit))])
        assert result.status == status, result
        streamed = connection.ask(STREAM_INFER, [message(edited(edit))])
        reply = service_pb2.ModelStreamInferResponse.FromString(streamed.messages[0][1])
        assert (streamed.status, reply.error_message) == (OK, result.text)


RESERVED = ["sequence_id", "sequence_start", "sequence_end", "priority", "timeout", "headers", "binary_data_output",
            "triton_enable_empty_final_response", "triton_x"]


@pytest.mark.parametrize("name", RESERVED)
def test_forwarded_metadata_cannot_set_reserved_parameters(start_forwarding, name):
    with survives(start_forwarding, singing=False), Connection(start_forwarding) as connection:
        result = connection.ask(messages=[message(REQUEST)], more=[(name, "1")])
        assert result.status == INVALID_ARGUMENT, result
        assert connection.ask(messages=[message(REQUEST)], more=[("x-mine", "1")]).status == OK


@pytest.fixture(scope="module")
def start_forwarding(nereid, backends, targets, tmp_path_factory):
    starter = Starter(nereid, backends, tmp_path_factory.mktemp("forwarding"))
    yield starter(targets, flags=[*EVERYTHING, "--grpc-header-forward-pattern=.*"])
    starter.stop_all()


# --- uploads that end early


def test_aborted_uploads_leave_nothing(target):
    """Row 13: by a reset, by half a message, by a closed connection, on one after the other."""
    large = message(infer_request(shape=(1, 1 << 14), raw=[bytes(1 << 16)]))
    with survives(target):
        for _ in range(100):
            with Connection(target) as connection:
                for _ in range(30):
                    stream = connection.new_stream()
                    connection.send(headers(stream, BLOCK), data(stream, large[:50_000]), reset_stream(stream))
                    stream = connection.new_stream()
                    connection.send(headers(stream, BLOCK), data(stream, large[:50_000], END_STREAM))
                    connection.call(messages=[large[:50_000]], end=False)


def test_ten_thousand_aborted_uploads_leave_no_memory(release_target):
    large = message(infer_request(shape=(1, 1 << 14), raw=[bytes(1 << 16)]))[:20_000]
    with survives(release_target, grown_bytes=8 * MIB, singing=False):
        for _ in range(20):
            with Connection(release_target) as connection:
                for _ in range(500):
                    stream = connection.new_stream()
                    connection.send(headers(stream, BLOCK), data(stream, large), reset_stream(stream))
                connection.ping()
