# SPDX-License-Identifier: Apache-2.0
"""What a model asks of the server: other models, metrics, logs, model control."""

import struct

import numpy as np
import pytest

from host import Reader, text
from patience import PATIENCE


def read_infer(host, call):
    """A CALL_INFER's fields."""
    control = call.control
    said = {"model": control.text(), "version": control.get("q"), "id": control.text()}
    said["correlation"] = control.text() if control.get("B") else control.get("Q")
    said["flags"], said["timeout"], _ = control.get("IQQ")
    said["parameters"], said["parent"] = control.text(), control.get("Q")
    said["outputs"] = [control.text() for _ in range(control.get("I"))]
    said["inputs"] = host.read_tensors(control)
    return said


def test_an_inference_says_all_that_its_request_says(started):
    said = {}

    def serve(host, call):
        if call.kind == 5:
            said.update(read_infer(host, call))
            host.reply(call, outputs={"Y": np.array([[7]], np.int8)})

    host = started(
        """
        class TritonPythonModel:
            def execute(self, requests):
                request = pb_utils.InferenceRequest(
                    request_id="id", correlation_id="c", inputs=[pb_utils.Tensor("X", np.ones(2))],
                    requested_output_names=[b"Y"], model_name=b"other", model_version=3, flags=1, timeout=5,
                    preferred_memory=pb_utils.PreferredMemory(pb_utils.TRITONSERVER_MEMORY_CPU, 0),
                    trace=requests[0].trace(), parameters={"p": True})
                response = request.exec()
                return [pb_utils.InferenceResponse(response.output_tensors())]
        """,
        on_call=serve,
    )
    _, [response], _ = host.execute([{"handle": 77, "trace": "context"}])
    assert (response.outputs["Y"] == [[7]]).all()
    assert (said.pop("inputs")["X"] == [1, 1]).all()
    assert said == {
        "model": "other", "version": 3, "id": "id", "correlation": "c", "flags": 1, "timeout": 5,
        "parameters": '{"p": true}', "parent": 77, "outputs": ["Y"],
    }  # fmt: skip


CALLS = """
import asyncio
import threading

class TritonPythonModel:
    def call(self):
        return pb_utils.InferenceRequest(model_name="o", inputs=[], requested_output_names=[])

    {async_}def execute(self, requests):
        {body}
        return [pb_utils.InferenceResponse([])]

    async def other_task(self):
        await self.call().async_exec()

    def shared(self, request):
        self.sender, self.is_over = request.get_response_sender(), threading.Event()
        thread = threading.Thread(target=self.is_over.wait)
        thread.start()
        self.call().exec()
        self.is_over.set()
        thread.join()

    def on_thread(self):
        thread = threading.Thread(target=self.call().exec)
        thread.start()
        thread.join()
"""


@pytest.mark.parametrize(
    "body,flags",
    [
        ("self.call().exec()", 2),
        ("list(self.call().exec(decoupled=True))", 1),
        ("await self.call().async_exec()", 4),
        ("await asyncio.ensure_future(self.other_task())", 0),
        ("self.on_thread()", 0),
        ("self.sender = requests[0].get_response_sender(); self.call().exec()", 2),
        ("self.shared(requests[0])", 10),
    ],
)
def test_a_call_says_which_execution_waits_for_it(started, body, flags):
    """INFER_DECOUPLED 1, INFER_WAITS 2, INFER_AWAITS 4, INFER_SHARED 8: other threads may answer."""

    def serve(host, call):
        if call.kind == 5:
            host.reply(call, b"\2" + struct.pack("=I", 2) + text("unknown model"))

    host = started(CALLS.format(async_="async " if "await" in body else "", body=body), on_call=serve)
    host.execute([{}])
    call = host.await_call(lambda call: call.kind == 5)
    assert (call.flags, call.value != 0) == (flags, flags & 6 != 0)


def test_errors_of_an_inference_are_responses(started):
    def serve(host, call):
        if call.kind == 5:
            host.reply(call, b"\2" + struct.pack("=I", 2) + text("unknown model"))

    host = started(
        """
        class TritonPythonModel:
            def execute(self, requests):
                response = pb_utils.InferenceRequest(model_name="o", inputs=[], requested_output_names=[]).exec()
                assert response.has_error() and response.error().code() == pb_utils.TritonError.NOT_FOUND
                return [pb_utils.InferenceResponse(error=response.error())]
        """,
        on_call=serve,
    )
    _, [response], _ = host.execute([{}])
    assert (response.code, response.message) == (2, "unknown model")


def test_inferences_that_are_awaited_together_run_together(started):
    waiting = []

    def serve(host, call):
        if call.kind == 5:
            waiting.append(call)
            if len(waiting) == 20:  # none is answered before all are there, and then the last first
                for number, call in enumerate(reversed(waiting)):
                    host.reply(call, outputs={"N": np.array([20 - number])})

    host = started(
        """
        import asyncio

        class TritonPythonModel:
            async def execute(self, requests):
                made = [pb_utils.InferenceRequest(model_name="o", inputs=[], requested_output_names=["N"])
                        for _ in range(20)]
                answers = await asyncio.gather(*[request.async_exec() for request in made])
                values = [int(answer.output_tensors()[0].as_numpy()[0]) for answer in answers]
                return [pb_utils.InferenceResponse([pb_utils.Tensor("N", np.array(values))])]
        """,
        on_call=serve,
    )
    host.execute([{"handle": 1}])
    response = host.await_call(lambda call: call.kind == 1).response
    assert list(response.outputs["N"]) == list(range(1, 21))


