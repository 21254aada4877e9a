# SPDX-License-Identifier: Apache-2.0
"""Command lines on both sides: what NVIDIA's server of 2.51 starts with, nereid starts with; what it refuses for its form, too."""
import re
import socket
import ssl
import subprocess

import pytest
from certificates import make_certificates, tls_flags
from conftest import BUILD, DEADLINE, SANITIZER_REPORT, Server, environment, wait_for
from ports import free_port
from python_sides import NereidInTriton
from start_output import row_of

TRITON = NereidInTriton()
SIDES = ["nereid"] if BUILD.name == "tsan" else ["nereid", "triton"]


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    return tmp_path_factory.mktemp("models")  # an empty one: what is asked here are flags


@pytest.fixture(params=SIDES)
def launch(request, nereid, models, tmp_path):
    """Starts a server with just these words; gives it and its HTTP port."""
    servers = []

    def start(words, variables=(), ports=None):
        ports = ports or [free_port() for _ in range(3)]
        fill = dict(models=models, http=ports[0], grpc=ports[1], metrics=ports[2], directory=tmp_path)
        log = tmp_path / f"{len(servers)}.log"
        program = nereid if request.param == "nereid" else TRITON.server
        variables = dict(variables) if request.param == "nereid" else TRITON.variables | dict(variables)
        with log.open("w") as out:
            process = subprocess.Popen([str(program), *(word.format(**fill) for word in words)], stdout=out,
                                       stderr=subprocess.STDOUT, env=environment() | variables)
        server = Server(process, log)
        servers.append(server)
        server.http_port = ports[0]
        return server

    yield start
    for server in servers:
        if server.process.poll() is None:
            server.process.kill()
        server.process.wait()
        assert not SANITIZER_REPORT.search(server.log), server.log


def answers(server):
    try:
        return server.ask("/v2").status == 200
    except OSError:
        assert server.process.poll() is None, server.log
        return False


def listens(port):
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


PORTS = ["--http-port={http}", "--grpc-port={grpc}", "--metrics-port={metrics}"]
LOCAL = ["--model-repository={models}", "--http-address=127.0.0.1", "--grpc-address=127.0.0.1", *PORTS]
STARTS = {  # what each of them asks for is nothing, or what there is anyway
    "SageMaker and Vertex AI, off": [
        "--allow-sagemaker=false", "--sagemaker-port=8080", "--sagemaker-safe-port-range=1-2", "--sagemaker-thread-count=-3",
        "--allow-vertex-ai=off", "--vertex-ai-port=1", "--vertex-ai-thread-count=0", "--vertex-ai-default-model=m"],
    "memory and devices": [
        "--cuda-virtual-address-size=0:1000", "--cuda-virtual-address-size", "1:0", "--model-load-gpu-limit=0:0.5",
        "--cuda-memory-pool-byte-size=0:67108864", "--cuda-memory-pool-byte-size=1:-1", "--pinned-memory-pool-byte-size=-1",
        "--min-supported-compute-capability=8.0x", "--buffer-manager-thread-count=-1", "--enable-peer-access=FALSE"],
    "directories that are not there": ["--repoagent-directory=/absent", "--cache-directory=/absent", "--model-config-name=absent"],
    "rate limiter, off": [
        "--rate-limit=OFF", "--rate-limit-resource=R:1", "--rate-limit-resource=R:-1:0", "--rate-limit-resource=:1",
        "--rate-limit-resource=R:1:-5"],
    "counts that make no sense": [
        "--model-load-thread-count=0", "--model-load-retry-count=-1", "--repository-poll-secs=-1",
        "--log-verbose=-1", "--exit-timeout-secs=10s", "--grpc-infer-allocation-pool-size=-1", "--metrics-interval-ms=-5",
        "--grpc-http2-max-pings-without-data=-1", "--grpc-http2-max-ping-strikes=-1", "--grpc-max-connection-age=-1",
        "--grpc-http2-min-recv-ping-interval-without-data=-1", "--grpc-max-connection-age-grace=-1",
        "--grpc-keepalive-time=-1", "--grpc-keepalive-timeout=0", "--trace-count=-5", "--trace-config", "rate=-1"],
    "many threads": ["--model-load-thread-count=1500", "--http-thread-count=1500"],
    "things that cannot be used": [
        "--log-file={directory}/absent/log", "--http-header-forward-pattern=[", "--grpc-header-forward-pattern=(",
        "--trace-config", "what=1", "--trace-config=triton,what=1", "--trace-config=opentelemetry,resource=x"],
    "spellings": [
        "--id", "x", "--id=y", "--exit-on-err=1", "--strict-read", "ON", "--log-info=TRUE", "--log-verb=false", "--disable-auto",
        "--model-control-mode=EXPLICIT", "--grpc-infer-response-compression-level=HIGH", "--"],
    "deprecated": ["--strict-model-config=false", "--trace-file={directory}/t", "--trace-level=MAX", "--trace-rate=5"],
    "a repository and a model twice": [
        "--model-repository={models}", "--model-store={models}", "--model-control-mode=explicit", "--load-model=*", "--load-model=*"],
    "backends that there are not": [
        "--backend-config=tensorflow,version=2", "--backend-config=default-max-batch-size=4", "--backend-config=a,b,c=d",
        "--host-policy=p,numa-node=0"],
}

