# SPDX-License-Identifier: Apache-2.0
"""The images that scripts/make_image.py makes of build/release: what is inside, and containers of them that serve; deploy/container/compose.yaml, with a real
Prometheus beside the server. Debian's packages come from the machine's mirror (docs/container.md)."""
import concurrent.futures
import contextlib
import gzip
import hashlib
import io
import json
import os
import pathlib
import posixpath
import re
import subprocess
import sys
import tarfile
import tempfile

import numpy as np
import proc
import pytest
import yaml
from conftest import ROOT, copy_model, make_identity, wait_for
from containers import Podman, needs_podman
from prometheus import Prometheus
from python_models import make_python
from test_kubernetes import DEPLOYMENT, KSERVE_POD, container_of

# Images are made on a processor that others use, and their packages come from the network.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]
DIRECTORY = ROOT / "deploy/container"
VARIANTS = ("slim", "onnx", "python")
MOST_BYTES = {"slim": 13_000_000, "onnx": 62_000_000, "python": 130_000_000}  # unpacked
SHELLS = {"sh", "bash", "dash", "ash", "busybox", "zsh", "ksh", "perl"}
BODY = b'{"inputs":[{"name":"INPUT0","shape":[1,1],"datatype":"FP32","data":[7]}]}'


def make(directory, variants=VARIANTS, umask=0o022):
    environment = {name: value for name, value in os.environ.items() if name != "SOURCE_DATE_EPOCH"}
    told = subprocess.run([sys.executable, ROOT / "scripts/make_image.py", ROOT / "build/release", directory, *variants], env=environment, umask=umask, check=True,
                          stdout=subprocess.PIPE, text=True)
    return {variant: pathlib.Path(line) for variant, line in zip(variants, told.stdout.splitlines(), strict=True)}


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    return make(tmp_path_factory.mktemp("images"))


class Image:
    """One of the files, read as the OCI's layout says."""

    def __init__(self, path):
        with tarfile.open(path) as archive:
            self.files = {member.name: archive.extractfile(member).read() for member in archive if member.isfile()}
        self.descriptor, = json.loads(self.files["index.json"])["manifests"]
        self.manifest = json.loads(self.blob(self.descriptor))
        self.config = json.loads(self.blob(self.manifest["config"]))
        self.layers = [gzip.decompress(self.blob(layer)) for layer in self.manifest["layers"]]

    def blob(self, descriptor):
        data = self.files["blobs/" + descriptor["digest"].replace(":", "/")]
        assert len(data) == descriptor["size"] and descriptor["digest"] == f"sha256:{hashlib.sha256(data).hexdigest()}"
        return data

    def members(self):
        """Of all layers: (member, contents), by name."""
        found = {}
        for layer in self.layers:
            with tarfile.open(fileobj=io.BytesIO(layer)) as archive:
                found |= {member.name: (member, archive.extractfile(member).read() if member.isfile() else None) for member in archive}
        return found


@pytest.fixture(scope="module", params=VARIANTS)
def image(request, images):
    read = Image(images[request.param])
    read.variant, read.bill = request.param, json.loads(images[request.param].with_suffix(".cdx.json").read_text())
    return read


# ---- what is inside ----


def test_it_is_an_image_as_both_formats_say(image):
    assert json.loads(image.files["oci-layout"]) == {"imageLayoutVersion": "1.0.0"}
    assert image.config["rootfs"]["diff_ids"] == [f"sha256:{hashlib.sha256(layer).hexdigest()}" for layer in image.layers]
    older, = json.loads(image.files["manifest.json"])
    assert older["Layers"] == ["blobs/" + layer["digest"].replace(":", "/") for layer in image.manifest["layers"]]
    assert json.loads(image.files[older["Config"]]) == image.config and older["RepoTags"] == [image.descriptor["annotations"]["org.opencontainers.image.ref.name"]]
    config = image.config["config"]
    assert config["User"] == "1000:1000" and config["StopSignal"] == "SIGTERM" and "Entrypoint" not in config
    assert config["Cmd"] == ["tritonserver", "--model-repository=/models"] and config["ExposedPorts"].keys() == {"8000/tcp", "8001/tcp", "8002/tcp"}
    assert {"title", "description", "licenses", "version", "created"} <= {label.rpartition(".")[2] for label in config["Labels"]}
    assert older["RepoTags"] == [f"nereid:{config['Labels']['org.opencontainers.image.version']}"]