def test_threads_call_models_while_execute_runs(started):
    waiting = []

    def serve(host, call):
        if call.kind == 5:
            waiting.append(call)
            if len(waiting) == 8:
                for call in waiting:
                    host.reply(call, outputs={"N": np.array([1.0])})

    host = started(
        """
        from concurrent.futures import ThreadPoolExecutor

        class TritonPythonModel:
            def execute(self, requests):
                def call(_):
                    made = pb_utils.InferenceRequest(model_name="o", inputs=[], requested_output_names=["N"])
                    return made.exec().output_tensors()[0].as_numpy()
                with ThreadPoolExecutor(8) as pool:
                    total = sum(pool.map(call, range(8)))
                return [pb_utils.InferenceResponse([pb_utils.Tensor("N", total)])]
        """,
        on_call=serve,
    )
    _, [response], _ = host.execute([{}])
    assert response.outputs["N"] == [8]


def test_a_decoupled_inference_is_an_iterator(started):
    def serve(host, call):
        if call.kind == 5:
            assert call.flags == 1
            for number in range(3):
                host.reply(call, flags=0, outputs={"N": np.array([number])})
            host.reply(call, b"\0", flags=1)
        if call.kind == 6:
            host.cancelled = call.id

    host = started(
        """
        class TritonPythonModel:
            def execute(self, requests):
                made = pb_utils.InferenceRequest(model_name="o", inputs=[], requested_output_names=[])
                responses = made.exec(decoupled=True)
                responses.cancel()
                first = [[int(t.as_numpy()[0]) for t in r.output_tensors()] for r in responses]
                again = [[int(t.as_numpy()[0]) for t in r.output_tensors()] for r in responses]
                return [pb_utils.InferenceResponse(parameters={"said": str((first, again))})]
        """,
        on_call=serve,
    )
    _, [response], _ = host.execute([{}])
    assert response.parameters == '{"said": "([[0], [1], [2], []], [[0], [1], [2], []])"}'
    cancel = host.await_call(lambda call: call.kind == 6)
    assert cancel.id == host.await_call(lambda call: call.kind == 5).id


def test_a_reply_that_cannot_be_read_ends_the_worker_rather_than_leave_its_calls_waiting(started):
    host = started(
        """
        class TritonPythonModel:
            def execute(self, requests):
                pb_utils.InferenceRequest(model_name="o", inputs=[], requested_output_names=[]).exec()
        """,
        on_call=lambda host, call: host.reply(call, control=b"\1cut"),
    )
    with pytest.raises(ConnectionError, match="the server's message cannot be read"):
        host.execute([{}])
    assert host.process.wait(PATIENCE) == 1


def test_inferences_are_for_execute_only(started):
    host = started("""
        class TritonPythonModel:
            def initialize(self, args):
                try:
                    pb_utils.InferenceRequest(model_name="o", inputs=[], requested_output_names=[]).exec()
                except pb_utils.TritonModelException as problem:
                    print(problem)
    """)
    assert host.output() == "BLS is only supported during the 'execute' function.\n"


def test_metrics_have_their_lives_and_values_in_the_server(started):
    numbers = iter(range(10, 100))
    seen = []

    def serve(host, call):
        if call.kind == 7:
            seen.append(("family", call.control.text(), call.control.text(), call.control.get("I")))
            host.reply(call, value=next(numbers))
        elif call.kind == 9:
            labels, count = call.control.text(), call.control.get("I")
            seen.append(("metric", call.value, labels, struct.unpack_from(f"={count}d", call.control.data, call.control.at)))
            host.reply(call, value=next(numbers))
        elif call.kind in (11, 12, 13):
            seen.append((call.kind, call.value, call.control.get("d")))
            if seen[-1][2] < 0:
                host.reply(call, struct.pack("=I", 3) + text("negative"), flags=3)
            else:
                host.reply(call)
        elif call.kind == 14:
            host.reply(call, struct.pack("=d", 4.5))
        elif call.kind in (8, 10):
            seen.append((call.kind, call.value))
            host.reply(call)

    host = started(
        """
        class TritonPythonModel:
            def execute(self, requests):
                family = pb_utils.MetricFamily("n", "d", pb_utils.MetricFamily.HISTOGRAM)
                said = []
                for arguments in ({"labels": 1}, {"buckets": 1}, {}):
                    try:
                        family.Metric(**arguments)
                    except pb_utils.TritonModelException as problem:
                        said.append(str(problem))
                metric = family.Metric(labels={"l": "v"}, buckets=[0.5, 1])
                metric.observe(3)
                try:
                    metric.increment(-1)
                except pb_utils.TritonModelException as problem:
                    said.append(str(problem))
                said.append(metric.value())
                del family
                try:
                    metric.set(1)
                except pb_utils.TritonModelException as problem:
                    said.append(str(problem)[:30])
                print(*said, sep="|")
                return [pb_utils.InferenceResponse()]
        """,
        on_call=serve,
    )
    _, [response], _ = host.execute([{}])
    host.await_call(lambda call: call.kind == 8)  # the family's end, the last one
    assert response.kind == 1, response.message
    assert host.output().strip().split("|") == [
        "Failed to create metric. Labels must be a dictionary.",
        "Failed to create metric. Buckets must be a list.",
        "Failed to create metric. Missing required buckets.",
        "Failed to increment metric value: negative",
        "4.5",
        "Invalid metric operation as th",
    ]
    assert seen == [
        ("family", "n", "d", 2), ("metric", 10, '{"l": "v"}', (0.5, 1.0)), (13, 11, 3.0), (11, 11, -1.0), (10, 11), (8, 10),
    ]  # fmt: skip


