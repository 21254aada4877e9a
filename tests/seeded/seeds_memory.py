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
         "src/frontend/common/tensor/shared_memory.c", " ||\n      end > (size_t)file.st_size", "",
         unit("shared_memory_test")),
    Seed("slashes_in_keys", "memory of clients: leading slashes of a key are skipped (2025-23329)", "src/frontend/common/tensor/shared_memory.c",
         "key + (key[0] == '/');", "key + strspn(key, \"/\");",
         unit("shared_memory_test")),
    Seed("output_beyond_its_span", "memory of clients: an output larger than its span (2025-23328)", "src/frontend/common/tensor/infer_tensors.c",
         "if (byte_size <= choice->span->byte_size)", "if (byte_size > 0)",
         e2e("test_shared_memory.py", "one_place_for_each_tensor")),
]

LIFE = [
    Seed("unmapped_in_use", "memory of clients: unregistering unmaps what requests use (2024-0116)", "src/frontend/common/tensor/shared_memory.c",
         "if (r->users > 0)", "if (r->users > 1000)",
         unit("shared_memory_test")),
    Seed("descriptor_of_a_region", "stale descriptor: that of a region stays open (2026-47478)", "src/frontend/common/tensor/shared_memory.c",
         "AUTO_CLOSE int descriptor", "int descriptor",
         e2e(SAFETY, "thousand_names")),
    Seed("regions_forever", "leak: a region that broke stays registered (row 26)", "src/frontend/common/tensor/shared_memory.c",
         "r->leaving = r->leaving || guarded_range_is_broken(r->guard);", "",
         unit("shared_memory_test")),
    Seed("sigbus_blocked", "memory of clients: threads block SIGBUS (row 26)", "src/base/thread.c",
         "  sigdelset(&all, SIGBUS);", "",
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
         "may_change(input->datatype) && !is_overwritten(t, span)", "may_change(input->datatype)",
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
    Seed("circle_of_one_instance", "a circle where there is none: one instance of the called model that waits is taken for all",
         "backends/python/instance/wait_graph.c", "    if (n->waits_for == NULL || (stuck && !n->waits_for->is_stuck))\n      return false;\n    any = true;",
         "    any = any || n->waits_for != NULL;", unit("wait_graph_test")),
    Seed("circle_of_what_was_answered", "a circle where there is none: a wait in a later execution keeps an earlier one's answer",
         "backends/python/instance/wait_graph.c", "wait->execution < call->at_execution;", "wait->execution != call->at_execution;",
         unit("wait_graph_test")),
]

ALL = BOUNDS + LIFE + USE + WORKERS
