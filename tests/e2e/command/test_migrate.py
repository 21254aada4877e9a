# SPDX-License-Identifier: Apache-2.0
"""nereid migrate: what becomes of a command line of Triton's, and whether its words are those of docs/compatibility.md."""
import json
import re
import shlex
import subprocess

import faults
import pytest
from conftest import PATIENCE, ROOT, SANITIZER_REPORT, Server, environment, make_identity
from ports import free_port

pytestmark = pytest.mark.once
PAGE = (ROOT / "docs/migrating.md").read_text()


@pytest.fixture
def migrate(nereid):
    """Runs nereid migrate; gives what it printed."""
    def run(*words, own=(), status=None, separator=("--",), cwd=None, variables=()):
        done = subprocess.run([nereid, "migrate", *own, *separator, *words], capture_output=True, timeout=PATIENCE, cwd=cwd,
                              env=environment() | dict(variables))
        done.stdout, done.stderr = done.stdout.decode(), done.stderr.decode()
        assert not SANITIZER_REPORT.search(done.stderr), done.stderr
        assert done.returncode in (0, 1, 2) and (status is None or done.returncode == status), (done.returncode, done.stdout, done.stderr)
        return done

    return run


@pytest.fixture
def models(repository):
    make_identity(repository, "m")
    return f"--model-repository={repository}"


def flags_of(report):
    return [(flag["flag"], flag.get("value"), flag["effect"], flag.get("note", "")) for flag in report["flags"]]


# Behind a repository whose models are well: the words, and of each flag its name, value, effect and a part of its note.
CASES = {
    "nothing else": ([], []),
    "as in NVIDIA's examples": (["--log-verbose=1", "--http-port", "9000", "--strict-model-config=false", "--model-control-mode=explicit", "--load-model=m"],
                                [("--log-verbose", "1", "same", ""), ("--http-port", "9000", "same", ""), ("--strict-model-config", "false", "same", ""),
                                 ("--model-control-mode", "explicit", "same", ""), ("--load-model", "m", "same", "")]),
    "cut short": (["--strict-r=1"], [("--strict-readiness", "1", "same", "")]),
    "without a value": (["--disable-auto-complete-config"], [("--disable-auto-complete-config", None, "same", "")]),
    "nereid's own": (["--listen=ready"], [("--listen", "ready", "same", "nereid's own")]),
    "a difference": (["--repoagent-directory=/opt/tritonserver/repoagents"],
                     [("--repoagent-directory", "/opt/tritonserver/repoagents", "differs", "agents of that directory alone; left out, nereid's own")]),
    "a difference of one value": (["--model-control-mode=POLL", "--exit-on-error=0", "--exit-on-error=1"],
                                  [("--model-control-mode", "POLL", "differs", "2 s apart"), ("--exit-on-error", "0", "differs", "ends the start"),
                                   ("--exit-on-error", "1", "same", "")]),
    "no effect": (["--grpc-infer-allocation-pool-size=16", "--buffer-manager-thread-count=2"],
                  [("--grpc-infer-allocation-pool-size", "16", "unused", "not needed"), ("--buffer-manager-thread-count", "2", "unused", "instance's thread")]),
    "settings of backends": (["--backend-config=tensorflow,version=2", "--backend-config=python,shm-default-byte-size=1048576", "--backend-config=onnxruntime,x=1"],
                             [("--backend-config", "tensorflow,version=2", "unused", "the one that pip installed"),
                              ("--backend-config", "python,shm-default-byte-size=1048576", "unused", "checked and not needed"),
                              ("--backend-config", "onnxruntime,x=1", "same", "")]),
    "SageMaker": (["--allow-sagemaker=1", "--sagemaker-port=8080", "--allow-sagemaker=false"],
                  [("--allow-sagemaker", "1", "refused", "have a proxy send /ping"), ("--sagemaker-port", "8080", "unused", "while --allow-sagemaker is false"),
                   ("--allow-sagemaker", "false", "same", "")]),
    "Vertex AI": (["--allow-vertex-ai=true", "--vertex-ai-default-model=m"],
                  [("--allow-vertex-ai", "true", "refused", "--allow-vertex-ai=false --allow-http=true"), ("--vertex-ai-default-model", "m", "unused", "without effect")]),
    "object stores": (["--model-repository=s3://bucket/models", "--model-store", "gs://b"],
                      [("--model-repository", "s3://bucket/models", "refused", "mount the bucket"), ("--model-store", "gs://b", "refused", "mount the bucket")]),
    "an unknown flag": (["--htp-port=1", "--foo", "bar", "--baz"],
                        [("--htp-port=1", None, "refused", "did you mean '--http-port'?"), ("--foo", "bar", "refused", "unrecognized option '--foo'"),
                         ("--baz", None, "refused", "unrecognized")]),
    "wrong values": (["--http-port=abc", "--exit-on-error", "maybe", "--model-control-mode=sometimes"],
                     [("--http-port", "abc", "refused", "invalid value 'abc', expected an integer"), ("--exit-on-error", "maybe", "refused", "expected true or false"),
                      ("--model-control-mode", "sometimes", "refused", "expected none|explicit|poll")]),
    "no value": (["--http-port"], [("--http-port", None, "refused", "requires an argument: <port>")]),
    "words that are no flags": (["models", "-x"], [("models", None, "refused", "Unexpected argument"), ("-x", None, "refused", "Unexpected argument")]),
    "together": (["--http-port=9000", "--metrics-port=9000"],
                 [("--http-port", "9000", "same", ""), ("--metrics-port", "9000", "same", ""), ("", None, "refused", "--http-port and --metrics-port are both 9000")]),
    "a form of its own": (["--cache-config=local"], [("--cache-config", "local", "same", ""), ("", None, "refused", "--cache-config: invalid value 'local'")]),
    "a certificate that is not there": (["--grpc-use-ssl=true", "--grpc-server-cert=/no/such", "--grpc-server-key=/no/such"],
                                        [("--grpc-use-ssl", "true", "same", ""), ("--grpc-server-cert", "/no/such", "same", ""),
                                         ("--grpc-server-key", "/no/such", "same", ""), ("", None, "refused", "failed to open '/no/such'")]),
    "the end of flags": (["--id=x", "--"], [("--id", "x", "same", "")]),
}


