// A configuration as text or, when the first byte is '{', as JSON; what can be read must print, and
// read back to the same.
#include "config/config.h"

#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const Inference__ModelConfig *config)
{
  AUTO_CONFIG Inference__ModelConfig *again = NULL;
  AUTO_BUFFER buffer text = BUFFER_EMPTY;
  AUTO_BUFFER buffer json = BUFFER_EMPTY;
  error_free(config_print_json(config, &json));
  AUTO_ERROR error *e = config_print_text(config, &text);
  if (e == NULL)
    e = config_read_text(buffer_view(&text), "printed", &again);
  AUTO_BUFFER buffer second = BUFFER_EMPTY;
  if (e == NULL)
    e = config_print_text(again, &second);
  // The texts are compared: a NaN's sign is not kept.
  if (e != NULL || !slice_equal(buffer_view(&text), buffer_view(&second)))
    abort();
  error_free(config_validate_model(config));
  error_free(config_validate_tensors(config));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  AUTO_CONFIG Inference__ModelConfig *config = NULL;
  const slice text = {(const char *)data, size};
  AUTO_ERROR error *e = size > 0 && data[0] == '{' ? config_read_json(text, &config)
                                                   : config_read_text(text, "fuzz", &config);
  if (e == NULL)
    check(config);
  return 0;
}
