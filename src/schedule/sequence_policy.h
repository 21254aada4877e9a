// SPDX-License-Identifier: Apache-2.0
// Assigns sequences to slots and decides when their requests run: a pure policy, without a lock or
// a clock. core/sequences.c holds the lock and acts on the outcomes; tests drive the policy
// directly.
//
// A sequence lives in a slot (a row of an instance) from its START to its END, or waits for one in
// the backlog, in order of arrival. One of its requests is under way at a time; the others wait
// here.
#ifndef NEREID_SCHEDULE_SEQUENCE_POLICY_H
#define NEREID_SCHEDULE_SEQUENCE_POLICY_H

#include "schedule/queue.h"

typedef struct sequence_table sequence_table;

typedef struct sequence_config {
  size_t instances;         // open at first, numbered from 0
  uint32_t rows;            // slots of each instance, at least 1
  uint64_t max_idle_ns;     // how long a sequence keeps its slot without a request
  bool ends_with_cancelled; // cancelling a request that is under way in a queue ends its sequence
} sequence_config;

typedef struct sequence_id { // a text or a number
  slice text;                // data NULL: the number counts
  uint64_t number;
} sequence_id;

typedef struct sequence_slot {
  uint32_t instance, row;
  heap_node ready;            // linked: the slot is free, and its instance open
  struct sequence_slot *next; // next slot of the instance
} sequence_slot;

typedef enum sequence_state {
  SEQUENCE_BACKLOGGED, // it waits for a slot
  SEQUENCE_BUSY,       // a request of it is under way
  SEQUENCE_IDLE,       // it has a slot and no request
  SEQUENCE_OVER,
} sequence_state;

typedef struct sequence {
  const sequence_slot *slot;      // does not change once a request was under way
  struct sequence_states *states; // for its execution; NULL: none
  uint64_t life;                  // likewise: life of the instance when the sequence began
  list_node node;                 // in the backlog, the busy, the idle, or outcome.over
  // The policy's own:
  sequence_state state;
  bool known;     // found by its id: no END came, and it was not cut off
  bool left_slot; // its last request executes, and another sequence may have the slot
  uint64_t hash, number;
  struct sequence *next_of_bucket;
  list waiting; // items, in their order
  queue_item *under_way;
  uint64_t idle_until_ns;
  heap_node expiry; // linked while in the backlog with a request that has a timeout
  size_t text_size; // SIZE_MAX: the number counts
  char text[];
} sequence;

// Work for the caller, to be done without the table's lock.
typedef struct sequence_outcome {
  list start;   // items now under way: each goes to its item.sequence->slot->instance
  list refused; // items that leave the table without an execution
  list over;    // sequences, to be freed
  bool vacated; // a closed instance has lost its last sequence
} sequence_outcome;

typedef enum sequence_verdict {
  SEQUENCE_TAKEN,
  SEQUENCE_RESTARTED,   // taken; a START of a known sequence
  SEQUENCE_NOT_STARTED, // not taken: no START, and the sequence is not known
  SEQUENCE_STOPPED,     // not taken: no sequence starts any more
  SEQUENCE_NO_MEMORY,   // not taken
} sequence_verdict;

// NULL when memory is short.
sequence_table *sequence_table_new(const sequence_config *config);
void sequence_table_free(sequence_table *t); // must have no items

// Opens the instances with these numbers, so that they get sequences, those of the backlog first.
// The numbers are former ones or follow directly. False when memory is short; nothing has changed
// then.
bool sequence_table_open(sequence_table *t, const uint32_t *numbers, size_t count,
                         sequence_outcome *o);
// The instance, which must not be the last open one, gets no further sequences. Its present ones
// continue; the outcome in which the last leaves has `vacated`.
void sequence_table_close(sequence_table *t, uint32_t number);
bool sequence_table_is_open(const sequence_table *t, uint32_t number);
size_t sequence_table_inhabited(const sequence_table *t, uint32_t number); // slots in use

void sequence_outcome_init(sequence_outcome *o);
void sequence_free(sequence *s_over); // of outcome.over

// Adds a request. Its `timeout_us` counts while its sequence is in the backlog.
sequence_verdict sequence_table_add(sequence_table *t, queue_item *item, sequence_id id,
                                    bool starts, bool ends, uint64_t now_ns, sequence_outcome *o);
// The request under way is about to be executed. If it is its sequence's last, the slot passes to
// another sequence, whose requests are executed later.
void sequence_table_take(sequence_table *t, queue_item *item, sequence_outcome *o);
// The request under way was released.
void sequence_table_release(sequence_table *t, queue_item *item, uint64_t now_ns,
                            sequence_outcome *o);
// No request follows the one under way, as if that had END.
void sequence_table_finish(sequence_table *t, const queue_item *item);
// A waiting request is withdrawn: its sequence ends before it. Refuses it and all later requests of
// the sequence; in the backlog all requests of the sequence.
void sequence_table_cut(sequence_table *t, queue_item *item, uint64_t now_ns, sequence_outcome *o);
// The request under way was taken out of its instance's queue.
void sequence_table_withdraw(sequence_table *t, queue_item *item, uint64_t now_ns,
                             sequence_outcome *o);
static inline bool sequence_item_waits(const queue_item *item)
{
  return item->sequence != NULL && item->sequence->under_way != item;
}

// Refuses sequences whose time in the backlog is over, and ends those idle for too long.
void sequence_table_tick(sequence_table *t, uint64_t now_ns, sequence_outcome *o);
uint64_t sequence_table_next_ns(const sequence_table *t); // the next tick; CLOCK_NEVER: none

// No sequence starts from now on; known ones continue.
void sequence_table_stop(sequence_table *t);
// No further requests will come: each sequence ends with those that it has.
void sequence_table_dismiss(sequence_table *t, sequence_outcome *o);
// Refuses waiting requests and ends idle sequences.
void sequence_table_abandon(sequence_table *t, sequence_outcome *o);

size_t sequence_table_waiting(const sequence_table *t); // waiting items
size_t sequence_table_live(const sequence_table *t);    // sequences that have a slot and no END
size_t sequence_table_backlog(const sequence_table *t); // sequences in the backlog

#endif
