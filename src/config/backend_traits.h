// SPDX-License-Identifier: Apache-2.0
// What is known of backends by their names alone, before their libraries are open: one table.
// Values that never change; any thread may read them.
#ifndef NEREID_CONFIG_BACKEND_TRAITS_H
#define NEREID_CONFIG_BACKEND_TRAITS_H

#include <stdbool.h>
#include <stdint.h>

typedef enum model_file_kind {
  MODEL_FILE_ANY,
  MODEL_FILE_REGULAR,
  MODEL_FILE_DIRECTORY,
} model_file_kind;

// What a model of the backend may consist of, with the platform that this makes it.
typedef struct backend_format {
  const char *platform; // NULL: the backend uses none
  const char *file;     // default_model_filename; NULL ends the formats
  model_file_kind kind;
  bool platform_needs_file; // the backend alone does not say the platform
  const char *holds;        // a directory is one when this file is in it; NULL: its name says so
  const char *beside;       // the ending of a file beside it that belongs to it, or NULL
  bool needs_backend;       // the file alone does not say the backend, which is to be configured
} backend_format;

#define MAX_BACKEND_FORMATS 8 // with the end

typedef struct backend_traits {
  const char *name;
  backend_format formats[MAX_BACKEND_FORMATS];
  int32_t cpu_instances;   // of a group that does not say how many; 0: one
  bool omits_single_sizes; // an output has no dimension for a configured size of 1
  // For a backend that runs others, made of a file instead of a library; else NULL:
  const char *runtime;               // that file
  const char *environment;           // the file beside it that holds their environment
  const char *environment_parameter; // of the model's configuration, that names it
  // In the environment of the process while the backend is open; an operator's own value stays:
  const char *variable;
  const char *variable_value;
} backend_traits;

// In the order in which a model's files are looked for; ended by a row without a name.
extern const backend_traits backend_table[];

// The row of that name; one without traits where there is none.
const backend_traits *backend_traits_of(const char *name);

// The other backend's name that is most like this one; NULL: none is close.
const char *backend_traits_nearest(const char *name);

// Whether the backend comes with nereid. Of another's nobody knows what it does.
bool backend_is_own(const char *name);

// Whether a load may complete a tensor that the configuration names, and of which it lacks the data
// type or the dims. Other backends complete a list of tensors that is empty, or nothing.
bool backend_completes_named(const char *name);

// The backend that runs others.
const backend_traits *backend_traits_runner(void);

#endif
