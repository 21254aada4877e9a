// The life of an instance. Load threads, unless said otherwise.
#ifndef NEREID_PYTHON_INSTANCE_LIFE_H
#define NEREID_PYTHON_INSTANCE_LIFE_H

#include "instance/python_instance.h"

// Starts a worker that has imported the model. `name` is the instance's, or a model's whose
// configuration is to be completed.
TRITONSERVER_Error *python_instance_start(const python_model *model, const char *name,
                                          const instance_calls *calls_kind, python_instance **made);

// Becomes `server_instance`: runs the model's initialize with the JSON text `arguments`.
TRITONSERVER_Error *python_instance_initialize(python_instance *self,
                                               TRITONBACKEND_ModelInstance *server_instance,
                                               const char *name, const char *arguments);

// Runs the model's finalize, ends the worker, and frees all. No work may be under way. NULL does
// nothing.
void python_instance_stop(python_instance *self);

#endif
