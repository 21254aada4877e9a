# SPDX-License-Identifier: Apache-2.0
"""The manifests of deploy/kubernetes and deploy/kserve: as the API wants them, and the containers' arguments and probes on the real server (docs/kubernetes.md)."""
import concurrent.futures
import copy
import os
import re
import signal
import subprocess
import time

import jsonschema
import pytest
import yaml
from conftest import EXIT_TIMEOUT, PATIENCE, ROOT, wait_for
from python_models import ECHO, make_python

VERSIONS = ["1.30", "1.37"]  # of Kubernetes
DOCUMENTS = [document for path in sorted(ROOT.glob("deploy/k*/*.yaml")) for document in yaml.safe_load_all(path.read_text())]


def of_kind(kind):
    return [document for document in DOCUMENTS if document["kind"] == kind]


DEPLOYMENT, = of_kind("Deployment")
RUNTIME, = of_kind("ClusterServingRuntime")
POD = DEPLOYMENT["spec"]["template"]
KSERVE_POD = {"spec": {name: RUNTIME["spec"][name] for name in ("containers", "volumes")}}
KSERVE_GRACE = 30  # KServe's pods have Kubernetes' default unless the InferenceService says another
GPU_DRIVER = 10  # docs/operating.md

# ---- what the API takes ----

TEXT, COUNT = {"type": "string", "minLength": 1}, {"type": "integer", "minimum": 1}
LABELS = {"type": "object", "additionalProperties": TEXT, "minProperties": 1}


def exactly(**fields):
    return {"type": "object", "required": list(fields), "properties": fields, "additionalProperties": False}


def list_of(item):
    return {"type": "array", "items": item, "minItems": 1}


# Of kinds that are not Kubernetes' own: the fields that we use, no others.
CUSTOM = {
    ("kustomize.config.k8s.io/v1beta1", "Kustomization"): dict(
        resources=list_of({"enum": [path.name for path in ROOT.glob("deploy/kubernetes/*.yaml")]}), images=list_of(exactly(name=TEXT, newName=TEXT, newTag=TEXT))),
    ("monitoring.coreos.com/v1", "ServiceMonitor"): dict(
        spec=exactly(selector=exactly(matchLabels=LABELS), endpoints=list_of(exactly(port=TEXT, path=TEXT, interval={"pattern": r"^\d+s$"})))),
    ("keda.sh/v1alpha1", "ScaledObject"): dict(
        spec=exactly(
            scaleTargetRef=exactly(name=TEXT), minReplicaCount=COUNT, maxReplicaCount=COUNT, pollingInterval=COUNT,
            fallback=exactly(failureThreshold=COUNT, replicas=COUNT),
            advanced=exactly(horizontalPodAutoscalerConfig=exactly(behavior=exactly(scaleDown=exactly(stabilizationWindowSeconds=COUNT)))),
            triggers=list_of(exactly(type={"const": "prometheus"}, metricType={"const": "AverageValue"}, metadata=exactly(
                serverAddress=TEXT, query=TEXT, threshold=TEXT, ignoreNullValues={"const": "false"}))))),
    ("serving.kserve.io/v1alpha1", "ClusterServingRuntime"): dict(
        spec=exactly(
            annotations=exactly(**{"prometheus.kserve.io/port": TEXT, "prometheus.kserve.io/path": TEXT}),
            supportedModelFormats=list_of(exactly(name=TEXT, version=TEXT)), protocolVersions={"const": ["v2", "grpc-v2"]},
            containers=list_of({}), volumes=list_of({}))),  # they are a pod's
    ("serving.kserve.io/v1beta1", "InferenceService"): dict(
        spec=exactly(predictor=exactly(minReplicas=COUNT, maxReplicas=COUNT, model=exactly(
            runtime=TEXT, modelFormat=exactly(name=TEXT, version=TEXT), protocolVersion={"const": "v2"}, storageUri=TEXT)))),
}


def check(document):
    schema = CUSTOM.get((document["apiVersion"], document["kind"]))
    if schema is None:
        import kubernetes_validate  # here: only --all has it

        for version in VERSIONS:
            kubernetes_validate.validate(document, version, strict=True)
    else:
        jsonschema.validate({name: value for name, value in document.items() if name not in ("apiVersion", "kind", "metadata")}, exactly(**schema))


@pytest.mark.slow
@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: document["kind"])
def test_each_document_is_as_its_schema_says(document):
    check(document)


