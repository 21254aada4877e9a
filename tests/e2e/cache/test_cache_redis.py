# SPDX-License-Identifier: Apache-2.0
"""The response cache on a real Redis: shared between servers, and whatever becomes of it no request notices more than a short wait."""
import concurrent.futures
import contextlib
import itertools
import json
import os
import signal
import socket
import threading
import time

import pytest
from caching import body, counts, infer, make_cached, metric, redis, statistics
from certificates import make_authority, make_certificate
from conftest import PATIENCE, wait_for

LOST = "is lost ("
PATIENT = "socket_timeout=60000"  # where the machine's load must not make a hit a miss


@pytest.fixture
def store(tmp_path):
    with redis(tmp_path) as server:
        yield server


@pytest.fixture
def start(start_server, tmp_path):
    make_cached(tmp_path / "models")
    return lambda flags, **options: start_server(tmp_path / "models", flags=flags, **options)


def ask_until_hit(server, values):
    """The writing of an answer is not awaited by its client."""
    def hit():
        before = counts(server)[0]
        assert infer(server, values) == list(values)
        return counts(server)[0] > before

    wait_for("a hit", hit)


@contextlib.contextmanager
def asking(server):
    """Clients that ask for other things all the time; each answer is right. Gives the number of answers."""
    stop, answers, failures = threading.Event(), [], []

    def client(first):
        try:
            for n in itertools.count():
                if stop.is_set():
                    return
                values = [first, n % 50]
                assert infer(server, values) == values
                answers.append(values)
        except BaseException as failure:  # noqa: B902 - raised below
            failures.append(failure)

    threads = [threading.Thread(target=client, args=(n,), daemon=True) for n in range(4)]
    for thread in threads:
        thread.start()
    try:
        yield lambda: len(answers)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    if failures:
        raise failures[0]


def await_more(answers, count=40):
    before = answers()
    wait_for("more answers", lambda: answers() >= before + count)


def test_servers_share_answers_and_a_restart_keeps_them(store, start):
    first, second = start(store.flags(PATIENT)), start(store.flags(PATIENT))
    assert infer(first, [1, 2, 3]) == [1, 2, 3]
    wait_for("the entry", lambda: len(store.keys()) == 1)
    assert infer(second, [1, 2, 3]) == [1, 2, 3] and counts(second) == (1, 0)
    assert statistics(second)["execution_count"] == 0
    first.stop()
    third = start(store.flags(PATIENT))
    assert infer(third, [1, 2, 3]) == [1, 2, 3] and counts(third) == (1, 0)
    assert metric(third, "nereid_cache_redis_up") == 1


def test_large_answers_come_whole(store, start):
    server = start(store.flags(PATIENT))
    values = list(range(300_000))
    ask_until_hit(server, values)


def test_one_that_is_gone_and_comes_back(store, start):
    server = start(store.flags("socket_timeout=200"))
    with asking(server) as answers:
        await_more(answers)
        store.stop()
        wait_for("the loss", lambda: metric(server, "nereid_cache_redis_up") == 0)
        await_more(answers)
        store.start()
        wait_for("the return", lambda: metric(server, "nereid_cache_redis_up") == 1)
        await_more(answers)
    assert sum(counts(server)) == statistics(server)["inference_stats"]["success"]["count"]
    wait_for("that it is told", lambda: LOST in server.log and metric(server, "nereid_cache_redis_losses_total") >= 1)
    ask_until_hit(server, [99])


def test_one_that_does_not_answer_costs_one_wait(store, start):
    """It is stopped, not gone: connections stay, and take what is sent."""
    server = start(store.flags("socket_timeout=500"))
    ask_until_hit(server, [5])
    with asking(server) as answers:
        await_more(answers)
        before = metric(server, "nereid_cache_redis_losses_total")
        os.kill(store.process.pid, signal.SIGSTOP)
        try:
            wait_for("the loss", lambda: metric(server, "nereid_cache_redis_up") == 0 and metric(server, "nereid_cache_redis_losses_total") > before)
            losses = metric(server, "nereid_cache_redis_losses_total")
            await_more(answers, 200)
            assert metric(server, "nereid_cache_redis_losses_total") == losses  # nobody waits for it again
        finally:
            os.kill(store.process.pid, signal.SIGCONT)
        wait_for("the return", lambda: metric(server, "nereid_cache_redis_up") == 1)
    wait_for("that it is told", lambda: "(no answer in time)" in server.log)
    ask_until_hit(server, [5])