def test_all_is_roots_and_nothing_but_temporary_directories_can_be_written(image):
    for name, (member, _) in image.members().items():
        assert (member.uid, member.gid) == (0, 0) and not member.mode & 0o6000, name
        assert member.issym() or not member.mode & 0o022 or (name in ("tmp", "var/tmp") and member.mode == 0o1777), name
        assert member.isdir() or member.issym() or member.isfile(), name


def test_there_is_no_shell_and_it_is_small(image):
    members = image.members()
    assert not SHELLS & {posixpath.basename(name) for name in members if "bin/" in name}
    programs = {re.sub(r"[.]\d+$", "", name) for name, (member, _) in members.items() if re.match(r"(usr/)?s?bin/", name)}
    assert programs == ({"usr/bin/python3"} if image.variant == "python" else set())
    assert sum(member.size for member, _ in members.values()) <= MOST_BYTES[image.variant]


def test_each_link_leads_to_something(image):
    members = image.members()

    def resolve(name, depth=0):
        """The name without links, as the kernel follows them from the image's root."""
        done = ""
        for part in name.split("/"):
            done = posixpath.join(done, part)
            if done in members and members[done][0].issym():
                assert depth < 20, name
                done = resolve(posixpath.normpath(posixpath.join("/", posixpath.dirname(done), members[done][0].linkname)).lstrip("/"), depth + 1)
        return done

    links = [name for name, (member, _) in members.items() if member.issym()]
    assert "opt/tritonserver/bin/tritonserver" in links
    assert [name for name in links if resolve(name) not in members] == []


def test_the_bill_of_materials_has_each_package_its_licence_and_each_library(image):
    members, components = image.members(), {component["name"]: component for component in image.bill["components"]}
    assert image.bill["metadata"]["component"]["hashes"] == [{"alg": "SHA-256", "content": image.descriptor["digest"].partition(":")[2]}]
    records = {name.rpartition("/")[2]: data.decode() for name, (_, data) in members.items() if name.startswith("var/lib/dpkg/status.d/") and data}
    versions = {name: re.search(r"^Version: (\S+)$", text, re.M)[1] for name, text in records.items()}
    debian = {name: component["version"] for name, component in components.items() if component["purl"].startswith("pkg:deb/debian/")}
    assert versions == debian and {"libc6", "libgnutls30", "ca-certificates"} <= debian.keys()
    assert components.keys() - debian.keys() == ({"onnxruntime"} if image.variant == "onnx" else set())
    assert all(f"usr/share/doc/{name}" in members for name in components) and all(component["licenses"] for component in components.values())
    told = {occurrence["location"].lstrip("/") for component in components.values() for occurrence in component.get("evidence", {}).get("occurrences", ())}
    binaries = {name for name, (_, data) in members.items() if data and data[:4] == b"\x7fELF" and not name.startswith("opt/tritonserver/")}
    assert told == binaries
    needs = {entry["ref"]: set(entry["dependsOn"]) for entry in image.bill["dependencies"]}
    assert "libgnutls30" in needs["nereid"] and "libhogweed6" in needs["libgnutls30"] - needs["nereid"]


def test_two_builds_are_equal(images, tmp_path):
    for variant, again in make(tmp_path, ("slim", "python"), umask=0o077).items():
        for suffix in (".tar", ".cdx.json"):
            assert again.with_suffix(suffix).read_bytes() == images[variant].with_suffix(suffix).read_bytes(), again


