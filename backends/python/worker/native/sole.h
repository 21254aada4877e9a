// SPDX-License-Identifier: Apache-2.0
// Whether anybody but an answer holds the arrays that it names. Executions are handed ahead: the
// model may run again before the host has read the answer, and whoever made an array may change it
// as soon as `execute` has returned.
#ifndef NEREID_SOLE_H
#define NEREID_SOLE_H

#include "outgoing.h"

// Looks at what `made` names, or may when it is put on its device: an array or a Buffer there that
// is reached from elsewhere too is copied instead. The answer's own ways to it are counted:
// `responses` and `requests` are lists that nobody else holds, whose objects go before the answer
// is sent. Any other reference is somebody's, be it to the array, to what it is a view of, or to a
// tensor or a response above it. False with an exception set.
bool sole_check(outgoing *made, PyObject *requests, PyObject *responses);

// The types of objects that are looked into: NumPy's ndarray, and weakref.getweakrefcount.
extern PyMethodDef sole_functions[];

#endif
