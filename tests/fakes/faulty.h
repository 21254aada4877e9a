// SPDX-License-Identifier: Apache-2.0
// What the files of the faulty backend share.
#ifndef NEREID_FAULTY_H
#define NEREID_FAULTY_H

#include "triton/core/tritonbackend.h"

// "faulty backend: <what>", INTERNAL.
TRITONSERVER_Error *faulty_error(const char *what);

// Its own mistakes are what is tested: what the server says of them is not kept.
void faulty_ignore(TRITONSERVER_Error *error_owned);

typedef enum faulty_release {
  RELEASE_AFTER, // the request is released once its answer was given
  RELEASE_NOT,   // the fault saw to that, or nobody does
} faulty_release;

typedef struct faulty_answer {
  const char *name;
  void (*answer)(TRITONBACKEND_ModelInstance *instance, TRITONBACKEND_Request *request);
  faulty_release release;
  const char *execute_error; // what ModelInstanceExecute returns afterwards; NULL: success
} faulty_answer;

// The row named `name`; that of a good answer when there is none.
const faulty_answer *faulty_find(const char *name);

#endif
