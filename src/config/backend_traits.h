// SPDX-License-Identifier: Apache-2.0
// Facts about backends that follow from their names alone, before their libraries are open: one
// table. Constant; any thread may read it.
#ifndef NEREID_CONFIG_BACKEND_TRAITS_H
#define NEREID_CONFIG_BACKEND_TRAITS_H

#include <stdbool.h>
#include <stdint.h>

typedef enum model_file_kind {
  MODEL_FILE_ANY,
  MODEL_FILE_REGULAR,
  MODEL_FILE_DIRECTORY,
} model_file_kind;

// One form of a model of the backend, and the platform that follows from it.
typedef struct backend_format {
  const char *platform; // NULL: the backend uses none
  const char *file;     // default_model_filename; NULL ends the formats
  model_file_kind kind;
  bool platform_needs_file; // the platform follows only if the file is there or named
  const char *holds;        // a directory is a model if it has this file; NULL: by its name
  const char *beside;       // suffix of a second file that belongs to it, or NULL
  bool needs_backend;       // applies only if the configuration names the backend
} backend_format;

#define MAX_BACKEND_FORMATS 8 // with the end marker

typedef struct backend_traits {
  const char *name;
  backend_format formats[MAX_BACKEND_FORMATS];
  int32_t cpu_instances;   // of a group on CPUs without `count`; 0: one
  bool omits_single_sizes; // outputs lack the dimensions configured as 1
  // For a backend that runs backends written as a script; else NULL:
  const char *runtime;               // the script
  const char *environment;           // the file beside it that holds their environment
  const char *environment_parameter; // the parameter of a model's configuration that names it
  // The daemon sets this variable at its start, unless the operator did:
  const char *variable;
  const char *variable_value;
} backend_traits;

// In the order in which a model's files are searched; a row without a name ends it.
extern const backend_traits backend_table[];

// The row of that name, or a row without traits.
const backend_traits *backend_traits_of(const char *name);

// The name of another backend most like this one; NULL: none is close.
const char *backend_traits_nearest(const char *name);

// Whether the backend comes with nereid.
bool backend_is_own(const char *name);

// Whether a load may complete a configured tensor that lacks its data type or dims. False: the
// backend completes only an empty list of tensors, or nothing. Any foreign backend may.
bool backend_completes_named(const char *name);

// The backend that runs scripts as backends.
const backend_traits *backend_traits_runner(void);

#endif