@pytest.mark.parametrize("case", STARTS)
def test_what_triton_starts_with_starts(launch, case):
    server = launch([*LOCAL, *STARTS[case]])
    wait_for("the server", lambda: answers(server))


def test_a_flag_is_as_short_as_in_triton(launch):
    """--res is one of Triton's flags, and of nereid's own another."""
    server = launch([*LOCAL, "--res=none"])
    assert server.process.wait(DEADLINE) == 1
    assert 'Bad option: "--response-cache-byte-size".' in server.log


# Flags of newer Tritons than 2.51.
NEWER = {"allow-client-shm", "grpc-infer-thread-count", "grpc-max-response-pool-size", "http-max-input-size"}


def test_help_says_which_flags_are_not_in_triton(nereid):
    """How short a flag may be cut depends on it."""
    def help_of(program, variables):
        ended = subprocess.run([str(program), "--help"], capture_output=True, text=True, env=environment() | variables, timeout=DEADLINE)
        return ended.stdout + ended.stderr

    theirs = set(re.findall(r"--([a-z0-9-]+)", help_of(TRITON.server, TRITON.variables)))
    ours = re.findall(r"^  --(\S+).*\n +(.*)$", help_of(nereid, {}), re.M)
    assert len(theirs) > 80
    assert {name for name, text in ours if "Not in Triton." not in text} - theirs == NEWER
    assert {name for name, text in ours if "Not in Triton." in text} & theirs == set()


def test_of_a_port_the_lower_16_bits_count(launch):
    ports = [free_port() for _ in range(3)]
    large = [flag.format(http=ports[0] + 65536, grpc=ports[1] + 131072, metrics=ports[2] - 65536) for flag in PORTS]
    server = launch([*LOCAL, *large], ports=ports)
    wait_for("the server", lambda: answers(server))
    for port in ports:
        wait_for("the port", lambda: listens(port))


COMMAND_LINES = {  # as they stand in manifests: KServe's, Helm charts', Seldon's, docker's
    "KServe": "--model-store={models} --grpc-port={grpc} --http-port={http} --metrics-port={metrics} --allow-grpc=true --allow-http=true",
    "Helm": "--model-store={models} --model-control-mode=explicit --repository-poll-secs=5 --http-port {http} --grpc-port {grpc} "
            "--metrics-port {metrics} --strict-model-config=false --log-verbose=1 --allow-metrics=true --allow-gpu-metrics=false",
    "Seldon": "--id=triton --model-repository={models} --http-port={http} --grpc-port={grpc} --metrics-port={metrics} "
              "--strict-readiness=false --exit-on-error=false --exit-timeout-secs=30 --backend-config=python,shm-region-prefix-name=a",
    "docker": "--model-repository={models} --http-port={http} --grpc-port={grpc} --metrics-port={metrics} --model-load-thread-count=8 "
              "--pinned-memory-pool-byte-size=268435456 --cuda-memory-pool-byte-size=0:268435456 --trace-config level=OFF "
              "--backend-config=python,shm-default-byte-size=16777216 --grpc-infer-allocation-pool-size=16 --http-thread-count=16 "
              "--disable-auto-complete-config --grpc-keepalive-permit-without-calls=1 --log-format=ISO8601 --rate-limit=off",
}


