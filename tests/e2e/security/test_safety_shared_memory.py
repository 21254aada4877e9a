# SPDX-License-Identifier: Apache-2.0
"""Clients that use shared memory against the server: rows 24 to 28 of the scorecard, S1 to S3, S6 and S7."""
import contextlib
import itertools
import json
import os
import random
import struct
import subprocess
import sys
import threading

import proc
import pytest
from client_memory import inference, mapped, place, region, register, registered, status, unregister
from conftest import ROOT, Starter, copy_model, make_targets, wait_for
from oracle import survives
from safety import on_threads
from test_safety_tensors import Client
from wire import check_error, connect, receive_reply, request, send

pytestmark = [pytest.mark.slow, pytest.mark.long]

ALLOW = ("--allow-client-shm=true",)
ROUNDS = int(os.environ.get("NEREID_SHM_ROUNDS", "1000"))
PAGE = os.sysconf("SC_PAGE_SIZE")
LARGE = 8 * PAGE


@pytest.fixture(scope="module")
def sharing(nereid, backends, tmp_path_factory):
    """A server that lets clients share memory."""
    starter = Starter(nereid, backends, tmp_path_factory.mktemp("sharing"))
    models = make_targets(tmp_path_factory.mktemp("models"))
    copy_model(models, "add_sub")  # of backends that know nothing of this: ONNX Runtime, and Python
    copy_model(models, "batch_add")
    yield starter(models, flags=ALLOW)
    starter.stop_all()


def end_of(server, *regions):
    """Nothing is registered any more, and nothing mapped."""
    assert unregister(server).status == 200
    wait_for("no region", lambda: registered(server) == [] and not any(mapped(server, made) for made in regions))


# --- bounds and keys

def near(chance, *anchors):
    return max(0, chance.choice([0, *anchors, 2**63 - 1]) + chance.randint(-3, 3)) % 2**64


