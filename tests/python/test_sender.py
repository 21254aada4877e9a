# SPDX-License-Identifier: Apache-2.0
"""Responses that are sent rather than returned."""

from host import DECOUPLED, LEVELS

REPEAT = """
import threading

class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            threading.Thread(target=self.repeat, args=(request.get_response_sender(), request.inputs()[0])).start()

    def repeat(self, sender, tensor):
        for value in tensor.as_numpy():
            sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.array([value]))]))
        sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
"""


def sent(host, handle):
    """All responses of a request, once its last has come."""
    host.await_call(lambda call: call.kind == 1 and call.id == handle and call.flags == 1)
    return [call for call in host.calls if call.kind == 1 and call.id == handle]


def test_threads_send_many_responses_after_execute_has_returned(started):
    import numpy as np

    host = started(REPEAT)
    batch = [{"handle": n, "inputs": {"IN": np.arange(n * 10 - 10)}} for n in range(1, 5)]
    _, answers, _ = host.execute(batch, LEVELS | DECOUPLED)
    assert [answer.kind for answer in answers] == [0] * 4
    for n in range(1, 5):
        *responses, last = sent(host, n)
        assert [response.response.outputs["OUT"][0] for response in responses] == list(range(n * 10 - 10))
        assert last.response.kind == 0
    host.await_unused()  # the input arrays are gone, and the server was told
    host.finalize()


def test_a_sender_that_is_let_go_of_ends_its_request(started):
    host = started("""
        class TritonPythonModel:
            def execute(self, requests):
                return None
    """)
    host.execute([{"handle": 1}], LEVELS | DECOUPLED)
    assert sent(host, 1)[0].response.kind == 0
    host.execute([{"handle": 2}], LEVELS)
    assert sent(host, 2)[0].response.message == "the model let go of the request without sending a response"


def test_the_list_of_requests_may_be_kept(started):
    host = started("""
        class TritonPythonModel:
            kept = None

            def execute(self, requests):
                if self.kept:
                    for request in self.kept:
                        request.get_response_sender().send(pb_utils.InferenceResponse([request.inputs()[0]]), 1)
                self.kept = requests
    """)
    import numpy as np

    for handle in (1, 2):
        host.execute([{"handle": handle, "inputs": {"X": np.array([handle])}}], LEVELS | DECOUPLED)
    assert sent(host, 1)[0].response.outputs["X"] == [1]


MISUSE = """
class TritonPythonModel:
    def execute(self, requests):
        sender = requests[0].get_response_sender()
        response = pb_utils.InferenceResponse()
        said = []
        for arguments in (ARGUMENTS):
            try:
                sender.send(*arguments)
            except pb_utils.TritonModelException as problem:
                said.append(str(problem))
        pb_utils.Logger.log_warn("\\n".join(said))
"""


def said(started, arguments, flags):
    host = started(MISUSE.replace("ARGUMENTS", arguments))
    host.execute([{"handle": 1}], flags)
    return host.await_call(lambda call: call.kind == 3).control.text().split("\n")


def test_misuse_is_refused_in_tritons_words(started):
    assert said(started, "(response, 2), (None, 0), (response, 1), (response, 0)", LEVELS | DECOUPLED) == [
        "Unable to send response. Unsupported flag provided.",
        "Inference Response object must be provided when the response flags is set to zero.",
        "Unable to send response. Response sender has been closed.",
    ]
    assert said(started, "(None, 1), (response, 1), (response, 1), (None, 1)", LEVELS) == [
        "Unable to send response. Non-decoupled model cannot send complete final before sending a response.",
        "Unable to send response. Non-decoupled model cannot send more than one response.",
        "Unable to send response. Response sender has been closed.",
    ]


def test_a_request_that_has_been_answered_cannot_be_answered_again(started):
    host = started("""
        class TritonPythonModel:
            def execute(self, requests):
                requests[0].get_response_sender().send(pb_utils.InferenceResponse(), 1)
                return [pb_utils.InferenceResponse()]
    """)
    _, [answer], _ = host.execute([{"handle": 1}])
    assert answer.kind == 0 and len(sent(host, 1)) == 1
    log = host.await_call(lambda call: call.kind == 3 and call.flags == 4 | 16)  # the worker's own line
    assert "Non-decoupled model cannot send more than one response." in log.control.text()


def test_is_cancelled_asks_the_server(started):
    host = started(
        """
        class TritonPythonModel:
            def execute(self, requests):
                request, = requests
                both = request.is_cancelled(), request.get_response_sender().is_cancelled()
                return [pb_utils.InferenceResponse(parameters={"both": str(both)})]
        """,
        on_call=lambda host, call: call.kind == 4 and host.reply(call, value=int(call.value == 42)),
    )
    _, [response], _ = host.execute([{"handle": 42}])
    assert response.parameters == '{"both": "(True, True)"}'
    _, [response], _ = host.execute([{"handle": 43}])
    assert response.parameters == '{"both": "(False, False)"}'


def test_what_fails_behind_responses_fails_by_their_way(started):
    """The answer is read by another thread of the server: it could overtake what was sent."""
    host = started("""
        class TritonPythonModel:
            def execute(self, requests):
                sender = requests[0].get_response_sender()
                for _ in range(3):
                    sender.send(pb_utils.InferenceResponse())
                requests[1].get_response_sender()
                requests[2].get_response_sender().send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
                raise RuntimeError("late")
    """)
    _, answers, _ = host.execute([{"handle": n} for n in range(1, 4)], LEVELS | DECOUPLED)
    assert [answer.kind for answer in answers] == [4, 2, 0]  # failed by a call, with an error, ended before
    *responses, last = sent(host, 1)
    assert [response.response.kind for response in responses] == [1] * 3
    assert "message: RuntimeError: late\n" in last.response.message
    host.finalize()
