// SPDX-License-Identifier: Apache-2.0
// What a backend may offer to nereid beyond Triton's ABI; other servers do not look for it. With
// NEREID_BackendComputes the thread that received a request may execute it, which saves two changes
// of threads. That thread serves other clients too, so it must never wait for long.
#ifndef NEREID_BACKEND_EXTENSION_H
#define NEREID_BACKEND_EXTENSION_H

#include "triton/core/tritonbackend.h"

// A promise, looked up by name: executions of instances on the CPU compute and return. They never
// wait for a process, request or device that may be slow without limit. The promise does not cover
// instances of other kinds, which never run on the receiving thread. The value does not matter.
TRITONBACKEND_ISPEC extern const char NEREID_BackendComputes;

// A promise, looked up by name: the backend writes all of the memory that it gets for an output or
// a sequence's state, or fails the request. For other backends the server clears the memory first,
// so that unwritten parts do not show old data.
TRITONBACKEND_ISPEC extern const char NEREID_BackendFills;

// A promise, looked up by name: instances on GPUs too read inputs in host memory on the host. The
// server therefore need not copy them to pinned memory.
TRITONBACKEND_ISPEC extern const char NEREID_BackendReadsOnHost;

// Whether instance groups that name neither a kind nor GPUs use the CPU although there are GPUs,
// for example because the framework was built without them. Asked once, after
// TRITONBACKEND_GetBackendAttribute.
TRITONBACKEND_ISPEC bool NEREID_BackendAvoidsGpus(TRITONBACKEND_Backend *backend);

// An execution in two parts, for a backend that hands the batch on, for example to a GPU, and waits
// for the answer. Instances on the CPU of a backend with NEREID_BackendComputes are still executed
// in one call. Begin is as TRITONBACKEND_ModelInstanceExecute, but may return with *pending true:
// then the backend owns the batch and the array of requests until End returns with *pending false.
// End waits up to `timeout_us` (negative: for ever). It is called after Begin, maybe on another
// thread.
TRITONBACKEND_ISPEC TRITONSERVER_Error *
NEREID_ModelInstanceExecuteBegin(TRITONBACKEND_ModelInstance *instance,
                                 TRITONBACKEND_Request **requests, uint32_t request_count,
                                 bool *pending);
TRITONBACKEND_ISPEC void NEREID_ModelInstanceExecuteEnd(TRITONBACKEND_ModelInstance *instance,
                                                        int64_t timeout_us, bool *pending);

// Announces a call of TRITONBACKEND_ModelInstanceReady. The backend sends its question and does not
// wait for the answer, so that asking many instances takes as long as the slowest. The call of
// ModelInstanceReady follows, unless the instance's GPU fails or the instance leaves meanwhile.
TRITONBACKEND_ISPEC void NEREID_ModelInstanceAskReady(TRITONBACKEND_ModelInstance *instance);

// With Begin and End: how many executions of the instance may be open (begun and not ended) at the
// moment. The instance's thread asks before it begins another one. End ends the oldest. Without
// this function it is 1.
TRITONBACKEND_ISPEC uint32_t
NEREID_ModelInstanceMaxExecutions(TRITONBACKEND_ModelInstance *instance);

// Whether the instance cannot serve right now, and why. Writes a text of up to `size` bytes,
// including the NUL. Must not wait or ask a process: it is called for each row of the repository
// index.
TRITONBACKEND_ISPEC bool NEREID_ModelInstanceFault(TRITONBACKEND_ModelInstance *instance,
                                                   char *text, size_t size);

// The instance's life: a number above 0. It changes when the backend has lost the state of
// sequences because the process that held it has ended. The thread that executes a batch of
// sequence requests asks for it before each batch; must not wait. The batch belongs to that life:
// if the life ends before the batch reaches the process, the backend fails the batch. The server
// refuses requests that continue a lost sequence. The server does not ask where it keeps the states
// itself.
TRITONBACKEND_ISPEC uint64_t NEREID_ModelInstanceLife(TRITONBACKEND_ModelInstance *instance);

// Asks the backend to measure memory that it does not track itself, such as that of its processes,
// and to report it with TRITONBACKEND_ModelInstanceReportMemoryUsage. Called at the end of a load,
// and seldom afterwards, from any thread. It may take milliseconds but must not wait for a process.
TRITONBACKEND_ISPEC void NEREID_ModelInstanceMeasureMemory(TRITONBACKEND_ModelInstance *instance);

// A request of the model was cancelled; the backend may hold it.
// TRITONBACKEND_ResponseFactoryIsCancelled tells which one. Any thread; must not wait.
TRITONBACKEND_ISPEC void NEREID_ModelCancelled(TRITONBACKEND_Model *model);

#endif
