// SPDX-License-Identifier: Apache-2.0
// What the worker sends with tensors: first they are collected from Python objects, then the
// control part and the data are put into one block of this worker's region. Data that lies in the
// region already is named where it is; data on a device is put into the region there.
#ifndef NEREID_OUTGOING_H
#define NEREID_OUTGOING_H

#include "region.h"

typedef struct outgoing_tensor {
  PyObject *name;  // bytes
  PyObject *keeps; // what holds `data`
  PyObject *array; // borrowed from `keeps`: the array that has the data, or its Buffer on a device
  PyObject *items; // BYTES: the elements, instead of `data`
  PyObject *range; // a Buffer of what was taken on the device, until it is what `keeps`
  const void *data;
  size_t size;
  uint64_t offset; // in the region, once it is known
  bool is_named;   // is in the region already, or on a device: it is not copied
  int device;      // where `data` is; -1: the CPU can read it
  bool is_open;    // others may write to it: one on a device is copied, even in the region
  bool moves;      // from the device to the CPU: there is no room in its region
  unsigned datatype;
  unsigned rank;
  int64_t dims[MAX_NATIVE_RANK];
} outgoing_tensor;

typedef struct outgoing {
  outgoing_tensor *tensors;
  size_t count;
  size_t room;
  // Once it is made:
  uint64_t control_size;
  region_loan loan;
  bool names_arrays;
  bool is_on_device; // something is
} outgoing;

// Adds a Tensor object. False with an exception set.
bool outgoing_add(outgoing *self, PyObject *tensor);

void outgoing_put_tensor(wire_writer *writer, const outgoing_tensor *tensor);

// Allocates, copies, and writes the control part by calling `put` twice. False with an exception
// set. The collected tensors are let go of in any case; what the message needs is in `loan`.
bool outgoing_make(outgoing *self, void (*put)(wire_writer *, const outgoing *, const void *),
                   const void *context);

// Lets go of collected tensors. The loan stays.
void outgoing_clear(outgoing *self);

#endif
