# SPDX-License-Identifier: Apache-2.0
"""Bugs in what clients and workers share with the server, and in what is made of outputs."""
from seed import Seed, e2e, unit

SAFETY = "test_safety_shared_memory.py"

BOUNDS = [
    Seed("offset_twice", "memory of clients: a region's offset is counted twice (2025-23328)", "src/frontend/common/tensor/shared_memory.c",
         "(char *)r->base + offset,", "(char *)r->base + offset + r->offset,",
         unit("shared_memory_test")),
    Seed("span_wraps", "memory of clients: the end of a span wraps around (2024-0088)", "src/frontend/common/tensor/shared_memory.c",
         "if (!checked_add_size(offset, byte_size, &end))", "if (end = offset + byte_size, false)",
         unit("shared_memory_test")),
    Seed("region_beyond_its_object", "memory of clients: a region may be larger than its object (2024-0088)",
         "src/frontend/common/tensor/system_region.c", " ||\n      end > (size_t)file.st_size", "",
         unit("shared_memory_test")),
    Seed("slashes_in_keys", "memory of clients: leading slashes of a key are skipped (2025-23329)", "src/frontend/common/tensor/system_region.c",
         "key + (key[0] == '/');", "key + strspn(key, \"/\");",
         unit("shared_memory_test")),
    Seed("gpu_region_beyond_its_allocation", "memory of clients: a region on a GPU may be larger than its allocation",
         "src/frontend/common/tensor/cuda_region.c", "if (r->byte_size > mapping.bytes)", "if (r->byte_size > INT64_MAX)",
         unit("cuda_region_test")),
    Seed("short_handle", "memory of clients: the length of a GPU's handle is not checked, as in Triton over gRPC",
         "src/frontend/common/tensor/shared_memory.c", "if (handle.size != sizeof(like.handle))", "if (handle.data == NULL)",
         e2e("test_cuda_shared_memory.py", "registrations_that_are_refused")),
    Seed("output_beyond_its_span", "memory of clients: an output larger than its span (2025-23328)", "src/frontend/common/tensor/infer_tensors.c",
         "if (byte_size <= choice->span->byte_size)", "if (byte_size > 0)",
         e2e("test_shared_memory.py", "one_place_for_each_tensor")),
]

LIFE = [
    Seed("unmapped_in_use", "memory of clients: unregistering unmaps what requests use (2024-0116)", "src/frontend/common/tensor/shared_memory.c",
         "if (r->users > 0)", "if (r->users > 1000)",
         unit("shared_memory_test")),
    Seed("found_while_it_opens", "memory of clients: a region on a GPU is found before it is open",
         "src/frontend/common/tensor/shared_memory.c", "return r == NULL || r->state == REGION_OPENING ? NULL : r;", "return r;",
         e2e("test_cuda_shared_memory.py", "registering_holds_nobody_up")),
    Seed("descriptor_of_a_region", "stale descriptor: that of a region stays open (2026-47478)", "src/frontend/common/tensor/system_region.c",
         "AUTO_CLOSE int descriptor", "int descriptor",
         e2e(SAFETY, "thousand_names")),
    Seed("regions_forever", "leak: a region that broke stays registered (row 26)", "src/frontend/common/tensor/shared_memory.c",
         "  if (is_broken(r))\n    enter(r, REGION_LEAVING);\n", "",
         unit("shared_memory_test")),
    Seed("sigbus_blocked", "memory of clients: threads block SIGBUS (row 26)", "src/base/thread.c",
         "FAULTS[] = {SIGBUS, ", "FAULTS[] = {",
         e2e(SAFETY, "gone_for_good")),
    Seed("broken_untold", "memory of clients: what was read where nothing is is an answer (row 26)", "src/frontend/common/tensor/infer_tensors.c",
         "    RETURN_IF_ERROR(shared_span_check(&t->spans[k]));\n", "    ;\n",
         e2e(SAFETY, "gone_for_good")),
]

