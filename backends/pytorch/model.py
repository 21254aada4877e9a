# SPDX-License-Identifier: Apache-2.0
"""Models with `backend: "pytorch"` and `runtime: "model.py"`: a torch.nn.Module in Python, run by the python backend's workers.

The version's directory has model.py, with one subclass of torch.nn.Module, and perhaps its weights, model.pt (a state_dict); or only
a model.pt of TorchScript. docs/pytorch.md explains the parameters, which are those of Triton's pytorch backend.
"""
import importlib.util
import json
import os

import torch
import triton_python_backend_utils as pb_utils


def failure(text):
    return pb_utils.TritonModelException(text)


def find_model(config):
    """The path of the model's file. The server completes "model.pt"; beside a model.py that file has the weights."""
    directory, named = pb_utils.get_model_dir(), config.get("default_model_filename")
    names = [named] if named and named != "model.pt" else []
    names += ["model.py", "model.pt"]
    for name in names:
        path = os.path.join(directory, name)
        if os.path.exists(path):
            return path
    raise failure(f"No model found in {directory}/{names}")


def find_class(module):
    """The module's own subclass of torch.nn.Module, or one that it imports."""
    classes = [
        value for _, value in sorted(vars(module).items()) if isinstance(value, type) and issubclass(value, torch.nn.Module)
    ]
    own = [value for value in classes if value.__module__ == module.__name__]
    if not classes:
        raise failure("Cannot find a subclass of torch.nn.Module")
    return (own or classes)[0]


def parameter(config, name, default):
    return config.get("parameters", {}).get(name, {}).get("string_value", default)


def device_of(kind, number, model):
    """The instance's device; for KIND_MODEL, the device of the model's weights."""
    if kind == "GPU":
        return torch.device(f"cuda:{number}")
    if kind == "CPU":
        return torch.device("cpu")
    for weights in model.parameters():
        return weights.device
    raise failure("Cannot determine model device")


class TritonPythonModel:
    def initialize(self, args):
        self.config = config = json.loads(args["model_config"])
        self.batches = config["max_batch_size"] > 0
        self.inputs = [tensor["name"] for tensor in config["input"]]
        self.outputs = [tensor["name"] for tensor in config["output"]]
        torch.set_num_threads(int(parameter(config, "NUM_THREADS", "1")))
        torch.set_num_interop_threads(int(parameter(config, "NUM_INTEROP_THREADS", "1")))
        options = json.loads(parameter(config, "TORCH_COMPILE_OPTIONAL_PARAMETERS", "{}"))
        if "model" in options:
            raise failure("'model' is not an optional parameter for 'torch.compile'")
        path = find_model(config)
        where = args["model_instance_kind"], args["model_instance_device_id"]
        self.model = self.load(path, where, options) if path.endswith(".py") else self.load_script(path, where)

    def load(self, path, where, options):
        specification = importlib.util.spec_from_file_location(self.config["name"], path)
        module = importlib.util.module_from_spec(specification)
        specification.loader.exec_module(module)
        model = find_class(module)()
        self.device = device_of(*where, model)
        weights = os.path.splitext(path)[0] + ".pt"
        if os.path.exists(weights):
            model.load_state_dict(torch.load(weights, map_location=self.device))
        return torch.compile(model.to(self.device).eval(), **options)

    def load_script(self, path, where):
        model = torch.jit.load(path)
        self.device = device_of(*where, model)
        return model.to(self.device).eval()

    def tensors_of(self, request):
        return [
            torch.from_dlpack(pb_utils.get_input_tensor_by_name(request, name).to_dlpack()).to(self.device) for name in self.inputs
        ]

    def run(self, tensors):
        with torch.inference_mode():
            results = self.model(*tensors)
        return results if isinstance(results, (tuple, list)) else [results]

    def response(self, results):
        tensors = [
            pb_utils.Tensor.from_dlpack(name, result.detach().contiguous()) for name, result in zip(self.outputs, results, strict=False)
        ]
        return pb_utils.InferenceResponse(output_tensors=tensors)

    def execute(self, requests):
        tensors = [self.tensors_of(request) for request in requests]
        if not self.batches or len(requests) == 1:
            return [self.response(self.run(inputs)) for inputs in tensors]
        results = self.run([torch.cat(inputs) for inputs in zip(*tensors)])
        rows = [inputs[0].shape[0] for inputs in tensors]
        return [self.response(parts) for parts in zip(*(torch.split(result, rows) for result in results))]
