# SPDX-License-Identifier: Apache-2.0
"""What a model does wrong is told clearly, and costs neither its worker nor the server."""
import json

import numpy as np
import pytest
from conftest import Starter, wait_for
from python_models import ask, infer, make_python, reason, together
from tritonclient.utils import InferenceServerException

# What it does: (its code, what the error says).
WRONGS = {
    "a name with NUL": (
        "return [answer(value(r), 'OUT\\0X') for r in requests]",
        "a tensor's name has at most 255 bytes and no NUL: 'OUT\\x00X' of 5",
    ),
    "a long name": ("return [answer(value(r), 'O' * 256) for r in requests]", "at most 255 bytes and no NUL: 'OOO"),
    "a large parameter": (
        "return [answer(value(r), parameters={'a': 1 << 63}) for r in requests]",
        "parameter 'a' needs 65 bits, an integer has 64",
    ),
    "a parameter's name with NUL": (
        "return [answer(value(r), parameters={'a\\0': 1}) for r in requests]",
        "the name of a parameter cannot contain NUL: 'a\\x00'",
    ),
    "a parameter that is no UTF-8": (
        "return [answer(value(r), parameters={'a': '\\ud800'}) for r in requests]",
        "the value of a parameter cannot contain surrogates: 'a'",
    ),
    "too many parameters": (
        "return [answer(value(r), parameters={str(i): i for i in range(100_000)}) for r in requests]",
        "expected at most 4096 parameters, '4096' is one more",
    ),
    "an error with NUL": ("raise ValueError('before \\0 after')", "ValueError: before   after"),
    "an answer with NUL": (
        "return [pb_utils.InferenceResponse(error=pb_utils.TritonError('before \\0 after')) for r in requests]",
        "before   after",
    ),
    "an exception that ends the process when it is told": (
        "class E(Exception):\n"
        "        def __str__(self): sys.exit(1)\n"
        "    raise E()",
        "E: <SystemExit in its __str__>",
    ),
    "something else in the list of requests": (
        "requests[0] = None\n    raise ValueError('no requests')", "ValueError: no requests",
    ),
    "a call with a number that does not fit": (
        "pb_utils.InferenceRequest(model_name='m', inputs=[], requested_output_names=[], timeout=-1).exec()",
        "a request to model 'm' has a number that does not fit: model_version -1, correlation_id 0, flags 0, timeout -1 (",
    ),
    "a metric in the server's name": (
        "pb_utils.MetricFamily(name='nv_inference_count', description='', kind=pb_utils.MetricFamily.COUNTER)",
        "metric family 'nv_inference_count' has a name of the server's own",
    ),
    "a call that is too long": (
        "pb_utils.load_model('x', config=' ' * (65 << 20))", "bytes, at most 67108864 can be sent",
    ),
    "a call with NUL": ("pb_utils.load_model('a\\0b')", "a name cannot contain NUL: 'a\\x00b'"),
    "an emptied list of requests": ("requests.clear()\n    return []", "InferenceRequest(s) size is:1"),
}


@pytest.fixture(scope="module")
def server(nereid, backends, tmp_path_factory):
    repository = tmp_path_factory.mktemp("misuse")
    for i, (code, _) in enumerate(WRONGS.values()):
        make_python(repository, f"wrong{i}", "def execute(self, requests):\n"
                    "    if value(requests[0])[0] == 0:\n"
                    "        return [answer(np.full_like(value(r), os.getpid())) for r in requests]\n"
                    f"    {code}\n")
    starter = Starter(nereid, backends, tmp_path_factory.mktemp("server"))
    yield starter(repository)
    starter.stop_all()


@pytest.mark.parametrize("what", WRONGS)
def test_what_is_wrong_is_said_and_costs_no_worker(server, what):
    model = f"wrong{list(WRONGS).index(what)}"
    _, before = ask(server, model, [0])
    status, reply = ask(server, model, [1])
    assert status in (400, 500) and WRONGS[what][1] in reply["error"], reply
    _, after = ask(server, model, [0])
    assert before["outputs"] == after["outputs"], "the worker is another one"


def test_what_a_worker_says_is_cut(start_server, repository):
    make_python(repository, "loads", "def initialize(self, args):\n    raise ValueError('e' * (65 << 20))\n")
    make_python(repository, "grows", "@staticmethod\ndef auto_complete_config(config):\n"
                "    config.as_dict()['x'] = 'x' * (65 << 20)\n    return config\n")
    make_python(repository, "logs", """
        def execute(self, requests):
            pb_utils.Logger.log_info("l" * (65 << 20))
            pb_utils.Logger.log_info("a" + chr(0) + "b")
            return [answer(value(r)) for r in requests]
        """)
    server = start_server(repository, flags=["--strict-readiness=false", "--exit-on-error=false"])
    assert infer(server, "logs").tolist() == [1]
    assert reason(server, "loads").startswith("Internal: ValueError: eeee")
    assert "bytes, at most 67108864 can be sent" in reason(server, "grows")
    wait_for("the second message", lambda: '"a b"' in server.log)
    assert server.log.count(" [cut]") == 1
    assert max(map(len, server.log.splitlines())) < 2 << 20


