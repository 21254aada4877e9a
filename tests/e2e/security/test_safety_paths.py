# SPDX-License-Identifier: Apache-2.0
"""No path from outside leads out of the repositories: traversal in every field that names a file, siblings with the same
prefix, and the names that models may have. Under --secure no link does: not one that is exchanged during a load either.

What the server opens is recorded by strace, so the proof does not rest on what it answers."""
import base64
import ctypes
import json
import os
import pathlib
import random
import re
import subprocess
import threading

import pytest
from conftest import BUILD, PATIENCE, ROOT, copy_model, host_gpus, make_identity
from safety import Client, quote, start_audited, tensor
from system_calls import without

pytestmark = [pytest.mark.slow, pytest.mark.long]

SWAP_LOADS = int(os.environ.get("NEREID_SWAP_LOADS", "60"))
EXPLICIT = ["--model-control-mode=explicit"]
KEY = {"the-key": "value"}
SECURE = [*EXPLICIT, "--secure", "--allow-root", "--restricted-api=model-repository:the-key=value"]


@pytest.fixture
def outside(tmp_path):
    """What must not be opened: a directory beside the repository and one whose name begins like the repository's."""
    for directory in ("outside", "models_evil"):
        make_identity(tmp_path / directory, "m", max_batch_size=77)
        copy_model(tmp_path / directory, "digits")
        (tmp_path / directory / "libtriton_evil.so").write_bytes(b"no library")
        (tmp_path / directory / "labels.txt").write_text("a\nb\n")
        (tmp_path / directory / "secret").write_text("secret")
    return tmp_path / "outside"


def allowed_roots(repository):
    """Where a server may look: its repository, its backends, and what the loader and the C library need."""
    roots = [repository, BUILD, ROOT / "tests/tsan.supp", (ROOT / ".venv").resolve(), ROOT / ".venv", ROOT / ".deps", "/proc", "/sys", "/dev", "/usr", "/lib",
             "/lib64", "/etc/gnutls", "/etc/ld.so.cache", "/etc/ld.so.preload", "/etc/localtime", "/etc/nsswitch.conf", "/etc/hosts"]
    played = host_gpus().get("NEREID_FAKE_GPU")  # the driver's own file
    return [str(root) for root in roots] + ([os.path.dirname(played)] if played else [])


def leaks(audit, repository, backends):
    roots = [*allowed_roots(repository), str(backends), str(pathlib.Path(repository).resolve())]
    found = set()
    for path in audit.touched():
        path = path.split(" (deleted)")[0]
        normal = os.path.normpath(path)
        if re.fullmatch(r"/tmp/tsan\.rodata\.\d+", normal):
            continue  # ThreadSanitizer's own, at its start
        if re.fullmatch(r"/tmp/nereid-upload-\w{6}(/m(/.*)?)?", normal, re.S):
            continue  # the private directory of uploaded files, and what is below it without ".."
        if not normal.startswith("/") or any(normal == root or normal.startswith(root + "/") for root in roots):
            continue  # a socket, a pipe, or allowed
        if any(root.startswith(normal + "/") for root in roots):
            continue  # a directory on the way
        found.add(path)
    return found


