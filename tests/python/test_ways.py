# SPDX-License-Identifier: Apache-2.0
"""Who may change what a model has answered with: the ways of tests/python_ways, with answers that are read late.

The host sends several batches before it reads the first answer, as the server does when it hands executions ahead: by then
each execution has begun by writing to what those before had kept.
"""

import ast
import pathlib

import numpy as np
import pytest

from host import BYTES, Host, Raw, bytes_form
from patience import PATIENCE

MODEL = (pathlib.Path(__file__).resolve().parents[1] / "python_ways/model.py").read_text()
INFER, LOG = 5, 3
AHEAD = 6
# Bytes of float32 on both sides of: what is named (16 KiB), what lies in the region (64 KiB), copies that let go of the GIL (256 KiB).
COUNTS = (1, 4095, 4096, 4097, 16383, 16384, 16385, 50000, 65535, 65537)


def ways_of(kind):
    """Names of a class's functions of `x`."""
    node = next(node for node in ast.parse(MODEL).body if isinstance(node, ast.ClassDef) and node.name == kind)
    functions = [way for way in node.body if isinstance(way, ast.FunctionDef)]
    return [way.name for way in functions if "x" in [a.arg for a in way.args.args] and way.name != "filled"]


def serve(host, call):
    """An inference's answer: its input."""
    if call.kind == INFER:
        call.control.text(), call.control.get("q"), call.control.text(), call.control.get("BQ"), call.control.get("IQQ")
        call.control.text(), call.control.get("Q")
        for _ in range(call.control.get("I")):
            call.control.text()
        (value,) = host.read_tensors(call.control).values()
        host.reply(call, outputs={"OUT": value})


@pytest.fixture(scope="module")
def host(tmp_path_factory):
    directory = tmp_path_factory.mktemp("ways") / "m"
    (directory / "1").mkdir(parents=True)
    (directory / "1/model.py").write_text(MODEL)
    with Host(on_call=serve) as host:
        host.start(directory)
        yield host


def executed(host):
    """What the model has logged, a line for each execution."""
    return [call for call in host.calls if call.kind == LOG]


def run_ahead(host, batches):
    """The responses to batches that are all executed before the first answer is read."""
    before = len(executed(host))
    blocks = [host.begin(batch) for batch in batches]
    with host.has_calls:
        assert host.has_calls.wait_for(lambda: len(executed(host)) == before + len(batches), PATIENCE), host.output()
    return [host.end(block)[1] for block in blocks]


@pytest.mark.parametrize("way", ways_of("Ways"))
def test_numbers_are_what_they_were_when_execute_returned(host, way):
    for count in COUNTS:
        # float values that tell the execution and the request
        batches = [
            [{"id": way, "inputs": {"IN": np.full(count, 10 * number + row, np.float32)}} for row in range(2)] for number in range(AHEAD)
        ]
        for number, responses in enumerate(run_ahead(host, batches)):
            for row, response in enumerate(responses):
                assert response.kind == 1, response.message
                for name, output in response.outputs.items():
                    found = set(output.tolist())
                    assert found == {10 * number + row}, f"{way}, {count} numbers, execution {number}, {name}: {found}"


@pytest.mark.parametrize("way", ways_of("Texts"))
@pytest.mark.parametrize("length", (1, 100, 70000))
def test_texts_are_what_they_were_when_the_tensor_was_made(host, way, length):
    def texts(number, row):
        return [b"%d.%d " % (number, row) + b"x" * length, b"second"]

    batches = [
        [{"id": way, "inputs": {"IN": Raw(BYTES, (2,), bytes_form(texts(number, row)))}} for row in range(2)] for number in range(AHEAD)
    ]
    for number, responses in enumerate(run_ahead(host, batches)):
        for row, response in enumerate(responses):
            assert response.kind == 1, response.message
            for name, output in response.outputs.items():
                assert output.data == bytes_form(texts(number, row)), f"{way}, execution {number}, {name}: {output.data[:40]}"


@pytest.mark.parametrize("way", ["fresh", "fresh_views", "fresh_twice_in_an_answer"])
def test_what_nobody_else_holds_is_not_copied(host, way):
    for count in (16384, 50000, 1000000):
        _, [response], _ = host.execute([{"id": way, "inputs": {"IN": np.full(count, 3, np.float32)}}])
        assert host.data_place not in response.outputs.places.values(), count


def test_an_input_that_the_model_has_a_copy_of_is_not_copied_again(host):
    """A large input that is written to is a copy from the second time on; its request still has it when it is answered."""
    for turn in range(3):
        _, [response], _ = host.execute([{"id": "input_in_place", "inputs": {"IN": np.full(50000, 3, np.float32)}}])
        assert turn == 0 or response.outputs.places["OUT"] != host.data_place