@pytest.mark.parametrize("case", CASES)
def test_each_flag_is_told_with_what_becomes_of_it(migrate, models, case):
    words, expected = CASES[case]
    expected = [("--model-repository", models.partition("=")[2], "same", ""), *expected]
    lost = any(line[2] == "refused" for line in expected)
    report = json.loads(migrate("tritonserver", models, *words, own=["--json"], status=int(lost)).stdout)
    found = flags_of(report)
    assert [line[:3] for line in found] == [line[:3] for line in expected]
    for line, (*_, part) in zip(found, expected):
        assert part in line[3] and (part == "") == (line[3] == ""), line
    kept = [flag + ("" if value is None else f"={value}") for flag, value, effect, _ in found if flag and effect != "refused"]
    assert report["command"] == ["nereid", *kept]
    well = {"models": 1, "errors": 0, "warnings": 0, "problems": [], "missing_backends": []}
    assert report["models"] == (None if case == "a form of its own" else well)  # then there are no settings to check with
    lines = migrate("tritonserver", models, *words, status=int(lost)).stdout.splitlines()
    for line, (flag, value, effect, part) in zip(lines, expected):  # people see the same, a line each
        assert line.startswith(f"{effect:8} {flag}") and part in line and (value or "") in line
    assert lines[-1] == report["command_line"]


@pytest.mark.parametrize("before", [
    [], ["tritonserver"], ["/opt/tritonserver/bin/tritonserver"], ["nereid"],
    ["docker", "run", "--rm", "-v/m:/models", "--name", "tritonserver", "nvcr.io/nvidia/tritonserver:24.10-py3", "tritonserver"]], ids=len)
def test_what_stands_before_the_flags_does_not_matter(migrate, models, before):
    report = json.loads(migrate(*before, models, "--id=tritonserver", "--id", "tritonserver", own=["--json"], status=0).stdout)
    assert report["before"] == before[:-1] and [flag["flag"] for flag in report["flags"]] == ["--model-repository", "--id", "--id"]


def test_behind_the_first_word_all_is_tritons(migrate, models):
    assert "same     --id=x" in migrate("tritonserver", models, "--id=x", separator=(), status=0).stdout
    assert "unrecognized option '--json'" in migrate("tritonserver", models, "--json", separator=(), status=1).stdout


@pytest.mark.parametrize("words, said", [
    ([], "needs a command line of Triton's"), (["--"], "needs a command line of Triton's"), (["--model-repository=/m"], "does not take --model-repository"),
    (["--jsn", "--", "tritonserver"], "did you mean '--json'?")], ids=["nothing", "nothing behind", "no separator", "misspelt"])