def test_a_full_one_keeps_what_it_has(tmp_path, start):
    with redis(tmp_path, "--maxmemory", "3mb", "--maxmemory-policy", "noeviction") as store:
        server = start(store.flags(PATIENT))
        ask_until_hit(server, [1])
        for n in range(60):
            assert infer(server, [n] * 20000) == [n] * 20000
        wait_for("the refusal", lambda: "refuses answers: OOM command not allowed" in server.log)
        wait_for("the count", lambda: metric(server, "nereid_cache_redis_dropped_total") > 0)
        hits = counts(server)[0]
        assert infer(server, [1]) == [1] and counts(server)[0] == hits + 1
        assert server.log.count("refuses answers") < 5 and metric(server, "nereid_cache_redis_up") == 1
        store.ask("FLUSHALL")
        ask_until_hit(server, [2])
        wait_for("that it is told", lambda: "takes answers again" in server.log)


def fields(store, key, **values):
    store.ask("DEL", key)
    store.ask("HSET", key, *itertools.chain.from_iterable((name.replace("_", ":").removeprefix("f:"), value) for name, value in values.items()))


def test_damaged_entries_are_misses_and_are_mended(store, start):
    server = start(store.flags(PATIENT))
    ask_until_hit(server, [1, 2, 3])
    key, = store.keys()
    good = store.ask("HGET", key, "0:b").partition(b"\r\n")[2]
    assert len(good) > 40
    flipped = bytes(byte ^ 255 for byte in good)
    entries = [
        dict(f_0_b=good[:-1], f_0_s=len(good) - 1, f_0_t=0, f_0_i=0), dict(f_0_b=good, f_0_s=len(good) + 1, f_0_t=0, f_0_i=0),
        dict(f_0_b=good, f_0_s="x", f_0_t=0, f_0_i=0), dict(f_0_b=good, f_0_s=len(good), f_0_t=2, f_0_i=0), dict(f_0_s=3),
        dict(f_0_b=flipped, f_0_s=len(good), f_0_t=0, f_0_i=0), dict(f_0_b=good[:4] + b"\xff" * 8 + good[12:], f_0_s=len(good), f_0_t=0, f_0_i=0),
        dict(f_0_b=b"x", f_0_s=1, f_0_t=0), dict(f_0_b=good.replace(b"OUTPUT0", b"OUTPUT1"), f_0_s=len(good), f_0_t=0, f_0_i=0),
        {f"f_{n}_x": n for n in range(40)},
        dict(f_0_b=good, f_0_s=len(good), f_0_t=0, f_0_i=0, f_1_b=good, f_1_s=len(good), f_1_t=0, f_1_i=0),
    ]

    def value(name):
        return store.ask("HGET", key, f"0:{name}").partition(b"\r\n")[2]

    first = [value(name) for name in "bst"]
    for entry in entries:
        fields(store, key, **entry)
        hits, misses = counts(server)
        assert infer(server, [1, 2, 3]) == [1, 2, 3], entry
        assert wait_for("a miss", lambda: sum(counts(server)) == hits + misses + 1) and counts(server) == (hits, misses + 1), entry
        if "f_39_x" not in entry:  # what has so many fields is nobody's to mend
            wait_for("the mended entry", lambda: [value(name) for name in "bst"] == first)  # it is written later
        store.ask("DEL", key)
    store.ask("SET", key, "no hash")
    assert infer(server, [1, 2, 3]) == [1, 2, 3]
    store.ask("DEL", key)
    ask_until_hit(server, [1, 2, 3])


class Stranger:
    """Listens where a Redis is expected, and says what it likes."""

    def __init__(self, port, says):
        self.socket = socket.create_server(("127.0.0.1", port))
        self.says, self.met = says, 0
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self):
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self.socket.accept()
                threading.Thread(target=self._talk, args=(connection,), daemon=True).start()

    def _talk(self, connection):
        with contextlib.suppress(OSError), connection:
            while connection.recv(1 << 16):
                self.met += 1
                self.says(connection, self.met)

    def close(self):
        self.socket.close()


