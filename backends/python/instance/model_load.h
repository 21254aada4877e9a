// The last step of a model's load, which needs a worker, and that worker.
#ifndef NEREID_PYTHON_MODEL_LOAD_H
#define NEREID_PYTHON_MODEL_LOAD_H

#include "instance/python_instance.h"

// Completes the configuration, where the server wants that.
TRITONSERVER_Error *python_model_complete(python_model *self, const instance_calls *calls_kind);

// The worker that is left from that, which becomes the caller's, or NULL.
python_instance *python_model_take_spare(python_model *self);

#endif
