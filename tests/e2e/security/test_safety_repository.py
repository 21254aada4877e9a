# SPDX-License-Identifier: Apache-2.0
"""Repositories that are broken, change or go away while models of them serve: what is bad is refused, and what serves goes on.

The model adds a number to its input, so its answer tells which file it came from.
"""
import contextlib
import json
import os
import random
import shutil
import socket
import threading

import numpy as np
import onnx
import pytest
from conftest import DEADLINE, make_identity
from onnx import TensorProto, helper, numpy_helper
from safety import Client, tensor

pytestmark = pytest.mark.long

EXPLICIT = ["--model-control-mode=explicit", "--load-model=*"]
COPIES = int(os.environ.get("NEREID_COPIES", "100"))
# Root reads everything; without these rights it is an owner like others.
WITHOUT_ROOTS_RIGHTS = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"] if os.geteuid() == 0 else []
WIDTH = 2000


def adder(number):
    """An ONNX file of some 16 KiB: Y = X + sum of an initializer, which is `number`."""
    values = np.zeros((1, WIDTH), np.float64)
    values[0, WIDTH // 2 :] = number / (WIDTH // 2)
    graph = helper.make_graph(
        [helper.make_node("ReduceSum", ["values"], ["sum"], keepdims=1), helper.make_node("Add", ["X", "sum"], ["Y"])],
        "adder",
        [helper.make_tensor_value_info("X", TensorProto.DOUBLE, ("batch", 1))],
        [helper.make_tensor_value_info("Y", TensorProto.DOUBLE, ("batch", 1))],
        [numpy_helper.from_array(values, "values")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8).SerializeToString()


def make_adder(repository, number, name="adder", version=1):
    directory = repository / name / str(version)
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "model.onnx").write_bytes(adder(number))
    return repository / name


def ask(client, model="adder"):
    """What the model adds to 0; the whole answer when it is an error."""
    body = tensor() if model == "m" else tensor("X", "FP64", [1, 1], [0])
    answer = client.ask(f"/v2/models/{model}/infer", body)
    return round(json.loads(answer.body)["outputs"][0]["data"][0]) if answer.status == 200 else answer.text


@contextlib.contextmanager
def served(server, *models):
    """Asks the models all the time; each answer is checked, and there are some."""
    stop, wrong, counts = threading.Event(), [], dict.fromkeys(models, 0)

    def work(model, expected):
        with Client(server) as client:
            while not stop.is_set():
                answer = ask(client, model)
                counts[model] += 1
                if answer not in expected:
                    wrong.append((model, answer))

    threads = [threading.Thread(target=work, args=item) for item in {m: (7, 1) if m != "m" else (7,) for m in models}.items()]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join(DEADLINE)
    assert wrong == [] and min(counts.values()) > 0


def touch(path, clock=[4_000_000_000]):
    """Gives the path a change time that no earlier one reaches."""
    clock[0] += 1
    os.utime(path, (clock[0], clock[0]))


# ---- row 34: bad files ----


def as_fifo(path):
    os.mkfifo(path)


def as_socket(path):
    end = socket.socket(socket.AF_UNIX)
    directory = os.open(path.parent, os.O_RDONLY)  # the path itself may be too long for a socket
    end.bind(f"/proc/self/fd/{directory}/{path.name}")
    os.close(directory)


def as_sparse(path, content=b""):
    path.write_bytes(content)
    os.truncate(path, 4 << 30)


def as_unreadable(path, content):
    path.write_bytes(content)
    path.chmod(0)


BAD = {  # what is put in the place of a good file; `content` is the good one's
    "empty": lambda path, content: path.write_bytes(b""),
    "zero bytes": lambda path, content: path.write_bytes(bytes(len(content))),
    "random bytes": lambda path, content: path.write_bytes(random.Random(34).randbytes(len(content))),
    "a text": lambda path, content: path.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n"),
    "4 GiB of nothing": lambda path, content: as_sparse(path),
    "4 GiB after a good model": lambda path, content: as_sparse(path, content),
    "a directory": lambda path, content: path.mkdir(),
    "a FIFO": lambda path, content: as_fifo(path),
    "a socket": lambda path, content: as_socket(path),
    "a device": lambda path, content: path.symlink_to("/dev/zero"),
    "a link to nothing": lambda path, content: path.symlink_to("absent"),
    "a link to itself": lambda path, content: path.symlink_to(path.name),
    "unreadable": as_unreadable,
}


def remove(path):
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def check_refused(client, what):
    answer = client.load("adder")
    assert answer.status in (400, 500) and json.loads(answer.text)["error"], (what, answer.status, answer.text)
    assert ask(client) == 7, what
    assert client.index()[("adder", "1")] == "READY", what


@pytest.mark.parametrize("place", ["the model's file", "a new version's file", "the configuration"])
def test_bad_files_are_refused_and_what_serves_goes_on(start_server, repository, place):
    make_adder(repository, 7)
    make_identity(repository, "m")
    server = start_server(repository, flags=EXPLICIT, wrapper=WITHOUT_ROOTS_RIGHTS)
    path = repository / "adder" / {"the model's file": "1/model.onnx", "a new version's file": "2/model.onnx"}.get(place, "config.pbtxt")
    path.parent.mkdir(exist_ok=True)
    good = b'backend: "onnxruntime"\nmax_batch_size: 4\n' if place == "the configuration" else adder(7)
    with Client(server) as client, served(server, "m", "adder"):
        for what, spoil in BAD.items():
            if (place, what) == ("the configuration", "empty"):
                continue  # that is a good one: everything is taken from the model
            remove(path)
            spoil(path, good)
            touch(path.parent)
            check_refused(client, what)
        remove(path)
        path.write_bytes(adder(1) if place != "the configuration" else good)
        touch(path)
        answer = client.load("adder")
        assert answer.status == 200, answer.text
        assert ask(client) == (7 if place == "the configuration" else 1)


@pytest.mark.parametrize("place", ["1/model.onnx", "2/model.onnx"])
def test_a_model_cut_at_100_places_is_refused(start_server, repository, place):
    path = make_adder(repository, 7) / place
    server = start_server(repository, flags=EXPLICIT)
    path.parent.mkdir(exist_ok=True)
    whole = adder(1)
    with Client(server) as client:
        for size in sorted(random.Random(34).sample(range(1, len(whole)), 100)):
            path.write_bytes(whole[:size])  # in place: the file that serves
            touch(path)
            check_refused(client, size)
        path.write_bytes(whole)
        touch(path)
        assert client.load("adder").status == 200 and ask(client) == 1


# ---- row 35: what serves goes away ----

GONE = {  # what happens to the repository, and how it is undone
    "the version's directory is removed": lambda r: replace(r / "adder/1"),
    "the model's directory is removed": lambda r: replace(r / "adder"),
    "the repository is removed": lambda r: replace(r),
    "the version's directory is unreadable": lambda r: close(r / "adder/1"),
    "the model's directory is unreadable": lambda r: close(r / "adder"),
    "the repository is unreadable": lambda r: close(r),
    "the version's directory is a file": lambda r: replace(r / "adder/1", lambda p: p.write_text("x")),
    "the model's directory is a file": lambda r: replace(r / "adder", lambda p: p.write_text("x")),
    "the repository is a file": lambda r: replace(r, lambda p: p.write_text("x")),
    "the repository is a loop": lambda r: replace(r, lambda p: p.symlink_to(p.name)),
}


def replace(path, make=lambda path: None):
    copy = path.parent.parent / "elsewhere" if path.name == "models" else path.parents[1 + (path.name == "1")] / "elsewhere"
    shutil.copytree(path, copy)
    shutil.rmtree(path)  # and not a rename: what was open is gone too
    make(path)
    touch(path.parent)  # or a load finds nothing new and is content

    def undo():
        remove(path)
        shutil.move(copy, path)

    return undo


def close(path):
    touch(path)
    path.chmod(0)
    return lambda: path.chmod(0o755)


def test_what_serves_goes_on_without_its_files(start_server, repository):
    make_adder(repository, 7)
    make_identity(repository, "m")
    make_identity(repository, "spare")
    server = start_server(repository, flags=[EXPLICIT[0], "--load-model=m", "--load-model=adder"], wrapper=WITHOUT_ROOTS_RIGHTS)
    with Client(server) as client, served(server, "m", "adder"):
        for what, happens in GONE.items():
            undo = happens(repository)
            for _ in range(2):
                rows = client.index()
                assert rows[("adder", "1")] == rows[("m", "1")] == "READY", (what, rows)
                assert (("spare", None) in rows) == ("the repository" not in what), (what, rows)
                answer = client.load("adder")
                assert answer.status in (400, 500) and json.loads(answer.text)["error"], (what, answer.status, answer.text)
                assert ask(client) == 7 and ask(client, "m") == 7, what
                assert server.ask("/v2/health/ready").status == 200, what
            undo()
            touch(repository / "adder")
            answer = client.load("adder")
            assert answer.status == 200, (what, answer.text)
    assert client.index()[("adder", "1")] == "READY"


# ---- row 36: copies half-way ----


class SlowCopy(threading.Thread):
    """Writes a file in pieces; stops half-way until `go_on` is set."""

    def __init__(self, content, path):
        super().__init__()
        self.content, self.path = content, path
        self.is_half, self.go_on = threading.Event(), threading.Event()

    def run(self):
        half = len(self.content) // 2
        with self.path.open("wb", buffering=0) as file:
            for begin in range(0, len(self.content), 1024):
                file.write(self.content[begin : begin + 1024])
                touch(self.path)
                if begin <= half < begin + 1024:
                    self.is_half.set()
                    assert self.go_on.wait(DEADLINE)


@pytest.mark.slow
def test_a_model_that_is_being_copied_serves_as_it_was_or_as_it_will_be(start_server, repository):
    """Each try copies another number over the version that serves, or into a new one, and loads meanwhile."""
    path = make_adder(repository, 0) / "1/model.onnx"
    server = start_server(repository, flags=EXPLICIT)
    with Client(server) as client:
        for number in range(1, COPIES + 1):
            if number % 2:
                path = repository / "adder" / str(number + 1) / "model.onnx"
                path.parent.mkdir()
            old, copy = ask(client), SlowCopy(adder(number), path)
            copy.start()
            assert copy.is_half.wait(DEADLINE)
            assert client.load("adder").status in (400, 500) and ask(client) == old == number - 1
            copy.go_on.set()
            while copy.is_alive():
                assert client.load("adder").status in (200, 400, 500)
                assert ask(client) in (old, number)
            assert client.load("adder").status == 200
            assert ask(client) == number
