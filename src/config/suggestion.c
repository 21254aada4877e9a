// SPDX-License-Identifier: Apache-2.0
// The name most like a wrong one. Called by readers and rules.
#include "config/suggestion.h"

#include <string.h>
#include <strings.h>

enum {
  MAX_SUGGESTED_LENGTH = 64
};

// Edits (insert, remove, replace, swap neighbours) from `a` to `b`, both at most
// MAX_SUGGESTED_LENGTH long.
static size_t edit_distance(slice a, slice b)
{
  size_t rows[3][MAX_SUGGESTED_LENGTH + 1];
  size_t *before = rows[0], *previous = rows[1], *current = rows[2];
  for (size_t j = 0; j <= b.size; j++)
    previous[j] = j;
  for (size_t i = 1; i <= a.size; i++) {
    current[0] = i;
    for (size_t j = 1; j <= b.size; j++) {
      size_t best = previous[j - 1] + (a.data[i - 1] == b.data[j - 1] ? 0 : 1);
      if (previous[j] + 1 < best)
        best = previous[j] + 1;
      if (current[j - 1] + 1 < best)
        best = current[j - 1] + 1;
      if (i > 1 && j > 1 && a.data[i - 1] == b.data[j - 2] && a.data[i - 2] == b.data[j - 1] &&
          before[j - 2] + 1 < best)
        best = before[j - 2] + 1;
      current[j] = best;
    }
    size_t *oldest = before;
    before = previous;
    previous = current;
    current = oldest;
  }
  return previous[b.size];
}

suggestion suggestion_of(slice name)
{
  // One edit in three letters, but no more than four, still looks like a slip of the hand.
  size_t limit = name.size / 3 + 1;
  return (suggestion){.wanted = name, .distance = (limit > 4 ? 4 : limit) + 1};
}

// FP32 for TYPE_FP32, cpu for KIND_CPU: the candidate's last word or words, in any case.
static bool is_tail(slice name, slice candidate)
{
  if (name.size == 0 || name.size > candidate.size)
    return false;
  const size_t start = candidate.size - name.size;
  return (start == 0 || candidate.data[start - 1] == '_') &&
         strncasecmp(name.data, candidate.data + start, name.size) == 0;
}

// What other tools call things that have another name here.
static const struct {
  const char *other;
  const char *name;
} synonyms[] = {
    {"BFLOAT16", "TYPE_BF16"},
    {"BOOLEAN", "TYPE_BOOL"},
    {"BYTE", "TYPE_UINT8"},
    {"BYTES", "TYPE_STRING"},
    {"DOUBLE", "TYPE_FP64"},
    {"FLOAT", "TYPE_FP32"},
    {"FLOAT16", "TYPE_FP16"},
    {"FLOAT32", "TYPE_FP32"},
    {"FLOAT64", "TYPE_FP64"},
    {"HALF", "TYPE_FP16"},
    {"INT", "TYPE_INT32"},
    {"INTEGER", "TYPE_INT32"},
    {"LONG", "TYPE_INT64"},
    {"OBJECT", "TYPE_STRING"},
    {"SHORT", "TYPE_INT16"},
    {"STR", "TYPE_STRING"},
    {"UINT", "TYPE_UINT32"},
    {"dimensions", "dims"},
    {"dtype", "data_type"},
    {"framework", "backend"},
    {"instances", "instance_group"},
    {"max_batch", "max_batch_size"},
    {"shape", "dims"},
    {"libtorch", "pytorch"},
    {"onnx", "onnxruntime"},
    {"ort", "onnxruntime"},
    {"tf", "tensorflow"},
    {"torch", "pytorch"},
    {"trt", "tensorrt"},
};

static bool is_synonym(slice name, const char *candidate)
{
  if (name.size > 5 && strncasecmp(name.data, "TYPE_", 5) == 0)
    name = (slice){name.data + 5, name.size - 5};
  for (size_t i = 0; i < sizeof(synonyms) / sizeof(synonyms[0]); i++)
    if (name.size == strlen(synonyms[i].other) &&
        strncasecmp(name.data, synonyms[i].other, name.size) == 0)
      return strcmp(candidate, synonyms[i].name) == 0;
  return false;
}

void suggestion_consider(suggestion *s, const char *candidate)
{
  slice text = slice_of(candidate);
  if (s->wanted.size > MAX_SUGGESTED_LENGTH || text.size > MAX_SUGGESTED_LENGTH)
    return;
  // Each letter that only one of them has is an edit.
  size_t more =
      text.size > s->wanted.size ? text.size - s->wanted.size : s->wanted.size - text.size;
  const bool same = !s->whole && (is_tail(s->wanted, text) || is_synonym(s->wanted, candidate));
  if (!same && more >= s->distance)
    return;
  size_t distance = same ? 0 : edit_distance(s->wanted, text);
  if (distance < s->distance) {
    s->distance = distance;
    s->best = candidate;
  }
}