def test_models_are_loaded_unloaded_and_asked_for(started):
    seen = []

    def serve(host, call):
        if call.kind == 15:
            name, config, count = call.control.text(), call.control.text(), call.control.get("I")
            seen.append((name, config, [(call.control.text(), call.control.text()) for _ in range(count)]))
            host.reply(call)
        if call.kind == 16:
            seen.append((call.control.text(), call.flags))
            host.reply(call, struct.pack("=I", 2) + text("not there"), flags=3)
        if call.kind == 17:
            host.reply(call, value=int((call.control.text(), call.control.text()) == ("a", "2")))

    host = started(
        """
        class TritonPythonModel:
            def execute(self, requests):
                pb_utils.load_model("a", config="{}", files={"file:1/model.py": b"code"})
                try:
                    pb_utils.unload_model(model_name="b", unload_dependents=True)
                except pb_utils.TritonModelException as problem:
                    print(problem)
                print(pb_utils.is_model_ready("a", "2"), pb_utils.is_model_ready("a"))
                return [pb_utils.InferenceResponse()]
        """,
        on_call=serve,
    )
    host.execute([{}])
    assert seen == [("a", "{}", [("file:1/model.py", "code")]), ("b", 1)]
    assert host.output() == "Failed to unload model: not there\nTrue False\n"


def test_log_lines_say_where_they_come_from_and_levels_that_are_off_cost_no_call(started):
    host = started("""
        class TritonPythonModel:
            def execute(self, requests):
                logger = pb_utils.Logger
                logger.log_verbose("v")
                logger.log("i"); logger.log_warn("w"); logger.log_error("e")
                logger.log("v2", logger.VERBOSE)
                return [pb_utils.InferenceResponse()]
    """)
    host.execute([{}], 7)
    host.execute([{}], 8)
    host.await_call(lambda call: call.kind == 3 and call.flags == 8 and call.control.text() == "v2")
    logs = [call for call in host.calls if call.kind == 3]
    assert [call.flags for call in logs] == [1, 2, 4, 8, 8]
    said = Reader(logs[0].control.data)
    assert (said.text(), said.text(), said.get("I")) == ("i", "model.py", 8)


def test_log_lines_say_which_requests_they_are_about(started):
    host = started("""
        import threading

        class TritonPythonModel:
            def execute(self, requests):
                pb_utils.Logger.log_info("main")
                other = threading.Thread(target=pb_utils.Logger.log_info, args=("other",))
                other.start()
                other.join()
                raise ValueError("bad luck")
    """)
    host.execute([{"id": "a", "handle": 1}, {"id": "é\n", "handle": 2}], 7)
    host.await_call(lambda call: call.kind == 3 and call.flags == 4 | 16)
    said = {}
    for call in host.calls:
        if call.kind == 3:
            log = Reader(call.control.data)
            text, _, _ = log.text(), log.text(), log.get("I")
            said[text.split(",")[0]] = (call.flags, log.get("B"), log.text())
    assert said["main"] == (1, 1, "a, é\n") and said["other"] == (1, 0, "")
    assert next(about for text, about in said.items() if text.startswith("Failed to process the request(s)")) == (4 | 16, 1, "a, é\n")


def test_many_calls_from_many_threads_lose_nothing(started):
    host = started(
        """
        import threading

        class TritonPythonModel:
            def execute(self, requests):
                wrong = []
                def ask(n):
                    for i in range(n, 4000, 8):
                        if pb_utils.is_model_ready(str(i)) != (i % 3 == 0):
                            wrong.append(i)
                threads = [threading.Thread(target=ask, args=(n,)) for n in range(8)]
                [thread.start() for thread in threads]
                [thread.join() for thread in threads]
                return [pb_utils.InferenceResponse(parameters={"wrong": len(wrong)})]
        """,
        on_call=lambda host, call: call.kind == 17 and host.reply(call, value=int(int(call.control.text()) % 3 == 0)),
    )
    _, [response], _ = host.execute([{}])
    assert response.parameters == '{"wrong": 0}'
