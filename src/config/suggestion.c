// SPDX-License-Identifier: Apache-2.0
// The name most like a wrong one. Called by readers and rules.
#include "config/suggestion.h"

#include <string.h>
#include <strings.h>

#define MAX_SUGGESTED_LENGTH 64

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

// The size of a prefix that all values of an enum share, which tells nothing of the writer's
// intent; or 0.
static size_t prefix_of(slice name)
{
  static const char *const prefixes[] = {"TYPE_", "KIND_"};
  for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++) {
    const size_t length = strlen(prefixes[i]);
    if (name.size > length && strncasecmp(name.data, prefixes[i], length) == 0)
      return length;
  }
  return 0;
}

suggestion suggestion_of(slice name)
{
  // One edit in three letters, but no more than four, still looks like a typing error. Short names
  // after a prefix differ little: one edit in four there.
  const size_t prefix = prefix_of(name);
  size_t limit = prefix == 0 ? name.size / 3 + 1 : (name.size - prefix) / 4;
  if (limit == 0)
    limit = 1;
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

// Names of other tools for things with another name here.
static const struct {
  const char *other;
  const char *name;
} synonyms[] = {
    {"BFLOAT16", "TYPE_BF16"},
    {"BOOLEAN", "TYPE_BOOL"},
    {"BYTE", "TYPE_UINT8"},
    {"BYTES", "TYPE_STRING"},
    {"F16", "TYPE_FP16"},
    {"F32", "TYPE_FP32"},
    {"F64", "TYPE_FP64"},
    {"I16", "TYPE_INT16"},
    {"I32", "TYPE_INT32"},
    {"I64", "TYPE_INT64"},
    {"I8", "TYPE_INT8"},
    {"U16", "TYPE_UINT16"},
    {"U32", "TYPE_UINT32"},
    {"U64", "TYPE_UINT64"},
    {"U8", "TYPE_UINT8"},
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
    {"aoti", "pytorch"},
    {"graphdef", "tensorflow"},
    {"keras", "tensorflow"},
    {"libtorch", "pytorch"},
    {"lgbm", "fil"},
    {"lightgbm", "fil"},
    {"onnx", "onnxruntime"},
    {"onnxruntime_onnx", "onnxruntime"},
    {"ort", "onnxruntime"},
    {"paddle", "openvino"},
    {"paddlepaddle", "openvino"},
    {"pt", "pytorch"},
    {"py", "python"},
    {"pytorch_libtorch", "pytorch"},
    {"savedmodel", "tensorflow"},
    {"scikit-learn", "fil"},
    {"sklearn", "fil"},
    {"tensorflow_graphdef", "tensorflow"},
    {"tensorflow_lite", "openvino"},
    {"tensorflow_savedmodel", "tensorflow"},
    {"tensorrt_plan", "tensorrt"},
    {"tf", "tensorflow"},
    {"tflite", "openvino"},
    {"torch", "pytorch"},
    {"torch_aoti", "pytorch"},
    {"torchscript", "pytorch"},
    {"tree", "fil"},
    {"trees", "fil"},
    {"treelite", "fil"},
    {"trt", "tensorrt"},
    {"xgb", "fil"},
    {"xgboost", "fil"},
};

// A type's name without what NumPy, PyTorch, ONNX and C write around it: np.float32, tensor(float),
// uint8_t.
static slice bare_name(slice name)
{
  static const char tensor[] = "tensor(";
  const size_t opening = sizeof(tensor) - 1;
  if (name.size > opening + 1 && memcmp(name.data, tensor, opening) == 0 &&
      name.data[name.size - 1] == ')')
    name = (slice){name.data + opening, name.size - opening - 1};
  const char *point = memrchr(name.data, '.', name.size);
  if (point != NULL)
    name = (slice){point + 1, (size_t)(name.data + name.size - point - 1)};
  const size_t prefix = prefix_of(name);
  name = (slice){name.data + prefix, name.size - prefix};
  if (name.size > 2 && memcmp(name.data + name.size - 2, "_t", 2) == 0)
    name.size -= 2;
  return name;
}

static bool is_synonym(slice name, const char *candidate)
{
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
  // The difference in length is the least number of edits.
  size_t more =
      text.size > s->wanted.size ? text.size - s->wanted.size : s->wanted.size - text.size;
  const slice bare = bare_name(s->wanted);
  const bool same =
      !s->whole && (is_tail(s->wanted, text) || is_tail(bare, text) || is_synonym(bare, candidate));
  if (!same && more >= s->distance)
    return;
  size_t distance = same ? 0 : edit_distance(s->wanted, text);
  if (distance < s->distance) {
    s->distance = distance;
    s->best = candidate;
  }
}
