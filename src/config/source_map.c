// SPDX-License-Identifier: Apache-2.0
// Places of fields in a text file. Called from load threads and by `nereid check`.
#include "config/source_map.h"

#include "base/text.h"

#include <stdlib.h>

#define MAX_ENTRIES 65536 // later fields have the places of the fields around them

typedef struct source_entry {
  char *path;
  source_place place;
} source_entry;

void source_map_fini(source_map *map)
{
  for (size_t i = 0; i < map->count; i++)
    free(map->entries[i].path);
  free(map->entries);
  free(map->file_name);
  free(map->text);
  string_map_fini(&map->by_path);
  *map = SOURCE_MAP_EMPTY;
}

static bool make_room(source_map *map)
{
  if (map->count < map->capacity)
    return true;
  size_t capacity = map->capacity == 0 ? 32 : map->capacity * 2; // MAX_ENTRIES bounds it
  source_entry *entries = reallocarray(map->entries, capacity, sizeof(*entries));
  if (entries == NULL)
    return false;
  map->entries = entries;
  map->capacity = capacity;
  return true;
}

void source_map_add(source_map *map, slice path, source_place place)
{
  if (map->count == MAX_ENTRIES)
    return;
  char *copy = text_copy(path);
  if (copy != NULL && make_room(map)) {
    map->entries[map->count++] = (source_entry){copy, place};
    return;
  }
  free(copy);
  map->failed = true;
}

void source_map_name_entry(source_map *map, size_t first, size_t size, const buffer *path)
{
  static const slice value = {".value", 6};
  for (size_t i = first; i < map->count; i++) {
    const char *rest = map->entries[i].path + size;
    if (text_starts_with(rest, value.data))
      rest += value.size;
    AUTO_BUFFER buffer named = BUFFER_EMPTY;
    buffer_append_slice(&named, buffer_view(path));
    buffer_append_text(&named, rest);
    char *text = path->failed ? NULL : buffer_take_text(&named);
    if (text == NULL) {
      map->failed = true;
      return;
    }
    free(map->entries[i].path);
    map->entries[i].path = text;
  }
}

void source_map_finish(source_map *map)
{
  for (size_t i = 0; i < map->count; i++) {
    if (!string_map_put(&map->by_path, slice_of(map->entries[i].path), (void *)(i + 1)))
      map->failed = true;
  }
}

static source_place find(const source_map *map, slice path)
{
  size_t index = (size_t)string_map_get(&map->by_path, path);
  return index > 0 ? map->entries[index - 1].place : (source_place){0};
}

source_place source_map_find_exact(const source_map *map, const char *path)
{
  if (map == NULL || map->text == NULL)
    return map != NULL ? find(map, slice_of(path)) : (source_place){0};
  AUTO_SOURCE_MAP source_map read = SOURCE_MAP_EMPTY;
  map->read(slice_of(map->text), &read);
  return find(&read, slice_of(path));
}

// The path of the enclosing field: without its last name or index.
static slice path_around(slice path)
{
  while (path.size > 0 && path.data[path.size - 1] != '.' && path.data[path.size - 1] != '[')
    path.size--;
  if (path.size > 0)
    path.size--;
  return path;
}

source_place source_map_find(const source_map *map, const char *path)
{
  source_place place = {0};
  slice at = slice_of(path);
  if (map != NULL && map->text != NULL) {
    AUTO_SOURCE_MAP source_map read = SOURCE_MAP_EMPTY;
    map->read(slice_of(map->text), &read);
    return source_map_find(&read, path);
  }
  for (; map != NULL && at.size > 0 && place.line == 0; at = path_around(at))
    place = find(map, at);
  return place;
}
