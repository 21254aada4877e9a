# SPDX-License-Identifier: Apache-2.0
"""triton_python_backend_utils: ours has what Triton's has, name for name and argument for argument."""
import json

import pytest
from python_sides import MODELS, Nereid, SideStarter, Triton, infer, output

pytestmark = pytest.mark.slow


def surface(side, directory):
    """What a model sees of the module."""
    starter = SideStarter(side, side.backends(directory), directory)
    try:
        return json.loads(output(infer(starter(MODELS, flags=["--load-model=surface"]), "surface", [1]))[0])
    finally:
        starter.stop_all()


@pytest.fixture(scope="module")
def ours(tmp_path_factory):
    return surface(Nereid(), tmp_path_factory.mktemp("ours"))


@pytest.fixture(scope="module")
def theirs(tmp_path_factory):
    return surface(Triton(), tmp_path_factory.mktemp("theirs"))


# What models are not meant to take from there: modules that Triton's file imports for itself.
FOR_ITSELF = {"json", "struct"}


def named(arguments):
    """Compiled functions call arguments argN when they cannot be given by name."""
    return [name for name in arguments if not (name.startswith("arg") and name[3:].isdigit())]


def missing(theirs, ours, path):
    """What `theirs` describes and `ours` lacks; enumerations are compared by their values."""
    if ours is None:
        return [path]
    if ours["kind"] != theirs["kind"]:
        return [f"{path} is a {theirs['kind']}"]
    problems = []
    is_enumeration = any(member["kind"] == "value" and path.endswith("LogLevel") for member in theirs.get("members", {}).values())
    if not is_enumeration:
        given = ours.get("arguments", [])
        problems += [f"{path}({name})" for name in named(theirs.get("arguments", [])) if name not in given]
        if [name for name in given if name in theirs.get("arguments", [])] != named(theirs.get("arguments", [])):
            problems.append(f"{path}: order of {theirs['arguments']}")
        if len(given) < len(theirs.get("arguments", [])):
            problems.append(f"{path}: number of arguments")
    if theirs.get("value") != ours.get("value"):
        problems.append(f"{path} = {theirs['value']}")
    for name, member in theirs.get("members", {}).items():
        if not (is_enumeration and name in ("name", "value")):
            problems += missing(member, ours["members"].get(name), f"{path}.{name}")
    return problems


def test_nothing_of_tritons_is_missing(ours, theirs):
    assert {name for name, thing in theirs.items() if thing["kind"] == "class"} >= {"InferenceRequest", "Tensor", "MetricFamily"}
    problems = [
        problem for name, thing in theirs.items() if name not in FOR_ITSELF for problem in missing(thing, ours.get(name), name)
    ]
    assert problems == []


# What later versions than 2.51 have, or what there can only be had from objects.
ARGUMENTS = {
    "InferenceRequest": [
        "request_id", "correlation_id", "inputs", "requested_output_names", "model_name", "model_version", "flags", "timeout",
        "preferred_memory", "trace", "parameters",
    ],
    "InferenceRequest.exec": ["decoupled"],
    "InferenceRequest.async_exec": ["decoupled"],
    "InferenceRequest.trace": [],
    "InferenceRequest.is_cancelled": [],
    "InferenceRequest.set_release_flags": ["flags"],
    "InferenceTrace.get_context": [],
    "InferenceResponse": ["output_tensors", "error", "parameters"],
    "InferenceResponse.parameters": [],
    "InferenceResponseSender.send": ["response", "flags"],
    "InferenceResponseSender.is_cancelled": [],
    "ResponseIterator.cancel": [],
    "Metric.increment": ["value"],
    "Metric.set": ["value"],
    "Metric.observe": ["value"],
    "Metric.value": [],
    "MetricFamily": ["name", "description", "kind"],
    "MetricFamily.Metric": ["labels", "buckets"],
    "Tensor.from_dlpack": ["name", "tensor"],
    "TritonError": ["message", "code"],
    "load_model": ["model_name", "config", "files"],
    "unload_model": ["model_name", "unload_dependents"],
    "is_model_ready": ["model_name", "model_version"],
    "get_model_dir": [],
}
VALUES = {
    "TRITONSERVER_REQUEST_FLAG_SEQUENCE_START": 1, "TRITONSERVER_REQUEST_FLAG_SEQUENCE_END": 2,
    "TRITONSERVER_RESPONSE_COMPLETE_FINAL": 1, "TRITONSERVER_REQUEST_RELEASE_ALL": 1, "TRITONSERVER_REQUEST_RELEASE_RESCHEDULE": 2,
    "TRITONSERVER_MEMORY_GPU": 0, "TRITONSERVER_MEMORY_CPU": 1,
    "TritonError.UNKNOWN": 0, "TritonError.INTERNAL": 1, "TritonError.NOT_FOUND": 2, "TritonError.INVALID_ARG": 3,
    "TritonError.UNAVAILABLE": 4, "TritonError.UNSUPPORTED": 5, "TritonError.ALREADY_EXISTS": 6, "TritonError.CANCELLED": 7,
}


def look_up(surface, path):
    name, _, member = path.partition(".")
    return surface[name]["members"][member] if member else surface[name]


@pytest.mark.parametrize("path", ARGUMENTS)
def test_later_names_are_there_too(ours, path):
    assert look_up(ours, path)["arguments"] == ARGUMENTS[path]


def test_constants_have_tritons_values(ours):
    assert {path: look_up(ours, path)["value"] for path in VALUES} == VALUES
