// SPDX-License-Identifier: Apache-2.0
// Shared parts of the worker's extension: Python's stable ABI of 3.8, the process's only channel,
// and small helpers. Everything here is called with the GIL held, and the GIL guards all of the
// extension's state, unless a function says otherwise.
#ifndef NEREID_NATIVE_H
#define NEREID_NATIVE_H

#define Py_LIMITED_API 0x03080000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "channel/channel.h"
#include "channel/wire.h"
#include "codec/protocol.h"

// The channel to the host; NULL before attach().
extern channel *native_channel;

// Element types, by TRITONSERVER_DataType.
enum native_datatype {
  DATATYPE_BOOL = 1,
  DATATYPE_UINT8,
  DATATYPE_UINT16,
  DATATYPE_UINT32,
  DATATYPE_UINT64,
  DATATYPE_INT8,
  DATATYPE_INT16,
  DATATYPE_INT32,
  DATATYPE_INT64,
  DATATYPE_FP16,
  DATATYPE_FP32,
  DATATYPE_FP64,
  DATATYPE_BYTES,
  DATATYPE_BF16,
  DATATYPE_COUNT
};

typedef struct datatype_row {
  const char *name; // for users, "FP32"
  char kind;        // NumPy's: 'b', 'u', 'i', 'f', 'O'; 0 when NumPy has none
  uint8_t size;     // bytes of an element; 0 for BYTES
  uint8_t dlpack;   // DLDataTypeCode
} datatype_row;

extern const datatype_row datatype_rows[DATATYPE_COUNT];

// The maximum rank of a tensor here; NumPy's own limit is 32 (64 from 2.0 on).
#define MAX_NATIVE_RANK 32

// NumPy's array interface: the contents of the capsule `__array_struct__`.
typedef struct array_struct {
  int two;
  int nd;
  char typekind;
  int itemsize;
  int flags;
  Py_intptr_t *shape;
  Py_intptr_t *strides;
  void *data;
  PyObject *descr;
} array_struct;

#define ARRAY_C_CONTIGUOUS 0x1
#define ARRAY_ALIGNED      0x100
#define ARRAY_NOTSWAPPED   0x200
#define ARRAY_WRITEABLE    0x400

// `array.__array_struct__`: a capsule, owned by the caller, that keeps `*described` alive. NULL
// with an exception set.
PyObject *native_array_struct(PyObject *array, const array_struct **described);

// Attribute and text helpers. Each returns NULL (or -1) with an exception set.
PyObject *native_text(const char *text, size_t length); // str; invalid UTF-8 survives
PyObject *native_utf8(PyObject *text);                  // str → bytes, the reverse
int native_get_u64(PyObject *of, PyObject *name, uint64_t *value);

// Names of attributes, interned once.
#define NATIVE_NAMES(X)                                                                            \
  X(_name)                                                                                         \
  X(_dtype)                                                                                        \
  X(_shape)                                                                                        \
  X(_buffer)                                                                                       \
  X(_array)                                                                                        \
  X(_handle)                                                                                       \
  X(_request_id)                                                                                   \
  X(_correlation_id)                                                                               \
  X(_flags)                                                                                        \
  X(_timeout)                                                                                      \
  X(_parameters)                                                                                   \
  X(_trace)                                                                                        \
  X(_requested)                                                                                    \
  X(_inputs)                                                                                       \
  X(_sender)                                                                                       \
  X(_decoupled)                                                                                    \
  X(_tensors)                                                                                      \
  X(_error)                                                                                        \
  X(_message)                                                                                      \
  X(_code)                                                                                         \
  X(base)                                                                                          \
  X(__array_struct__)

typedef struct native_names {
#define NATIVE_FIELD(name) PyObject *name;
  NATIVE_NAMES(NATIVE_FIELD)
#undef NATIVE_FIELD
} native_names;

extern native_names names;

// The Python classes of decoded objects, set by use().
typedef struct native_classes {
  PyObject *tensor;
  PyObject *request;
  PyObject *response;
  PyObject *error;
  PyObject *exception; // TritonModelException
} native_classes;

extern native_classes classes;

// A new object of a class that has only slots, all unset.
PyObject *native_instance(PyObject *of);

#endif