@pytest.mark.parametrize("case", COMMAND_LINES)
def test_command_lines_of_manifests_start_unchanged(launch, case):
    server = launch(COMMAND_LINES[case].split())
    wait_for("the server", lambda: answers(server))


REFUSED = {  # words that both say
    "an unknown flag": (["--no-such-flag=1"], r"unrecognized option '--no-such-flag"),
    "no value": (["--id"], r"option '--id' requires an argument"),
    "ambiguous": (["--exit=1"], r"option '--exit(=1)?' is ambiguous; possibilities: .*--exit-on-error"),
    "a word": (["models"], r"Unexpected argument: '?models"),
    "a word behind --": (["--", "--id=x"], r"Unexpected argument: '?--"),
    "one dash": (["-exit-on-error=false"], r""),
    "no number": (["--http-port=many"], r'Bad option: "--http-port"\.'),
    "no number for a count": (["--model-load-thread-count="], r'Bad option: "--model-load-thread-count"\.'),
    "no boolean": (["--log-info=yes"], r'Bad option: "--log-info"\.'),
    "no choice": (["--model-control-mode=sometimes"], r'Bad option: "--model-control-mode"\.'),
    "no resource": (["--rate-limit-resource=R"], r"--rate-limit-resource"),
    "no pair": (["--cuda-virtual-address-size=7"], r"--cuda-virtual-address-size"),
    "more than a GPU": (["--model-load-gpu-limit=0:7"], r"expects limit fraction to be in range \[0.0, 1.0\], got 7.000000"),
    "no cache": (["--cache-config=x"], r"--cache-config"),
    "no policy": (["--host-policy=p,x=0"], r"Unsupported host policy setting 'x'"),
    "no setting": (["--backend-config=x"], r"--backend-config"),
    "a model without explicit control": (["--load-model=x"], r"--load-model"),
    "all models and one": (["--model-control-mode=explicit", "--load-model=*", "--load-model=x"], r""),
    "an unknown category": (["--http-restricted-api=x:k=v"], r"unknown restricted api 'x'"),
    "no repository": (["--model-repository={directory}/absent"], r""),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_triton_refuses_is_refused(launch, case):
    flags, words = REFUSED[case]
    server = launch([*LOCAL, *flags])
    assert server.process.wait(DEADLINE) == 1
    assert re.search(words, server.log.replace("\n", " ")), server.log


def test_vertex_ai_names_the_repository(launch, models):
    server = launch(LOCAL[1:], variables={"AIP_STORAGE_URI": str(models), "AIP_MODE": "OTHER"})
    wait_for("the server", lambda: answers(server))
    path = "model_repository_path[0]"
    assert wait_for("the table", lambda: f"| {path} " in server.log and str(models) in row_of(server.log, path))


def test_vertex_ai_closes_the_other_ports(launch):
    server = launch([*LOCAL, "--allow-vertex-ai=false"], variables={"AIP_MODE": "PREDICTION"})
    wait_for("the metrics", lambda: re.search(r"Started Metrics Service at .*", server.log))
    assert "Started HTTPService" not in server.log and "Started GRPC" not in server.log
    server = launch([*LOCAL, "--allow-vertex-ai=false", "--allow-http=true"], variables={"AIP_MODE": "PREDICTION"})
    wait_for("the server", lambda: answers(server))


def test_who_speaks_of_clients_certificates_wants_tls(launch, tmp_path):
    certificates = make_certificates(tmp_path)
    server = launch([*LOCAL, "--grpc-use-ssl-mutual=false", *tls_flags(certificates, protocol="grpc")[:2]])
    port = server.grpc_port
    context = ssl.create_default_context(cafile=certificates / "ca.pem")
    context.set_alpn_protocols(["h2"])
    with socket.create_connection(("127.0.0.1", port), DEADLINE) as plain, context.wrap_socket(plain, server_hostname="localhost") as tls:
        assert tls.selected_alpn_protocol() == "h2"
