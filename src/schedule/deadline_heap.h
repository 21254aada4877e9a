// Moments in order: a pairing heap whose nodes are embedded in what waits, so that nothing is
// allocated. Insert and look at the first: O(1); remove any node: O(log n) amortised. No lock of
// its own.
#ifndef NEREID_SCHEDULE_DEADLINE_HEAP_H
#define NEREID_SCHEDULE_DEADLINE_HEAP_H

#include <stddef.h>
#include <stdint.h>

typedef struct deadline_node {
  uint64_t when_ns;
  uint64_t sequence; // among equal moments, what was inserted first comes first
  struct deadline_node *child;
  struct deadline_node *next;     // sibling on the right
  struct deadline_node *previous; // sibling on the left, or the parent of a first child
} deadline_node;

typedef struct deadline_heap {
  deadline_node *root;
  uint64_t next_sequence;
} deadline_heap;

// `node`->when_ns is set by the caller and stays while the node is inside.
void deadline_heap_insert(deadline_heap *heap, deadline_node *node);
void deadline_heap_remove(deadline_heap *heap, deadline_node *node); // a node that is inside

// The earliest node, still inside; NULL when empty.
static inline deadline_node *deadline_heap_first(const deadline_heap *heap)
{
  return heap->root;
}

#endif