def test_an_unknown_variant_is_refused(tmp_path):
    done = subprocess.run([sys.executable, ROOT / "scripts/make_image.py", ROOT / "build/release", tmp_path, "onnx+torch"], stderr=subprocess.PIPE, text=True)
    assert done.returncode == 1 and done.stderr == "make_image: there is no variant 'onnx+torch': slim, onnx, python or onnx+python\n"


# ---- containers ----


@pytest.fixture(scope="module")
def storage(images):
    with tempfile.TemporaryDirectory(prefix="nereid-", ignore_cleanup_errors=True) as directory:
        podman = Podman(directory)
        podman.loaded = {variant: podman("load", "--quiet", "--input", path).rpartition(" ")[2] for variant, path in images.items()}
        yield podman
        podman("rmi", "--all", "--force")


@pytest.fixture
def podman(storage):
    yield storage
    storage.remove_all()


@needs_podman
@pytest.mark.parametrize("kind", ["oci-archive", "docker-archive"])
def test_both_formats_are_taken(images, podman, kind):
    podman("pull", "--quiet", f"{kind}:{images['slim']}")


def over_grpc(container, model, name, array, output):
    import tritonclient.grpc as grpc

    with grpc.InferenceServerClient(f"localhost:{container.grpc_port}") as client:
        return client.infer(model, [grpc.InferInput(name, array.shape, "FP32").set_data_from_numpy(array)]).as_numpy(output).tolist()


def statuses(container):
    return dict(re.findall(r"^(\w+):\s+(.*)$", proc.read(container.pid, "status"), re.M))


def writable_places(container):
    """Where a mount can be written, but for the kernel's own."""
    rows = [line.split() for line in proc.read(container.pid, "mountinfo").splitlines()]
    return {row[4] for row in rows if "rw" in row[5].split(",") and not re.match(r"/(proc|sys|dev)(/|$)", row[4])}


def check_posture(container):
    told = statuses(container)
    assert told["Uid"].split() == told["Gid"].split() == ["1000"] * 4 and told["NoNewPrivs"] == "1"
    assert all(int(told[name], 16) == 0 for name in ("CapPrm", "CapEff", "CapBnd", "CapAmb"))
    assert writable_places(container) == {"/tmp"}


@needs_podman
def test_slim_serves_with_the_arguments_of_the_deployment(podman, repository):
    make_identity(repository, "m")
    container = podman.run(podman.loaded["slim"], *container_of(DEPLOYMENT["spec"]["template"])["command"], *container_of(DEPLOYMENT["spec"]["template"])["args"],
                           mounts={"/models": repository})
    assert json.loads(container.ask("/v2/models/m/infer", BODY).body)["outputs"][0]["data"] == [7.0]
    assert over_grpc(container, "m", "INPUT0", np.full([1, 1], 7, np.float32), "OUTPUT0") == [[7.0]]
    assert "nv_inference_request_success" in container.ask("/metrics", port=container.metrics_port).text
    check_posture(container)
    assert container.stop() == 0


@needs_podman
def test_a_stop_answers_the_requests_that_are_inside(podman, repository):
    make_identity(repository, "m", more='parameters { key: "execute_delay_ms" value { string_value: "10000" } }')
    address = "--admin-address=unix:/tmp/admin.sock"
    container = podman.run(podman.loaded["slim"], "tritonserver", "--model-repository=/models", address, mounts={"/models": repository})
    with concurrent.futures.ThreadPoolExecutor(1) as thread:
        answer = thread.submit(container.ask, "/v2/models/m/infer", BODY)
        wait_for("the request", lambda: json.loads(podman("exec", container.name, "nereid", "status", address, "--json"))["requests"] > 0)
        assert container.stop() == 0
        assert answer.result().status == 200
    assert "every request that was taken on is answered" in container.log


