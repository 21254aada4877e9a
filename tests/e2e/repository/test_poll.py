# SPDX-License-Identifier: Apache-2.0
"""--model-control-mode=poll: what comes, goes and changes in the repositories does so in the server, and only when it is whole."""
import json
import os
import shutil
import time

import proc
import pytest
from conftest import make_faulty, make_identity, wait_for
from python_models import make_python

BODY = b'{"inputs":[{"name":"INPUT0","shape":[1,1],"datatype":"FP32","data":[7]}]}'
POLL = ["--model-control-mode=poll", "--repository-poll-secs=1"]
SETTLE = 1  # seconds; the interval, where that is less than two


def rows(server, name):
    index = json.loads(server.ask("/v2/repository/index", b"").body)
    return [(row.get("version"), row.get("state"), row.get("reason")) for row in index if row["name"] == name]


def serves(server, name, version=None):
    part = f"/versions/{version}" if version else ""
    return server.ask(f"/v2/models/{name}{part}/infer", BODY).status == 200


def config_of(server, name):
    return json.loads(server.ask(f"/v2/models/{name}/config").body)


def set_batch(directory, size, file="config.pbtxt"):
    make_identity(directory.parent, directory.name, max_batch_size=size)
    if file != "config.pbtxt":
        (directory / "config.pbtxt").rename(directory / file)


def batch_is(server, name, size):
    wait_for(f"max_batch_size {size}", lambda: config_of(server, name)["max_batch_size"] == size)


def test_models_versions_and_configs_come_change_and_go(start_server, repository):
    directory = make_identity(repository, "m")
    server = start_server(repository, flags=POLL)
    refused = server.ask("/v2/repository/models/m/load", b"{}")
    assert (refused.status, "not allowed if polling is enabled" in refused.text) == (503, True)
    make_identity(repository, "new")
    (repository / ".git").mkdir()  # is no model, now as at the start
    wait_for("the new model", lambda: serves(server, "new"))
    (directory / "2").mkdir()
    wait_for("version 2", lambda: serves(server, "m", 2))
    wait_for("the end of version 1", lambda: rows(server, "m")[0] == ("1", "UNAVAILABLE", "unloaded"))
    set_batch(directory, 4)
    batch_is(server, "m", 4)
    assert rows(server, "m")[0] == ("1", "UNAVAILABLE", "unloaded")  # still
    shutil.rmtree(repository / "new")
    wait_for("the end of the model", lambda: rows(server, "new") == [] and not serves(server, "new"))
    shutil.rmtree(directory / "2")
    wait_for("version 1 again", lambda: serves(server, "m", 1))


def test_changes_that_times_do_not_tell(start_server, repository, tmp_path):
    """An older file in the place of a newer one, the clock set back, the way of Kubernetes, and the other name of the configuration."""
    kept = tmp_path / "kept"
    for stamp, size in (("2", 2), ("1", 3)):
        set_batch(kept / stamp / "m", size)
    links, named = repository / "links", repository / "named"
    links.mkdir()
    for size in (4, 5):
        (links / f"..{size}").mkdir()
        text = make_identity(kept / f"k{size}", "links", max_batch_size=size) / "config.pbtxt"
        shutil.move(text, links / f"..{size}" / "config.pbtxt")
        os.utime(links / f"..{size}" / "config.pbtxt", (2_000_000_000 - size, 2_000_000_000 - size))
        os.utime(links / f"..{size}", (2_000_000_000 - size, 2_000_000_000 - size))
    (links / "..data").symlink_to("..4")
    (links / "config.pbtxt").symlink_to("..data/config.pbtxt")
    (links / "1").mkdir()
    (repository / "m").symlink_to(kept / "2" / "m")
    set_batch(named, 8)
    (named / "configs").mkdir()
    set_batch(named, 6, "configs/here.pbtxt")
    server = start_server(repository, flags=[*POLL, "--model-config-name=here"])
    assert [config_of(server, name)["max_batch_size"] for name in ("m", "links", "named")] == [2, 4, 6]
    os.utime(kept / "2" / "m" / "config.pbtxt", (1, 1))
    (repository / "next").symlink_to(kept / "1" / "m")
    os.rename(repository / "next", repository / "m")
    (links / "..tmp").symlink_to("..5")
    os.rename(links / "..tmp", links / "..data")
    set_batch(named, 7, "configs/here.pbtxt")
    for name, size in (("m", 3), ("links", 5), ("named", 7)):
        batch_is(server, name, size)


def test_what_fails_costs_nobody_else_and_is_tried_again_when_it_changes(start_server, repository):
    make_identity(repository, "m")
    server = start_server(repository, flags=POLL)
    make_faulty(repository, fault="model_initialize")
    broken = repository / "broken"
    broken.mkdir()
    (broken / "config.pbtxt").write_text("max_batch_size: ?")
    wait_for("the failures", lambda: all(state == "UNAVAILABLE" for name in ("faulty", "broken")
                                         for _, state, _ in rows(server, name) or [(0, 0, 0)]))
    make_identity(repository, "good")
    wait_for("the good one", lambda: serves(server, "good"))
    (repository / "m" / "config.pbtxt").write_text("max_batch_size: ?")
    wait_for("the bad configuration", lambda: "Poll failed for model directory 'm'" in server.log)
    assert serves(server, "m")  # as it was
    assert server.log.count("failed to load 'faulty' version 1") < 8  # it is not tried at each poll
    shutil.rmtree(repository / "faulty")
    make_identity(repository, "broken")
    make_identity(repository, "m", max_batch_size=3)
    wait_for("the mended one", lambda: serves(server, "broken"))
    batch_is(server, "m", 3)


