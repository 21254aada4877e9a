# SPDX-License-Identifier: Apache-2.0
"""The start as people see it: tables that fit the terminal, and a last line that says it all."""
import fcntl
import os
import re
import struct
import subprocess
import termios

import pytest
from certificates import make_certificates, tls_flags
from conftest import DEADLINE, ROOT, environment, make_faulty, make_identity, wait_for
from python_models import make_python
from start_output import row_of, summary, tables
from test_flags_triton import LOCAL, answers, launch, models  # noqa: F401: fixtures

pytestmark = pytest.mark.gpu_host

PLACES = r"HTTP at 127\.0\.0\.1:\d+, gRPC at 127\.0\.0\.1:\d+, metrics at 127\.0\.0\.1:\d+"


def await_summary(server):
    wait_for("the last line", lambda: "Serving " in server.log)
    return summary(server.log)


def test_the_last_line_counts_models_and_names_ports(start_server, repository):
    make_identity(repository, "a", versions=(1, 2), more="version_policy { all {} }")
    make_identity(repository, "b")
    server = start_server(repository)
    line = await_summary(server)
    assert re.fullmatch(r"Serving 2 models after \d+\.\d\d s: " + PLACES, line), line
    assert f":{server.http_port}," in line and line.endswith(f":{server.metrics_port}") and f":{server.grpc_port}," in line
    assert server.log.rstrip().endswith(line + '"')


def test_no_models_and_no_ports(start_server, repository):
    off = ["--allow-http=false", "--allow-grpc=false", "--allow-metrics=false"]
    server = start_server(repository, flags=off, ready=False)
    line = await_summary(server)
    assert re.fullmatch(r"Serving no models after \d+\.\d\d s: HTTP off, gRPC off, metrics off", line), line


def test_models_that_failed_are_named_in_a_warning(start_server, repository):
    make_identity(repository, "well")
    make_faulty(repository, "bad", fault="model_initialize")
    server = start_server(repository, flags=["--exit-on-error=false"], ready=False)
    line = await_summary(server)
    assert re.fullmatch(r"Serving 1 of 2 models after \d+\.\d\d s \(failed: bad\): " + PLACES, line), line
    assert re.search(r"^W.*Serving 1 of 2", server.log, re.M)


def test_a_start_that_fails_names_the_models_too(start_server, repository):
    make_identity(repository, "well")
    make_faulty(repository, "bad", fault="model_initialize")
    flags = ["--model-control-mode=explicit", "--load-model=bad", "--load-model=well", "--load-model=absent"]
    server = start_server(repository, flags=flags, wait=False)
    assert server.process.wait(DEADLINE) == 1
    assert re.fullmatch(r"Giving up with 1 of 3 models after \d+\.\d\d s \(failed: bad, absent\); --exit-on-error=false serves the others",
                        summary(server.log)), server.log
    assert server.log.rstrip().endswith("error: creating server: Internal - failed to load all models")


@pytest.mark.slow
def test_a_thousand_models_are_one_line(start_server, repository):
    for i in range(1000):
        make_identity(repository, f"m{i}")
    (repository / "m7/config.pbtxt").write_text("nonsense")
    server = start_server(repository, flags=["--exit-on-error=false", "--exit-timeout-secs=300"], ready=False)
    line = await_summary(server)
    assert line.startswith("Serving 999 of 1000 models after ") and "(failed: m7): HTTP at " in line
    rows = [line for line in tables(server.log) if re.match(r"\| m\d+ +\| 1 +\| READY +\|$", line)]
    assert len(rows) == 999


def test_sockets_and_tls_are_told(start_server, repository, tmp_path):
    certificates = make_certificates(tmp_path)
    flags = [f"--http-address=unix:{tmp_path}/http", "--metrics-address=127.0.0.1", *tls_flags(certificates, protocol="grpc")]
    server = start_server(repository, flags=flags, wait=False)
    line = await_summary(server)
    assert f": HTTP at unix:{tmp_path}/http, gRPC at 127.0.0.1:" in line and " with TLS, metrics at 127.0.0.1:" in line


def test_rows_that_scripts_match_stay_whole(start_server, repository):
    make_identity(repository, "simple")
    make_faulty(repository, "bad", fault="model_initialize")
    server = start_server(repository, flags=["--exit-on-error=false"], ready=False)
    await_summary(server)
    assert re.search(r"^\| simple +\| 1 +\| READY +\|$", server.log, re.M)
    assert row_of(server.log, "bad").startswith("bad | 1 | UNAVAILABLE: ")
    assert max(map(len, tables(server.log))) <= 120


