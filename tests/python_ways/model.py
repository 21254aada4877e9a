# SPDX-License-Identifier: Apache-2.0
"""A model that makes, keeps, reuses and hands on what it answers with in every way that Triton's contract allows.

The id of a request begins with the name of a way and a slash. Each way gives the tensors of one answer; what they hold when `execute`
returns (BYTES: when they are made) is what the client must get. What comes after that spoils it: the next execution begins with
`spoil`, which writes to all that the way has kept.
"""
import weakref

import numpy as np
import triton_python_backend_utils as pb_utils

SPOILT = 99
module_array = None


def repeated(x, count):
    """A new array of one dimension."""
    return np.concatenate([x.reshape(-1)] * count)


def ask(model, tensor):
    response = pb_utils.InferenceRequest(model_name=model, requested_output_names=["OUT"], inputs=[tensor]).exec()
    assert not response.has_error(), response.error().message()
    return response


class Ways:
    """The ways for numbers: `x` is a request's input."""

    def __init__(self):
        self.spoils = []
        self.array = self.ring = self.generator = self.turn = None

    def spoil(self):
        for spoil in self.spoils:
            spoil()
        self.spoils = []

    def later(self, get):
        """The array that get() gives, if any, is written to before the next execution."""
        def spoil():
            array = get()
            if array is not None:
                array[...] = SPOILT
        self.spoils.append(spoil)

    def filled(self, x):
        """The array that is kept from one execution to the next, with this one's values."""
        if self.array is None or self.array.shape != x.shape or self.array.dtype != x.dtype:
            self.array = np.empty_like(x)
        self.array[...] = x
        return self.array

    def fresh(self, x):
        return [pb_utils.Tensor("OUT", x + 0)]

    def fresh_views(self, x):
        twice = repeated(x, 2)
        return [pb_utils.Tensor("OUT", twice[:x.size].reshape(x.shape)), pb_utils.Tensor("OUT1", twice[x.size:].reshape(x.shape))]

    def kept(self, x):
        return [pb_utils.Tensor("OUT", self.filled(x))]

    def kept_in_module(self, x):
        global module_array
        module_array = x + 0
        self.later(lambda: module_array)
        return [pb_utils.Tensor("OUT", module_array)]

    def ring_of_four(self, x):
        if self.ring is None or self.ring[0].shape != x.shape:
            self.ring, self.turn = [np.empty_like(x) for _ in range(4)], 0
        self.turn = (self.turn + 1) % 4
        self.ring[self.turn][...] = x
        return [pb_utils.Tensor("OUT", self.ring[self.turn])]

    def out_argument(self, x):
        return [pb_utils.Tensor("OUT", np.add(x, 0, out=self.filled(x)))]

    def view_of_kept(self, x):
        return [pb_utils.Tensor("OUT", self.filled(x)[...])]

    def turned_view_of_kept(self, x):
        return [pb_utils.Tensor("OUT", self.filled(x).reshape(-1, 1).reshape(x.shape))]

    def slice_of_kept(self, x):
        kept = repeated(x, 3)
        self.later(lambda: kept)
        return [pb_utils.Tensor("OUT", kept[x.size:2 * x.size].reshape(x.shape))]

    def kept_view(self, x):
        view = repeated(x, 2)[:x.size]
        self.later(lambda: view)
        return [pb_utils.Tensor("OUT", view.base[:x.size].reshape(x.shape))]

    def kept_bytes_of_another_type(self, x):
        array = x + 0
        view = array.view(np.uint8)
        self.later(lambda: view)
        return [pb_utils.Tensor("OUT", array)]

    def sibling(self, x):
        both = repeated(x, 2)
        sibling = both[x.size:]
        self.later(lambda: sibling.base)
        return [pb_utils.Tensor("OUT", both[:x.size].reshape(x.shape))]

    def kept_tensor(self, x):
        tensor = pb_utils.Tensor("OUT", x + 0)
        self.later(tensor.as_numpy)
        return [tensor]

    def kept_response(self, x):
        response = pb_utils.InferenceResponse([pb_utils.Tensor("OUT", x + 0)])
        self.later(lambda: response.output_tensors()[0].as_numpy())
        return response

    def weakly_kept(self, x):
        array = x + 0
        self.later(weakref.ref(array))
        return [pb_utils.Tensor("OUT", array)]

    def weakly_kept_owner(self, x):
        array = x + 0
        self.later(weakref.ref(array))
        return [pb_utils.Tensor("OUT", array[...])]

    def pool_of_weak_ones(self, x):
        if self.ring is None:
            self.ring = weakref.WeakValueDictionary()
        array = self.ring["array"] = x + 0
        self.later(lambda: self.ring.get("array"))
        return [pb_utils.Tensor("OUT", array)]

    def twice_in_an_answer(self, x):
        array = self.filled(x)
        return [pb_utils.Tensor("OUT", array), pb_utils.Tensor("OUT1", array)]

    def fresh_twice_in_an_answer(self, x):
        array = x + 0
        return [pb_utils.Tensor("OUT", array), pb_utils.Tensor("OUT1", array)]

    def memoryview_of_it(self, x):
        array = x + 0
        view = memoryview(array)
        self.later(lambda: np.asarray(view))
        return [pb_utils.Tensor("OUT", array)]

    def buffer_of_it(self, x):
        kept = bytearray(x.tobytes())
        self.later(lambda: np.frombuffer(kept, np.uint8))
        return [pb_utils.Tensor("OUT", np.frombuffer(kept, x.dtype).reshape(x.shape))]

    def array_of_a_memoryview(self, x):
        array = x + 0
        self.later(lambda: array)
        return [pb_utils.Tensor("OUT", np.asarray(memoryview(array)))]

    def ctypes_of_it(self, x):
        array = x + 0
        pointer = np.ctypeslib.as_ctypes(array.reshape(-1))
        self.later(lambda: np.ctypeslib.as_array(pointer))
        return [pb_utils.Tensor("OUT", array)]

    def strides_of_it(self, x):
        array = x + 0
        self.later(lambda: array)
        return [pb_utils.Tensor("OUT", np.lib.stride_tricks.as_strided(array, array.shape, array.strides))]

    def subclass(self, x):
        class Own(np.ndarray):
            pass

        array = x + 0
        self.later(lambda: array)
        return [pb_utils.Tensor("OUT", array.view(Own))]

    def dlpack(self, x):
        array = self.filled(x)
        if not hasattr(array, "__dlpack__"):
            return [pb_utils.Tensor("OUT", array)]
        return [pb_utils.Tensor.from_dlpack("OUT", array)]

    def dlpack_of_it(self, x):
        array = x + 0
        capsule = pb_utils.Tensor("X", array).to_dlpack()
        taken = pb_utils.Tensor.from_dlpack("X", capsule)
        if hasattr(np, "from_dlpack") and hasattr(taken, "__dlpack__"):
            self.later(lambda: np.asarray(array))
        return [pb_utils.Tensor("OUT", array)]

    def running_state(self, x):
        def fill():
            array, values = None, (yield)
            while True:
                if array is None or array.shape != values.shape:
                    array = np.empty_like(values)
                array[...] = values
                values = yield array

        if self.generator is None:
            self.generator = fill()
            next(self.generator)
        return [pb_utils.Tensor("OUT", self.generator.send(x))]

    def frame_of_an_error(self, x):
        try:
            kept = x + 0
            raise ValueError
        except ValueError as problem:
            frames = problem.__traceback__
            self.later(lambda: frames.tb_frame.f_locals["kept"])
        return [pb_utils.Tensor("OUT", kept)]

    def cycle(self, x):
        class Holder:
            pass

        holder = Holder()
        holder.itself, holder.array = holder, x + 0
        found = weakref.ref(holder)
        self.later(lambda: found().array if found() is not None else None)
        return [pb_utils.Tensor("OUT", holder.array)]

    def input_in_place(self, x):
        x += 0
        return [pb_utils.Tensor("OUT", x)]

    def kept_input(self, x):
        self.later(lambda: x)
        return [pb_utils.Tensor("OUT", x)]

    def kept_request(self, x, request):
        tensor = request.inputs()[0]
        x += 0
        self.later(lambda: request.inputs()[0].as_numpy())
        return [pb_utils.Tensor("OUT", tensor.as_numpy())]

    def input_handed_on(self, x, request):
        tensor = request.inputs()[0]
        self.later(tensor.as_numpy)
        return [pb_utils.Tensor("OUT", x), pb_utils.Tensor("OUT1", tensor.as_numpy()[...])]

    def list_of_inputs(self, x, request):
        taken = request.inputs().pop(0)
        again = pb_utils.get_input_tensor_by_name(request, "IN")
        request.inputs()[0] = None
        request.inputs().clear()
        assert taken is not None and again is not None and len(request.inputs()) == 1
        return [pb_utils.Tensor("OUT", again.as_numpy() + 0)]

    def list_of_outputs(self, x):
        given = [pb_utils.Tensor("OUT", x + 0)]
        response = pb_utils.InferenceResponse(given)
        wrong = pb_utils.Tensor("OUT", np.full_like(x, SPOILT))
        response.output_tensors()[0] = given[0] = wrong
        response.output_tensors().append(wrong)
        given.append(wrong)
        self.later(lambda: response.output_tensors()[0].as_numpy())
        return response

    def from_another_model(self, x):
        array = x + 0
        response = self.call(array)
        array[...] = SPOILT
        tensor = pb_utils.get_output_tensor_by_name(response, "OUT")
        return [pb_utils.Tensor.from_dlpack("OUT", tensor)]

    def array_of_another_model(self, x):
        response = self.call(self.filled(x))
        self.array[...] = SPOILT
        array = pb_utils.get_output_tensor_by_name(response, "OUT").as_numpy()
        self.later(lambda: array if array.flags.writeable else None)
        return [pb_utils.Tensor("OUT", array)]

    def call(self, array):
        return ask("echo" if array.ndim == 1 else "echo_rows", pb_utils.Tensor("IN", array))


