// SPDX-License-Identifier: Apache-2.0
// The names of the parameters of a model that nereid or a backend of its own reads. Values that
// never change; any thread may read them.
#ifndef NEREID_CONFIG_PARAMETER_NAMES_H
#define NEREID_CONFIG_PARAMETER_NAMES_H

typedef struct parameter_name {
  const char *backend; // NULL: the server itself
  const char *name;    // NULL ends the table
} parameter_name;

// A test holds it against the tables of the documentation.
extern const parameter_name parameter_names[];

#endif
