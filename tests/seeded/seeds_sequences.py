# SPDX-License-Identifier: Apache-2.0
"""Bugs in the sequence batcher."""
from seed import Seed, e2e, unit

ALL = [
    Seed("slots_of_added_instances", "stuck: who waits for a slot gets none of an instance that comes", "src/schedule/sequence_policy.c",
         "    pass_on(t, slot, o);\n  }\n  return true;", "    (void)o;\n    slot_is_ready(t, slot);\n  }\n  return true;",
         unit("sequence_property_test")),
    Seed("backlog_last_first", "sequences: a slot goes to who came last", "src/schedule/sequence_policy.c",
         "container_of(list_first(&t->backlog), sequence, node)", "container_of(list_last(&t->backlog), sequence, node)",
         unit("sequence_property_test")),
    Seed("sequence_in_two_places", "sequences: two requests of one are under way", "src/schedule/sequence_policy.c",
         "if (s->slot != NULL && s->under_way == NULL) {", "if (s->slot != NULL) {",
         unit("sequence_property_test")),
    Seed("sequence_known_after_its_end", "sequences: an id is not free after the end", "src/schedule/sequence_policy.c",
         "  if (ends)\n    forget(t, s);\n", "",
         unit("sequence_property_test")),
    Seed("lost_sequences_go_on", "sequences: they go on in a process that does not know them", "src/core/sequences.c",
         "  if (s->life == now)\n", "  if (s->life != 0)\n",
         e2e("test_sequences_lost.py", "who_goes_on and oldest")),
    Seed("sequences_meet_another_worker", "sequences: a batch goes to the worker that came meanwhile", "backends/python/instance/execution.c",
         "self->life != 0 && self->life != self->link->number", "self->life != 0 && self->link->number == 0",
         unit("execution_test")),
    Seed("null_request_ready", "sequences: null requests say that they are ready", "src/core/sequence_controls.c",
         "  if (r->is_null)\n    return false;\n", "",
         e2e("test_sequences.py", "direct and places")),
    Seed("null_request_counted", "sequences: null requests count as successes", "src/api/backend_model.c",
         "  if (of->is_null)\n    return NULL; // nobody's\n", "",
         e2e("test_sequences.py", "direct and counted")),
]