@needs_podman
def test_onnx_serves_with_the_arguments_of_kserve(podman, repository):
    copy_model(repository, "add_sub")
    kserve = container_of(KSERVE_POD)
    container = podman.run(podman.loaded["onnx"], *kserve["command"], *kserve["args"], mounts={"/mnt/models": repository}, ports=(8080, 9000, 8002))
    inputs = [{"name": name, "datatype": "FP32", "shape": [1, 16], "data": [value] * 16} for name, value in (("INPUT0", 3), ("INPUT1", 2))]
    answer = container.ask("/v2/models/add_sub/infer", json.dumps({"inputs": inputs}).encode())
    assert [output["data"] for output in json.loads(answer.body)["outputs"]] == [[5.0] * 16, [1.0] * 16]
    check_posture(container)
    assert container.stop() == 0


LOOK = """
def execute(self, requests):
    import ctypes, extra, ssl
    for library in ("libarchive.so.13", "libcurl.so.4"):
        ctypes.CDLL(library)
    places = [root for root, _, _ in os.walk("/") if not root.startswith(("/proc", "/sys", "/dev")) and os.access(root, os.W_OK)]
    told = {"places": places, "certificates": ssl.create_default_context().cert_store_stats()["x509_ca"] > 100, "compiled": os.path.exists(np.__cached__),
            "user": [os.getuid(), os.getgid()], "extra": extra.VALUE}
    return [answer(np.array([json.dumps(told).encode()], dtype=np.object_)) for request in requests]
"""


@needs_podman
def test_python_serves_with_its_own_command(podman, repository, tmp_path):
    make_python(repository, "look", LOOK, kind="TYPE_STRING")
    make_identity(repository, "m")
    (tmp_path / "packages").mkdir()
    (tmp_path / "packages/extra.py").write_text("VALUE = 7\n")
    container = podman.run(podman.loaded["python"], mounts={"/models": repository, "/packages": tmp_path / "packages"}, options=["--tmpfs=/tmp", "--env=PYTHONPATH=/packages"])
    body = b'{"inputs":[{"name":"IN","shape":[1],"datatype":"BYTES","data":["x"]}]}'
    answer = container.ask("/v2/models/look/infer", body)
    assert answer.status == 200, answer.text
    assert json.loads(json.loads(answer.body)["outputs"][0]["data"][0]) == {"places": ["/tmp"], "certificates": True, "compiled": True, "user": [1000, 1000], "extra": 7}
    assert over_grpc(container, "m", "INPUT0", np.full([1, 1], 7, np.float32), "OUTPUT0") == [[7.0]]
    check_posture(container)
    assert container.stop() == 0
    name = podman.names[-1]
    assert podman("inspect", name, "--format={{.Config.StopSignal}} {{.Config.User}}") == "15 1000:1000"


# ---- deploy/container/compose.yaml ----

COMPOSE = yaml.safe_load((DIRECTORY / "compose.yaml").read_text())
SERVICES = COMPOSE["services"]


def defaults(text):
    """Variables as compose replaces them when none is set."""
    return re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", text)


def mounts_of(service):
    """(source, target) of the files and directories that are mounted from this machine."""
    found = [defaults(each).split(":")[:2] for each in SERVICES[service]["volumes"] if each.startswith(".")]
    return {target: (DIRECTORY / source).resolve() for source, target in found}


