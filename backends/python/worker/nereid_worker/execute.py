# SPDX-License-Identifier: Apache-2.0
"""Executes a batch: runs the model's `execute`, checks its result, and answers."""

import threading
import types

import _nereid

from . import calls, logger
from .errors import TritonError, TritonModelException
from .model import located
from .request import rescheduled
from .response import InferenceResponse
from .sender import FINAL

_DECOUPLED = 16


class _WrongReturn(Exception):
    """execute returned something else than it must."""


class Executor:
    def __init__(self, loaded):
        self._loaded = loaded
        self._name = loaded.instance_name
        self._loop = None
        self._is_stopped = False
        self._running = set()  # references to coroutines' futures, which keep them alive

    def run(self, work):
        """Executes and answers. Drops the requests before the answer, so that the answer can release their memory."""
        requests = work.pop()
        kind, flags, id, value = work
        logger.levels = flags & 15
        calls.execution = id
        logger.requests = requests
        try:
            # Looked up each time, because a model may replace it. The model may also change its own list of requests.
            execute = getattr(self._loaded.instance, "execute", None)
            if execute is None:
                raise _WrongReturn(f"Python model {self._loaded.file} does not implement `execute` method.")
            responses = execute(requests[:])
            if responses is None:
                responses = self._none_returned(requests)
            elif type(responses) is list:
                responses = responses[:]  # a list of its own, as make_answer needs
                self._check(requests, responses, flags)
                if rescheduled:
                    responses = self._marked(requests, responses)
            else:
                responses = self._other_returned(requests, responses, flags, id)
            message = self._answer(requests, responses)
        except BaseException as problem:
            message = _nereid.make_answer(requests, self._failed(requests, problem))
        requests = responses = None
        logger.requests = ()
        calls.execution = 0
        _nereid.answer(kind, id, message)

    def _answer(self, requests, responses):
        """The answer to all requests. If a tensor cannot be copied from its device, only its request fails."""
        try:
            return _nereid.make_answer(requests, responses)
        except TritonModelException:
            if len(requests) == 1:
                raise
        kept = []
        for request, response in zip(requests, responses):
            try:
                _nereid.make_answer([request], [response])
            except TritonModelException as problem:
                response = InferenceResponse(error=TritonError(self._explain([request], problem)))
            kept.append(response)
        return _nereid.make_answer(requests, kept)

    def _none_returned(self, requests):
        """All responses come through senders. A sender ends with the last reference to its request."""
        for request in requests:
            request._own_sender()
        responses = [None] * len(requests)
        return self._marked(requests, responses) if rescheduled else responses

    def _marked(self, requests, responses):
        """The responses, with True for requests to be rescheduled."""
        marked = list(responses)
        for i, request in enumerate(requests):
            if request._handle in rescheduled:
                request._go_again()
                marked[i] = True
        return marked

    def _other_returned(self, requests, returned, flags, id):
        if isinstance(returned, types.CoroutineType):
            self._start(requests, returned, flags, id)
            return [None] * len(requests)
        self._refuse_decoupled(flags)
        if isinstance(returned, list):
            returned = list(returned)
            self._check(requests, returned, flags)
            return self._marked(requests, returned)
        raise _WrongReturn(f"Expected a list in the execute return, found type '{type(returned)}'.")

    def _refuse_decoupled(self, flags):
        if flags & _DECOUPLED:
            raise _WrongReturn(
                f"Python model '{self._name}' is using the decoupled mode and the execute function must return None."
            )

    def _check(self, requests, responses, flags):
        """Raises unless there is an InferenceResponse or None for each request."""
        if flags & _DECOUPLED:
            self._refuse_decoupled(flags)
        if len(requests) != len(responses):
            raise _WrongReturn(
                "Number of InferenceResponse objects do not match the number of InferenceRequest objects. "
                f"InferenceRequest(s) size is:{len(requests)}, and InferenceResponse(s) size is:{len(responses)}\n"
            )
        for response in responses:
            if response is not None and not isinstance(response, InferenceResponse):
                raise _WrongReturn(
                    "Expected an 'InferenceResponse' object in the execute function return list, found type "
                    f"'{type(response)}'."
                )
        for request, response in zip(requests, responses):
            if response is not None and request._handle in rescheduled:
                raise _WrongReturn(
                    "Expected a None object in the execute function return list for reschduled request, found type "
                    f"'{type(response)}'."
                )
        for request, response in zip(requests, responses):
            if response is None:
                request._own_sender()
            elif request._sender:
                request._sender._count(True, FINAL)
            else:
                request._sender = False

    def _explain(self, requests, problem):
        """The error's text, which is also logged."""
        said = f"{problem}" if isinstance(problem, _WrongReturn) else located(problem)
        text = f"Failed to process the request(s) for model '{self._name}', message: {said}"
        logger.failed(requests, text)
        return text

    def _failed(self, requests, problem):
        """Errors for all requests that have no complete answer. If a framework has broken a context, the worker ends with the answer."""
        _nereid.device_check()
        text = self._explain(requests, problem)
        failed = InferenceResponse(error=TritonError(text))
        responses = []
        for request in requests:
            rescheduled.discard(request._handle)
            sender = request._sender
            was_open = sender._close() if sender else True
            request._sender = sender or False
            if was_open and sender and sender._sent > 0:
                sender._send_error(text)  # sent like its responses, because the answer could overtake them
                responses.append(False)
            else:
                responses.append(failed if was_open else None)
        return responses

    # --- Coroutines run on an event loop of their own, and their responses are sent when they are ready.

    def _start(self, requests, coroutine, flags, id):
        import asyncio  # costs as much to import as half of NumPy

        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            calls.own_threads += 1
            threading.Thread(target=self._run_loop, name="event-loop", daemon=True).start()
        for request in requests:
            request._own_sender()
        future = asyncio.run_coroutine_threadsafe(self._finish(list(requests), coroutine, flags, id), self._loop)
        self._running.add(future)
        future.add_done_callback(self._running.discard)

    def _run_loop(self):
        import asyncio

        asyncio.set_event_loop(self._loop)
        while not self._is_stopped:  # a model may stop the loop
            self._loop.run_forever()

    async def _finish(self, requests, coroutine, flags, id):
        import asyncio

        calls.coroutines[asyncio.current_task()] = id, requests
        try:
            responses = await coroutine
            if responses is None:
                self._again(requests, flags)
                return
            self._refuse_decoupled(flags)
            if not isinstance(responses, list):
                raise _WrongReturn(f"Expected a list in the execute return, found type '{type(responses)}'.")
            messages = self._messages(requests, responses, flags)
        except BaseException as problem:
            text = self._explain(requests, problem)
            for request in requests:
                rescheduled.discard(request._handle)
                request._sender._fail(text)
            return
        self._again(requests, flags)
        for request, message in zip(requests, messages):
            if message is not None:
                _nereid.call(calls.RESPONSE, FINAL, request._handle, 0, message)

    def _again(self, requests, flags):
        """Reschedules the requests that are marked. A decoupled model's requests have been released already."""
        for request in requests:
            if request._handle in rescheduled:
                rescheduled.discard(request._handle)
                if not flags & _DECOUPLED and request._sender._close():
                    _nereid.call(calls.RESPONSE, calls.AGAIN, request._handle, 0, None)

    def _messages(self, requests, responses, flags):
        """The checked responses, ready to be sent. If one is wrong, none is sent."""
        if len(responses) == len(requests):
            made = [
                _nereid.make_response(request._requested, response) if isinstance(response, InferenceResponse) else None
                for request, response in zip(requests, responses)
            ]
            self._check(requests, responses, flags)
            return made
        self._check(requests, responses, flags)
        return None

    def stop(self):
        self._is_stopped = True
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._loop.stop)
