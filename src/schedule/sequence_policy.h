// SPDX-License-Identifier: Apache-2.0
// Where sequences live and which of their requests go when: a pure policy, without a lock or a
// clock. core/sequences.c has the lock and does what an outcome says; tests drive it by themselves.
//
// A sequence lives in a slot (a row of an instance) from its START to its END, or waits for one in
// the backlog, in order of arrival. One of its requests is under way at a time; the others wait
// here.
#ifndef NEREID_SCHEDULE_SEQUENCE_POLICY_H
#define NEREID_SCHEDULE_SEQUENCE_POLICY_H

#include "schedule/queue.h"

typedef struct sequence_table sequence_table;

typedef struct sequence_config {
  size_t instances;         // that are open at first: they have the numbers from 0 on
  uint32_t rows;            // slots of each instance, at least 1
  uint64_t max_idle_ns;     // how long a sequence keeps its slot without a request
  bool ends_with_cancelled; // one that is cancelled while it is under way in a queue takes its
                            // sequence along
} sequence_config;

typedef struct sequence_id { // a text or a number
  slice text;                // data NULL: the number counts
  uint64_t number;
} sequence_id;

typedef struct sequence_slot {
  uint32_t instance, row;
  heap_node ready;            // linked: nobody lives here, and somebody may
  struct sequence_slot *next; // of those of the instance that were made
} sequence_slot;

typedef enum sequence_state {
  SEQUENCE_BACKLOGGED, // it waits for a slot
  SEQUENCE_BUSY,       // a request of it is under way
  SEQUENCE_IDLE,       // it has a slot and no request
  SEQUENCE_OVER,
} sequence_state;

typedef struct sequence {
  const sequence_slot *slot;      // does not change once a request was under way
  struct sequence_states *states; // of whoever executes it; NULL: none
  uint64_t life;                  // likewise: of its instance, in which it began
  list_node node;                 // in the backlog, among the idle, or in outcome.over
  // The policy's own:
  sequence_state state;
  bool known;     // by its id: no END came, and nothing cut it off
  bool left_slot; // its last request is executed, and another one may have the slot
  uint64_t hash, number;
  struct sequence *next_of_bucket;
  list waiting; // items, in their order
  queue_item *under_way;
  uint64_t idle_until_ns;
  heap_node expiry; // while it is in the backlog and a request of it has a timeout
  size_t text_size; // SIZE_MAX: the number counts
  char text[];
} sequence;

// What the caller does, with no lock of the table's held.
typedef struct sequence_outcome {
  list start;   // items that are under way now: each goes to its item.sequence->slot->instance
  list refused; // items that left the table without an execution
  list over;    // sequences, to be freed
  bool vacated; // an instance that was closed has lost its last sequence
} sequence_outcome;

typedef enum sequence_verdict {
  SEQUENCE_TAKEN,
  SEQUENCE_RESTARTED,   // taken; a START of one that is known already
  SEQUENCE_NOT_STARTED, // not taken: no START, and none is known
  SEQUENCE_STOPPED,     // not taken: no sequence starts any more
  SEQUENCE_NO_MEMORY,   // not taken
} sequence_verdict;

// NULL when memory is short.
sequence_table *sequence_table_new(const sequence_config *config);
void sequence_table_free(sequence_table *t); // has no items

// The instances with these numbers, which are not open, get sequences from now on: those of the
// backlog first. The numbers are below those that there were, or follow on them. False, and nothing
// has changed: memory is short.
bool sequence_table_open(sequence_table *t, const uint32_t *numbers, size_t count,
                         sequence_outcome *o);
// The instance, which is not the last open one, gets no other sequence. Those that live there go
// on; the outcome in which the last of them leaves says so.
void sequence_table_close(sequence_table *t, uint32_t number);
bool sequence_table_is_open(const sequence_table *t, uint32_t number);
size_t sequence_table_inhabited(const sequence_table *t, uint32_t number); // its slots in use

void sequence_outcome_init(sequence_outcome *o);
void sequence_free(sequence *s_over); // of outcome.over

// A request comes. Its `timeout_us` counts while its sequence is in the backlog.
sequence_verdict sequence_table_add(sequence_table *t, queue_item *item, sequence_id id,
                                    bool starts, bool ends, uint64_t now_ns, sequence_outcome *o);
// The one under way is about to be executed. If it is the last one of its sequence, the slot passes
// on: who gets it is executed after it.
void sequence_table_take(sequence_table *t, queue_item *item, sequence_outcome *o);
// The one under way was released.
void sequence_table_release(sequence_table *t, queue_item *item, uint64_t now_ns,
                            sequence_outcome *o);
// No other comes after the one under way: as if that had had END.
void sequence_table_finish(sequence_table *t, const queue_item *item);
// One that waits is not wanted: its sequence ends before it. What would have followed is refused
// with it, and in the backlog all of the sequence.
void sequence_table_cut(sequence_table *t, queue_item *item, uint64_t now_ns, sequence_outcome *o);
// The one under way was taken out of its instance's queue.
void sequence_table_withdraw(sequence_table *t, queue_item *item, uint64_t now_ns,
                             sequence_outcome *o);
static inline bool sequence_item_waits(const queue_item *item)
{
  return item->sequence != NULL && item->sequence->under_way != item;
}

// Ends sequences that were idle for too long, and refuses those whose time in the backlog is over.
void sequence_table_tick(sequence_table *t, uint64_t now_ns, sequence_outcome *o);
uint64_t sequence_table_next_ns(const sequence_table *t); // when it is due; CLOCK_NEVER: not

// No sequence starts from now on; those that are known go on.
void sequence_table_stop(sequence_table *t);
// No request will come any more: each sequence ends with those that it has.
void sequence_table_dismiss(sequence_table *t, sequence_outcome *o);
// Refuses what waits, and lets idle sequences go.
void sequence_table_abandon(sequence_table *t, sequence_outcome *o);

size_t sequence_table_waiting(const sequence_table *t); // items that wait here
size_t sequence_table_live(const sequence_table *t);    // sequences that have a slot and no END
size_t sequence_table_backlog(const sequence_table *t); // sequences in the backlog

#endif
