// SPDX-License-Identifier: Apache-2.0
// Intrusive doubly linked lists, which allocate nothing. A list is a ring: its head is the
// neighbour of its first and last node. No lock of its own.
#ifndef NEREID_BASE_LIST_H
#define NEREID_BASE_LIST_H

#include "base/container_of.h"

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>

typedef struct list_node {
  struct list_node *next; // NULL, as in zeroed memory: in no list
  struct list_node *previous;
} list_node;

// Not copied or moved while it has nodes.
typedef struct list {
  list_node ends; // the first is its next, the last its previous
} list;

static inline void list_init(list *l)
{
  l->ends.next = l->ends.previous = &l->ends;
}

static inline bool list_is_linked(const list_node *node)
{
  return node->next != NULL;
}

static inline bool list_is_empty(const list *l)
{
  assert(l->ends.next != NULL); // list_init
  return l->ends.next == &l->ends;
}

// The next four return NULL when there is no such node.

static inline list_node *list_next(const list *l, const list_node *node)
{
  assert(list_is_linked(node));
  return node->next != &l->ends ? node->next : NULL;
}

static inline list_node *list_previous(const list *l, const list_node *node)
{
  assert(list_is_linked(node));
  return node->previous != &l->ends ? node->previous : NULL;
}

static inline list_node *list_first(const list *l)
{
  return list_next(l, &l->ends);
}

static inline list_node *list_last(const list *l)
{
  return list_previous(l, &l->ends);
}

// `next` is in a list, or is the `ends` of one.
static inline void list_insert_before(list_node *next, list_node *node)
{
  assert(list_is_linked(next) && !list_is_linked(node));
  node->next = next;
  node->previous = next->previous;
  next->previous->next = node;
  next->previous = node;
}

static inline void list_append(list *l, list_node *node)
{
  list_insert_before(&l->ends, node);
}

static inline void list_prepend(list *l, list_node *node)
{
  list_insert_before(l->ends.next, node);
}

// Takes `node` out of the list that it is in.
static inline void list_remove(list_node *node)
{
  assert(list_is_linked(node));
  assert(node->previous->next == node && node->next->previous == node);
  node->previous->next = node->next;
  node->next->previous = node->previous;
  node->next = node->previous = NULL;
}

// Takes the first one out; NULL when there is none.
static inline list_node *list_take_first(list *l)
{
  list_node *first = list_first(l);
  if (first != NULL)
    list_remove(first);
  return first;
}

// Moves all of `from` to the end of `to`.
static inline void list_append_all(list *to, list *from)
{
  if (list_is_empty(from))
    return;
  assert(to->ends.next != NULL);
  from->ends.next->previous = to->ends.previous;
  to->ends.previous->next = from->ends.next;
  from->ends.previous->next = &to->ends;
  to->ends.previous = from->ends.previous;
  list_init(from);
}

// Visits each `type *item` whose `member` is in the list `l`, first to last. In list_foreach_safe,
// `item` may be removed and freed, but no other node.
#define list_foreach(type, item, member, l)                                                        \
  for (type *item = list_item_((l)->ends.next, type, member); &item->member != &(l)->ends;         \
       item = list_item_(item->member.next, type, member))
#define list_foreach_safe(type, item, member, l)                                                   \
  for (type *item = list_item_((l)->ends.next, type, member),                                      \
            *item##_next = list_item_(item->member.next, type, member);                            \
       &item->member != &(l)->ends;                                                                \
       item = item##_next, item##_next = list_item_(item->member.next, type, member))

#define list_item_(node, type, member) ((type *)((char *)(node)-offsetof(type, member)))

#endif