def test_a_coroutine_that_stops_its_loop_does_not_stop_the_model(start_server, repository):
    make_python(repository, "stops", """
        async def execute(self, requests):
            import asyncio
            asyncio.get_running_loop().stop()
            await asyncio.sleep(0.01)
            return [answer(value(r)) for r in requests]
        """)
    server = start_server(repository)
    for i in range(3):
        assert infer(server, "stops", [i]).tolist() == [i]


def test_a_readiness_check_that_hangs_holds_up_nobody_elses(start_server, repository):
    """Forty clients ask; the server has a handful of threads for that, and each question may take five seconds."""
    directory = make_python(repository, "hangs", """
        def initialize(self, args):
            self.directory, self.asked = args["model_repository"], 0
        def is_ready(self):
            self.asked += 1
            while os.path.exists(self.directory + "/hold"):
                time.sleep(0.01)
            return True
        def execute(self, requests):
            return [answer(np.array([self.asked], np.int32)) for _ in requests]
        """)
    server = start_server(repository)
    assert server.ask("/v2/models/hangs/ready").status == 200
    before = infer(server, "hangs")[0]
    (directory / "hold").touch()
    statuses = together(40, lambda _: server.ask("/v2/models/hangs/ready").status)
    (directory / "hold").unlink()
    assert set(statuses) <= {200, 400} and 400 in statuses
    wait_for("readiness", lambda: server.ask("/v2/models/hangs/ready").status == 200)
    assert infer(server, "hangs")[0] - before < 6, "all asked the model, one after the other"


def test_a_destructor_that_calls_a_model_where_replies_come_in_is_refused(start_server, repository):
    """The garbage collector may run it on any thread. On the one that receives replies it would wait for ever."""
    make_python(repository, "calls", """
        def execute(self, requests):
            def call():
                return pb_utils.InferenceRequest(
                    model_name="other", inputs=[pb_utils.Tensor("IN", value(requests[0]))], requested_output_names=["OUT"])
            class Dropped:
                def __call__(self, *reply):
                    try:
                        call().exec()
                    except pb_utils.TritonModelException as problem:
                        said.append(str(problem))
                    done.set()
            said, done = [], threading.Event()
            call()._start(Dropped(), 0)
            done.wait()
            assert "the answer could not arrive" in said[0]
            return [answer(call().exec().output_tensors()[0].as_numpy())]
        """)
    make_python(repository, "other")
    assert infer(start_server(repository), "calls", [7]).tolist() == [7]


def test_the_time_of_inputs_is_counted_for_responses_that_a_sender_sends(start_server, repository):
    make_python(repository, "sends", """
        def execute(self, requests):
            for request in requests:
                request.get_response_sender().send(answer(value(request)[:1]), pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
            return None
        """)
    server = start_server(repository)
    assert infer(server, "sends", np.arange(1 << 20, dtype=np.int32)).tolist() == [0]
    (row,) = json.loads(server.ask("/v2/models/sends/stats").body)["model_stats"]
    assert row["inference_stats"]["success"]["count"] == 1
    assert row["inference_stats"]["compute_input"]["ns"] > 100_000  # four megabytes were copied
    assert row["inference_stats"]["compute_infer"]["ns"] > 0


@pytest.mark.slow
def test_arrays_that_a_model_keeps_for_ever_are_bounded(start_server, repository):
    make_python(repository, "keeps", """
        def initialize(self, args):
            self.kept = []
        def execute(self, requests):
            arrays = [value(request) for request in requests]
            if arrays[0][0] == 2:
                self.kept.clear()
                requests[0].is_cancelled()  # when it is answered, the server has dealt with what was before
            else:
                self.kept += arrays
            return [answer(np.array([len(self.kept)], np.int32)) for _ in requests]
        """)
    make_python(repository, "other")
    server = start_server(repository, flags=["--backend-config=python,worker-shared-bytes=16777216"])
    inputs = np.ones(1 << 18, np.int32)  # a mebibyte
    kept = 0
    with pytest.raises(InferenceServerException, match="the model keeps too many .*worker-shared-bytes") as refusal:
        while kept < 16:
            assert infer(server, "keeps", inputs).tolist() == [kept + 1]
            kept += 1
    assert kept == 15 and refusal.value.status() == "503"
    assert infer(server, "other", inputs).size == inputs.size
    assert infer(server, "keeps", [2]).tolist() == [0]
    for i in range(12):
        assert infer(server, "keeps", inputs).tolist() == [i + 1]