@pytest.mark.slow
def test_what_a_kserve_pod_has_is_a_pods():
    check({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "example"}, **KSERVE_POD})


@pytest.mark.slow
def test_a_misspelt_field_does_not_pass():
    document = copy.deepcopy(DEPLOYMENT)
    document["spec"]["template"]["spec"]["containers"][0]["readynessProbe"] = {}
    with pytest.raises(jsonschema.ValidationError, match="readynessProbe"):
        check(document)


# ---- whether the parts fit together ----


def container_of(pod):
    container, = pod["spec"]["containers"]
    return container


def arguments(pod):
    """The values of the flags, by name."""
    assert container_of(pod)["command"] == ["nereid"]
    return dict(argument.removeprefix("--").partition("=")[::2] for argument in container_of(pod)["args"])


def port_number(pod, port):
    return next((each["containerPort"] for each in container_of(pod).get("ports", []) if each["name"] == port), port)


def is_chosen(selector, labels):
    return selector.items() <= labels.items()


def test_selectors_choose_the_pods_and_ports_have_their_names():
    labels, ports = POD["metadata"]["labels"], {port["name"]: port["containerPort"] for port in container_of(POD)["ports"]}
    assert ports == {name: int(arguments(POD)[f"{name}-port"]) for name in ("http", "grpc", "metrics")}
    selectors = [DEPLOYMENT["spec"]["selector"]["matchLabels"], *(service["spec"]["selector"] for service in of_kind("Service")),
                 *(budget["spec"]["selector"]["matchLabels"] for budget in of_kind("PodDisruptionBudget")),
                 *(policy["spec"]["podSelector"]["matchLabels"] for policy in of_kind("NetworkPolicy")),
                 *(spread["labelSelector"]["matchLabels"] for spread in POD["spec"]["topologySpreadConstraints"])]
    assert len(selectors) == 6 and all(is_chosen(selector, labels) for selector in selectors)
    for service in of_kind("Service"):
        assert all(port["name"] == port["targetPort"] and port["port"] == ports[port["name"]] for port in service["spec"]["ports"])
    policy, = of_kind("NetworkPolicy")
    assert {port["port"] for rule in policy["spec"]["ingress"] for port in rule["ports"]} == set(ports)
    assert {mount["name"] for mount in container_of(POD)["volumeMounts"]} == {volume["name"] for volume in POD["spec"]["volumes"]}


def test_prometheus_finds_each_pod_once():
    monitor, = of_kind("ServiceMonitor")
    endpoint, = monitor["spec"]["endpoints"]
    found = [service for service in of_kind("Service") if is_chosen(monitor["spec"]["selector"]["matchLabels"], service["metadata"]["labels"])
             and endpoint["port"] in {port["name"] for port in service["spec"]["ports"]}]
    assert [service["metadata"]["name"] for service in found] == ["nereid"]  # the query's job


def test_what_scales_names_the_deployment_and_asks_in_promql(tmp_path):
    scalers = of_kind("HorizontalPodAutoscaler") + of_kind("ScaledObject")
    assert [scaler["spec"]["scaleTargetRef"]["name"] for scaler in scalers] == [DEPLOYMENT["metadata"]["name"]] * 2
    trigger, = scalers[1]["spec"]["triggers"]
    rules = tmp_path / "rules.yaml"
    rules.write_text(yaml.safe_dump({"groups": [{"name": "scale", "rules": [{"record": "wanted", "expr": trigger["metadata"]["query"]}]}]}))
    subprocess.run(["promtool", "check", "rules", rules], check=True, timeout=PATIENCE)


def test_the_image_is_set_in_one_place():
    kustomization, = of_kind("Kustomization")
    assert [image["name"] for image in kustomization["images"]] == [container_of(POD)["image"]]
    service, = of_kind("InferenceService")
    model = service["spec"]["predictor"]["model"]
    assert model["runtime"] == RUNTIME["metadata"]["name"] and model["modelFormat"] in RUNTIME["spec"]["supportedModelFormats"]
    assert RUNTIME["spec"]["annotations"]["prometheus.kserve.io/port"] == arguments(KSERVE_POD)["metrics-port"]


PODS = pytest.mark.parametrize("pod", [POD, KSERVE_POD], ids=["kubernetes", "kserve"])


@PODS
def test_a_pod_ends_after_others_know_and_before_it_is_killed(pod):
    probe, values = container_of(pod)["readinessProbe"], arguments(pod)
    delay, leave = int(values["shutdown-delay-secs"]), int(values["exit-timeout-secs"])
    assert delay >= probe["periodSeconds"] * probe["failureThreshold"] + 2
    assert pod["spec"].get("terminationGracePeriodSeconds", KSERVE_GRACE) >= delay + leave + GPU_DRIVER


