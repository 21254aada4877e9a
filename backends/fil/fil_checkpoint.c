// SPDX-License-Identifier: Apache-2.0
// Walks through a checkpoint from size to size. The layouts are treelite's "serialization format"
// v4, and v3 as 3.9 wrote it, which 4.x reads.
#include "fil_checkpoint.h"

#include "backend_error.h"

#include <sys/stat.h>
#include <unistd.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

// Item sizes that depend on the model's number type.
#define NUMBER 0   // a struct of v3
#define NODE   255 // a struct, of v3

typedef struct walk {
  int file;
  uint64_t at, end;
  bool is_double;
} walk;

static bool skip(walk *w, uint64_t count, uint64_t item_size)
{
  uint64_t bytes;
  if (__builtin_mul_overflow(count, item_size, &bytes) || bytes > w->end - w->at)
    return false;
  w->at += bytes;
  return true;
}

static bool take(walk *w, void *value, size_t size)
{
  const off_t at = (off_t)w->at;
  return skip(w, 1, size) && pread(w->file, value, size, at) == (ssize_t)size;
}

static bool skip_array(walk *w, uint8_t item_size)
{
  uint64_t count;
  uint64_t size = item_size;
  if (item_size == NUMBER)
    size = w->is_double ? 8 : 4;
  if (item_size == NODE)
    size = w->is_double ? 56 : 48;
  return take(w, &count, sizeof(count)) && skip(w, count, size);
}

static bool skip_arrays(walk *w, const uint8_t *item_sizes, size_t count)
{
  for (size_t i = 0; i < count; i++)
    if (!skip_array(w, item_sizes[i]))
      return false;
  return true;
}

// Fields of newer versions: a name, then the items.
static bool skip_extension(walk *w)
{
  int32_t fields = 0;
  if (!take(w, &fields, sizeof(fields)))
    return false;
  for (int32_t i = 0; i < fields; i++) {
    uint64_t item_size, count;
    if (!skip_array(w, 1) || !take(w, &item_size, sizeof(item_size)) ||
        !take(w, &count, sizeof(count)) || !skip(w, count, item_size))
      return false;
  }
  return true;
}

static bool skip_header_v4(walk *w)
{
  static const uint8_t tasks[] = {4, 4, 4, 4, 1}, scores[] = {8, 1};
  return skip(w, 1, 10) && skip_arrays(w, tasks, COUNT(tasks)) && skip(w, 1, 8) &&
         skip_arrays(w, scores, COUNT(scores)) && skip_extension(w);
}

// treelite divides by the number of classes, so it must not be 0.
static bool skip_header_v3(walk *w)
{
  uint32_t classes = 0;
  return skip(w, 1, 10) && take(w, &classes, sizeof(classes)) && classes > 0 && skip(w, 1, 272) &&
         skip_extension(w);
}

static bool skip_tree(walk *w, bool is_v3)
{
  static const uint8_t v3[] = {NODE, NUMBER, 8, 8, 4, 8};
  static const uint8_t v4[] = {1, 4, 4, 4, 1, NUMBER, NUMBER, 1, 1, NUMBER, 8,
                               8, 4, 8, 8, 8, 1,      8,      1, 8, 1};
  return skip(w, 1, 5) && (is_v3 ? skip_arrays(w, v3, COUNT(v3)) : skip_arrays(w, v4, COUNT(v4))) &&
         skip_extension(w) && skip_extension(w);
}

static bool is_whole(walk *w)
{
  int32_t version[3];
  uint8_t types[2]; // of thresholds and leaves, which must be equal
  uint64_t trees;
  if (!take(w, version, sizeof(version)) || !take(w, types, sizeof(types)))
    return false;
  const bool is_v3 = version[0] == 3;
  if (!is_v3 && version[0] != 4)
    return true;
  w->is_double = types[0] == 3;
  if (!take(w, &trees, sizeof(trees)) || !(is_v3 ? skip_header_v3(w) : skip_header_v4(w)))
    return false;
  for (uint64_t i = 0; i < trees; i++)
    if (!skip_tree(w, is_v3))
      return false;
  return true;
}

TRITONSERVER_Error *fil_checkpoint_check(int file)
{
  struct stat status;
  walk w = {.file = file};
  if (fstat(file, &status) == 0)
    w.end = (uint64_t)status.st_size;
  return is_whole(&w) ? NULL
                      : backend_error_invalid("the file is cut off, or a size in it is damaged");
}
