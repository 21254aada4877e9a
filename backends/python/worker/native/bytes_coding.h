// SPDX-License-Identifier: Apache-2.0
// Converts BYTES tensors between Triton's form (each element a little-endian uint32_t and its
// bytes) and arrays of Python objects.
#ifndef NEREID_BYTES_CODING_H
#define NEREID_BYTES_CODING_H

#include "native.h"

// Decodes the elements of [at, at + size) into the first `room` places of a C-contiguous object
// array's data, replacing the old objects. Returns the number of elements, and stores no more than
// `room`; -1 with an exception set.
Py_ssize_t bytes_decode(const uint8_t *at, size_t size, PyObject **into, size_t room);

// The elements of a C-contiguous object array as an immutable tuple of bytes: bytes as they are,
// other objects as the UTF-8 of their str(). NULL with an exception set.
PyObject *bytes_elements(PyObject *array);

// The size of such a tuple in Triton's form, and the encoding.
size_t bytes_encoded_size(PyObject *elements);
void bytes_encode(PyObject *elements, uint8_t *to);

#endif