def pong_then(nonsense):
    """A Redis until it is asked for something: nine connections greet."""
    def says(connection, met):
        connection.sendall(b"+PONG\r\n" if met <= 9 else nonsense)

    return says


def trickle(connection, met):
    if met <= 9:
        connection.sendall(b"+PONG\r\n")
    else:
        connection.sendall(b"*8\r\n$1000000\r\n")
        for _ in range(1000):
            connection.sendall(b"x")
            time.sleep(0.01)


STRANGERS = {
    "a web server": pong_then(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"), "a huge list": pong_then(b"*1000000000\r\n"),
    "lists in lists": pong_then(b"*1\r\n*1\r\n*1\r\n:1\r\n"), "a number": pong_then(b":5\r\n"), "nothing": pong_then(b"$-1\r\n"),
    "silence": pong_then(b""), "one byte at a time": trickle, "one too many": pong_then(b"*0\r\n*0\r\n*0\r\n"),
    "an error": pong_then(b"-LOADING \x1b[31m" + b"x" * 5000 + b"\r\n"), "a long text": pong_then(b"$99999999999\r\n" + b"y" * 100000),
}


@pytest.mark.parametrize("says", STRANGERS.values(), ids=STRANGERS)
def test_a_stranger_in_its_place_costs_hits_and_no_request(tmp_path, start, says):
    with contextlib.closing(Stranger(0, says)) as stranger:
        port = stranger.socket.getsockname()[1]
        settings = ["host=127.0.0.1", f"port={port}", "socket_timeout=100", "connect_timeout=60000"]
        server = start([f"--cache-config=redis,{setting}" for setting in settings])
        with concurrent.futures.ThreadPoolExecutor(4) as threads:
            assert all(threads.map(lambda n: infer(server, [n]) == [n], range(40)))
        wait_for("all counts", lambda: counts(server) == (0, 40))
        assert "\x1b" not in server.log


def test_the_start_needs_it_unless_it_is_optional(tmp_path, start):
    def refused(flags):
        server = start([f"--cache-config=redis,{flag}" for flag in flags], wait=False)
        assert server.process.wait(PATIENCE) == 1
        return server.log

    assert "failed to connect to Redis (localhost:0): Connection refused" in refused(["host=localhost", "port=nonexistent"])
    assert "Must at a minimum specify 'host' and 'port'" in refused(["port=6379"])
    assert any(text in refused(["host=no.such.host.invalid", "port=6379"])
               for text in ("Temporary failure in name resolution", "Name or service not known"))
    with redis(tmp_path) as store:
        store.stop()
        server = start(store.flags("optional=true", PATIENT))
        assert "the response cache has no Redis yet" in server.log and metric(server, "nereid_cache_redis_up") == 0
        assert infer(server) == [1, 2]
        store.start()
        ask_until_hit(server, [1, 2])
        wait_for("that it is told", lambda: "is there" in server.log)


def test_what_a_stranger_says_at_the_start_steers_no_terminal(start):
    def says(connection, met):
        connection.sendall(b"-ERR \x1b[31m who are you\r\n")

    with contextlib.closing(Stranger(0, says)) as stranger:
        settings = ["host=127.0.0.1", f"port={stranger.socket.getsockname()[1]}", PATIENT, "connect_timeout=60000"]
        server = start([f"--cache-config=redis,{setting}" for setting in settings], wait=False)
        assert server.process.wait(PATIENCE) == 1
    assert "who are you" in server.log and "\x1b" not in server.log


def test_passwords(tmp_path, start):
    with redis(tmp_path, "--requirepass", "redis123!") as store:
        def log_of(*settings, **variables):
            server = start(store.flags(*settings), wait=False, variables=variables)
            return server if settings[:1] == ("right",) else (server.process.wait(PATIENCE), server.log)

        assert "NOAUTH Authentication required" in log_of()[1]
        status, log = log_of("password=wrong")
        assert status == 1 and "WRONGPASS" in log and "wrong" not in log.replace("WRONGPASS", "")
        assert "WRONGPASS" in log_of(TRITONCACHE_REDIS_PASSWORD="wrong")[1]
        for variables, settings in (({}, ["password=redis123!"]), (dict(TRITONCACHE_REDIS_PASSWORD="redis123!"), []),
                                    (dict(TRITONCACHE_REDIS_PASSWORD="redis123!", TRITONCACHE_REDIS_USERNAME="default"), [])):
            server = start(store.flags(PATIENT, *settings), variables=variables)
            assert infer(server) == [1, 2]
            assert "redis123!" not in server.log
            server.stop()


def test_database_and_time_to_live(store, start):
    server = start(store.flags("db=3", "ttl=1000", PATIENT))
    ask_until_hit(server, [4])
    assert store.keys() == []
    listing = store.ask("INFO", "keyspace")
    assert b"db3:keys=1,expires=1" in listing, listing


def test_tls(tmp_path, start):
    make_authority(tmp_path, "ca"), make_authority(tmp_path, "other_ca")
    make_certificate(tmp_path, "server", "ca", "server"), make_certificate(tmp_path, "client", "ca", "client")
    tls = ["--tls-cert-file", str(tmp_path / "server.pem"), "--tls-key-file", str(tmp_path / "server.key"), "--tls-ca-cert-file", str(tmp_path / "ca.pem")]
    with redis(tmp_path, tls=tls) as store:
        client = [f"cert={tmp_path}/client.pem", f"key={tmp_path}/client.key", "tls_enabled=true"]
        server = start(store.flags(PATIENT, f"cacert={tmp_path}/ca.pem", "verify_host=true", "sni=localhost", *client))
        ask_until_hit(server, list(range(50_000)))
        stranger = start(store.flags(f"cacert={tmp_path}/other_ca.pem", *client), wait=False)
        assert stranger.process.wait(PATIENCE) == 1 and "failed to connect to Redis" in stranger.log
        plain = start(store.flags(), wait=False)
        assert plain.process.wait(PATIENCE) == 1
        missing = start(store.flags("cacert=/no/such/file", *client), wait=False)
        assert missing.process.wait(PATIENCE) == 1 and "cacert '/no/such/file' cannot be used" in missing.log


def test_a_slow_one_holds_up_nobody_else(store, start, tmp_path):
    """Look-ups wait on threads of their own: another model is answered meanwhile, by the one loop that there is."""
    make_cached(tmp_path / "models", "other")
    config = tmp_path / "models/other/config.pbtxt"
    config.write_text(config.read_text().replace("enable: true", "enable: false"))
    server = start([*store.flags(PATIENT), "--http-thread-count=1"])
    infer(server)
    os.kill(store.process.pid, signal.SIGSTOP)
    try:
        with concurrent.futures.ThreadPoolExecutor(3) as threads:
            waiting = [threads.submit(infer, server, [n]) for n in range(3)]
            for n in range(50):
                assert infer(server, [n], "other") == [n]
            assert not any(one.done() for one in waiting)
            os.kill(store.process.pid, signal.SIGCONT)
            assert [one.result() for one in waiting] == [[0], [1], [2]]
    finally:
        os.kill(store.process.pid, signal.SIGCONT)


def test_a_request_that_waits_for_it_outlives_the_models_unload(store, start):
    server = start([*store.flags(PATIENT), "--model-control-mode=explicit", "--load-model=m"])
    infer(server)
    wait_for("the entry", store.keys)
    os.kill(store.process.pid, signal.SIGSTOP)
    try:
        with concurrent.futures.ThreadPoolExecutor(1) as threads:
            waiting = threads.submit(server.ask, "/v2/models/m/infer", body([7]))
            wait_for("the look-up", lambda: store.unread_bytes() > 0)
            assert server.ask("/v2/repository/models/m/unload", b"").status == 200
            os.kill(store.process.pid, signal.SIGCONT)
            answer = waiting.result()
    finally:
        os.kill(store.process.pid, signal.SIGCONT)
    assert answer.status in (200, 503, 400) and (answer.status != 200 or json.loads(answer.body)["outputs"][0]["data"] == [7])
