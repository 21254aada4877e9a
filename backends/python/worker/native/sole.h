// SPDX-License-Identifier: Apache-2.0
// Finds out whether only the answer holds the arrays that it names. The model may run again before
// the host has read the answer (executions ahead), and any other holder of an array may change it
// as soon as `execute` has returned.
#ifndef NEREID_SOLE_H
#define NEREID_SOLE_H

#include "outgoing.h"

// Checks the arrays and Buffers that `made` names, or may name once they are on their device: one
// that is also reachable from elsewhere is copied instead. The answer's own references are counted:
// `responses` and `requests` are lists that only the caller holds, and their objects go before the
// answer is sent. Any other reference counts as another holder's: to the array, to the object that
// it is a view of, or to a tensor or a response above it. False with an exception set.
bool sole_check(outgoing *made, PyObject *requests, PyObject *responses);

// Sets the types to look into: NumPy's ndarray, and weakref.getweakrefcount.
extern PyMethodDef sole_functions[];

#endif
