# SPDX-License-Identifier: Apache-2.0
"""Bugs in what nereid does with GPUs; the driver is played."""
from seed import Seed, e2e, unit

TRANSFER = "backends/common/backend_transfer.c"

COPIES = [
    Seed("answered_while_copied", "GPU copies: a failed request is answered before the stream is through", TRANSFER,
         "  self->failures[self->failure_count++] = (failure){request, error_owned};", "  backend_batch_fail(self->batch, request, error_owned);",
         unit("backend_transfer_test")),
    Seed("unread_rows", "GPU copies: what a failed request should have brought is what was there before", TRANSFER,
         "      clear(self, to, inputs[i].byte_size);\n", "",
         unit("backend_transfer_test")),
    Seed("copied_where_it_is", "GPU copies: an input that is on the device is copied there", TRANSFER,
         "is_ours(self, p.place) && p.byte_size", "false && p.byte_size",
         unit("backend_transfer_test")),
    Seed("gaps_between_steps", "memory of GPUs: a step that writes half of its output shows what another request left in the rest",
         "src/core/ensemble_buffer.c",
         "if (place.kind == GPU_MEMORY_PINNED || !leaves_gaps(s))", "if (true)",
         e2e("test_gpu_gaps.py", "between_steps")),
    Seed("gaps_in_states", "memory of GPUs: a state that is written by half shows another sequence's", "src/request/sequence_state.c",
         "if (!s->source->clears && !s->same_buffer)", "if (true)",
         e2e("test_gpu_gaps.py", "test_a_state")),
    Seed("empty_success", "GPU copies: a copy that fails is no error", TRANSFER,
         "  backend_transfer_fail(self, request, backend_error_of(e));", "  error_free(e);",
         e2e("test_gpu_identity.py", "fails_its_request")),
]

ALL = COPIES + [
    Seed("pool_for_who_announces", "memory of GPUs: bodies that do not come take the whole pinned pool", "src/api/gpu_memory.c",
         "[NEREID_PINNED_BODY] = 4", "[NEREID_PINNED_BODY] = 8",
         e2e("test_gpu_bodies.py", "announces")),
    Seed("pool_for_who_does_not_read", "memory of GPUs: replies that nobody reads take the whole pinned pool", "src/api/gpu_memory.c",
         "[NEREID_PINNED_REPLY] = 3", "[NEREID_PINNED_REPLY] = 8",
         e2e("test_gpu_bodies.py", "not_read")),
    Seed("pinned_untold", "GPUs: a request that was received into pinned memory is called pageable", "src/frontend/common/tensor/infer_tensors.c",
         "offset < t->pinned.size ? TRITONSERVER_MEMORY_CPU_PINNED", "offset < t->pinned.size ? TRITONSERVER_MEMORY_CPU",
         e2e("test_gpu_bodies.py", "from_where")),
    Seed("ranges_unmerged", "memory of GPUs: what is free on both sides of a boundary stays two", "src/gpu/ranges.c",
         "if (b->before != NULL && list_is_linked(&b->before->free_node)) {", "if (false) {",
         unit("gpu_ranges_property_test")),
    Seed("gpu_fault_untold", "GPUs: a call that killed the context marks nothing", "src/gpu/fault.c",
         "  gpu_health_tell(device, code);\n  va_start", "  gpu_health_tell(device, CUDA_SUCCESS);\n  va_start",
         unit("gpu_fault_test")),
    Seed("gpu_of_another", "memory of clients: a region of one GPU is used as another's", "src/gpu/ipc.c",
         "e == NULL && found.device != device", "e == NULL && found.device < 0",
         unit("gpu_share_test")),
    Seed("visitor_stays", "GPUs: a call leaves its context current on a thread of a framework", "src/gpu/context.c",
         "current != before)\n    driver->cuCtxSetCurrent(before);", "current != before)\n    driver->cuCtxSetCurrent(current);",
         unit("gpu_device_test")),
]