USE = [
    Seed("lengths_read_twice", "memory of clients: BYTES are checked and used where they can change (row 27)", "src/frontend/common/tensor/infer_tensors.c",
         "  case TRITONSERVER_TYPE_UINT8:\n", "  case TRITONSERVER_TYPE_UINT8:\n  case TRITONSERVER_TYPE_BYTES:\n",
         e2e(SAFETY, "lengths_that_change")),
    Seed("output_over_input", "memory of clients: an output is written over the input that is read", "src/frontend/common/tensor/infer_tensors.c",
         "!may_change(datatype) || is_overwritten(t, span)", "!may_change(datatype)",
         e2e(SAFETY, "0088")),
    Seed("classes_of_anything", "missing check: types that are no numbers are classified (2025-23321)", "src/frontend/common/json/classification.c",
         "if (form.kind == KIND_NONE)", "if (false)",
         unit("classification_test")),
    Seed("classes_unlimited", "limit not applied: elements of a classified output (2026-24146)", "src/frontend/common/json/classification.c",
         "element_count > CLASSIFICATION_MAX_ELEMENTS ||", "",
         unit("classification_test")),
]

WORKERS = [
    Seed("written_inputs_stay", "memory of workers: what a model has written to an input is the next one's",
         "backends/python/worker/native/writable.c", "MADV_DONTNEED", "MADV_NORMAL",
         e2e("test_python_contract.py", "writes_stays_with_it and not triton")),
    Seed("kept_outputs_are_named", "memory of workers: an array that the model has kept is another client's before the answer is read",
         "backends/python/worker/native/sole.c", "references(object) != entry->found + ours", "false",
         e2e("test_python_ways.py", "own_numbers and plain and nereid")),
    Seed("circle_of_one_instance", "a circle where there is none: one instance of the called model that waits is taken for all",
         "backends/python/instance/wait_graph.c", "    if (n->waits_for == NULL || (stuck && !n->waits_for->is_stuck))\n      return false;\n    any = true;",
         "    any = any || n->waits_for != NULL;", unit("wait_graph_test")),
    Seed("circle_of_what_was_answered", "a circle where there is none: a wait in a later execution keeps an earlier one's answer",
         "backends/python/instance/wait_graph.c", "wait->execution < call->at_execution;", "wait->execution != call->at_execution;",
         unit("wait_graph_test")),
    Seed("beyond_a_workers_region", "memory of devices: a worker names what lies behind its region",
         "backends/python/codec/device_share.c", "offset > bytes || size > bytes - offset ?", "offset > bytes || size > bytes ?",
         unit("device_share_test")),
    Seed("empty_success_of_a_device", "an output that could not be copied from its device is sent as it is",
         "backends/python/codec/response_fill.c",
         'return device_share_copy(room.data, room.place, from, from_place, tensor->byte_size, "output",\n                           tensor->name);',
         'TRITONSERVER_ErrorDelete(device_share_copy(room.data, room.place, from, from_place, tensor->byte_size, "output", tensor->name));\n  return NULL;',
         e2e("test_gpu_python.py", "by_name")),
    Seed("device_not_awaited", "memory of devices: a block is the server's again while a stream may read it",
         "backends/python/worker/native/block.c", "for (int device = 0; device < MAX_GPUS && lent >> device != 0; device++)",
         "for (int device = 0; device < 0; device++)", e2e("test_gpu_python.py", "handed_on")),
]

MODELS = [
    Seed("warm_up_waits_for_one", "a load goes on while the backend still has its requests", "src/core/warmup.c",
         "run->open = 2 * batch.count;", "run->open = 2;", e2e("test_warmup.py", "decoupled")),
    Seed("warm_up_is_not_awaited", "ready before it is warm: answers that come later are not waited for", "src/core/warmup.c",
         "while (run->open > 0)", "while (false)", e2e("test_warmup.py", "unload_cancels")),
    Seed("warm_up_for_ever", "an end that never comes: what warms up is not told that its load is not wanted", "src/core/warmup.c",
         "if (!is_wanted(wish))\n      cancel(batch);", "", e2e("test_warmup.py", "hangs and heeds")),
    Seed("unload_taken_from_load", "a wrong figure: what an unload frees is taken from the load beside it", "src/core/load_memory.c",
         "account->last -= (int64_t)bytes;", "", unit("load_memory_test")),
]

