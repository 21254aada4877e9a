# SPDX-License-Identifier: Apache-2.0
"""A cache's library of somebody else that misbehaves (tests/fakes/hostile_cache.c): it costs hits, and no request."""
import concurrent.futures
import json

import numpy
import pytest
import tritonclient.grpc as grpc
from caching import body, counts, infer, make_cached, statistics
from conftest import BUILD, PATIENCE, make_identity, wait_for

CACHES = (BUILD / "test-caches").resolve()
HITS = ("good", "lookup_gives_twice", "insert_keeps_twice", "insert_keeps_and_fails", "finalize_fails")  # nothing is wrong with what these give
MISSES = """lookup_fails lookup_fails_oddly lookup_does_nothing lookup_gives_and_fails lookup_without_a_buffer lookup_many_buffers lookup_nonsense
            lookup_half lookup_ones lookup_another_output lookup_a_tail insert_fails insert_fails_oddly insert_does_nothing insert_to_nowhere
            insert_to_less insert_to_two""".split()


@pytest.fixture
def start(start_server, tmp_path):
    make_cached(tmp_path / "models")
    make_identity(tmp_path / "models", "other", "TYPE_INT32")

    def start(way, *flags, **settings):
        settings = dict(settings, way=way)
        caches = [f"--cache-config=hostile,{name}={value}" for name, value in settings.items()]
        return start_server(tmp_path / "models", flags=[f"--cache-directory={CACHES}", *caches, *flags])

    return start


def infer_grpc(server, values):
    """By a client that gives other memory for the answer."""
    with grpc.InferenceServerClient(f"127.0.0.1:{server.grpc_port}") as client:
        array = numpy.array([values], numpy.int32)
        given = grpc.InferInput("INPUT0", array.shape, "INT32").set_data_from_numpy(array)
        return client.infer("m", [given], client_timeout=PATIENCE).as_numpy("OUTPUT0")[0].tolist()


@pytest.mark.parametrize("threads", [0, 3])
@pytest.mark.parametrize("way", [*HITS, *MISSES])
def test_whatever_the_library_does_each_answer_is_right(start, way, threads):
    server = start(way, threads=threads)
    for values in ([1, 2, 3], [4], []):
        for _ in range(3):
            assert infer(server, values) == values
        assert infer_grpc(server, values) == values
    wait_for("all counts", lambda: sum(counts(server)) == 12)
    assert counts(server) == ((9, 3) if way in HITS else (0, 12))
    with concurrent.futures.ThreadPoolExecutor(4) as clients:
        asked = [[n % 3] for n in range(60)]
        assert list(clients.map(lambda values: infer(server, values), asked)) == asked
    wait_for("all counts", lambda: sum(counts(server)) == 72)
    stats = statistics(server)["inference_stats"]
    assert (stats["success"]["count"], stats["fail"]["count"]) == (72, 0)
    assert "\x1b" not in server.log
    server.stop()


@pytest.mark.parametrize("threads", [0, 3])
def test_one_that_is_slow_costs_time_and_no_request(start, tmp_path, threads):
    """Those of other models wait only where look-ups have no threads of their own, as in Triton."""
    hold = tmp_path / "hold"
    server = start("good", "--http-thread-count=1" if threads else "--http-thread-count=4", threads=threads, hold=hold)
    infer(server)
    hold.touch()
    with concurrent.futures.ThreadPoolExecutor(2) as clients:
        waiting = [clients.submit(infer, server, [n]) for n in range(2)]
        if threads:
            for n in range(20):
                assert infer(server, [n], "other") == [n]
        assert not any(one.done() for one in waiting)
        hold.unlink()
        assert [one.result() for one in waiting] == [[0], [1]]
    wait_for("all counts", lambda: counts(server) == (0, 3))


@pytest.mark.parametrize("way, words", [("initialize_fails", "sense"), ("initialize_gives_nothing", "Failed to initialize cache implementation")])
def test_one_that_does_not_begin_ends_the_start(start_server, tmp_path, way, words):
    make_cached(tmp_path / "models")
    server = start_server(tmp_path / "models", flags=[f"--cache-directory={CACHES}", f"--cache-config=hostile,way={way}"], wait=False)
    assert server.process.wait(PATIENCE) == 1
    assert words in server.log and "\x1b" not in server.log


@pytest.mark.parametrize("content, words", [
    (None, "unable to find required entrypoint 'TRITONCACHE_CacheInitialize' in shared library '"), (b"no library", "unable to load shared library"),
], ids=["another library", "a text"])
def test_what_is_no_cache_ends_the_start(start_server, tmp_path, content, words):
    make_cached(tmp_path / "models")
    library = tmp_path / "caches/mine/libtritoncache_mine.so"
    library.parent.mkdir(parents=True)
    library.write_bytes(content or (BUILD / "test-strategies/volume_strategy.so").read_bytes())
    server = start_server(tmp_path / "models", flags=[f"--cache-directory={tmp_path}/caches", "--cache-config=mine,a=b"], wait=False)
    assert server.process.wait(PATIENCE) == 1 and words in server.log


def test_more_requests_than_its_threads_look_up_are_computed(start, tmp_path):
    """One look-up holds the only thread; what does not fit behind it is answered, and counted as a miss."""
    hold = tmp_path / "hold"
    server = start("good", threads=1, hold=hold)
    hold.touch()
    with concurrent.futures.ThreadPoolExecutor(60) as clients:
        asked = [clients.submit(server.ask, "/v2/models/m/infer", body([n])) for n in range(60)]
        wait_for("answers without a look-up", lambda: sum(one.done() for one in asked) >= 60 - 33)
        assert counts(server)[1] >= 60 - 33
        hold.unlink()
        assert [json.loads(one.result().body)["outputs"][0]["data"] for one in asked] == [[n] for n in range(60)]
    wait_for("all counts", lambda: counts(server) == (0, 60))