@pytest.mark.parametrize("columns, width", [("80", 80), ("200", 200), ("20", 80), ("100000", 200), ("x", 120), ("", 120)])
def test_tables_are_as_wide_as_columns_says(start_server, repository, columns, width):
    server = start_server(repository, variables={"COLUMNS": columns}, flags=[f"--id={'word ' * 200}"])
    await_summary(server)
    assert max(map(len, tables(server.log))) <= width
    widest = [line for line in tables(server.log) if "word" in line]
    assert all(width - 10 < len(line) <= width for line in widest) and sum(line.count("word") for line in widest) == 200


def test_tables_fit_the_terminal(nereid, backends, repository):
    """And what follows is not cut either: the value of an option is there whole."""
    make_identity(repository, "größe")
    leader, follower = os.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 25, 93, 0, 0))
    command = [str(nereid), f"--model-repository={repository}", f"--backend-directory={backends}", "--http-port=0", "--grpc-port=0",
               "--metrics-port=0", f"--id={'a' * 3000}"]
    process = subprocess.Popen(command, stdout=follower, stderr=follower, env=environment() | {"COLUMNS": "180"})
    os.close(follower)
    text = b""
    while b"Serving " not in text:
        text += os.read(leader, 65536)
    process.terminate()
    while True:  # the terminal's end is an error
        try:
            if not os.read(leader, 65536):
                break
        except OSError:
            break
    assert process.wait(DEADLINE) == 0
    os.close(leader)
    lines = tables(text.decode().replace("\r\n", "\n"))
    assert max(map(len, lines)) == 93 and sum(line.count("a" * 20) > 0 for line in lines) >= 3000 // 93
    assert any(re.match(r"\| größe +\| 1 +\| READY +\|$", line) for line in lines)


def test_lines_that_scripts_wait_for_are_tritons(launch):  # noqa: F811
    """The same patterns, on both sides."""
    server = launch(LOCAL)
    wait_for("the server", lambda: answers(server))
    for pattern in (r'"Started HTTPService at 127\.0\.0\.1:\d+"', r'"Started GRPCInferenceService at 127\.0\.0\.1:\d+"',
                    r'"Started Metrics Service at 127\.0\.0\.1:\d+"', r"^\| Model +\| Version +\| Status +\|$",
                    r"^\| Backend +\| Path +\| Config +\|$", r"^\| Repository Agent +\| Path +\|$", r"^\| Option +\| Value +\|$",
                    r"^\| server_id +\| triton +\|$", r"^\| model_control_mode +\| MODE_NONE +\|$"):
        wait_for(pattern, lambda: re.search(pattern, server.log, re.M))


def test_version_is_said(nereid):
    said = subprocess.run([nereid, "--version"], capture_output=True, text=True)
    assert said.returncode == 0 and re.fullmatch(r"nereid \d+\.\d+\.\d+\n", said.stdout), said


def test_calls_are_shown_last_with_the_right_port(start_server, repository):
    """What scripts/serve does."""
    make_identity(repository, "m")
    server = start_server(repository, flags=["--show-calls"])
    wait_for("the call", lambda: server.log.rstrip().splitlines()[-1].startswith("curl -d "))
    line = server.log.rstrip().splitlines()[-1]
    assert line.endswith(f" 127.0.0.1:{server.http_port}/v2/models/m/infer")
    said = subprocess.run(["sh", "-c", line], capture_output=True, text=True, timeout=DEADLINE)
    assert '"outputs"' in said.stdout, said


@pytest.mark.parametrize("model", ["configured", "plain"])
def test_a_models_own_directory_as_repository_hints_at_its_parent(start_server, repository, model):
    directory = make_identity(repository, model)
    if model == "plain":
        (directory / "config.pbtxt").unlink()
    server = start_server(directory, wait=False)
    assert server.process.wait(DEADLINE) == 1
    assert f"'{directory}' looks like a model's own directory: --model-repository is the directory above it, '{repository}'" in server.log


def test_a_versions_directory_as_repository_gets_a_hint(start_server, repository):
    version = make_identity(repository, "m") / "1"
    (version / "model.onnx").touch()
    assert f"'{version}' looks like the directory of a model's version: --model-repository is the directory above the model's" in start_server(version).log


def test_a_repository_gets_no_such_hint(start_server, repository):
    make_identity(repository, "m")
    assert "looks like" not in start_server(repository).log
    (repository.parent / "2026").mkdir()
    assert "looks like" not in start_server(repository.parent / "2026").log


def test_the_python_that_runs_models_is_named_once(start_server, repository):
    make_python(repository, "a")
    make_python(repository, "b")
    server = start_server(repository)
    assert len(re.findall(rf"Python models run on Python 3\.\d+\.\d+\S* at '{ROOT}/\.venv/bin/python'", server.log)) == 1


def test_the_stop_says_how_long_it_took(start_server, repository):
    make_identity(repository, "m")
    server = start_server(repository)
    server.stop()
    assert re.search(r'"Stopped after \d+\.\d\d s: every request that was taken on is answered"$', server.log.rstrip())
