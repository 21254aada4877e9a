// A configuration as protobuf's text. What can be read must print, and read back to the same.
#include "../unit/config_print_text.h"
#include "config/config.h"
#include "fuzz.h"

static void check(const Inference__ModelConfig *config)
{
  AUTO_CONFIG Inference__ModelConfig *again = NULL;
  AUTO_BUFFER buffer json = BUFFER_EMPTY;
  AUTO_BUFFER buffer text = BUFFER_EMPTY;
  AUTO_BUFFER buffer second = BUFFER_EMPTY;
  CHECK(config_print_json(config, &json) == NULL);
  CHECK(config_print_text(config, &text) == NULL);
  CHECK(config_read_text(buffer_view(&text), "printed", &again) == NULL);
  CHECK(config_print_text(again, &second) == NULL);
  // The texts are compared: a NaN's sign is not kept.
  CHECK(slice_equal(buffer_view(&text), buffer_view(&second)));
  error_free(config_validate_model(config));
  error_free(config_validate_tensors(config));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  AUTO_CONFIG Inference__ModelConfig *config = NULL;
  error *e = config_read_text((slice){(const char *)data, size}, "fuzz", &config);
  if (e == NULL)
    check(config);
  else
    CHECK(error_get_code(e) == ERROR_INVALID_ARG && strncmp(error_message(e), "fuzz:", 5) == 0);
  error_free(e);
  return 0;
}
