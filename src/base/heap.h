// SPDX-License-Identifier: Apache-2.0
// Moments in order: an intrusive pairing heap, which allocates nothing. Insert and heap_first:
// O(1); remove any node: O(log n) amortised. No lock of its own.
#ifndef NEREID_BASE_HEAP_H
#define NEREID_BASE_HEAP_H

#include "base/container_of.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct heap_node {
  uint64_t when_ns;
  uint64_t sequence; // orders equal moments: first inserted, first out
  struct heap_node *child;
  struct heap_node *next;     // sibling on the right
  struct heap_node *previous; // sibling on the left, the parent of a first child, itself for the
                              // root; NULL, as in zeroed memory: in no heap
} heap_node;

typedef struct heap { // zeroed: empty
  heap_node *root;
  uint64_t next_sequence;
} heap;

static inline bool heap_is_linked(const heap_node *node)
{
  return node->previous != NULL;
}

// `node`->when_ns is set by the caller and stays while the node is inside.
void heap_insert(heap *h, heap_node *node); // it must be in no heap
void heap_remove(heap *h, heap_node *node); // it must be in this heap

// The earliest node, still inside; NULL when empty.
static inline heap_node *heap_first(const heap *h)
{
  return h->root;
}

#endif