def vectors(directory, count=500):
    """`count` paths that would lead to a file in `directory` or beside it if anyone believed them; the same at each run."""
    files = ["secret", "m/config.pbtxt", "digits/1/model.onnx", "libtriton_evil.so", "labels.txt", ""]
    sibling = directory.parent / "models_evil"
    climbs = ["../", "./../", "..//", "../././", "x/../../", "1/../../", "....//", "..\\", "..%2f", "%2e%2e/", "%2e%2e%2f", "..%252f",
              "..%c0%af", "..;/", "．．/", "‥/", "..\x00/", "..\n/", ".. /", " ../", "..%00/", "..../", ".%00./", "..\\/"]
    absolute = ["", "/", "//", "file://", "file:", "/proc/self/root", "/proc/self/cwd/../../../../../..", "/proc/1/root", "/./", "/..",
                "~", "~root", "$HOME", "//./", "\\\\?", "C:", "/dev/fd/../..", "/proc/thread-self/root"]
    made = {"/etc/passwd", "/proc/self/environ", "/dev/zero", "/dev/stdin", "..", "../", "...", "/", ".", "../../../../../../etc/passwd"}
    for target in (directory, sibling):
        for file in files:
            made.update(f"{a}{target}/{file}" for a in absolute)
            made.update(climb * depth + f"{target.name}/{file}" for climb in climbs for depth in range(1, 7))
            made.update(climb * 12 + f"{str(target)[1:]}/{file}" for climb in climbs)
    return random.Random(31).sample(sorted(made), count)


def override(**fields):
    config = {"backend": "identity", "max_batch_size": 8,
              "input": [{"name": "INPUT0", "data_type": "TYPE_FP32", "dims": [-1]}],
              "output": [{"name": "OUTPUT0", "data_type": "TYPE_FP32", "dims": [-1]}]}
    label = fields.pop("label_filename", None)
    if label is not None:
        config["output"][0]["label_filename"] = label
    return {**config, **fields}


PLACE = {"data_type": "TYPE_FP32", "dims": [1]}

# Field: how a vector is put into it, and whether one may be taken (it is a harmless name, nobody opens the file).
FIELDS = {
    "load name": (lambda client, v: client.load(v), False),
    "load name, as it is": (lambda client, v: client.ask("/v2/repository/models/" + raw(v) + "/load", b""), False),
    "unload name": (lambda client, v: client.unload(v), True),
    "metadata name": (lambda client, v: client.ask(f"/v2/models/{quote(v)}/config"), False),
    "file parameter": (lambda client, v: client.load("m", {}, **{"file:" + v: base64.b64encode(b"x").decode()}), False),
    "label_filename": (lambda client, v: client.load("m", override(label_filename=v)), True),
    "default_model_filename": (lambda client, v: client.load("digits", {"default_model_filename": v}), False),
    "warmup file": (lambda client, v: client.load("m", override(model_warmup=[{"name": "w", "batch_size": 1, "inputs": {"INPUT0": {**PLACE, "input_data_file": v}}}])), True),  # read by nobody yet
    "initial state file": (lambda client, v: client.load("m", override(sequence_batching={"state": [{"input_name": "a", "output_name": "b", **PLACE, "initial_state": [{"name": "i", **PLACE, "data_file": v}]}]})), False),
    "cc_model_filenames": (lambda client, v: client.load("m", override(cc_model_filenames={"8.0": v})), True),
    "runtime": (lambda client, v: client.load("m", override(runtime=v)), False),
    "backend": (lambda client, v: client.load("m", override(backend=v)), False),
    "name of the configuration": (lambda client, v: client.load("m", override(name=v)), False),
}


def raw(vector):
    """Only what no request line can hold is encoded."""
    return "".join(c if "!" <= c <= "~" and c not in "?#" else quote(c) for c in vector)


def tree(directory):
    return sorted((str(p), p.lstat().st_mtime_ns) for p in directory.rglob("*"))


