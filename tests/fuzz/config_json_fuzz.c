// SPDX-License-Identifier: Apache-2.0
// A configuration as JSON, as clients send it to override a model's. What can be read must print,
// and read back to the same; and as text too.
#include "../unit/config/config_print_text.h"
#include "config/config.h"
#include "fuzz.h"

static void check_json(const Inference__ModelConfig *config)
{
  AUTO_CONFIG Inference__ModelConfig *again = NULL;
  AUTO_BUFFER buffer printed = BUFFER_EMPTY;
  AUTO_BUFFER buffer second = BUFFER_EMPTY;
  CHECK(config_print_json(config, &printed) == NULL);
  CHECK(config_read_json(buffer_view(&printed), &again) == NULL);
  CHECK(config_print_json(again, &second) == NULL);
  CHECK(slice_equal(buffer_view(&printed), buffer_view(&second)));
}

static void check_text(const Inference__ModelConfig *config)
{
  AUTO_CONFIG Inference__ModelConfig *again = NULL;
  AUTO_BUFFER buffer text = BUFFER_EMPTY;
  AUTO_BUFFER buffer json = BUFFER_EMPTY;
  AUTO_BUFFER buffer second = BUFFER_EMPTY;
  CHECK(config_print_text(config, &text) == NULL);
  CHECK(config_read_text(buffer_view(&text), "printed", &again) == NULL);
  CHECK(config_print_json(config, &json) == NULL);
  CHECK(config_print_json(again, &second) == NULL);
  CHECK(slice_equal(buffer_view(&json), buffer_view(&second)));
}

static void check_completing(Inference__ModelConfig *config)
{
  AUTO_CONFIG Inference__ModelConfig *copy = NULL;
  CHECK(config_copy(config, &copy) == NULL);
  CHECK(config_equal_but_policy(config, copy));
  error *e = config_apply_autocomplete(copy, config);
  if (e == NULL)
    error_free(config_validate_model(copy, NULL));
  error_free(e);
  const config_gpus gpus = CONFIG_NO_GPUS;
  e = config_normalize_instance_groups(config, NULL, 0, gpus);
  if (e == NULL)
    e = config_validate(config, gpus, NULL);
  if (e == NULL)
    CHECK(config->ensemble_scheduling != NULL || config_instances(config) > 0);
  error_free(e);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  AUTO_CONFIG Inference__ModelConfig *config = NULL;
  error *e = config_read_json((slice){(const char *)data, size}, &config);
  if (e == NULL) {
    check_json(config);
    check_text(config);
    check_completing(config);
  } else {
    CHECK(error_get_code(e) == ERROR_INVALID_ARG && error_message(e)[0] != '\0');
  }
  error_free(e);
  return 0;
}