PACKAGES = [
    Seed("library_of_another_model", "another model's code: two packages are opened by one path", "backends/pytorch_package/torch_open.c",
         "for (; number > 0; number /= 2)", "for (; false; number /= 2)",
         unit("pytorch_package_test")),
    Seed("segments_beyond_the_file", "a package that is cut off ends the server", "backends/pytorch_package/torch_open.c",
         "segment.p_filesz > size - segment.p_offset", "segment.p_filesz > SIZE_MAX - segment.p_offset",
         unit("pytorch_package_test")),
    Seed("any_instruction_set", "a package for another processor is executed", "backends/pytorch_package/torch_package.c",
         "if (!machine->has(set))", "if (!machine->has(set) && false)",
         unit("pytorch_package_test")),
]

FRAMEWORKS = [
    Seed("operator_without_a_name", "undefined behaviour: a node of a graph has no operator", "backends/tensorflow_file/tf_file.c",
         "text.size > 0 && memmem(", "memmem(", unit("tensorflow_file_test")),
    Seed("tensorflow_keeps_a_request", "use after free: a TensorFlow model that assigns a variable keeps a request's memory", "backends/tensorflow_file/tf_file.c",
         "if (contains(op, parts[i]))", "if (contains(op, parts[i]) && i > 0)", unit("tensorflow_file_test")),
    Seed("tensorflow_tensors_without_end", "limit not applied: a TensorFlow file has any number of tensors", "backends/tensorflow_file/tf_file.c",
         "if (nodes->count == TF_FILE_TENSORS_MAX)", "if (nodes->count == SIZE_MAX)", unit("tensorflow_file_test")),
]

GPU_FRAMEWORKS = [
    Seed("one_graph_for_all_batches", "wrong answers: a CUDA graph is replayed for a batch of another size", "backends/onnxruntime/onnx_gpu.c",
         "graphs ? (long long)rows : -1LL", "graphs ? 1LL + (rows < 0) : -1LL", e2e("test_gpu_onnxruntime.py", "replay")),
    Seed("graph_of_any_shape", "wrong answers: a CUDA graph is replayed for an input of another shape", "backends/onnxruntime/onnx_gpu.c",
         "BACKEND_RETURN_IF_ERROR(check_shape(run, input));", "TRITONSERVER_ErrorDelete(check_shape(run, input));", e2e("test_gpu_onnxruntime.py", "no_other_shape")),
    Seed("rows_nobody_promised", "a request is refused: memory is asked for before the model's rows are known", "backends/framework/framework_outputs.c",
         "if (self->run.instance->device != NULL && !keeps_rows(self->run.instance->model, tensor))",
         "if (!keeps_rows(self->run.instance->model, tensor) && false)",
         e2e("test_gpu_onnxruntime.py", "larger")),
    Seed("functions_of_strangers", "an address from a configuration is called", "backends/onnxruntime/onnx_provider_options.c",
         "if (strcmp(key, addresses[i]) == 0)", "if (strcmp(key, addresses[i]) == 0 && i == 0)", unit("onnx_gpu_test")),
    Seed("cuda_of_strangers", "a library that anybody may write is loaded", "backends/onnxruntime/ort_provider.c",
         "if (framework_is_safe(path, self->strict, &unsafe))", "if (true)", unit("onnx_gpu_test")),
]

ALL = BOUNDS + LIFE + USE + WORKERS + MODELS + PACKAGES + FRAMEWORKS + GPU_FRAMEWORKS
