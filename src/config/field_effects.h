// SPDX-License-Identifier: Apache-2.0
// What each field of model_config.proto is for in nereid: whether it is used, and if not, why. Read
// by config_diagnose, on its caller's thread; a test holds it against the schema.
#ifndef NEREID_CONFIG_FIELD_EFFECTS_H
#define NEREID_CONFIG_FIELD_EFFECTS_H

typedef enum field_reader {
  FIELD_USED,       // by the server; or it refuses the field, which is then not in vain
  FIELD_OF_BACKEND, // by backends alone: of ours by `readers`
  FIELD_OF_MODELS,  // of what has a backend, whichever: in vain for ensembles
  FIELD_OF_GPUS,    // as that, of models on GPUs: in vain where there is none
  FIELD_UNUSED,     // by nobody, whatever the backend
} field_reader;

typedef struct field_effect {
  const char *field; // message and field, without the package: "ModelInput.dims"
  field_reader kind;
  const char *readers; // names of the backends that read it; or NULL: of ours none; of GPUs any may
  const char *reason;  // why it has no effect; NULL where it is used
} field_effect;

// In the order of the proto; a row without a field ends it.
extern const field_effect field_effects[];

// The row of `field`, or NULL.
const field_effect *field_effect_of(const char *field);

#endif