@pytest.mark.once
def test_500_vectors_in_every_field_open_nothing_outside_cve_2023_31036_2026_24147_24209(start_server, backends, repository, outside):
    make_identity(repository, "m")
    copy_model(repository, "digits")
    server, audit = start_audited(start_server, repository, flags=[*EXPLICIT, "--load-model=m"])
    before = tree(outside), tree(repository)
    taken = []
    with Client(server) as client:
        for field, (send, may_be_taken) in FIELDS.items():
            for vector in vectors(outside):
                answer = send(client, vector)
                if answer.status == 200 and not may_be_taken:
                    taken.append((field, vector))
                if field == "file parameter":  # what is only an odd name fails for want of a backend
                    assert answer.status == 400, (vector, answer.text)
                assert answer.status < 600 and "root:x:" not in answer.text
        assert taken == []
        for field in ("label_filename", "cc_model_filenames"):  # what leads out is refused and not only unused
            for vector in ("/etc/passwd", "../labels.txt", "a/../../b", str(outside / "labels.txt")):
                answer = FIELDS[field][0](client, vector)
                assert answer.status == 400 and f"'{field}'" in answer.text and "leads out" in answer.text
        assert client.load("m", {**override(), "name": "m"}).status == 200
        assert client.load("digits").status == 200
        assert client.ask("/v2/models/m/infer", tensor()).status == 200
    server.stop()
    opened = audit.opened()
    for file in ("m/config.pbtxt", "digits/1/model.onnx"):  # the record records
        assert str(repository / file) in opened
    assert leaks(audit, repository, backends) == set()
    assert (tree(outside), tree(repository)) == before


@pytest.mark.parametrize("name", ["../../../outside/m/config", "../../../../../../../etc/passwd", "/etc/passwd", "..", "x/../../../m/config", "%2e%2e"])
def test_the_name_of_configurations_leads_nowhere(start_server, backends, repository, outside, name):
    make_identity(repository, "m")
    (repository / "m/configs").mkdir()
    server, audit = start_audited(start_server, repository, flags=[f"--model-config-name={name}"])
    with Client(server) as client:
        assert json.loads(client.ask("/v2/models/m/config").body)["max_batch_size"] == 8
    server.stop()
    assert leaks(audit, repository, backends) == set()


LINKS = {  # what is replaced by a link, and what it leads to
    "the model's directory": ("digits", "digits"),
    "the version's directory": ("digits/1", "digits/1"),
    "the model's file": ("digits/1/model.onnx", "digits/1/model.onnx"),
    "the configuration": ("m/config.pbtxt", "m/config.pbtxt"),
    "the library": ("m/libtriton_evil.so", "libtriton_evil.so"),
}


@pytest.mark.parametrize("way", ["absolute", "relative"])
@pytest.mark.parametrize("directory", ["outside", "models_evil"])
def test_links_that_lead_out_are_not_followed_under_secure_cve_2026_47606_47630(start_server, backends, repository, outside, directory, way):
    """`models_evil` begins as the repository `models` does: a comparison of texts would take it for a part of it."""
    for case, (place, target) in enumerate(LINKS.values()):
        root = repository / f"r{case}"
        make_identity(root, "m", more='runtime: "libtriton_evil.so"' if "evil" in target else "")
        copy_model(root, "digits")
        link, end = root / place, outside.parent / directory / target
        if link.is_dir():
            link.rename(root.parent / f"moved{case}")
        else:
            link.unlink(missing_ok=True)
        link.symlink_to(end if way == "absolute" else os.path.relpath(end, link.parent))
    for case, (what, (place, _)) in enumerate(LINKS.items()):
        root = repository / f"r{case}"
        server, audit = start_audited(start_server, root, flags=SECURE)
        with Client(server, KEY) as client:
            answer = client.load(place.split("/")[0])
            assert answer.status in (400, 500), what
            assert "leads out" in answer.text or "evil" in place, answer.text
        server.stop()
        assert leaks(audit, root, backends) == set(), what


