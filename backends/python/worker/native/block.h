// SPDX-License-Identifier: Apache-2.0
// Reference-counted blocks of the host's region, and Buffer: the Python object through which NumPy
// and DLPack see one tensor without a copy. An array made from a Buffer keeps the Buffer, and the
// Buffer keeps its block, so the memory stays as long as any object uses it.
#ifndef NEREID_BLOCK_H
#define NEREID_BLOCK_H

#include "native.h"

// A block starts with one reference, the caller's.
typedef struct block block;

block *block_new(uint64_t offset);

// Drops a reference. With the last one CALL_RELEASE goes to the host.
void block_unref(block *self);

// Drops a reference. True: it was the last one, and the caller tells the host.
bool block_unref_silently(block *self);

// Sends the CALL_RELEASE messages that found the ring full.
void block_flush(void);

// A tensor at `address` in block `in` (referenced by the Buffer; NULL for a tensor without bytes).
// The memory itself is never written: an array made from a large Buffer may be written to
// (writable.h), from a small one not.
PyObject *buffer_new(block *in, const void *address, size_t size, unsigned datatype, unsigned rank,
                     const int64_t *dims);

// The same on a device. `address` NULL: it is unreachable, device_why says why.
PyObject *buffer_new_on_device(block *in, int device, void *address, size_t size, unsigned datatype,
                               unsigned rank, const int64_t *dims);

// A tensor in foreign memory, which `release` frees when the Buffer goes. `device`: -1 for the CPU.
PyObject *buffer_new_foreign(void *address, int device, size_t size, unsigned datatype,
                             unsigned rank, const int64_t *dims, void (*release)(void *),
                             void *owner);

// The owner of a Buffer's foreign memory, if `release` is its function; else NULL.
void *buffer_owner(PyObject *object, void (*release)(void *));

// Other libraries use the tensor's device memory: the block is given back only after the device has
// finished.
void buffer_lend_device(PyObject *self);

typedef struct buffer_view {
  void *address;
  size_t size;
  unsigned datatype;
  unsigned rank;
  bool is_writable;
  int device; // -1: the CPU can read it
  const Py_intptr_t *shape;
} buffer_view;

// Describes a Buffer; valid as long as it lives. False when `object` is not a Buffer; no exception
// is set.
bool buffer_get(PyObject *object, buffer_view *view);

// Makes the type; call once.
PyObject *buffer_type(void);

#endif
