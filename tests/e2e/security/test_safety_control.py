# SPDX-License-Identifier: Apache-2.0
"""What the control routes must not do: write files, believe sizes, depend on a disk that has room."""
import base64
import json
import resource

import pytest
from conftest import copy_model, make_identity, wait_for
from oracle import MIB, peak, reset_peak, rss
from safety import Client, start_audited, tensor
from test_safety_paths import leaks, outside, tree, vectors  # noqa: F401 - `outside` is a fixture
from wire import connect, receive_reply

EXPLICIT = ["--model-control-mode=explicit", "--load-model=m"]
SETTINGS = {  # route: members that Triton once took a path in
    "/v2/logging": ["log_file"],
    "/v2/trace/setting": ["trace_file", "log_file"],
    "/v2/models/m/trace/setting": ["trace_file"],
}


def test_settings_of_log_and_trace_touch_no_file_cve_2024_0087_cve_2024_0100(start_server, backends, repository, outside):  # noqa: F811
    make_identity(repository, "m")
    server, audit = start_audited(start_server, repository, flags=EXPLICIT)
    before = tree(outside), tree(repository)
    with Client(server) as client:
        for route, members in SETTINGS.items():
            for member in members:
                for vector in (*vectors(outside, 60), str(outside / "new"), "/tmp/nereid-trace", "trace.json"):
                    for value in (vector, [vector]):
                        answer = client.ask(route, json.dumps({member: value, "trace_level": ["TIMESTAMPS"], "trace_rate": "1"}).encode())
                        assert 400 <= answer.status < 500 or answer.status == 501, (route, answer.status)
                assert client.ask("/v2/models/m/infer", tensor()).status == 200
    server.stop()
    assert leaks(audit, repository, backends) == set()
    assert (tree(outside), tree(repository)) == before


def test_routes_of_sagemaker_and_vertex_are_not_there_cve_2026_24209(start_server, backends, repository, outside):  # noqa: F811
    make_identity(repository, "m")
    server, audit = start_audited(start_server, repository, flags=EXPLICIT)
    with Client(server) as client:
        for vector in vectors(outside, 60):
            body = json.dumps({"model_name": vector, "url": vector}).encode()
            for method, path in [("POST", "/models"), ("GET", "/models"), ("DELETE", "/models/m"), ("POST", "/models/m/invoke"),
                                 ("POST", "/invocations"), ("GET", "/ping"), ("POST", "/v1/endpoints/1/deployedModels/2:predict")]:
                assert client.ask(path, body if method == "POST" else None, method).status == 404, path
        assert list(client.index()) == [("m", "1")]
    server.stop()
    assert leaks(audit, repository, backends) == set()


GOOD = base64.b64encode(bytes(range(256))).decode()
CONTENTS = {  # of an uploaded file: what is wrong with it, or nothing
    "good": GOOD, "empty": "", "cut by 1": GOOD[:-1], "cut by 2": GOOD[:-2], "cut by 3": GOOD[:-3], "one character": "A",
    "padding alone": "=", "only padding": "====", "padding inside": "AA==AA==", "too much padding": "AAA==", "URL letters": "-_-_",
    "blanks": "AA AA", "line ends": "AAAA\nAAAA\n", "a zero": "AAAA\0AAA", "not ASCII": "ÄÄÄÄ", "large": base64.b64encode(bytes(3 << 20)).decode(),
    "no string": 7, "null": None, "a list": [GOOD],
}
IDENTITY = json.dumps({"backend": "identity", "max_batch_size": 8})


@pytest.mark.parametrize("order", ["config first", "file first"])
def test_uploaded_files_of_any_size_and_form_leave_nothing_cve_2024_53880(start_server, repository, tmp_path, order):
    """What is no base64 is refused, other files are a model's; nothing is left in the directory for temporary files."""
    make_identity(repository, "m")
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    server = start_server(repository, flags=EXPLICIT, variables={"TMPDIR": str(temporary)})
    before = tree(repository)
    with Client(server) as client:
        for what, content in CONTENTS.items():
            parameters = [("config", IDENTITY), ("file:1/x", content)]
            body = json.dumps({"parameters": dict(parameters if order == "config first" else parameters[::-1])}).encode()
            answer = client.ask("/v2/repository/models/sent/load", body)
            assert answer.status in (200, 400), (what, answer.status, answer.text)
            assert client.ask("/v2/models/m/infer", tensor()).status == 200
            wait_for("directories of earlier loads to go", lambda: len(list(temporary.iterdir())) <= 1)
        assert client.ask("/v2/repository/models/sent/unload", b"{}").status == 200
        wait_for("the last directory to go", lambda: list(temporary.iterdir()) == [])
    assert tree(repository) == before


SIZES = [2**31 - 1, 2**31, 2**31 + 1, 2**32, 2**32 + 1, 2**63 - 1, 2**63, 2**64 - 1]


@pytest.mark.parametrize("route", ["/v2/repository/models/m/load", "/v2/models/m/infer"])
def test_a_body_above_the_limit_is_refused_before_it_is_sent_cve_2024_53880(start_release, repository, route):
    make_identity(repository, "m")
    server = start_release(repository, flags=EXPLICIT)
    reset_peak(server)
    before = rss(server)
    for size in SIZES:
        with connect(server) as connection:
            connection.sendall(b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n{" % (route.encode(), size))
            assert 400 <= receive_reply(connection).status < 500, size
        assert server.ask("/v2/models/m/infer", tensor()).status == 200
    assert peak(server) - before < 4 * MIB


# ---- row 37: a disk without room ----


@pytest.mark.parametrize("place", ["standard output", "--log-file"])
def test_a_log_without_room_costs_its_lines_and_nothing_else(start_server, repository, tmp_path, place):
    """A limit on the size of files is a full disk that needs no mount, with a signal besides."""
    make_identity(repository, "m")
    copy_model(repository, "digits")
    file = tmp_path / "nereid.log"
    server = start_server(repository, flags=EXPLICIT if place == "standard output" else [*EXPLICIT, f"--log-file={file}"], wait=False)
    server.log_path = server.log_path if place == "standard output" else file
    wait_for("the log", server.log_path.exists)
    server.await_ports()
    server.await_ready()
    _, hard = resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (server.log_path.stat().st_size, hard))
    full = server.log_path.stat().st_size  # a line may have come before the limit
    with Client(server) as client:
        for _ in range(20):
            assert client.load("digits").status == 200
            assert client.ask("/v2/models/m/infer", tensor()).status == 200
            assert client.load("nobody").status in (400, 404, 500)
            assert client.unload("digits").status == 200
        assert server.log_path.stat().st_size == full
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (hard, hard))
        assert client.load("digits").status == 200
    assert "successfully loaded 'digits'" in server.log  # there is room again
