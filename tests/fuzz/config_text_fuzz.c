// SPDX-License-Identifier: Apache-2.0
// A configuration as protobuf's text. What can be read must print, and read back to the same. The
// reader that goes on after mistakes finds what the strict one finds, first and in the same place,
// and nothing where that one finds nothing; all rules take what it has read.
#include "../unit/config/config_print_text.h"
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
  error_free(config_validate_model(config, NULL));
  error_free(config_validate_tensors(config, NULL));
}

static void check_places(slice text, const source_map *map)
{
  unsigned lines = 1;
  for (size_t i = 0; i < text.size; i++)
    lines += text.data[i] == '\n';
  const string_map_entry *entry;
  for (size_t i = 0; (entry = string_map_walk(&map->by_path, &i)) != NULL;) {
    const source_place place = source_map_find(map, entry->key);
    CHECK(place.line >= 1 && place.line <= lines && place.column >= 1 && place.length >= 1);
  }
}

// `strict` is what the strict reader says of the same text.
static void check_recovering(slice text, const error *strict, const Inference__ModelConfig *wanted)
{
  AUTO_CONFIG Inference__ModelConfig *config = NULL;
  AUTO_SOURCE_MAP source_map map = SOURCE_MAP_EMPTY;
  AUTO_DIAGNOSTICS diagnostics found = DIAGNOSTICS_EMPTY;
  CHECK(config_read_text_all(text, &map, &found, &config) == NULL && config != NULL);
  CHECK((strict == NULL) == (found.count == 0));
  if (strict != NULL) {
    const diagnostic *first = &found.items[0];
    char start[64];
    snprintf(start, sizeof(start), "fuzz:%u:%u: ", first->place.line, first->place.column);
    const size_t size = strlen(start);
    CHECK(strncmp(error_message(strict), start, size) == 0);
    CHECK(strncmp(error_message(strict) + size, first->message, strlen(first->message)) == 0);
  } else {
    AUTO_BUFFER buffer one = BUFFER_EMPTY;
    AUTO_BUFFER buffer other = BUFFER_EMPTY;
    CHECK(config_print_text(wanted, &one) == NULL && config_print_text(config, &other) == NULL);
    CHECK(slice_equal(buffer_view(&one), buffer_view(&other)));
  }
  check_places(text, &map);
  for (size_t i = 1; i < found.count; i++)
    CHECK(found.items[i].place.line >= found.items[i - 1].place.line);
  const int32_t gpu = 0;
  config_diagnose(config, (config_gpus){&gpu, 1, MIN_COMPUTE_CAPABILITY, false}, &map, &found);
  CHECK(!found.failed && found.count <= DIAGNOSTICS_MAX);
  diagnostics_sort(&found);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  AUTO_CONFIG Inference__ModelConfig *config = NULL;
  error *e = config_read_text((slice){(const char *)data, size}, "fuzz", &config);
  if (e == NULL)
    check(config);
  else
    CHECK(error_get_code(e) == ERROR_INVALID_ARG && strncmp(error_message(e), "fuzz:", 5) == 0);
  check_recovering((slice){(const char *)data, size}, e, config);
  error_free(e);
  return 0;
}