def test_wrong_use_ends_with_2(nereid, words, said):
    done = subprocess.run([nereid, "migrate", *words], capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 2 and said in done.stderr and done.stdout == ""


def test_help_says_what_it_takes(nereid):
    done = subprocess.run([nereid, "migrate", "--help"], capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0 and "--load" in done.stdout and "All flags of the daemon" not in done.stdout


def test_models_that_would_not_load_are_a_loss(migrate, repository, models, tmp_path):
    broken = tmp_path / "broken"
    (broken / "net/1").mkdir(parents=True)
    (broken / "net/config.pbtxt").write_text('backend: "identity"\nmax_bach_size: 8\n')
    assert "did you mean 'max_batch_size'?" in migrate("tritonserver", models, "--model-store", broken, status=1).stdout
    (broken / "net/config.pbtxt").write_text('backend: "tensorrt"\n')
    (broken / "net/1/model.plan").write_text("")
    report = json.loads(migrate("tritonserver", models, "--model-store", broken, own=["--json"], status=1).stdout)
    assert report["models"]["missing_backends"] == ["tensorrt"] and report["models"]["errors"] == 0
    report = json.loads(migrate("tritonserver", models, "--backend-directory=/opt/tritonserver/backends", own=["--json"], status=1).stdout)
    assert report["models"]["missing_backends"] == ["identity"] and flags_of(report)[1][2] == "differs"
    # what the backend says shows when it is loaded
    (broken / "net/config.pbtxt").write_text('backend: "python"\n')
    (broken / "net/1/model.py").write_text("raise RuntimeError('not today')\n")
    python = f"--backend-config=python,python-executable={ROOT / '.venv/bin/python'}"
    migrate("tritonserver", python, "--model-store", broken, status=0)
    assert "not today" in migrate("tritonserver", python, "--model-store", broken, own=["--load"], status=1).stdout


def test_a_repository_that_is_not_here_is_told_and_the_others_are_checked(migrate, models, tmp_path):
    (tmp_path / "file").write_text("")
    report = json.loads(migrate("tritonserver", models, "--model-store=/no/such", f"--model-repository={tmp_path}/file", own=["--json"], status=1).stdout)
    assert [line[2:] for line in flags_of(report)] == [("same", ""), ("refused", "No such file or directory"), ("refused", "Not a directory")]
    assert report["models"]["models"] == 1 and "--model-store=/no/such" in report["command"]
    report = json.loads(migrate("tritonserver", "--model-store=/no/such", own=["--json"], status=1).stdout)
    assert report["models"] is None and len(report["flags"]) == 1


def test_nothing_is_written_where_flags_say(migrate, models, tmp_path):
    migrate("tritonserver", models, f"--log-file={tmp_path}/log", f"--trace-file={tmp_path}/trace", f"--access-log={tmp_path}/access", status=0)
    assert not any((tmp_path / name).exists() for name in ("log", "trace", "access"))


HOSTILE = ["\x1b[31mred\x07", "two\nlines", "a 'quoted' \"word\" $(id) `id`", "back\\slash", "", "-", "=", "‮turned", b"\xff\xfe", "é日本", "x" * 100_000]


@pytest.mark.parametrize("value", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_words_are_shown_escaped_and_survive_a_shell(migrate, models, value):
    value = value if isinstance(value, bytes) else value.encode()
    flags = [b"--id=" + value, b"--" + value + b"q=1", value, b"--http-port=" + value]
    done = migrate("tritonserver", models, *flags, status=1)
    shown = done.stdout.splitlines()
    assert all(c.isprintable() for line in shown for c in line), ascii(done.stdout)[:300]
    read = subprocess.run(["bash", "-c", f"printf '%s\\0' {shown[-1]}"], stdout=subprocess.PIPE, timeout=PATIENCE).stdout
    assert read == b"nereid\0" + models.encode() + b"\0--id=" + value + b"\0"
    report = json.loads(migrate("tritonserver", models, *flags, own=["--json"], status=1).stdout)
    assert report["flags"][1]["value"] == value.decode(errors="replace") and report["command_line"] == shown[-1]


def test_the_command_line_that_is_printed_starts_a_server(migrate, models, nereid, tmp_path):
    ports = [free_port() for _ in range(3)]
    flags = ["--http-address=127.0.0.1", "--grpc-address", "127.0.0.1", "--id", "it's mine", "--allow-sagemaker=true", "--grpc-infer-allocation-pool-size=8",
             *(f"--{name}-port={port}" for name, port in zip(("http", "grpc", "metrics"), ports)), "--no-such"]
    line = migrate("/opt/tritonserver/bin/tritonserver", models, *flags, status=1).stdout.splitlines()[-1]
    words = shlex.split(line)
    assert words[0] == "nereid"
    with (tmp_path / "log").open("w") as out:
        server = Server(subprocess.Popen([str(nereid), *words[1:]], stdout=out, stderr=subprocess.STDOUT, env=environment()), tmp_path / "log")
    try:
        server.await_ports()
        server.await_ready()
        assert server.http_port == ports[0] and '"name":"it\'s mine"' in server.ask("/v2").text
        assert server.ask("/v2/models/m/ready").status == 200
    finally:
        server.process.terminate()
        assert server.process.wait(PATIENCE) == 0, server.log


@pytest.mark.slow
def test_short_memory_is_an_error_and_never_half_a_report(nereid, models, tmp_path):
    words = ["migrate", "--json", "--", "tritonserver", models, "--allow-sagemaker=true", "--foo"]
    whole, done = faults.runs_of_command(nereid, tmp_path, words, {}, 40)
    assert whole.returncode == 1 and json.loads(whole.stdout)["models"]["models"] == 1
    for run in done:
        assert run.stdout == whole.stdout and run.returncode == 1 or run.stdout == "" and run.returncode in (1, 2) and "memory" in run.stderr, run


# ---- the table and the pages ----

def notes():
    """Of each row of the table: flag, effect, text. Rows that the expression does not read would be seen by their number."""
    source = (ROOT / "src/daemon/flag_notes.c").read_text()
    names = {name: "".join(re.findall(r'"([^"]*)"', text)) for name, text in re.findall(r'^#define (\w+)\s+((?:[^\n]*\\\n)*[^\n]*)$', source, re.M)}
    table = source[source.index("flag_notes[] = {"):source.index("\n};")]
    rows = re.findall(r'\{"([a-z0-9-]+)",\s*(?:NULL|\w+|"[^"]*"),\s*FLAG_(\w+),\s*(\w+|(?:"[^"]*"\s*)+)\}', table)
    assert len(rows) == table.count("FLAG_")
    return [(flag, effect, names[text] if text in names else "".join(re.findall(r'"([^"]*)"', text))) for flag, effect, text in rows]


def rows_of_flags():
    section = re.search(r"^## 11\. .*?(?=^## )", (ROOT / "docs/compatibility.md").read_text(), re.M | re.S)[0]
    for flags, text in re.findall(r"^\| (--.*?) \| (.*) \|$", section, re.M):
        yield re.findall(r"--([a-z0-9-]+)", flags), text.replace("`", "")


def test_rows_of_flags_say_what_the_table_says():
    """A row that says more than works (what stands in brackets aside) says it in the words of notes of its flags, and all of them."""
    table, told = notes(), set()
    for flags, text in rows_of_flags():
        rest = text
        for note in (note for note in table if note[0] in flags):
            assert note[2] in text, note
            rest = rest.replace(note[2], "")
            told.add(note)
        pieces = [piece.strip() for piece in re.split("[:;]", re.sub(r" ?\(.*\)", "", rest.replace("://", "")))]
        allowed = {"", "works", "partly", "taken", "not given", "not in Triton"}
        assert all(piece in allowed or piece.endswith(" is refused") or piece.endswith(" are refused") for piece in pieces), (flags, pieces)
        effects = {note[1] for note in table if note[0] in flags}
        assert ("partly" in pieces or any("refused" in piece for piece in pieces)) == ("REFUSED" in effects), flags
    assert told == set(table), set(table) - told


def test_each_flag_of_triton_has_a_row(nereid):
    text = subprocess.run([nereid, "--help"], capture_output=True, text=True, timeout=PATIENCE).stdout
    flags = re.findall(r"^  --([a-z0-9-]+).*\n +(.*)$", text, re.M)
    listed = {flag for row, _ in rows_of_flags() for flag in row}
    assert {flag for flag, help in flags if "Not in Triton." not in help} <= listed <= {flag for flag, _ in flags}


def test_the_page_shows_what_is_printed(migrate, tmp_path):
    command, shown = re.search(r"^    nereid migrate -- (.*)\n\nprints\n\n((?:    [^\n]*\n|\n)+)", PAGE, re.M).groups()
    model = tmp_path / "models/net/1"
    model.mkdir(parents=True)
    (model.parent / "config.pbtxt").write_text('backend: "tensorrt"\n')
    (model / "model.plan").write_text("")
    printed = migrate(*command.split(), cwd=tmp_path, status=1).stdout
    assert re.sub(r"(model configuration\. ).*", r"\1…", printed) == re.sub(r"^    ", "", shown, flags=re.M).rstrip("\n") + "\n"
