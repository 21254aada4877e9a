# SPDX-License-Identifier: Apache-2.0
"""The flags that a server was started with, and their hash."""
import contextlib
import hashlib
import json
import os
import re
import urllib.error
import urllib.request

from conftest import PATIENCE, make_identity
from test_metrics import scrape
from test_sockets import UnixConnection

PATH = "/v2/nereid/config_dump"
LARGE = 3_000_000_000_000  # more than a double prints by itself


def dump_of(server):
    answer = server.ask(PATH)
    assert answer.status == 200 and answer.headers["Content-Type"] == "application/json"
    return json.loads(answer.body)


def hash_of(server):
    return re.search(r'^nereid_config_info\{hash="([0-9a-f]{64})"\} 1$', scrape(server), re.M)[1]


def test_every_flag_has_its_value(start_server, repository):
    make_identity(repository, "m")
    server = start_server(repository, flags=["--id=here", "--strict-readiness=false", "--exit-timeout-secs=123", "--metrics-interval-ms=1500.5",
                                             f"--http-max-inflight-bytes={LARGE}", "--model-control-mode=EXPLICIT", "--load-model=m", "--load-model=m"])
    dump = dump_of(server)
    assert list(dump) == ["hash", "changed", "flags"]
    flags = dump["flags"]
    assert flags["id"] == "here" and flags["strict-readiness"] is False and flags["exit-timeout-secs"] == 123
    assert flags["metrics-interval-ms"] == 1500.5 and flags["http-max-inflight-bytes"] == LARGE
    assert flags["model-control-mode"] == "explicit" and flags["load-model"] == ["m", "m"] and flags["model-repository"] == [str(repository)]
    assert flags["http-port"] == 0 and flags["log-file"] == "" and flags["cache-config"] == []
    assert {"id", "strict-readiness", "exit-timeout-secs", "metrics-interval-ms", "model-repository"} <= set(dump["changed"])
    assert not {"model-store", "log-info", "allow-http"} & set(dump["changed"]) and "model-store" not in flags


def test_the_hash_is_that_of_the_flags(start_server, repository):
    make_identity(repository, "m")
    server = start_server(repository)
    text = server.ask(PATH).body
    dump = json.loads(text)
    flags = text[text.index(b'"flags":') + len(b'"flags":'):-1]
    assert hashlib.sha256(flags).hexdigest() == dump["hash"] == hash_of(server)
    assert server.ask("/v2/logging", b'{"log_verbose_level":1}').status == 200
    assert dump_of(server) == dump  # what is changed later is no flag
    assert hash_of(start_server(repository, flags=["--id=other"])) != dump["hash"]
    assert server.ask(PATH, method="HEAD").status == 200 and server.ask(PATH, b"{}").status == 405


def test_secrets_are_hidden(start_server, repository, tmp_path):
    make_identity(repository, "m")
    key = tmp_path / "key"
    key.write_text("of-the-file\n")
    secrets = ["--http-restricted-api=shared-memory:k=s3cret1", "--grpc-restricted-protocol=trace,logging:k=s3cret2",
               "--trace-config=opentelemetry,url=http://user:s3cret3@127.0.0.1:1/v1?x=http://a:s3cret4@b/", "--backend-config=python,API-Token=s3cret5",
               f"--http-restricted-api=statistics:k=file:{key}", "--backend-config=python,x=y@z"]
    server = start_server(repository, flags=secrets)
    text = server.ask(PATH).text
    flags = json.loads(text)["flags"]
    assert "s3cret" not in text and "of-the-file" not in text
    assert flags["http-restricted-api"] == ["shared-memory:k=***", f"statistics:k=file:{key}"]
    assert flags["grpc-restricted-protocol"] == ["trace,logging:k=***"]
    assert flags["trace-config"] == ["opentelemetry,url=http://***@127.0.0.1:1/v1?x=http://***@b/"]
    assert flags["backend-config"][-2:] == ["python,API-Token=***", "python,x=y@z"]


def test_bytes_that_are_no_text_are_shown_all_the_same(start_server, repository, tmp_path):
    make_identity(repository, "m")
    server = start_server(repository, flags=[b"--access-log=" + os.fsencode(tmp_path) + b"/l\xff\"\\g"])
    assert dump_of(server)["flags"]["access-log"] == f'{tmp_path}/l\ufffd"\\g'


def test_strangers_do_not_see_them(start_server, repository, machine_address, tmp_path):
    make_identity(repository, "m")
    admin = str(tmp_path / "admin.sock")

    def status(server, **headers):
        request = urllib.request.Request(f"http://{machine_address}:{server.http_port}{PATH}", headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE) as reply:
                return reply.status, reply.read().decode()
        except urllib.error.HTTPError as e:
            return e.code, e.read().decode()

    server = start_server(repository, flags=["--http-address=0.0.0.0"])
    refused = status(server)
    assert refused[0] == 403 and "the server's flags are shown on this machine only" in refused[1] and "not a loopback address" in refused[1]
    assert server.ask(PATH).status == 200
    assert server.ask(PATH, headers={"X-Forwarded-For": "10.1.2.3"}).status == 403
    server = start_server(repository, flags=["--http-address=0.0.0.0", "--restricted-api=model-repository:k=v"])
    assert status(server)[0] == 403 and status(server, k="v")[0] == 200
    server = start_server(repository, flags=["--secure", "--allow-root", f"--admin-address=unix:{admin}"])
    assert server.ask(PATH).status == 403
    with contextlib.closing(UnixConnection(admin)) as connection:
        connection.request("GET", PATH)
        assert connection.getresponse().status == 200


def test_without_metrics_there_is_the_dump(start_server, repository):
    make_identity(repository, "m")
    assert dump_of(start_server(repository, flags=["--allow-metrics=false"]))["flags"]["allow-metrics"] is False
