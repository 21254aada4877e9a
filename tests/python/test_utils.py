# SPDX-License-Identifier: Apache-2.0
"""triton_python_backend_utils: what models use of it without a server."""

import json
import subprocess
import sys
import textwrap

import pytest

from host import WORKER, worker_environment


@pytest.fixture
def said():
    """Runs code with the module as pb and NumPy as np; gives what it prints."""

    def run(code):
        start = f"import sys; sys.path.insert(0, {str(WORKER)!r})\nimport numpy as np\nimport triton_python_backend_utils as pb\n"
        start += "from nereid_worker.model import import_utils; import_utils()\n"
        start += textwrap.dedent("""
            def failure(function, *arguments, **named):
                try:
                    function(*arguments, **named)
                except Exception as problem:
                    return f"{type(problem).__name__}: {problem}"
        """)
        done = subprocess.run([sys.executable, "-c", start + textwrap.dedent(code)], capture_output=True, text=True,
                              env=worker_environment())  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    return run


def test_tensors_refuse_what_they_cannot_hold(said):
    assert said("""
        print(failure(pb.Tensor, "", np.zeros(1)))
        print(failure(pb.Tensor, "X", [1, 2]))
        print(failure(pb.Tensor, 5, np.zeros(1)))
        print(failure(pb.Tensor, "X", np.zeros(1, complex)))
        print(failure(pb.Tensor, "X", np.array(["text"])))
        print(failure(pb.Tensor, "X", np.zeros(1, ">f4")))
        print(failure(pb.Tensor("X", np.array([b"a"], object)).to_dlpack))
        print(failure(pb.Tensor.from_dlpack, "X", np.zeros(1).tolist()).split(".")[0])
    """) == [
        "TritonModelException: Tensor name cannot be an empty string.",
        "TypeError: tensor 'X' needs a numpy.ndarray, not list",
        "TypeError: a tensor's name must be a str, not int",
        "TritonModelException: NumPy dtype is not supported.",
        "TritonModelException: NumPy dtype is not supported.",
        "TritonModelException: NumPy dtype is not supported.",
        "TritonModelException: DLPack does not have support for string tensors.",
        "TritonModelException: Provided tensor is not supported",
    ]  # fmt: skip


def test_responses_and_requests_refuse_what_they_cannot_hold(said):
    assert said("""
        print(failure(pb.InferenceResponse, [None]))
        print(failure(pb.InferenceResponse, [np.zeros(1)]))
        print(failure(pb.InferenceResponse, error="text"))
        print(failure(pb.InferenceResponse, parameters={1: 2}))
        print(failure(pb.InferenceResponse, parameters={"x": 1.5}))
        print(failure(pb.TritonError, None))
        print(failure(pb.TritonError, "x", 99))
        whole = dict(inputs=[], requested_output_names=[], model_name="m")
        print(failure(pb.InferenceRequest, **{**whole, "inputs": [None]}))
        print(failure(pb.InferenceRequest, **{**whole, "requested_output_names": [""]}))
        print(failure(pb.InferenceRequest, **{**whole, "correlation_id": 1.5}))
        print(failure(pb.InferenceRequest(**whole).set_release_flags, "again"))
    """) == [
        "TritonModelException: Output tensor for inference response should not be empty.",
        "TypeError: InferenceResponse(): output_tensors must hold Tensor objects, found ndarray",
        "TypeError: InferenceResponse(): the error must be a TritonError, not str",
        "TritonModelException: Expect parameters keys to have type str, found type <class 'int'>",
        "TritonModelException: Expect parameters values to have type bool/int/str, found type <class 'float'>",
        "TypeError: TritonError(): the message must be a str, not NoneType",
        "ValueError: 99 is not a valid ErrorCode",
        "TritonModelException: Input tensor for request with id '' and model name 'm' should not be empty.",
        "TritonModelException: Requested output name for request with id '' and model name 'm' should not be empty.",
        "TritonModelException: Correlation ID must be integer or string",
        "TypeError: set_release_flags() needs an integer, found str",
    ]


def test_dlpack_tensors_in_another_order_or_of_another_kind_are_refused(said):
    assert said("""
        if hasattr(np.ndarray, "__dlpack__"):
            turned = np.zeros((2, 3)).T
            print(failure(pb.Tensor.from_dlpack, "X", turned))
            print(failure(pb.Tensor.from_dlpack, "X", np.zeros(2, np.complex64)))
            print(pb.Tensor.from_dlpack("X", np.zeros((2, 1, 3)).transpose(1, 0, 2)).shape())
    """) == [
        "TritonModelException: DLPack tensor is not contiguous. Only contiguous DLPack tensors that are stored in "
        "C-Order are supported.",
        "TritonModelException: DLPack data type (code 5, 64 bits) is not supported.",
        "[1, 2, 3]",
    ]


