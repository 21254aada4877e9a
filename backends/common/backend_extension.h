// SPDX-License-Identifier: Apache-2.0
// What a backend may offer to nereid beyond Triton's ABI; other servers do not look for it. A fast
// model's execution can then be run on the thread that received the request, which saves two
// changes of threads. That thread serves other clients too, so it must never wait for long.
#ifndef NEREID_BACKEND_EXTENSION_H
#define NEREID_BACKEND_EXTENSION_H

#include "triton/core/tritonbackend.h"

// A promise, looked up by name: executions of instances on CPUs compute and return. They wait for
// no other process, request or device that may be slow without limit. It says nothing of instances
// of other kinds, which never run on such a thread. The value does not matter.
TRITONBACKEND_ISPEC extern const char NEREID_BackendComputes;

// A promise, looked up by name: the backend writes all of the memory that it is given for a
// response's output or a sequence's state, or fails the request. That of others is cleared before
// they get it, so that what they leave out shows nobody what was there before.
TRITONBACKEND_ISPEC extern const char NEREID_BackendFills;

// Says, looked up by name, that inputs in host memory are read there by instances on GPUs too: the
// server need not have them in pinned memory.
TRITONBACKEND_ISPEC extern const char NEREID_BackendReadsOnHost;

// Whether instance groups that say neither a kind nor GPUs are to be on the CPU although there are
// GPUs: those of a backend that found a framework which cannot use them. Asked once, after
// TRITONBACKEND_GetBackendAttribute.
TRITONBACKEND_ISPEC bool NEREID_BackendAvoidsGpus(TRITONBACKEND_Backend *backend);

// An execution in two parts, for a backend that gives the batch to somebody else and waits for the
// answer, such as a GPU; with the promise above, instances on CPUs are executed in one all the
// same. Begin is as TRITONBACKEND_ModelInstanceExecute, but may return with *pending true: then the
// batch, and the array of requests, are the backend's until End has returned with *pending false.
// End waits up to `timeout_us` (negative: for ever); it may be called from another thread than
// Begin, after it.
TRITONBACKEND_ISPEC TRITONSERVER_Error *
NEREID_ModelInstanceExecuteBegin(TRITONBACKEND_ModelInstance *instance,
                                 TRITONBACKEND_Request **requests, uint32_t request_count,
                                 bool *pending);
TRITONBACKEND_ISPEC void NEREID_ModelInstanceExecuteEnd(TRITONBACKEND_ModelInstance *instance,
                                                        int64_t timeout_us, bool *pending);

// That TRITONBACKEND_ModelInstanceReady is about to be called: asks whoever is to be asked, and
// does not wait for the answer. So many instances take the time of the slowest, not of all. A call
// of the other follows, unless the instance's GPU fails or the instance leaves meanwhile.
TRITONBACKEND_ISPEC void NEREID_ModelInstanceAskReady(TRITONBACKEND_ModelInstance *instance);

// With Begin and End: how many executions of the instance may be begun and not ended, as far as is
// known now; asked by the instance's thread before it begins another one. End ends the one that was
// begun first. Without this function it is one.
TRITONBACKEND_ISPEC uint32_t
NEREID_ModelInstanceMaxExecutions(TRITONBACKEND_ModelInstance *instance);

// Whether the instance cannot serve right now, and why: writes a text of up to `size` bytes with
// its end. Tells what is known, asks nobody and does not wait: it is called for each row of the
// repository's index.
TRITONBACKEND_ISPEC bool NEREID_ModelInstanceFault(TRITONBACKEND_ModelInstance *instance,
                                                   char *text, size_t size);

// In which of its lives the instance is: a number above 0, another one once what the backend has
// kept of sequences is lost, since the process that had it has ended. Asked before each batch of a
// sequence's requests, by the thread that then executes the batch; must not wait. The batch is for
// that life: if it is over before the batch has come to the process, the backend fails the batch.
// The server refuses requests that go on with what is lost. It does not ask where it keeps the
// states itself.
TRITONBACKEND_ISPEC uint64_t NEREID_ModelInstanceLife(TRITONBACKEND_ModelInstance *instance);

// That somebody wants to know how much memory the instance takes: the backend measures anew what it
// cannot know by itself, such as the memory of its processes, and tells the server by
// TRITONBACKEND_ModelInstanceReportMemoryUsage. Asked at the end of a load, and seldom afterwards,
// from any thread; it may take milliseconds, and waits for nobody.
TRITONBACKEND_ISPEC void NEREID_ModelInstanceMeasureMemory(TRITONBACKEND_ModelInstance *instance);

// That a request of the model, which may be with the backend, was cancelled: which one,
// TRITONBACKEND_ResponseFactoryIsCancelled says. Any thread; must not wait.
TRITONBACKEND_ISPEC void NEREID_ModelCancelled(TRITONBACKEND_Model *model);

#endif
