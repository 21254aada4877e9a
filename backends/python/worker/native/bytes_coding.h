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

// The elements of a C-contiguous array of objects as a tuple of bytes, which nobody changes any
// more: bytes as they are, anything else as the UTF-8 of its str(). NULL with an exception set.
PyObject *bytes_elements(PyObject *array);

// The bytes that such a tuple has in Triton's form, and that form.
size_t bytes_encoded_size(PyObject *elements);
void bytes_encode(PyObject *elements, uint8_t *to);

#endif
