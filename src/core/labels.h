// Names of classes, read from the files that a model's configuration names (label_filename), for
// the classification extension. Called on load threads.
#ifndef NEREID_CORE_LABELS_H
#define NEREID_CORE_LABELS_H

#include "base/error.h"
#include "core/model.h"
#include "request/signature.h"

// Gives the outputs of `signature` their labels: one a line, in files below the model's folder.
// Errors: whatever is wrong with a file, naming it.
error *labels_read(const model *m, model_signature *signature);

#endif
