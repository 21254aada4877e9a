# SPDX-License-Identifier: Apache-2.0
import json

import triton_python_backend_utils as pb_utils

FP32 = {"data_type": "TYPE_FP32", "dims": [4]}


class TritonPythonModel:
    """Completes what its configuration leaves open: the second input, the second output, batches."""

    @staticmethod
    def auto_complete_config(config):
        has = config.as_dict()
        known = {tensor["name"] for tensor in has["input"] + has["output"]}
        for name in ("INPUT0", "INPUT1"):
            if name not in known:
                config.add_input({"name": name, **FP32})
        for name in ("OUTPUT0", "OUTPUT1"):
            if name not in known:
                config.add_output({"name": name, **FP32})
        config.set_max_batch_size(4)
        config.set_dynamic_batching()
        return config

    def initialize(self, args):
        config = json.loads(args["model_config"])
        if pb_utils.using_decoupled_model_transaction_policy(config):
            raise pb_utils.TritonModelException(f"{args['model_name']} answers once")
        if pb_utils.get_input_config_by_name(config, "INPUT1")["dims"] != [4]:
            raise pb_utils.TritonModelException(f"{args['model_name']} wants four numbers in INPUT1")
        self.types = {
            name: pb_utils.triton_string_to_numpy(pb_utils.get_output_config_by_name(config, name)["data_type"])
            for name in ("OUTPUT0", "OUTPUT1")
        }

    def execute(self, requests):
        responses = []
        for request in requests:
            a, b = (pb_utils.get_input_tensor_by_name(request, name).as_numpy() for name in ("INPUT0", "INPUT1"))
            results = {"OUTPUT0": a + b, "OUTPUT1": a - b}
            tensors = [pb_utils.Tensor(name, results[name].astype(type)) for name, type in self.types.items()]
            responses.append(pb_utils.InferenceResponse(output_tensors=tensors))
        return responses

    def finalize(self):
        print("completed: the end")
