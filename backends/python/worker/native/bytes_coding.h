// SPDX-License-Identifier: Apache-2.0
// BYTES tensors: between Triton's form (each element a little-endian uint32_t and its bytes) and
// arrays of Python objects.
#ifndef NEREID_BYTES_CODING_H
#define NEREID_BYTES_CODING_H

#include "native.h"

// The elements of [at, at + size) into the first `room` places of a C-contiguous object array's
// data, whose old objects are let go of. Gives how many there are, and stores no more than fit; -1
// with an exception set.
Py_ssize_t bytes_decode(const uint8_t *at, size_t size, PyObject **into, size_t room);

// The elements of an object array as a tuple of bytes: bytes as they are, anything else as the
// UTF-8 of its str(). `size`: that of Triton's form. NULL with an exception set.
PyObject *bytes_items(PyObject *const *objects, size_t count, size_t *size);

// Writes what bytes_items measured.
void bytes_encode(PyObject *items, uint8_t *to);

#endif