@PODS
def test_a_pod_has_no_privileges(pod):
    context = pod["spec"].get("securityContext", {}) | container_of(pod)["securityContext"]
    assert context == {"runAsNonRoot": True, "runAsUser": 1000, "runAsGroup": 1000, "seccompProfile": {"type": "RuntimeDefault"}, "privileged": False,
                       "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}
    assert "/tmp" in [mount["mountPath"] for mount in container_of(pod)["volumeMounts"]] and "secure" in arguments(pod)


# ---- the server under these arguments and probes ----

WAITS = """
def initialize(self, args):
    open({!r}).read()
"""
BODY = b'{"inputs":[{"name":"IN","shape":[1],"datatype":"INT32","data":[7]}]}'


class Pod:
    """The server with the arguments of a manifest, but for ports, the models' folder, the exit timeout and who may run it."""

    def __init__(self, pod, start_server, directory):
        self.pod, self.gate, values = pod, directory / "gate", arguments(pod)
        self.delay = int(values["shutdown-delay-secs"])
        self.ports = {int(number): name.removesuffix("-port") for name, number in values.items() if name.endswith("-port")}
        os.mkfifo(self.gate)
        make_python(directory / "models", "slow", WAITS.format(str(self.gate)) + ECHO)
        flags = [re.sub(r"(-port=)\d+$", r"\g<1>0", re.sub(r"(--model-(?:repository|store)=).*", rf"\g<1>{directory}/models", argument))
                 for argument in container_of(pod)["args"]]
        flags = [re.sub(r"(--exit-timeout-secs=)\d+$", rf"\g<1>{EXIT_TIMEOUT}", flag) for flag in flags]
        self.server = start_server(flags=flags + ["--allow-root"] * (os.geteuid() == 0), wait=False)
        self.server.await_ports()

    def get(self, path, port):
        name = self.ports[port_number(self.pod, port)]
        return self.server.ask(path, port=getattr(self.server, f"{name}_port")).status

    def passes(self, probe):
        return 200 <= self.get(**container_of(self.pod)[probe]["httpGet"]) < 400

    def load(self):
        with self.gate.open("w"):  # opens when the model is there to read
            assert self.passes("livenessProbe") and not self.passes("startupProbe") and not self.passes("readinessProbe")
        wait_for("startup", lambda: self.passes("startupProbe"))
        assert self.passes("readinessProbe") and self.passes("livenessProbe")

    def infer(self):
        """Whether it was answered; otherwise the port is closed."""
        try:
            answer = self.server.ask("/v2/models/slow/infer", BODY)
        except OSError:
            return False
        assert answer.status == 200, answer.text
        return True

    def leave(self):
        begun = time.monotonic()
        self.server.process.send_signal(signal.SIGTERM)
        wait_for("the end of readiness", lambda: not self.passes("readinessProbe"))
        assert self.passes("livenessProbe")
        wait_for("the end of service", lambda: not self.infer())
        assert time.monotonic() - begun >= self.delay
        assert self.server.process.wait(PATIENCE) == 0
        self.server.stop()


def test_pods_are_ready_when_loaded_and_serve_until_others_know_that_they_leave(start_server, tmp_path):
    pods = []
    for name, pod in (("kubernetes", POD), ("kserve", KSERVE_POD)):
        (tmp_path / name).mkdir()
        pods.append(Pod(pod, start_server, tmp_path / name))
    for pod in pods:
        pod.load()
        assert pod.infer()
    endpoint, = of_kind("ServiceMonitor")[0]["spec"]["endpoints"]
    annotations = RUNTIME["spec"]["annotations"]
    assert pods[0].get(endpoint["path"], endpoint["port"]) == 200
    assert pods[1].get(annotations["prometheus.kserve.io/path"], int(annotations["prometheus.kserve.io/port"])) == 200
    scalers = str(of_kind("HorizontalPodAutoscaler") + of_kind("ScaledObject"))
    shown = pods[0].server.ask("/metrics", port=pods[0].server.metrics_port).text
    assert [metric for metric in re.findall(r"\b(?:nv|nereid)_\w+", scalers) if f"\n{metric}{{" not in shown] == []
    with concurrent.futures.ThreadPoolExecutor() as pool:
        list(pool.map(Pod.leave, pods))
