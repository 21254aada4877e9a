// SPDX-License-Identifier: Apache-2.0
// The model parameters that nereid or its own backends read. Constant; any thread may read them.
#ifndef NEREID_CONFIG_PARAMETER_NAMES_H
#define NEREID_CONFIG_PARAMETER_NAMES_H

typedef struct parameter_name {
  const char *backend; // NULL: the server itself
  const char *name;    // NULL ends the table
} parameter_name;

// A test compares it with the tables of the documentation.
extern const parameter_name parameter_names[];

#endif
