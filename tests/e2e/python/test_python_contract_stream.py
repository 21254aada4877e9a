# SPDX-License-Identifier: Apache-2.0
"""Decoupled Python models, asked by a program that embeds the server (tests/abi/stream_client.c)."""
import subprocess

import pytest
from conftest import DEADLINE, environment
from python_sides import MODELS, SIDES, embedding, python_backends, side  # noqa: F401


@pytest.fixture(scope="module")
def client(side, tmp_path_factory):
    return embedding(side, "stream_client", tmp_path_factory.mktemp("client"))


@pytest.fixture
def ask(client, side, python_backends):
    def ask(model, *values, cancel_after=0):
        run = subprocess.run(
            [client, python_backends, MODELS, model, str(cancel_after), *map(str, values)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=DEADLINE, env=environment() | side.variables,
        )
        assert run.returncode == 0, run.stderr
        return run.stdout.splitlines()

    return ask


def test_each_response_comes_in_order_and_the_end_by_itself(ask):
    assert ask("repeat", *range(20)) == [*map(str, range(20)), "- final"]


def test_a_request_may_have_no_response_at_all(ask):
    assert ask("repeat") == ["- final"]


def test_an_error_between_responses_ends_nothing(ask):
    assert ask("repeat", 1, -2, 3) == ["1", "Internal: -2 is negative", "3", "- final"]


def test_a_cancelled_stream_ends(ask, side):
    lines = ask("endless", 1, cancel_after=5)
    assert lines[:5] == ["0", "1", "2", "3", "4"]
    code = "<invalid code>" if side is SIDES["nereid-in-triton"] else "Cancelled"  # 2.51 does not know its own code's name
    assert lines[-1] == f"{code}: given up final"
    assert lines[:-1] == [str(n) for n in range(len(lines) - 1)]