def test_a_name_in_two_repositories_is_served_from_neither(start_server, repository, tmp_path):
    other = tmp_path / "other"
    make_identity(repository, "m")
    make_identity(other, "n")
    server = start_server(repository, other, flags=POLL)
    make_identity(other, "m")
    wait_for("the end of the model", lambda: not serves(server, "m"))
    assert "failed to poll model 'm': not unique across all model repositories" in server.log
    shutil.rmtree(repository / "m")
    wait_for("the only one", lambda: serves(server, "m"))


def test_a_repository_that_cannot_be_read_costs_no_model(start_server, repository, tmp_path):
    make_identity(repository, "m")
    server = start_server(repository, flags=POLL)
    away = repository.rename(tmp_path / "away")
    wait_for("a poll", lambda: "no model is unloaded until that ends" in server.log)
    assert serves(server, "m")
    away.rename(repository)
    make_identity(repository, "n")
    wait_for("the new model", lambda: serves(server, "n"))
    assert serves(server, "m") and server.log.count("loading: m:1") == 1


def test_nor_does_one_that_is_not_mounted(start_server, repository, tmp_path):
    """An empty directory in the place of another one; a link that is exchanged is as good as a mount."""
    empty, link, other = tmp_path / "empty", tmp_path / "link", tmp_path / "other"
    empty.mkdir()
    make_identity(repository, "m")
    link.symlink_to(repository)
    server = start_server(link, flags=POLL)
    make_identity(repository, "n")
    wait_for("a poll", lambda: serves(server, "n"))
    other.symlink_to(empty)
    os.rename(other, link)
    wait_for("a poll", lambda: f"'{link}' is empty and another directory than before" in server.log)
    assert serves(server, "m") and serves(server, "n")
    shutil.rmtree(repository / "n")
    other.symlink_to(repository)
    os.rename(other, link)
    wait_for("the end of the other", lambda: not serves(server, "n"))
    assert serves(server, "m") and server.log.count("loading: m:1") == 1


def copy_slowly(path, data):
    """In pieces; gives the longest time between two of them."""
    longest, last, end = 0, time.monotonic(), time.monotonic() + 5 * SETTLE
    with path.open("wb") as file:
        for piece in range(len(data)):
            file.write(data[piece:piece + 1])
            file.flush()
            now = time.monotonic()
            longest, last = max(longest, now - last), now
            if now < end:
                time.sleep(0.1)
    return max(longest, time.monotonic() - last)


def test_what_is_being_copied_is_not_loaded_by_half(start_server, repository, tmp_path):
    make_identity(repository, "m")
    server = start_server(repository, flags=POLL)
    source = make_python(tmp_path, "source")
    data = (source / "1/model.py").read_bytes()

    def copied_in_time(name=iter(range(1000))):
        directory = repository / f"copy{next(name)}"
        (directory / "1").mkdir(parents=True)
        shutil.copy(source / "config.pbtxt", directory)
        longest = copy_slowly(directory / "1/model.py", data)
        early = f"'{directory.name}'" in server.log or f"loading: {directory.name}:" in server.log
        if longest > SETTLE / 2:
            return False  # this machine paused the copy, so that it may have looked complete
        assert not early
        wait_for("the copy", lambda: server.ask(f"/v2/models/{directory.name}/ready").status == 200)
        return True

    wait_for("a copy without a pause", copied_in_time)


@pytest.mark.parametrize("seconds", [0, 3600])
def test_the_interval_is_the_operators(start_server, repository, seconds):
    """0 is no poll after the start; and a server ends at once however long the interval is."""
    make_identity(repository, "m")
    server = start_server(repository, flags=["--model-control-mode=poll", f"--repository-poll-secs={seconds}", "--exit-timeout-secs=3000"])
    wait_for("the poll's thread", lambda: list(proc.threads(server.process.pid).values()).count("poll") == (1 if seconds else 0))  # it names itself
    server.stop()


def test_a_worker_that_hangs_in_its_load_holds_nobody_else_up(start_server, repository):
    make_identity(repository, "m")
    server = start_server(repository, flags=POLL)
    hanging = make_python(repository, "hanging", """
        def initialize(self, args):
            while os.path.exists(args["model_repository"] + "/hold"):
                time.sleep(0.01)
        def execute(self, requests):
            return [answer(value(request)) for request in requests]
        """)
    (hanging / "hold").touch()
    wait_for("its load", lambda: [state for _, state, _ in rows(server, "hanging")] == ["LOADING"])
    make_identity(repository, "n")
    wait_for("the other", lambda: serves(server, "n"))
    (hanging / "hold").unlink()
    wait_for("its end", lambda: server.ask("/v2/models/hanging/ready").status == 200)
