// The pairing heap of Fredman, Sedgewick, Sleator and Tarjan, with both passes as loops. Called
// with the lock of whoever owns the heap.
#include "schedule/deadline_heap.h"

#include <stdbool.h>

static bool is_before(const deadline_node *a, const deadline_node *b)
{
  return a->when_ns < b->when_ns || (a->when_ns == b->when_ns && a->sequence < b->sequence);
}

// Joins two trees without siblings into one.
static deadline_node *meld(deadline_node *a, deadline_node *b)
{
  if (a == NULL)
    return b;
  if (b == NULL)
    return a;
  if (is_before(b, a)) {
    deadline_node *swap = a;
    a = b;
    b = swap;
  }
  b->previous = a;
  b->next = a->child;
  if (a->child != NULL)
    a->child->previous = b;
  a->child = b;
  return a;
}

// Joins a list of siblings into one tree: pairs from left to right, then all pairs from right to
// left.
static deadline_node *meld_siblings(deadline_node *first)
{
  deadline_node *pairs = NULL; // the pairs made so far, last one first, linked by `next`
  while (first != NULL) {
    deadline_node *a = first;
    deadline_node *b = a->next;
    first = b != NULL ? b->next : NULL;
    a->next = a->previous = NULL;
    if (b != NULL)
      b->next = b->previous = NULL;
    deadline_node *pair = meld(a, b);
    pair->next = pairs;
    pairs = pair;
  }
  deadline_node *root = NULL;
  while (pairs != NULL) {
    deadline_node *rest = pairs->next;
    pairs->next = NULL;
    root = meld(root, pairs);
    pairs = rest;
  }
  return root;
}

void deadline_heap_insert(deadline_heap *heap, deadline_node *node)
{
  node->sequence = heap->next_sequence++;
  node->child = node->next = node->previous = NULL;
  heap->root = meld(heap->root, node);
}

void deadline_heap_remove(deadline_heap *heap, deadline_node *node)
{
  deadline_node *below = meld_siblings(node->child);
  node->child = NULL;
  if (node == heap->root) {
    heap->root = below;
  } else {
    if (node->previous->child == node)
      node->previous->child = node->next;
    else
      node->previous->next = node->next;
    if (node->next != NULL)
      node->next->previous = node->previous;
    heap->root = meld(heap->root, below);
  }
  node->next = node->previous = NULL;
}