class Texts(Ways):
    """The ways for BYTES."""

    def later(self, get):
        def spoil():
            get()[...] = b"spoilt"
        self.spoils.append(spoil)

    def fresh(self, x):
        return [pb_utils.Tensor("OUT", np.array(x, np.object_))]

    def kept(self, x):
        return [pb_utils.Tensor("OUT", self.filled(x))]

    def kept_and_emptied(self, x):
        tensor = pb_utils.Tensor("OUT", self.filled(x))
        self.array[...] = b"spoilt"
        return [tensor]

    def slice_of_kept(self, x):
        kept = np.concatenate([x, x])
        half = len(kept) // 2
        tensors = [pb_utils.Tensor("OUT", kept[:half]), pb_utils.Tensor("OUT1", kept[half:])]
        kept[...] = b"spoilt"
        return tensors

    def changed_by_its_tensor(self, x):
        tensor = pb_utils.Tensor("OUT", np.array(x, np.object_))
        tensor.as_numpy().flat[0] = b"spoilt"
        return [tensor]

    def one_array_for_two(self, x):
        array = np.array(x, np.object_)
        first = pb_utils.Tensor("OUT", array)
        array[...] = b"spoilt"
        array[...] = x
        second = pb_utils.Tensor("OUT1", array)
        array.flat[0] = b"spoilt"
        return [first, second]

    def elements_that_change(self, x):
        class Element:
            def __init__(self, value):
                self.value = value

            def __str__(self):
                return self.value

        elements = [Element(value.decode()) for value in x.flat]
        array = np.empty_like(x)
        array.flat = elements
        tensor = pb_utils.Tensor("OUT", array)
        for element in elements:
            element.value = "spoilt"
        return [tensor]

    def fixed_length(self, x):
        array = np.array(x.tolist(), "S")
        tensor = pb_utils.Tensor("OUT", array)
        array[...] = b"spoilt"
        return [tensor]

    def input_changed_afterwards(self, x, request):
        tensor = pb_utils.Tensor("OUT", x)
        x[...] = b"spoilt"
        return [tensor]

    def from_another_model(self, x):
        array = np.array(x, np.object_)
        tensor = pb_utils.Tensor("IN", array)
        array[...] = b"spoilt"
        response = ask("echo_text" if array.ndim == 1 else "echo_rows_text", tensor)
        return [pb_utils.Tensor("OUT", pb_utils.get_output_tensor_by_name(response, "OUT").as_numpy())]


class TritonPythonModel:
    def initialize(self, args):
        self.ways = {}
        self.is_decoupled = '"decoupled":true' in args["model_config"].replace(" ", "")

    def execute(self, requests):
        for ways in self.ways.values():
            ways.spoil()
        answers = []
        for request in requests:
            tensor = pb_utils.get_input_tensor_by_name(request, "IN")
            x = tensor.as_numpy()
            way = request.request_id().partition("/")[0]
            kind = Texts if x.dtype == np.object_ else Ways
            # one for each request of a batch: within an execution they may not change each other's
            ways = self.ways.setdefault((kind, way, len(answers)), kind())
            make = getattr(ways, way)
            made = make(x, request) if "request" in make.__code__.co_varnames[:make.__code__.co_argcount] else make(x)
            response = made if isinstance(made, pb_utils.InferenceResponse) else pb_utils.InferenceResponse(made)
            answers.append(response)
            if self.is_decoupled:
                self.send(request, response, ways)
        pb_utils.Logger.log_info("executed")
        return None if self.is_decoupled else answers

    def send(self, request, response, ways):
        sender = request.get_response_sender()
        sender.send(response)
        ways.spoil()
        sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
