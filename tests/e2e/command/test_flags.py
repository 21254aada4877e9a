# SPDX-License-Identifier: Apache-2.0
"""Flags as people type them: help, mistakes, --config files, and the page that lists them."""
import re
import subprocess

import pytest
from conftest import PATIENCE, ROOT, make_identity, wait_for
from start_output import row_of


def run(nereid, *flags):
    return subprocess.run([str(nereid), *flags], capture_output=True, text=True, timeout=PATIENCE)


def test_help_lists_flags_in_groups(nereid):
    result = run(nereid, "--help")
    assert result.returncode == 0 and result.stderr == ""
    for words in ("Usage: nereid", "\nModel repository:\n", "--http-port <port>", "(8000)", "\nSageMaker and Vertex AI:\n"):
        assert words in result.stdout
    assert run(nereid, "-h").stdout == result.stdout


MISTAKES = {
    "nothing": ([], "--model-repository must be specified"),
    "unknown": (["--no-such-flag=1"], "unrecognized option '--no-such-flag'"),
    "misspelt": (["--htp-port=1"], "did you mean '--http-port'?"),
    "no number": (["--http-port=abc"], "Bad option: \"--http-port\". --http-port: invalid value 'abc', expected an integer"),
    "out of range": (["--http-max-connections=2000000"], "--http-max-connections: invalid value '2000000', expected an integer from 0 to 1000000"),
    "a number and more": (["--http-idle-timeout-ms=10s"], "--http-idle-timeout-ms: invalid value '10s'"),
    "no boolean": (["--exit-on-error=maybe"], "--exit-on-error: invalid value 'maybe', expected true or false"),
    "no choice": (["--model-control-mode=sometimes"], "--model-control-mode: invalid value 'sometimes', expected none|explicit|poll"),
    "no value": (["--http-port"], "option '--http-port' requires an argument: <port>"),
    "ambiguous": (["--http=1"], "option '--http' is ambiguous; possibilities: --http-address, --http-port, "),
    "no flag": (["models"], "Unexpected argument: 'models', expected --<flag>=<value>"),
    "no cache's setting": (["--cache-config=local"], "--cache-config: invalid value 'local', expected <cache>,<setting>=<value>"),
    "a cache without a value": (["--cache-config=local,size="], "--cache-config: invalid value 'local,size=', expected <cache>,<setting>=<value>"),
    "SageMaker": (["--allow-sagemaker=true"], "--allow-sagemaker=true is not supported by nereid yet: leave it out, and have a proxy"),
    "Vertex AI": (["--allow-vertex-ai=true"], "--allow-vertex-ai=false --allow-http=true"),
    "an object store": (["--model-store=s3://bucket/models"], "s3://bucket/models is not supported by nereid yet: copy the models"),
    "a web page": (["--model-repository=https://example.com/models"], "https://example.com/models is not supported by nereid yet: give the path of a directory"),
    "no number for a time": (["--metrics-interval-ms=nan"], "--metrics-interval-ms: invalid value 'nan', expected a number"),
    "namespaces": (["--model-repository=/tmp", "--model-namespacing=true", "--model-control-mode=ondemand"],
                   "--model-namespacing is not supported with --model-control-mode=ondemand"),
    "no such repository": (["--model-repository=/no/such/directory"], "/no/such/directory"),
    "bad backend config": (["--model-repository=/tmp", "--backend-config=x"], "--backend-config: invalid value 'x'"),
    "no config file": (["--config=/no/such/file"], "/no/such/file"),
    "a directory as config file": (["--config=/tmp"], "--config: failed to read '/tmp': Is a directory"),
    "one port": (["--model-repository=/tmp", "--http-port=9000", "--metrics-port=9000"], "--metrics-port are both 9000"),
    "bad metrics setting": (["--model-repository=/tmp", "--metrics-config=nereid_histograms=1"], "nereid_histograms: invalid value '1', expected none, few or all"),
    "no metrics setting": (["--model-repository=/tmp", "--metrics-config=summary_latencies"], "expected <setting>=<value>"),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_a_mistake_is_named_and_ends_with_1(nereid, case):
    flags, words = MISTAKES[case]
    result = run(nereid, *flags)
    assert result.returncode == 1
    assert words in result.stderr, result.stderr
    assert len([l for l in result.stderr.splitlines() if l]) == 1


def test_what_makes_no_sense_is_taken_as_triton_does_and_said(start_server, repository):
    flags = {
        "--model-load-thread-count=0": "'0' is read as 1", "--model-load-retry-count=-7": None, "--log-verbose=-1": "'-1' is read as 0",
        "--metrics-interval-ms=1e300": "'1e300' is read as 1e+15", "--exit-timeout-secs=7s": "'7s' is read as 7",
        "--grpc-keepalive-timeout=0": "'0' is read as 1", "--http-thread-count=-1": "'-1' is read as 0",
        "--response-cache-byte-size=0": None, "--cache-config=local,size=0": None,
    }
    server = start_server(repository, flags=[*flags, "--trace-config=what=1", "--http-header-forward-pattern=["])
    warnings = [line for line in server.log.splitlines() if line.startswith("W")]
    for flag, words in flags.items():
        assert words is None or any(f"{flag.partition('=')[0]}: {words}" in line for line in warnings), (flag, warnings)
    assert any("--trace-config: 'what=1' is not known; it is ignored" in line for line in warnings)
    assert any("--http-header-forward-pattern: invalid pattern '['" in line for line in warnings)
    assert len(warnings) == 8, warnings


def test_a_log_that_cannot_be_written_is_a_warning(start_server, repository, tmp_path):
    server = start_server(repository, flags=[f"--log-file={tmp_path}/absent/log"])
    assert re.search(r"^W.*--log-file: .*absent/log.*; lines go to standard output and error", server.log, re.M)


def test_under_vertex_ai_the_start_says_what_to_do(nereid):
    result = subprocess.run([str(nereid), "--model-repository=/tmp"], env={"AIP_MODE": "PREDICTION"}, capture_output=True, text=True, timeout=PATIENCE)
    assert result.returncode == 1 and "--allow-vertex-ai=false --allow-http=true" in result.stderr


def test_a_setting_without_a_backend_is_for_all(start_server, repository):
    make_identity(repository, "m")
    server = start_server(repository, flags=["--backend-config=mine=1,2", "--backend-config=identity,own=3", "--backend-config=other,no=4"])
    wait_for("the tables", lambda: "Serving " in server.log)
    row = row_of(server.log, "identity")
    assert '"mine":"1,2"' in row and '"own":"3"' in row and '"no"' not in row


def test_a_negative_exit_timeout_is_0(nereid, repository):
    result = run(nereid, f"--model-repository={repository}", "--exit-timeout-secs=-5", "--access-log=/no/such/directory/log")
    assert "--access-log" in result.stderr and "Timeout 0: Found 0 in-flight" in result.stdout


def test_values_may_stand_apart_and_names_may_be_short(start_server, repository):
    make_identity(repository, "m")
    flags = ["--exit-timeout-secs", "7", "--strict-r=true", "--id", "mine", "--cache-directory", "/no/such/directory"]
    server = start_server(repository, flags=flags)
    assert '"name":"mine"' in server.ask("/v2").text


def test_a_config_file_sets_flags_and_the_command_line_wins(start_server, repository, tmp_path):
    make_identity(repository, "a")
    make_identity(repository, "b")
    make_identity(repository, "c")
    config = tmp_path / "nereid.yaml"
    config.write_text("id: from-file\nmodel-control-mode: explicit\nload-model: [a, b]\nlog-info: true\n")
    server = start_server(repository, flags=[f"--config={config}"])
    assert '"name":"from-file"' in server.ask("/v2").text
    assert server.ask("/v2/models/b/ready").status == 200 and server.ask("/v2/models/c/ready").status == 400
    server = start_server(repository, flags=[f"--config={config}", "--id=mine", "--load-model=c"])
    assert '"name":"mine"' in server.ask("/v2").text
    assert server.ask("/v2/models/c/ready").status == 200 and server.ask("/v2/models/a/ready").status == 400


BAD_FILES = {
    "unknown": ("http-port: 1\nno-such: 2\n", ":2: unrecognized option 'no-such', see --help"),
    "misspelt": ("htp-port: 1\n", ":1: unrecognized option 'htp-port', did you mean 'http-port'?"),
    "for the command line": ("config: other.yaml\n", ":1: 'config': it is for the command line only"),
    "bad value": ("http-port: many\n", ":1: --http-port: invalid value 'many'"),
    "no mapping": ("- a\n", ":1: expected a mapping"),
    "no YAML": ("a: [\n", "nereid.yaml:"),
    "NUL in a value": ('id: "a\\0b"\n', ":1: 'id': expected a value"),
    "NUL in a name": ('"id\\0": a\n', ":1: expected the name of a flag"),
    "a second document": ("id: a\n---\nsecure: true\n", ":3: expected one document"),
    "a second document that is none": ("id: a\n...\nid: [\n", "nereid.yaml:"),
    "list for one": ("http-port: [1, 2]\n", ":1: 'http-port': expected a value"),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_mistakes_in_a_config_file_name_file_and_line(nereid, tmp_path, case):
    text, words = BAD_FILES[case]
    config = tmp_path / "nereid.yaml"
    config.write_text(text)
    result = run(nereid, f"--config={config}")
    assert result.returncode == 1 and words in result.stderr


def test_the_page_of_flags_is_complete(nereid):
    """docs/flags.md lists exactly the flags of --help, with their defaults."""
    text = run(nereid, "--help").stdout
    flags, current = {}, None
    for line in text.splitlines():
        if found := re.match(r"  --([a-z0-9-]+)", line):
            current = found.group(1)
            flags[current] = None
        elif current and (found := re.search(r" \(([^()]*)\)$", line)):
            flags[current] = found.group(1)
    page = (ROOT / "docs/flags.md").read_text()
    rows = {m.group(1): m.group(2).strip() for m in re.finditer(r"^\| `--([a-z0-9-]+)` \|([^|]*)\|", page, re.M)}
    assert set(rows) == set(flags)
    for name, default in flags.items():
        if default is not None:
            assert rows[name] == f"`{default}`", name