def test_links_inside_the_repository_and_to_allowed_directories_are_followed_under_secure(start_server, repository, outside):
    for name, target in (("again", "../../digits/1/model.onnx"), ("allowed", outside / "digits/1/model.onnx"),
                         ("evil", outside.parent / "models_evil/digits/1/model.onnx")):
        copy_model(repository, "digits") if name == "again" else None
        (repository / name / "1").mkdir(parents=True)
        (repository / name / "1/model.onnx").symlink_to(target)
        (repository / name / "config.pbtxt").write_text('backend: "onnxruntime"')
    (repository / "directory").symlink_to(outside / "digits")
    (repository / "evil_directory").symlink_to(outside.parent / "models_evil/digits")
    server, audit = start_audited(start_server, repository, flags=[*SECURE, f"--model-repository-allow={outside}"])
    with Client(server, KEY) as client:
        rows = json.loads(client.ask("/v2/repository/index", b"").body)
        assert [row for row in rows if row["name"] == "evil_directory"] == [
            {"name": "evil_directory", "state": "UNAVAILABLE",
             "reason": f"'evil_directory' is a link to '{outside.parent}/models_evil/digits', which leads out of its directory"}]
        assert {name: client.load(name).status for name in ("again", "allowed", "directory", "evil", "evil_directory")} == {
            "again": 200, "allowed": 200, "directory": 200, "evil": 400, "evil_directory": 500}
    assert "a link in '" in server.log and "is not followed: 'model.onnx' is a link to '" in server.log
    server.stop()
    assert not any("models_evil" in path for path in audit.opened())


def test_of_many_links_that_are_not_followed_the_first_are_told(start_server, repository, outside):
    directory = make_identity(repository, "m")
    for i in range(30):
        (directory / f"1/{i}").symlink_to(outside / "digits/1/model.onnx")
    server = start_server(repository, flags=["--secure", "--allow-root"])
    assert server.log.count("a link in '") == 8
    assert f"22 more links in '{directory}' are not followed" in server.log
    server.stop()


def test_a_directory_to_allow_that_is_not_there_is_told(nereid, repository):
    make_identity(repository, "m")
    flags = [f"--model-repository={repository}", "--secure", "--allow-root", "--model-repository-allow=/no/such/directory"]
    result = subprocess.run([nereid, *flags], capture_output=True, text=True, timeout=PATIENCE)
    assert result.returncode == 1 and "failed to open directory '/no/such/directory': No such file or directory" in result.stderr + result.stdout


RENAME_EXCHANGE = 2
libc = ctypes.CDLL(None, use_errno=True)


def exchange(a, b):
    """Swaps two names in one step."""
    libc.renameat2(-100, os.fsencode(a), -100, os.fsencode(b), RENAME_EXCHANGE)


@pytest.mark.parametrize("walked_by", ["kernel", "server"])
@pytest.mark.parametrize("what", ["the model's directory", "the version's directory", "the model's file", "the configuration"])
def test_a_link_that_is_exchanged_during_loads_leads_nowhere_under_secure_cve_2026_47606_47630(
    start_server, backends, repository, outside, what, walked_by
):
    place, target = LINKS[what]
    name = place.split("/")[0]
    make_identity(repository, "m")
    copy_model(repository, "digits")
    link = repository / ".swapped/link"  # inside: strace tells where a file that was opened is by then
    link.parent.mkdir()
    link.symlink_to(outside / target)
    server, audit = start_audited(start_server, repository, flags=SECURE, wrapper=without("openat2") if walked_by == "server" else ())
    assert ("walks paths by itself" in server.log) == (walked_by == "server")
    stop, swaps = threading.Event(), [0]

    def swap():
        while not stop.is_set():
            exchange(link, repository / place)
            swaps[0] += 1

    swapper = threading.Thread(target=swap)
    swapper.start()
    statuses = set()
    try:
        with Client(server, KEY) as client:
            for _ in range(SWAP_LOADS):
                statuses.add(client.load(name).status)
                client.unload(name)
    finally:
        stop.set()
        swapper.join()
    server.stop()
    assert swaps[0] > SWAP_LOADS and statuses <= {200, 400, 500}
    assert leaks(audit, repository, backends) == set(), f"{swaps[0]} exchanges, {SWAP_LOADS} loads"


# --- names

