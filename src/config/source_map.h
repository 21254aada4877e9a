// SPDX-License-Identifier: Apache-2.0
// The places of a configuration's fields in its text. The text reader fills the map on request
// (config_read_text_all); reporters of findings look places up. One thread at a time.
#ifndef NEREID_CONFIG_SOURCE_MAP_H
#define NEREID_CONFIG_SOURCE_MAP_H

#include "base/buffer.h"
#include "base/slice.h"
#include "base/string_map.h"
#include "config/diagnostics.h"

#include <stdbool.h>
#include <stddef.h>

// Paths are as in messages: "max_batch_size", "input[0].dims[1]", parameters["key"].string_value,
// metric_tags["key"]. A scalar's place is its value; a message's is its field's name or, in a list,
// its bracket.
typedef struct source_map {
  struct source_entry *entries; // in the order of the text
  size_t count;
  size_t capacity;
  string_map by_path; // path → index + 1; the last one counts; made by source_map_finish
  bool failed;        // memory ran short: some are missing
  char *file_name;    // for messages; owned, or NULL; set by the reader of the file
  // Where look-ups are rare: the text (owned), which is read again for each.
  char *text;
  void (*read)(slice text, struct source_map *map);
} source_map;

#define SOURCE_MAP_EMPTY ((source_map){0})

void source_map_fini(source_map *map);

// The place of the field or, if the file does not have it, of the nearest field around it. Line 0
// when unknown; `map` may be NULL.
source_place source_map_find(const source_map *map, const char *path);

// The place of exactly this field; line 0 if the file does not have it.
source_place source_map_find_exact(const source_map *map, const char *path);

// ---- for the reader ----

void source_map_add(source_map *map, slice path, source_place place);

// The key of a map's entry is known only after reading it. Then the places from `first` on, whose
// paths begin with `size` bytes of field and index, get `path` instead, and lose a following
// ".value".
void source_map_name_entry(source_map *map, size_t first, size_t size, const buffer *path);

void source_map_finish(source_map *map);

static inline void cleanup_source_map(source_map *map)
{
  source_map_fini(map);
}
#define AUTO_SOURCE_MAP __attribute__((cleanup(cleanup_source_map)))

#endif