def test_byte_tensors_go_to_bytes_and_back(said):
    assert said(r"""
        array = np.array([[b"a", "\u00e4"], [b"", 5]], object)
        data = pb.serialize_byte_tensor(array)
        print(data)
        print(list(pb.deserialize_bytes_tensor(data)))
        print(pb.serialize_byte_tensor(np.array([b"ab", b"c"])), pb.serialize_byte_tensor(np.empty(0, object)))
        print(failure(pb.deserialize_bytes_tensor, data[:-1]))
        print(failure(pb.deserialize_bytes_tensor, data[:6]))
    """) == [
        r"b'\x01\x00\x00\x00a\x02\x00\x00\x00\xc3\xa4\x00\x00\x00\x00\x01\x00\x00\x005'",
        r"[b'a', b'\xc3\xa4', b'', b'5']",
        r"b'\x02\x00\x00\x00ab\x01\x00\x00\x00c' ()",
        "ValueError: Invalid bytes tensor data: string extends beyond buffer",
        "ValueError: Invalid bytes tensor data: incomplete length field",
    ]


def test_types_have_names_and_numbers(said):
    assert said("""
        print([pb.numpy_to_triton_type(pb.triton_to_numpy_type(n)) for n in range(15)])
        print(pb.triton_string_to_numpy("TYPE_STRING") is np.object_, pb.numpy_to_triton_type(np.bytes_), pb.numpy_to_triton_type(np.complex64))
        print(pb.using_decoupled_model_transaction_policy({}), pb.get_output_config_by_name({"output": [{"name": "A"}]}, "A"))
        print(pb.TritonError("x").code() == pb.TritonError.INTERNAL, pb.TritonError.CANCELLED.name)
        print(pb.TritonError.NOT_FOUND, f"{pb.Logger.WARNING} {pb.MetricFamily.GAUGE!s:>17}", int(pb.TritonError.NOT_FOUND))
    """) == [
        "[None, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, None]",
        "True 13 None",
        "False {'name': 'A'}",
        "True CANCELLED",
        "ErrorCode.NOT_FOUND LogLevel.WARNING  MetricKind.GAUGE 2",
    ]


CONFIG = {"name": "m", "max_batch_size": 4, "input": [{"name": "A", "data_type": "TYPE_FP32", "dims": [1]}], "output": []}


def test_a_configuration_is_completed_not_changed(said):
    lines = said(f"""
        import json
        config = pb.ModelConfig({json.dumps(CONFIG)!r})
        print(failure(config.set_max_batch_size, 2))
        config.set_max_batch_size(8)
        config.set_dynamic_batching()
        print(failure(config.add_input, {{"name": "A", "data_type": "TYPE_INT8", "dims": [1]}}))
        print(failure(config.add_input, {{"name": "A", "data_type": "TYPE_FP32", "dims": [2]}}))
        print(failure(config.add_input, {{"name": "A", "data_type": "TYPE_FP32", "dims": [1], "x": 1}}))
        print(failure(config.add_output, {{"name": "B", "dims": [1]}}))
        config.add_output({{"name": "B", "data_type": "TYPE_FP32", "dims": [1]}})
        config.set_model_transaction_policy({{"decoupled": True}})
        print(failure(config.set_model_transaction_policy, {{"decoupled": False}}))
        print(json.dumps(config.as_dict()))
    """)
    place = "in auto-complete-config function for model 'm'"
    assert lines[:-1] == [
        f"ValueError: configuration specified max_batch_size 4, but {place} specified max_batch_size 2",
        "ValueError: unable to load model 'm', configuration expects datatype TYPE_FP32 for input 'A', model provides "
        "TYPE_INT8",
        "ValueError: model 'm', tensor 'A': the model expects dims [2] but the model configuration specifies dims [1]",
        f"ValueError: input 'A' {place} contains property other than 'name', 'data_type', 'dims' and 'optional'.",
        f"ValueError: output 'B' {place} is missing 'data_type' property.",
        "ValueError: trying to change decoupled property in auto-complete-config for model 'm', which is already set to "
        "'True'.",
    ]
    assert json.loads(lines[-1]) == {
        **CONFIG, "max_batch_size": 8, "dynamic_batching": {}, "output": [{"name": "B", "data_type": "TYPE_FP32", "dims": [1]}],
        "model_transaction_policy": {"decoupled": True},
    }  # fmt: skip