def test_compose_has_only_what_there_is():
    fields = {"image", "command", "read_only", "cap_drop", "security_opt", "tmpfs", "volumes", "ports", "healthcheck", "stop_grace_period", "restart", "depends_on"}
    assert SERVICES.keys() == {"nereid", "prometheus", "grafana"} and COMPOSE.keys() == {"name", "services", "volumes"}
    assert all(service.keys() <= fields and "image" in service for service in SERVICES.values())
    named = {each.partition(":")[0] for service in SERVICES.values() for each in service["volumes"] if re.match(r"\w", each)}
    assert named == COMPOSE["volumes"].keys()
    assert all(source.is_file() for service in SERVICES for source in mounts_of(service).values())
    version = re.search(r"project\(nereid VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text())[1]
    assert defaults(SERVICES["nereid"]["image"]) == f"nereid:{version}-onnx"


def test_grafana_finds_the_dashboard_and_prometheus():
    mounts = mounts_of("grafana")
    files = {posixpath.dirname(target): yaml.safe_load(source.read_text()) for target, source in mounts.items() if source.suffix == ".yaml"}
    source, = files["/etc/grafana/provisioning/datasources"]["datasources"]
    provider, = files["/etc/grafana/provisioning/dashboards"]["providers"]
    address, port = re.fullmatch(r"http://([\w-]+):(\d+)", source["url"]).groups()
    assert source["type"] == "prometheus" and address in SERVICES and f"127.0.0.1:{port}:{port}" in SERVICES[address]["ports"]
    dashboard, = [path for target, path in mounts.items() if posixpath.dirname(target) == provider["options"]["path"]]
    assert dashboard == ROOT / "deploy/monitoring/dashboard.json" and json.loads(dashboard.read_text())["panels"]


# In the container's network, as compose mounts files and names hosts.
BESIDE = """
set -e
mount -t tmpfs none /etc/prometheus
cd "$1"
for place in files/etc/prometheus/*; do cp "$place" /etc/prometheus; done
mount --bind hosts /etc/hosts
promtool check config /etc/prometheus/prometheus.yml
exec prometheus --config.file=/etc/prometheus/prometheus.yml --storage.tsdb.path="$1/data" --web.listen-address=127.0.0.1:9090
"""


@contextlib.contextmanager
def prometheus_beside(container, directory):
    for target, source in mounts_of("prometheus").items():
        copy = directory / "files" / target.lstrip("/")
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(source.read_bytes())
    (directory / "hosts").write_text("127.0.0.1 localhost nereid\n")
    with open(directory / "prometheus.log", "w") as log:
        process = subprocess.Popen(["nsenter", f"--net=/proc/{container.pid}/ns/net", "unshare", "--mount", "sh", "-c", BESIDE, "sh", directory],
                                   stdout=log, stderr=subprocess.STDOUT)
    try:
        made = Prometheus(container.doorway.ports[9090])
        wait_for("Prometheus", lambda: process.poll() is not None or made.ask("status/buildinfo"))
        assert process.poll() is None, (directory / "prometheus.log").read_text()
        yield made
    finally:
        process.terminate()
        process.wait()


@needs_podman
def test_the_server_of_compose_is_healthy_and_its_prometheus_reads_it(podman, repository, tmp_path):
    make_identity(repository, "m")
    service = SERVICES["nereid"]
    assert service["read_only"] and service["cap_drop"] == ["ALL"] and [each.rpartition(":")[0].rpartition(":")[2] for each in service["volumes"]] == ["/models"]
    container = podman.run(podman.loaded["onnx"], *service["command"], mounts={"/models": repository}, options=[f"--tmpfs={each}" for each in service["tmpfs"]], others=[9090])
    kind, *test = service["healthcheck"]["test"]
    assert kind == "CMD" and "ready" in podman("exec", container.name, *test)
    assert container.ask("/v2/models/m/infer", BODY).status == 200
    with prometheus_beside(container, tmp_path) as prometheus:
        assert wait_for("the target", lambda: prometheus.values('up{job="nereid",instance="nereid:8002"} == 1')) == [1.0]
        assert wait_for("a sample", lambda: prometheus.values('nv_inference_request_success{job="nereid",model="m"}')) == [1.0]
        groups = prometheus.ask("rules")["groups"]
        assert {rule["name"] for group in groups for rule in group["rules"]} >= {"NereidDown", "NereidGpuFault"}
    assert container.stop() == 0
