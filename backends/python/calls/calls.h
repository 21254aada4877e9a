// What a model asks of the server while it runs: inferences by other models (BLS), custom metrics,
// loading and unloading of models. One object for each worker process; when the worker is gone,
// what it has under way is cancelled and its answers are dropped. What is under way lets go of its
// memory when it ends, and counts in the backend until then (python_backend_ref).
#ifndef NEREID_PYTHON_CALLS_H
#define NEREID_PYTHON_CALLS_H

#include "instance/instance.h"

extern const instance_calls CALLS;

#endif
