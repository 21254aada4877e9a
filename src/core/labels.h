// SPDX-License-Identifier: Apache-2.0
// Names of classes, read from the files that a model's configuration names (label_filename), for
// the classification extension. Called on load threads.
#ifndef NEREID_CORE_LABELS_H
#define NEREID_CORE_LABELS_H

#include "base/error.h"
#include "base/files.h"
#include "config/config.h"
#include "request/signature.h"

// Whether the configuration names a file of labels.
bool labels_are_named(const Inference__ModelConfig *config);

// Gives the outputs of `signature` their labels, one a line, from files below the model's
// directory. Errors name the file.
error *labels_read(const Inference__ModelConfig *config, const file_root *dir,
                   model_signature *signature);

#endif
