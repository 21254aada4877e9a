# SPDX-License-Identifier: Apache-2.0
"""Who is asked whether it is ready, how long that may take, and what it says of the server."""
import os
import signal
import time

import pytest
from conftest import wait_for
from python_models import ECHO, PID, infer, make_python, worker_of

pytestmark = pytest.mark.gpu_host


def test_readiness_follows_the_worker_and_the_models_own_word(start_server, repository):
    directory = make_python(repository, "moody", """
        def initialize(self, args):
            self.directory = args["model_repository"]
            if os.path.exists(self.directory + "/broken"):
                raise RuntimeError("not today")
        def is_ready(self):
            return not os.path.exists(self.directory + "/busy")
        """ + PID.replace("\n", "\n        "))
    make_python(repository, "other")
    server = start_server(repository)

    def ready():
        return [server.ask(f"/v2/{path}/ready").status for path in ("models/moody", "health", "models/other")]

    assert ready() == [200, 200, 200]
    (directory / "busy").touch()
    assert ready() == [400, 400, 200]
    (directory / "busy").unlink()
    assert ready() == [200, 200, 200]
    (directory / "broken").touch()
    os.kill(worker_of(server, "moody"), signal.SIGKILL)
    wait_for("not ready", lambda: ready() == [400, 400, 200])
    (directory / "broken").unlink()
    wait_for("ready", lambda: ready() == [200, 200, 200])


def test_a_model_that_is_slow_to_say_whether_it_is_ready_holds_up_no_calls(start_server, repository):
    slow = make_python(repository, "slow", """
        def initialize(self, args):
            self.directory = args["model_repository"]
        def is_ready(self):
            open(f"{self.directory}/asked", "w").close()
            while os.path.exists(f"{self.directory}/hold"):
                time.sleep(0.01)
            return True
        """ + ECHO.replace("\n", "\n        "))
    make_python(repository, "asker", f"""
        def execute(self, requests):
            asked = []
            thread = threading.Thread(target=lambda: asked.append(pb_utils.is_model_ready("slow")))
            thread.start()
            while not os.path.exists("{slow}/asked"):
                time.sleep(0.01)
            requests[0].is_cancelled()
            os.unlink("{slow}/hold")
            thread.join()
            return [answer(np.array(asked, np.int32))]
        """)
    server = start_server(repository)
    (slow / "hold").touch()
    assert infer(server, "asker").tolist() == [1]


def test_a_model_that_says_that_it_is_not_ready_can_be_called_as_by_clients(start_server, repository):
    directory = make_python(repository, "moody", """
        def initialize(self, args):
            self.directory = args["model_repository"]
        def is_ready(self):
            return not os.path.exists(self.directory + "/busy")
        """ + ECHO.replace("\n", "\n        "))
    make_python(repository, "caller", """
        def execute(self, requests):
            called = pb_utils.InferenceRequest(
                model_name="moody", inputs=[pb_utils.Tensor("IN", value(requests[0]))], requested_output_names=["OUT"])
            response = called.exec()
            if response.has_error():
                raise pb_utils.TritonModelException(response.error().message())
            return [answer(response.output_tensors()[0].as_numpy())]
        """)
    server = start_server(repository)
    (directory / "busy").touch()
    assert server.ask("/v2/models/moody/ready").status == 400
    assert infer(server, "moody", [7]).tolist() == [7]
    assert infer(server, "caller", [7]).tolist() == [7]


def test_a_model_that_has_not_said_whether_it_is_ready_is_not_asked_again(start_server, repository):
    directory = make_python(repository, "slow", """
        def initialize(self, args):
            self.directory = args["model_repository"]
        def is_ready(self):
            with open(f"{self.directory}/asked", "a") as file:
                file.write("x")
            while os.path.exists(f"{self.directory}/hold"):
                time.sleep(0.01)
            return True
        """)
    server = start_server(repository)
    asked = directory / "asked"
    asked.unlink(missing_ok=True)
    (directory / "hold").touch()
    assert server.ask("/v2/models/slow/ready").status == 400
    (directory / "hold").unlink()
    assert server.ask("/v2/models/slow/ready").status == 200  # the answer to the first question
    assert asked.read_text() == "x"
    assert server.ask("/v2/models/slow/ready").status == 200
    assert asked.read_text() == "xx"


# Ready once all six have been asked at the same time: each says so with a sign, and looks for the others'.
ALL_ASKED = """
def initialize(self, args):
    self.signs, self.own = "%(signs)s", args["model_name"] + args["model_instance_name"]
def is_ready(self):
    sign, all_of_them = f"{self.signs}/{self.own}", f"{self.signs}/../all"
    give_up = time.monotonic() + 4
    open(sign, "w").close()
    while not os.path.exists(all_of_them) and time.monotonic() < give_up:
        if len(os.listdir(self.signs)) == 6:
            open(all_of_them, "w").close()
        time.sleep(0.01)
    os.unlink(sign)
    return os.path.exists(all_of_them)
"""


def test_instances_are_asked_at_once_whether_they_are_ready(start_server, repository, tmp_path):
    (tmp_path / "signs").mkdir()
    for name in ("first", "second"):
        make_python(repository, name, ALL_ASKED % {"signs": tmp_path / "signs"} + ECHO, count=3)
    server = start_server(repository, ready=False)
    wait_for("ready", lambda: server.ask("/v2/health/ready").status == 200)
    assert (tmp_path / "all").exists()


@pytest.mark.slow
@pytest.mark.alone
def test_readiness_is_said_within_one_time_for_all(start_server, repository, tmp_path):
    for i in range(8):
        make_python(repository, f"hangs{i}", f"""
            def is_ready(self):
                while not os.path.exists("{tmp_path}/go"):
                    time.sleep(0.01)
                return True
            """ + ECHO.replace("\n", "\n            "))
    make_python(repository, "other")
    server = start_server(repository, ready=False)
    wait_for("all models", lambda: server.ask("/v2/repository/index", b"{}").text.count('"READY"') == 9)
    begun = time.monotonic()
    assert server.ask("/v2/health/ready").status == 400
    assert time.monotonic() - begun < 30  # five seconds; one after the other they would be forty
    assert infer(server, "other").tolist() == [1]
    (tmp_path / "go").touch()
    wait_for("ready", lambda: server.ask("/v2/health/ready").status == 200)
