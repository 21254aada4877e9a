// SPDX-License-Identifier: Apache-2.0
// The blocks of the host's region that this worker may read, and Buffer: the Python object through
// which NumPy and DLPack see one tensor without a copy. An array that was made from a Buffer keeps
// it, and a Buffer keeps its block, so memory stays as long as anyone looks at it.
#ifndef NEREID_BLOCK_H
#define NEREID_BLOCK_H

#include "native.h"

// One block, counted. It is made with one count, the maker's.
typedef struct block block;

block *block_new(uint64_t offset);
void block_ref(block *self);

// Drops a count. With the last one the host is told (CALL_RELEASE).
void block_unref(block *self);

// Drops a count; true when it was the last one and the caller tells the host.
bool block_unref_silently(block *self);

// Sends what could not be sent when its block's last count went, since the ring was full.
void block_flush(void);

// A tensor in `in` (counted by the Buffer; NULL for one without bytes) at `address`, which stays as
// it is: an array that is made from it may be written to when it is large (writable.h), else not.
PyObject *buffer_new(block *in, const void *address, size_t size, unsigned datatype, unsigned rank,
                     const int64_t *dims);

// The same on a device. `address` NULL: it cannot be reached, device_why says why.
PyObject *buffer_new_on_device(block *in, int device, void *address, size_t size, unsigned datatype,
                               unsigned rank, const int64_t *dims);

// A tensor in foreign memory, which `release` gives back when the Buffer goes. `device`: -1 for the
// CPU.
PyObject *buffer_new_foreign(void *address, int device, size_t size, unsigned datatype,
                             unsigned rank, const int64_t *dims, void (*release)(void *),
                             void *owner);

// What gives back the foreign memory of a Buffer, if that is `release`; NULL: it is another, or
// none.
void *buffer_owner(PyObject *object, void (*release)(void *));

// Others have been let to use the tensor's memory on its device: the block is given back when the
// device is through.
void buffer_lend_device(PyObject *self);

typedef struct buffer_view {
  void *address;
  size_t size;
  unsigned datatype;
  unsigned rank;
  bool is_writable;
  int device; // -1: none, the CPU can read it
  const Py_intptr_t *shape;
} buffer_view;

// What a Buffer holds, for as long as it lives. False when `object` is none; no exception is set.
bool buffer_get(PyObject *object, buffer_view *view);

// Makes the type; call once.
PyObject *buffer_type(void);

#endif
