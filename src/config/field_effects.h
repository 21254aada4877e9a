// SPDX-License-Identifier: Apache-2.0
// How nereid uses each field of model_config.proto, and if it does not, why. Read by
// config_diagnose on its caller's thread; a test compares it with the schema.
#ifndef NEREID_CONFIG_FIELD_EFFECTS_H
#define NEREID_CONFIG_FIELD_EFFECTS_H

typedef enum field_reader {
  FIELD_USED,       // the server reads or refuses it
  FIELD_OF_BACKEND, // only backends read it; of ours `readers`
  FIELD_OF_MODELS,  // any model with a backend: no effect in ensembles
  FIELD_OF_GPUS,    // the same on GPUs: no effect where there are none
  FIELD_UNUSED,     // never read
} field_reader;

typedef struct field_effect {
  const char *field; // message and field, without the package: "ModelInput.dims"
  field_reader kind;
  const char *readers; // names of our backends that read it; NULL: none, but FIELD_OF_GPUS: any
  const char *reason;  // why it has no effect; NULL where it is used
} field_effect;

// In the order of the proto; a row without a field ends it.
extern const field_effect field_effects[];

// The row of `field`, or NULL.
const field_effect *field_effect_of(const char *field);

#endif
