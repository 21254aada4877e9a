# SPDX-License-Identifier: Apache-2.0
"""Clients that are not Triton's, unmodified: in Go and in Node, made from the public proto; KServe's own; grpcurl, which asks for it.

Each of the first three is a program in tests/clients that asks and prints what it was answered; scripts/setup --all installs what they need where
their language is on the machine. The tests of a language that is not are skipped, and say so.
"""
import base64
import json
import os
import shutil
import struct
import subprocess

import pytest
from conftest import DEADLINE, ROOT, Starter
from grpc_sides import make_models

pytestmark = pytest.mark.slow

CLIENTS, DEPS = ROOT / "tests/clients", ROOT / ".deps"
PROTOS = ("frontend/grpc/proto/grpc_service.proto", "config/model_config.proto")
UNKNOWN = {"code": 5, "text": "Request for unknown model: 'none' is not found"}
EXPECTED = {
    "ready": True,
    "config": [8, "TYPE_INT32"],
    "metadata": ["INPUT0", "INT32", [-1, -1]],
    "typed": [1, -2, 3],
    "texts": ["ü", "", "three"],
    "large": True,
    "packed": True,
    "parameters": {"text": "t", "truth": True, "whole": -7},
    "unknown": UNKNOWN,
    "late": 4,
    "stream": [5, "-6 is negative", 7, True],
}


@pytest.fixture(scope="module")
def server(nereid, backends, tmp_path_factory):
    starter = Starter(nereid, backends, tmp_path_factory.mktemp("server"))
    flags = ["--model-control-mode=explicit", "--load-model=*", "--grpc-infer-response-compression-level=low"]
    yield starter(make_models(tmp_path_factory.mktemp("models")), flags=flags)
    starter.stop_all()


def asked(*command, **variables):
    """What a client printed."""
    run = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=2 * DEADLINE, env=os.environ | variables)
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


def installed(directory):
    if not (directory / ".complete").exists():
        pytest.skip(f"{directory.name}: scripts/setup --all could not install it, or was not run")
    return directory


@pytest.fixture(scope="module")
def go_tools():
    if not shutil.which("go"):
        pytest.skip("there is no Go on this machine")
    return installed(DEPS / "go-client")


@pytest.fixture(scope="module")
def go_client(go_tools, tmp_path_factory):
    """Generated and built from what is here."""
    directory = tmp_path_factory.mktemp("go")
    for file in (CLIENTS / "go").iterdir():
        shutil.copy(file, directory)
    generate = ["protoc", f"-I{ROOT}/src", *PROTOS]
    for plugin in ("go", "go-grpc"):
        generate += [f"--plugin=protoc-gen-{plugin}={go_tools}/protoc-gen-{plugin}", f"--{plugin}_out={directory}",
                     f"--{plugin}_opt=module=nereid.test/client",
                     *(f"--{plugin}_opt=M{proto}=nereid.test/client/inference" for proto in PROTOS)]
    subprocess.run(generate, check=True)
    # what setup brought is all that it gets
    subprocess.run(["go", "build", "-o", "client", "."], cwd=directory, check=True, env=os.environ | {"GOPROXY": "off", "GOFLAGS": "-mod=readonly"})
    return directory / "client"


def test_a_client_in_go(go_client, server):
    assert asked(go_client, f"127.0.0.1:{server.grpc_port}") == EXPECTED


def test_grpcurl_learns_by_reflection_what_there_is(go_tools, server):
    def grpcurl(*arguments):
        command = [go_tools / "grpcurl", "-plaintext", *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE)

    address = f"127.0.0.1:{server.grpc_port}"
    assert {"grpc.health.v1.Health", "inference.GRPCInferenceService"} <= set(grpcurl(address, "list").stdout.split())
    assert "int32 max_batch_size = 4;" in grpcurl(address, "describe", "inference.ModelConfig").stdout
    request = {"model_name": "t_int32", "inputs": [{"name": "INPUT0", "datatype": "INT32", "shape": [1, 2], "contents": {"int_contents": [7, 8]}}]}
    run = grpcurl("-d", json.dumps(request), address, "inference.GRPCInferenceService/ModelInfer")
    reply = json.loads(run.stdout)
    assert base64.b64decode(reply["rawOutputContents"][0]) == struct.pack("<2i", 7, 8)
    refused = grpcurl("-d", '{"name": "none"}', address, "inference.GRPCInferenceService/ModelConfig")
    assert refused.returncode != 0 and "Code: NotFound" in refused.stderr and UNKNOWN["text"] in refused.stderr


def test_a_client_in_node(server):
    node = shutil.which("node")
    if not node:
        pytest.skip("there is no Node on this machine")
    modules = installed(DEPS / "node-client") / "node_modules"
    program = CLIENTS / "node/client.js"
    assert asked(node, program, f"127.0.0.1:{server.grpc_port}", ROOT / "src", NODE_PATH=str(modules)) == EXPECTED


def test_kserve_s_client(server):
    python = installed(DEPS / "kserve") / "bin/python"
    assert asked(python, CLIENTS / "kserve/client.py", f"127.0.0.1:{server.grpc_port}", server.url) == {
        "ready": True, "typed": EXPECTED["typed"], "texts": EXPECTED["texts"], "unknown": UNKNOWN,
        "http ready": [True, False], "http json": ["r", [1, -2, 3]], "http binary": True, "http unknown": 404,
    }