def test_cve_2024_0088_sizes_and_offsets_against_a_reference(sharing):
    """S1, row 25: taken iff inside, by integers without end."""
    chance = random.Random(25)
    taken = [0, 0]
    with region(3 * PAGE) as made, survives(sharing) as survival, Client(sharing, survival) as client:
        for _ in range(300):
            offset, size = near(chance, made.size, PAGE), near(chance, made.size, PAGE)
            answer = register(sharing, "r", made.key, size, offset)
            fits = 0 < size and offset + size <= made.size
            assert answer.status == (200 if fits else 400), (offset, size, answer.text)
            taken[0] += fits
            if fits:
                assert unregister(sharing, "r").status == 200
        assert register(sharing, "r", made.key, 2 * PAGE, PAGE // 2).status == 200
        for _ in range(700):
            count = chance.choice([1, 2, 64])
            at, to = near(chance, 2 * PAGE, 2 * PAGE - count, PAGE), near(chance, 2 * PAGE, 2 * PAGE - count, PAGE)
            reply = client.infer("t_uint8", inference("UINT8", [1, count], place("r", count, at), place("r", count, to)))
            fits = at + count <= 2 * PAGE and to + count <= 2 * PAGE
            assert reply.status == (200 if fits else 400), (at, to, count, reply)
            taken[1] += fits
            if not fits:
                check_error(reply)
        assert min(taken) > 30, taken
        end_of(sharing, made)


KEYS = ["", "/", "//", "///x", "//KEY", "KEY/", "/.//KEY", "x/../KEY", "/../dev/shm/KEY", "..", "/..", ".", "/./KEY", "/proc/self/mem",
        "/dev/mem", "a b", "a\nb", "a\tb", "\x7f", "é", "a\\b", "*", "$(id)", "`id`", "'", '"', "a" * 256, "/" + "a" * 256, "a" * 70_000,
        "triton_python_backend_shm_region_0", "/triton_python_backend_shm_region_0", "//triton_python_backend_shm_region_0", "a\0b"]


def test_cve_2025_23329_keys_are_one_plain_name(sharing):
    """S6, row 25: what is allowed is listed, not what is not."""
    with region() as made, survives(sharing):
        name = made.key[1:]
        for key in KEYS:
            answer = register(sharing, "r", key.replace("KEY", name), 16)
            assert answer.status == 400, (key, answer.text)
            assert json.loads(answer.body)["error"] and len(answer.body) < 4096
        for key in (name, made.key):
            assert register(sharing, "r", key, 16).status == 200, key
            assert unregister(sharing, "r").status == 200
        for bad in ("%00", "a%0ab", "%2f", "a" * 256):
            assert register(sharing, bad, made.key, 16).status in (400, 404), bad
        end_of(sharing, made)


def test_cve_2026_47478_one_object_under_a_thousand_names(sharing):
    """S7, row 25: no descriptor stays, each name is a region of its own."""
    with region(1024 * 8) as made, region() as other, survives(sharing) as survival, Client(sharing, survival) as client:
        made.memory[:] = b"".join(struct.pack("<q", i) for i in range(1024))
        for i in range(1000):
            assert register(sharing, f"r{i}", made.key, 8, 8 * i).status == 200
            if i % 100 == 0:  # others come and go meanwhile
                assert register(sharing, "other", other.key, 8).status == 200
                assert unregister(sharing, "other").status == 200
        assert mapped(sharing, made) >= 1
        for i in random.Random(7).sample(range(1000), 200):
            reply = client.infer("t_int64", inference("INT64", [1, 1], place(f"r{i}", 8)))
            assert reply.status == 200 and json.loads(reply.body)["outputs"][0]["data"] == [i]
        for i in range(0, 1000, 2):
            assert unregister(sharing, f"r{i}").status == 200
        assert len(registered(sharing)) == 500
        end_of(sharing, made, other)


def test_memory_of_others_is_refused_by_the_kernel(backends, nereid, targets, tmp_path):
    """The server opens what its own user may open, and says why not in the kernel's words."""
    starter = Starter(nereid, backends, tmp_path)
    as_others = ("setpriv", "--bounding-set=-dac_override,-dac_read_search") if os.geteuid() == 0 else ()
    server = starter(targets, flags=ALLOW, wrapper=as_others)
    try:
        with region() as made:
            os.chmod(made.path, 0)
            answer = register(server, "r", made.key, 16)
            assert answer.status == 500
            assert json.loads(answer.body)["error"] == f"Unable to open shared memory region: '{made.key}': Permission denied"
            os.chmod(made.path, 0o444)  # reading is not enough
            assert register(server, "r", made.key, 16).status == 500
            os.chmod(made.path, 0o666)
            assert register(server, "r", made.key, 16).status == 200
            end_of(server, made)
    finally:
        starter.stop_all()


# --- memory that goes away

@contextlib.contextmanager
def meanwhile(work):
    """Calls `work` again and again on a thread of its own while the block runs. Gives the block its rounds: at least so many, and more until they have hit."""
    stop, failures = threading.Event(), []

    def run():
        try:
            while not stop.is_set():
                work()
        except BaseException as failure:  # noqa: B902 - it is raised again below
            failures.append(failure)

    def rounds(least, hit):
        for i in itertools.count():
            if failures or (i >= least and hit()):
                return
            yield

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield rounds
    finally:
        stop.set()
        thread.join()
    if failures:
        raise failures[0]


ATTACKED = {
    "read in place": ("t_fp32", "FP32"), "copied": ("t_int32", "INT32"), "copied with lengths": ("t_bytes", "BYTES"),
}


@pytest.mark.parametrize("way", ATTACKED)
def test_a_region_that_is_truncated_while_it_is_used(sharing, way):
    """Row 26: the request that used it fails or is right; the server and everybody else's requests know nothing of it."""
    model, datatype = ATTACKED[way]
    statuses = {200: 0, 400: 0, 404: 0}

    def come_and_go():
        made.resize(0)
        made.resize(made.size)

    with region(2 * LARGE) as made, survives(sharing), connect(sharing) as connection:
        with meanwhile(come_and_go) as rounds:
            for _ in rounds(ROUNDS // 2, lambda: statuses[400] > 0):
                register(sharing, "r", made.key, made.size)  # again, where it was dropped
                body = inference(datatype, [1, LARGE // 4], place("r", LARGE), place("r", LARGE, LARGE))
                send(connection, request("POST", f"/v2/models/{model}/infer", body))
                reply = receive_reply(connection)
                statuses[reply.status] += 1
                if reply.status != 200:
                    check_error(reply)
        end_of(sharing, made)


def test_a_region_that_is_gone_for_good(sharing):
    """Row 26, without a race: each of input and output, of three backends; what stays of the object is the client's."""
    with survives(sharing), connect(sharing) as connection:
        for model in ("t_fp32", "add_sub", "batch_add"):
            for half in (0, 1):
                with region(2 * PAGE) as made:
                    made.memory[:] = b"\x3f" * made.size
                    assert register(sharing, "r", made.key, made.size).status == 200
                    made.resize(PAGE)
                    body = half_gone(model, half)
                    send(connection, request("POST", f"/v2/models/{model}/infer", body))
                    reply = receive_reply(connection)
                    assert reply.status == 400 and "shared memory region 'r' is unregistered" in check_error(reply), (model, half, reply)
                    assert status(sharing, "r").status == 404
                    assert mapped(sharing, made) == 0
                    assert made.memory[64:PAGE] == b"\x3f" * (PAGE - 64)
                    send(connection, request("POST", f"/v2/models/{model}/infer", body))
                    assert receive_reply(connection).status == 404
        end_of(sharing)


def half_gone(model, half):
    """A request whose input (half 0) or output (half 1) lies in the second page of the region 'r'."""
    names = ["INPUT0"] if model == "t_fp32" else ["INPUT0", "INPUT1"]
    inputs = [{"name": name, "datatype": "FP32", "shape": [1, 16], "data": [1] * 16} for name in names]
    if half == 0:
        del inputs[0]["data"]
        inputs[0]["parameters"] = place("r", 64, PAGE)
    output = {"name": "OUTPUT0", "parameters": place("r", 64, PAGE * half)}
    return json.dumps({"inputs": inputs, "outputs": [output]}).encode()


def test_lengths_that_change_while_they_are_read(sharing):
    """Row 27: BYTES are judged on a copy: each reply is a tensor that was there, or a refusal."""
    count = 64
    good = b"".join(struct.pack("<I", 4) + b"abcd" for _ in range(count))
    lies = [struct.pack("<I", n) for n in (0, 5, 2**31, 2**32 - 1, len(good), 12)]
    chance = random.Random(27)
    statuses = {200: 0, 400: 0}
    with region(2 * PAGE) as made, survives(sharing) as survival, Client(sharing, survival) as client:
        made.memory[: len(good)] = good
        assert register(sharing, "r", made.key, made.size).status == 200

        def rewrite():
            at = 8 * chance.randrange(count)
            made.memory[at : at + 4] = chance.choice(lies)
            made.memory[at : at + 4] = good[:4]

        body = inference("BYTES", [1, count], place("r", len(good)), place("r", PAGE, PAGE))
        with meanwhile(rewrite) as rounds:
            for _ in rounds(2 * ROUNDS, lambda: min(statuses.values()) > 0):
                reply = client.infer("t_bytes", body)
                statuses[reply.status] += 1
                if reply.status == 200:
                    check_tensor(made.memory[PAGE:], count, len(good))
        end_of(sharing, made)


def check_tensor(data, count, size):
    at = 0
    for _ in range(count):
        at += 4 + struct.unpack_from("<I", data, at)[0]
    assert at == size


# --- life

def test_cve_2024_0116_requests_race_with_unregistering(sharing):
    """S3, row 28: each request finds the region or does not; what is unregistered is unmapped."""
    statuses = [{200: 0, 404: 0} for _ in range(4)]

    def use(number):
        with connect(sharing) as connection:
            for _ in rounds(ROUNDS // 2, lambda: min(statuses[number].values()) > 0):
                with_own_bytes = place("r", 256, 1024 * number), place("r", 256, 1024 * number + 512)
                send(connection, request("POST", "/v2/models/t_fp32/infer", inference("FP32", [1, 64], *with_own_bytes)))
                statuses[number][receive_reply(connection).status] += 1

    def come_and_go():
        assert register(sharing, "r", made.key, made.size).status in (200, 400)  # 400: it is still in use
        assert unregister(sharing, "r").status == 200

    with region(2 * PAGE) as made, survives(sharing):
        with meanwhile(come_and_go) as rounds:
            on_threads(4, use)
        end_of(sharing, made)


DYING = """
import sys
sys.path.insert(0, sys.argv[1])
from client_memory import Region
made = Region(8192)
print(made.key, flush=True)
sys.stdin.read()
"""


def test_a_client_that_dies_with_regions_open(sharing):
    """Row 28: its memory lives while it is registered, and no longer."""
    with survives(sharing) as survival, Client(sharing, survival) as client:
        command = [sys.executable, "-c", DYING, str(ROOT / "tests/e2e/lib")]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            key = process.stdout.readline().strip()
            assert register(sharing, "r", key, 8192).status == 200
            process.kill()
        os.unlink(f"/dev/shm{key}")
        body = inference("FP32", [1, 4], place("r", 16), place("r", 16, 4096))
        assert client.infer("t_fp32", body).status == 200
        assert unregister(sharing, "r").status == 200
        assert key not in proc.read(sharing.process.pid, "maps")
        assert client.infer("t_fp32", body).status == 404


def test_a_client_that_leaves_while_its_memory_is_used(sharing):
    with region(2 * LARGE) as made, survives(sharing):
        assert register(sharing, "r", made.key, made.size).status == 200
        for _ in range(100):
            with connect(sharing) as connection:
                body = inference("INT32", [1, LARGE // 4], place("r", LARGE), place("r", LARGE, LARGE))
                send(connection, request("POST", "/v2/models/t_int32/infer", body))
        end_of(sharing, made)