BAD_NAMES = [
    *(bytes([b]) for b in range(1, 33)),  # control characters and a blank by themselves
    *(b"a" + bytes([b]) + b"b" for b in (*range(1, 32), 127)),  # and inside a name
    b".", b"..", b" .", b". ", b" ..", b".. ", b"\t..", b"..\t", b"  ..  ", b"   ",
    b"a/b", b"/a", b"a/", b"/", b"//", b"../a", b"a/..", b"./a", b"a/./b", b"../../etc/passwd", b"/etc/passwd",
    b"\x7f", b"\xff", b"\xfe", b"\x80", b"a\x80", b"\xc0\xaf", b"..\xc0\xaf..", b"\xc0\x80", b"\xe0\x80\xaf", b"\xed\xa0\x80", b"\xed\xbf\xbf",
    b"\xf4\x90\x80\x80", b"\xf8\x88\x80\x80\x80", b"\xc3", b"\xe2\x82", b"\xf0\x9f\x98", b"a\xffb", b"\xc3(", b"\xe2(\xa1",
    b"x" * 256, b"x" * 1000, "ä".encode() * 128, b"\x00", b"a\x00b", b"..\x00", b"m\x00", b"\x00m",
    b"\xfcm", b"m\xfc",
]
GOOD_NAMES = [
    "...", "....", "..my_model", "my_model..", "model....1", ".hidden", "a.b", ". .", ".. .", "..a", "a..", ".a.", "-", "--", "-rf", "_", "0",
    "1", "007", "1.0", "v1:2", "a b", " a", "a ", "  a  b  ", "a\\b", "..\\a", "a:b", "a;b", "a|b", "a&b", "a>b", "a<b", "a*b", "?", "a?b",
    "*", "~", "~root", "$HOME", "$(id)", "`id`", "${x}", "!", "a!b", "#", "a#b", "%", "%2e%2e", "%2f", "%00", "%s%n", "a%41", "+", "a+b",
    "=", "@", "a@b", ",", "'", "\"", "a'b", "a\"b", "(", ")", "[", "]", "{", "}", "{0}", "^", "CON", "NUL", "aux.txt", "config.pbtxt", "models",
    "repository", "index", "infer", "versions", "ready", "null", "true", "größe", "模型", "モデル", "модель", "😀", "a\u0301", "\u00e1", "\u202e",
    "\u200b", "\ufeff", "\u00a0", "．．", "‥", "…", "ﬀ", "İ", "ß", "\U0010ffff", "x" * 255, "ä" * 127, "UPPER", "upper",
]


def test_100_bad_names_are_refused_cve_2026_24208(start_server, repository):
    make_identity(repository, "m")
    server = start_server(repository, flags=EXPLICIT)
    assert len(set(BAD_NAMES)) >= 100
    answers = {}
    with Client(server, KEY) as client:
        for name in BAD_NAMES:
            answers[name] = client.load(name).status
        assert client.index() == {("m", None): None} or len(client.index()) == 1
    assert {name: status for name, status in answers.items() if not 400 <= status < 500} == {}


def test_100_good_names_load_and_answer_cve_2026_24208(start_server, repository):
    assert len(set(GOOD_NAMES)) >= 100
    for name in GOOD_NAMES:
        make_identity(repository, name)
    server = start_server(repository, flags=EXPLICIT)
    failed = {}
    with Client(server, KEY) as client:
        for name in GOOD_NAMES:
            loaded = client.load(name)
            answer = client.ask(f"/v2/models/{quote(name)}/infer", tensor())
            if loaded.status != 200 or answer.status != 200 or json.loads(answer.body)["model_name"] != name:
                failed[name] = loaded.text or answer.text
        assert failed == {}
        ready = {name for (name, _), state in client.index().items() if state == "READY"}
        assert ready == set(GOOD_NAMES)
        metrics = server.ask("/metrics", port=server.metrics_port)
        assert metrics.status == 200 and metrics.text.count("nv_inference_request_success{") == len(GOOD_NAMES)
        for name in GOOD_NAMES:
            assert client.unload(name).status == 200
