# SPDX-License-Identifier: Apache-2.0
"""ModelStreamInfer when it is full: what is not read yet, and who waits for it. Models that answer too often."""
from conftest import EVERYTHING, make_identity
from http2 import INFER, INTERNAL, OK, STREAM_INFER, Connection, infer_request, message, reset_stream, streaming_request
from oracle import MIB, survives
from streaming import make_streaming
from tritonclient.grpc import service_pb2

MAX_IN_FLIGHT = 4096


def test_what_a_full_stream_did_not_read_is_the_connection_s_again(start_server, repository):
    """A stream with a window of 12 MiB of the connection's 16 is left with as much unread; the next one needs that window."""
    make_identity(repository, "canary")
    make_identity(repository, "t_fp32")
    make_streaming(repository, "slow")
    server = start_server(repository, flags=EVERYTHING)
    large = message(infer_request(shape=(1, 3 * MIB), raw=[bytes(12 * MIB)]))
    endless = message(streaming_request("slow", count=1_000_000, delay_us=20_000))
    with survives(server, singing=False), Connection(server) as connection:
        for _ in range(2):
            stream = connection.call(STREAM_INFER, [large], end=False)
            connection.read_until(lambda: len(connection.streams[stream].messages) == 1 if stream in connection.streams else False)
            connection.upload(stream, endless * (MAX_IN_FLIGHT + 1))
            connection.ping()
            connection.upload(stream, bytes(min(connection.sendable[0], connection.window_of(stream))))
            connection.ping()
            assert connection.sendable[0] < 8 * MIB  # else nothing is kept
            connection.send(reset_stream(stream))
            assert connection.ask(messages=[large]).status == OK


def test_requests_beyond_those_in_flight_are_answered_in_their_turn(start_server, repository):
    make_identity(repository, "canary")
    make_identity(repository, "t_fp32")
    make_streaming(repository, "slow", decoupled=False)
    server = start_server(repository, flags=EVERYTHING)

    def numbered(name, payload):
        request = service_pb2.ModelInferRequest.FromString(payload)
        request.id = name
        return message(request.SerializeToString())

    names = [str(i) for i in range(MAX_IN_FLIGHT + 3000)]
    first = numbered(names[0], streaming_request("slow", delay_us=1_000_000))
    others = [numbered(name, infer_request(shape=(1, 25), raw=[bytes(100)])) for name in names[1:]]
    with survives(server, singing=False), Connection(server) as connection:
        stream = connection.call(STREAM_INFER, [first, *others])
        result = connection.result(stream)
        assert result.status == OK
        answers = [service_pb2.ModelStreamInferResponse.FromString(payload) for _, payload in result.messages]
        assert [answer.error_message for answer in answers] == [""] * len(names)
        assert [answer.infer_response.id for answer in answers] == names


def test_a_response_that_breaks_the_rules_leaves_nothing_behind(start_server, repository):
    """A model with one response for a request sends two: the first is the answer, and neither the request nor what the server
    waits for at its end stays."""
    make_streaming(repository, "twice", decoupled=False)
    server = start_server(repository)
    twice = message(streaming_request("twice", count=2))
    with Connection(server) as connection:
        result = connection.ask(STREAM_INFER, [twice] * 3)
        assert result.status == OK
        errors = [service_pb2.ModelStreamInferResponse.FromString(text).error_message for _, text in result.messages]
        assert errors == [""] * 3
    server.stop()


def test_of_a_model_that_answers_too_often_the_first_response_counts(start_server, repository):
    """Unless it is decoupled; without any the request fails. A call of ModelInfer fails either way. As Triton."""
    make_streaming(repository, "plain", decoupled=False)
    server = start_server(repository, flags=EVERYTHING)
    requests = {count: streaming_request("plain", count=count) for count in (3, 0, 1)}
    with Connection(server) as connection:
        result = connection.result(connection.call(STREAM_INFER, [message(request) for request in requests.values()]))
        assert result.status == OK
        three, none, one = [service_pb2.ModelStreamInferResponse.FromString(payload) for _, payload in result.messages]
        for answer in (three, one):
            assert answer.error_message == "" and answer.infer_response.parameters["index"].int64_param == 0
            assert answer.infer_response.parameters["triton_final_response"].bool_param
        assert none.error_message == "expected a single response, got 0"
        for count in (3, 0):
            refused = connection.ask(INFER, [message(requests[count])])
            assert (refused.status, refused.text) == (INTERNAL, f"expected a single response, got {count}")
