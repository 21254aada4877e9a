// SPDX-License-Identifier: Apache-2.0
// The pairing heap of Fredman, Sedgewick, Sleator and Tarjan, with both passes as loops. Called
// with the lock of the heap's owner.
#include "base/heap.h"

#include <assert.h>

static bool is_before(const heap_node *a, const heap_node *b)
{
  return a->when_ns < b->when_ns || (a->when_ns == b->when_ns && a->sequence < b->sequence);
}

// Joins two trees without siblings into one.
static heap_node *meld(heap_node *a, heap_node *b)
{
  if (a == NULL)
    return b;
  if (b == NULL)
    return a;
  if (is_before(b, a)) {
    heap_node *swap = a;
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
static heap_node *meld_siblings(heap_node *first)
{
  heap_node *pairs = NULL; // the pairs made so far, last one first, linked by `next`
  while (first != NULL) {
    heap_node *a = first;
    heap_node *b = a->next;
    first = b != NULL ? b->next : NULL;
    a->next = a->previous = NULL;
    if (b != NULL)
      b->next = b->previous = NULL;
    heap_node *pair = meld(a, b);
    pair->next = pairs;
    pairs = pair;
  }
  heap_node *root = NULL;
  while (pairs != NULL) {
    heap_node *rest = pairs->next;
    pairs->next = NULL;
    root = meld(root, pairs);
    pairs = rest;
  }
  return root;
}

static void set_root(heap *h, heap_node *root)
{
  h->root = root;
  if (root != NULL)
    root->previous = root;
}

void heap_insert(heap *h, heap_node *node)
{
  assert(!heap_is_linked(node));
  node->sequence = h->next_sequence++;
  node->child = node->next = NULL;
  set_root(h, meld(h->root, node));
}

void heap_remove(heap *h, heap_node *node)
{
  assert(heap_is_linked(node) && (node->previous == node) == (node == h->root));
  heap_node *below = meld_siblings(node->child);
  if (node == h->root) {
    set_root(h, below);
  } else {
    if (node->previous->child == node)
      node->previous->child = node->next;
    else
      node->previous->next = node->next;
    if (node->next != NULL)
      node->next->previous = node->previous;
    set_root(h, meld(h->root, below));
  }
  node->child = node->next = node->previous = NULL;
}
