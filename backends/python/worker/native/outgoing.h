// SPDX-License-Identifier: Apache-2.0
// Messages with tensors from the worker. First tensors are collected from Python objects, then the
// control part and the data are put into one block of this worker's region. Data that is in the
// region already is named in place; data on a device goes into the region there.
#ifndef NEREID_OUTGOING_H
#define NEREID_OUTGOING_H

#include "native_region.h"

typedef struct outgoing_tensor {
  PyObject *name;  // bytes
  PyObject *keeps; // owner of `data`
  PyObject *array; // borrowed from `keeps`: the array with the data, or its Buffer on a device
  PyObject *items; // BYTES: the elements, instead of `data`
  PyObject *range; // a Buffer of memory taken on the device, until it becomes `keeps`
  const void *data;
  size_t size;
  uint64_t offset; // in the region, once known
  bool is_named;   // named in place, in the region or on a device, not copied
  int device;      // of `data`; -1: the CPU can read it
  bool is_open;    // others may write to it: a tensor on a device is copied, even in the region
  bool moves;      // from the device to the CPU, because the region has no room
  unsigned datatype;
  unsigned rank;
  int64_t dims[MAX_NATIVE_RANK];
} outgoing_tensor;

typedef struct outgoing {
  outgoing_tensor *tensors;
  size_t count;
  size_t room;
  // Set by outgoing_make:
  uint64_t control_size;
  region_loan loan;
  bool names_arrays;
  bool is_on_device; // at least one tensor is on a device
} outgoing;

// Adds a Tensor object. False with an exception set.
bool outgoing_add(outgoing *self, PyObject *tensor);

void outgoing_put_tensor(wire_writer *writer, const outgoing_tensor *tensor);

// Allocates, copies, and writes the control part by calling `put` twice. False with an exception
// set. Drops the collected tensors in any case; `loan` has what the message needs.
bool outgoing_make(outgoing *self, void (*put)(wire_writer *, const outgoing *, const void *),
                   const void *context);

// Drops the collected tensors, not the loan.
void outgoing_clear(outgoing *self);

#endif
