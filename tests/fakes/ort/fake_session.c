// SPDX-License-Identifier: Apache-2.0
// Models, values and runs; see fake_ort.h.
#include "tests/fakes/ort/fake_ort.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_GRAPHS 16

// A tensor that is bound, or is to be made in `memory`.
typedef struct fake_bound {
  char name[64];
  ort_value *value;
  ort_memory_info memory;
} fake_bound;

struct ort_binding {
  fake_bound inputs[MOST_TENSORS], outputs[MOST_TENSORS];
  size_t input_count, output_count;
  ort_value *made[MOST_TENSORS]; // by the last run, of each output
};

// Where the first run of a graph read and wrote, and how much.
typedef struct fake_graph {
  char id[32];
  struct {
    void *from, *to;
    size_t bytes;
    ort_element_type type;
  } tensors[MOST_TENSORS];
  size_t count;
} fake_graph;

// Memory of the device that is used again.
typedef struct arena_piece {
  CUdeviceptr memory;
  size_t bytes;
  bool taken;
} arena_piece;

typedef struct kernel kernel;

struct ort_session {
  int number, device; // -1: the CPU
  CUstream stream;
  CUcontext context;
  bool captures;
  fake_tensor inputs[MOST_TENSORS], outputs[MOST_TENSORS];
  size_t input_count, output_count;
  fake_graph graphs[MOST_GRAPHS];
  size_t graph_count;
  pthread_mutex_t lock; // of the arena
  arena_piece arena[64];
  size_t piece_count;
  kernel *kernels;
};

// ---- types ----

static const struct {
  const char *name;
  ort_element_type type;
  size_t size;
} types[] = {{"FP32", ORT_ELEMENT_FLOAT, 4},
             {"INT32", ORT_ELEMENT_INT32, 4},
             {"STRING", ORT_ELEMENT_STRING, 0}};

static size_t type_index(ort_element_type type)
{
  size_t i = 0;
  while (i + 1 < sizeof types / sizeof types[0] && types[i].type != type)
    i++;
  return i;
}

size_t element_size(ort_element_type type)
{
  return types[type_index(type)].size;
}

size_t element_count(const int64_t *dims, size_t rank)
{
  size_t count = 1;
  for (size_t i = 0; i < rank; i++)
    count *= (size_t)dims[i];
  return count;
}

static fake_string string_copy(const fake_string *from)
{
  fake_string copy = {calloc(1, from->length + 1), from->length};
  memcpy(copy.text, from->text, from->length);
  return copy;
}

// ---- the arena ----

static CUdeviceptr arena_take(ort_session *s, size_t bytes)
{
  CUdeviceptr result = 0;
  pthread_mutex_lock(&s->lock);
  for (size_t i = 0; i < s->piece_count && result == 0; i++)
    if (!s->arena[i].taken && s->arena[i].bytes >= bytes) {
      s->arena[i].taken = true;
      result = s->arena[i].memory;
    }
  if (result == 0 && s->piece_count < 64 && driver()->cuMemAlloc_v2(&result, bytes) == CUDA_SUCCESS)
    s->arena[s->piece_count++] = (arena_piece){result, bytes, true};
  pthread_mutex_unlock(&s->lock);
  return result;
}

static void arena_give_back(ort_session *s, const void *memory)
{
  pthread_mutex_lock(&s->lock);
  for (size_t i = 0; i < s->piece_count; i++)
    if (s->arena[i].memory == (CUdeviceptr)(size_t)memory)
      s->arena[i].taken = false;
  pthread_mutex_unlock(&s->lock);
}

// ---- values ----

ort_value *value_new(const struct ort_tensor_info *info, const ort_memory_info *where)
{
  ort_value *value = calloc(1, sizeof *value);
  value->info = *info;
  value->memory = *where;
  value->bytes = element_count(info->dims, info->rank) * element_size(info->type);
  if (info->type == ORT_ELEMENT_STRING)
    value->strings = calloc(element_count(info->dims, info->rank) + 1, sizeof(fake_string));
  return value;
}

static struct ort_tensor_info info_of(const int64_t *dims, size_t rank, ort_element_type type)
{
  struct ort_tensor_info info = {.type = type, .rank = rank};
  memcpy(info.dims, dims, rank * sizeof *dims);
  return info;
}

ort_status *CreateTensorWithDataAsOrtValue(const ort_memory_info *memory, void *data,
                                           size_t byte_size, const int64_t *dims, size_t rank,
                                           ort_element_type type, ort_value **value)
{
  const struct ort_tensor_info info = info_of(dims, rank, type);
  if (byte_size < element_count(dims, rank) * element_size(type))
    return failed("not enough space: expected %zu, got %zu",
                  element_count(dims, rank) * element_size(type), byte_size);
  *value = value_new(&info, memory);
  (*value)->data = data;
  return NULL;
}

ort_status *CreateTensorAsOrtValue(ort_allocator *allocator, const int64_t *dims, size_t rank,
                                   ort_element_type type, ort_value **value)
{
  const struct ort_tensor_info info = info_of(dims, rank, type);
  const ort_memory_info cpu = {.name = "Cpu"};
  (void)allocator;
  *value = value_new(&info, &cpu);
  return NULL;
}

void ReleaseValue(ort_value *value)
{
  const size_t count = element_count(value->info.dims, value->info.rank);
  for (size_t i = 0; value->strings != NULL && i < count; i++)
    free(value->strings[i].text);
  free(value->strings);
  if (value->owner != NULL && strcmp(value->memory.name, "Cuda") == 0)
    arena_give_back((ort_session *)value->owner, value->data);
  else if (value->owner != NULL)
    free(value->data);
  free(value);
}

ort_status *GetTensorMutableData(ort_value *value, void **data)
{
  *data = value->data;
  return NULL;
}

ort_status *GetTensorTypeAndShape(const ort_value *value, ort_tensor_info **tensor)
{
  *tensor = calloc(1, sizeof **tensor);
  **tensor = value->info;
  return NULL;
}

void ReleaseTensorTypeAndShapeInfo(ort_tensor_info *tensor)
{
  free(tensor);
}

ort_status *GetTensorElementType(const ort_tensor_info *tensor, ort_element_type *type)
{
  *type = tensor->type;
  return NULL;
}

ort_status *GetDimensionsCount(const ort_tensor_info *tensor, size_t *rank)
{
  *rank = tensor->rank;
  return NULL;
}

ort_status *GetDimensions(const ort_tensor_info *tensor, int64_t *dims, size_t rank)
{
  memcpy(dims, tensor->dims, rank * sizeof *dims);
  return NULL;
}

ort_status *GetSymbolicDimensions(const ort_tensor_info *tensor, const char **names, size_t rank)
{
  for (size_t i = 0; i < rank; i++)
    names[i] = tensor->symbols[i];
  return NULL;
}

ort_status *GetResizedStringTensorElementBuffer(ort_value *value, size_t index, size_t byte_size,
                                                char **data)
{
  free(value->strings[index].text);
  value->strings[index] = (fake_string){calloc(1, byte_size + 1), byte_size};
  *data = value->strings[index].text;
  return NULL;
}

ort_status *GetStringTensorDataLength(const ort_value *value, size_t *byte_size)
{
  *byte_size = 0;
  for (size_t i = 0; i < element_count(value->info.dims, value->info.rank); i++)
    *byte_size += value->strings[i].length;
  return NULL;
}

ort_status *GetStringTensorContent(const ort_value *value, void *data, size_t byte_size,
                                   size_t *offsets, size_t count)
{
  char *to = data;
  (void)byte_size;
  for (size_t i = 0; i < count; i++) {
    offsets[i] = (size_t)(to - (char *)data);
    memcpy(to, value->strings[i].text, value->strings[i].length);
    to += value->strings[i].length;
  }
  return NULL;
}

// ---- sessions ----

static bool read_line(ort_session *s, char *line)
{
  char *rest = NULL, *word = strtok_r(line, " ", &rest);
  if (word == NULL)
    return true;
  const bool input = strcmp(word, "input") == 0;
  size_t *count = input ? &s->input_count : &s->output_count;
  if ((!input && strcmp(word, "output") != 0) || *count == MOST_TENSORS)
    return false;
  fake_tensor *t = input ? &s->inputs[(*count)++] : &s->outputs[(*count)++];
  const char *name = strtok_r(NULL, " ", &rest), *type = strtok_r(NULL, " ", &rest);
  if (name == NULL || type == NULL)
    return false;
  snprintf(t->name, sizeof t->name, "%s", name);
  for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
    if (strcmp(types[i].name, type) == 0)
      t->type = types[i].type;
  while ((word = strtok_r(NULL, " ", &rest)) != NULL)
    if (strcmp(word, "grown") == 0)
      t->grown = true;
    else if (t->rank < MOST_DIMS) {
      if (word[0] > '9')
        snprintf(t->symbols[t->rank], sizeof t->symbols[0], "%s", word);
      t->dims[t->rank++] = word[0] > '9' ? -1 : atoll(word);
    }
  return t->type != ORT_ELEMENT_UNDEFINED;
}

static bool read_model(ort_session *s, const void *data, size_t size)
{
  char *text = strndup(data, size), *rest = NULL;
  bool good = true;
  for (char *line = strtok_r(text, "\n", &rest); line != NULL && good;
       line = strtok_r(NULL, "\n", &rest))
    good = read_line(s, line);
  free(text);
  return good && s->input_count > 0 && s->output_count <= s->input_count;
}

// Frameworks share the primary context of a device.
static ort_status *enter_device(ort_session *s, int ordinal)
{
  CUdevice device;
  if (driver() == NULL || driver()->cuInit(0) != CUDA_SUCCESS ||
      driver()->cuDeviceGet(&device, ordinal) != CUDA_SUCCESS)
    return failed("CUDA failure 100: no CUDA-capable device is detected");
  const CUresult code = driver()->cuDevicePrimaryCtxRetain(&s->context, device);
  if (code != CUDA_SUCCESS)
    return failed("CUDA failure %d: device %d", code, ordinal);
  s->device = ordinal;
  return NULL;
}

ort_status *CreateSessionFromArray(const ort_env *env, const void *data, size_t size,
                                   const ort_session_options *options, ort_session **session)
{
  static int number;
  ort_session *s = calloc(1, sizeof *s);
  ort_status *status = NULL;
  (void)env;
  s->number = __atomic_fetch_add(&number, 1, __ATOMIC_RELAXED);
  s->device = -1;
  pthread_mutex_init(&s->lock, NULL);
  if (!read_model(s, data, size))
    status = failed("ModelProto does not have a graph.");
  if (status == NULL && options->has_cuda) {
    s->stream = options->cuda.stream;
    s->captures = strcmp(pairs_get(&options->cuda.pairs, "enable_cuda_graph"), "1") == 0;
    status = enter_device(s, atoi(pairs_get(&options->cuda.pairs, "device_id")));
  }
  record("{\"call\": \"CreateSession\", \"session\": %d, \"device\": %d, \"failed\": %s}",
         s->number, s->device, status != NULL ? "true" : "false");
  *session = s;
  if (status != NULL) {
    free(s);
    *session = NULL;
  }
  return status;
}

static void free_kernels(ort_session *s);

void ReleaseSession(ort_session *s)
{
  record("{\"call\": \"ReleaseSession\", \"session\": %d}", s->number);
  if (s->context != NULL) {
    driver()->cuCtxSetCurrent(s->context);
    free_kernels(s);
    for (size_t i = 0; i < s->piece_count; i++)
      driver()->cuMemFree_v2(s->arena[i].memory);
    CUdevice device;
    if (driver()->cuDeviceGet(&device, s->device) == CUDA_SUCCESS)
      driver()->cuDevicePrimaryCtxRelease_v2(device);
  }
  pthread_mutex_destroy(&s->lock);
  free(s);
}

#define COUNT(name, member)                                                                        \
  ort_status *name(const ort_session *session, size_t *count)                                      \
  {                                                                                                \
    *count = session->member;                                                                      \
    return NULL;                                                                                   \
  }
COUNT(SessionGetInputCount, input_count)
COUNT(SessionGetOutputCount, output_count)
#undef COUNT

ort_status *SessionGetOverridableInitializerCount(const ort_session *session, size_t *count)
{
  (void)session;
  *count = 0;
  return NULL;
}

static ort_status *type_info(const fake_tensor *t, ort_type_info **info)
{
  *info = calloc(1, sizeof **info);
  (*info)->tensor = info_of(t->dims, t->rank, t->type);
  memcpy((*info)->tensor.symbols, t->symbols, sizeof t->symbols);
  return NULL;
}

#define DESCRIBE(what, list)                                                                       \
  ort_status *SessionGet##what##TypeInfo(const ort_session *session, size_t index,                 \
                                         ort_type_info **info)                                     \
  {                                                                                                \
    return type_info(&session->list[index], info);                                                 \
  }                                                                                                \
  ort_status *SessionGet##what##Name(const ort_session *session, size_t index,                     \
                                     ort_allocator *allocator, char **name)                        \
  {                                                                                                \
    (void)allocator;                                                                               \
    *name = strdup(session->list[index].name);                                                     \
    return NULL;                                                                                   \
  }
DESCRIBE(Input, inputs)
DESCRIBE(Output, outputs)
DESCRIBE(OverridableInitializer, inputs)
#undef DESCRIBE

ort_status *CastTypeInfoToTensorInfo(const ort_type_info *info, const ort_tensor_info **tensor)
{
  *tensor = &info->tensor;
  return NULL;
}

ort_status *GetOnnxTypeFromTypeInfo(const ort_type_info *info, ort_kind *kind)
{
  (void)info;
  *kind = ORT_KIND_TENSOR;
  return NULL;
}

void ReleaseTypeInfo(ort_type_info *info)
{
  free(info);
}

// ---- bindings ----

ort_status *CreateIoBinding(ort_session *session, ort_binding **binding)
{
  (void)session;
  *binding = calloc(1, sizeof **binding);
  return NULL;
}

void ReleaseIoBinding(ort_binding *binding)
{
  ClearBoundOutputs(binding);
  free(binding);
}

static fake_bound *bound_of(fake_bound *list, size_t *count, const char *name)
{
  size_t i = 0;
  while (i < *count && strcmp(list[i].name, name) != 0)
    i++;
  if (i == MOST_TENSORS)
    abort();
  *count += i == *count;
  list[i] = (fake_bound){0};
  snprintf(list[i].name, sizeof list[i].name, "%s", name);
  return &list[i];
}

ort_status *BindInput(ort_binding *binding, const char *name, const ort_value *value)
{
  bound_of(binding->inputs, &binding->input_count, name)->value = (ort_value *)value;
  return NULL;
}

ort_status *BindOutput(ort_binding *binding, const char *name, const ort_value *value)
{
  fake_bound *b = bound_of(binding->outputs, &binding->output_count, name);
  b->value = (ort_value *)value;
  b->memory = value->memory;
  return NULL;
}

ort_status *BindOutputToDevice(ort_binding *binding, const char *name,
                               const ort_memory_info *memory)
{
  bound_of(binding->outputs, &binding->output_count, name)->memory = *memory;
  return NULL;
}

void ClearBoundInputs(ort_binding *binding)
{
  binding->input_count = 0;
}

static void drop_made(ort_binding *binding)
{
  for (size_t i = 0; i < MOST_TENSORS; i++) {
    if (binding->made[i] != NULL)
      ReleaseValue(binding->made[i]);
    binding->made[i] = NULL;
  }
}

void ClearBoundOutputs(ort_binding *binding)
{
  drop_made(binding);
  binding->output_count = 0;
}

// Handles of the caller's own, on memory that is the binding's.
ort_status *GetBoundOutputValues(const ort_binding *binding, ort_allocator *allocator,
                                 ort_value ***values, size_t *count)
{
  (void)allocator;
  *count = binding->output_count;
  *values = calloc(*count + 1, sizeof **values);
  for (size_t i = 0; i < *count; i++) {
    ort_value *from =
        binding->outputs[i].value != NULL ? binding->outputs[i].value : binding->made[i];
    ort_value *copy = value_new(&from->info, &from->memory);
    copy->data = from->data;
    for (size_t k = 0; from->strings != NULL && k < element_count(from->info.dims, from->info.rank);
         k++)
      copy->strings[k] = string_copy(&from->strings[k]);
    (*values)[i] = copy;
  }
  return NULL;
}

// ---- computing ----

static void compute(const void *from, size_t from_bytes, void *to, size_t bytes,
                    ort_element_type type)
{
  for (size_t i = 0; i + 4 <= bytes; i += 4) {
    float f = 0;
    int32_t n = 0;
    if (i + 4 <= from_bytes && type == ORT_ELEMENT_FLOAT)
      memcpy(&f, (const char *)from + i, 4);
    else if (i + 4 <= from_bytes)
      memcpy(&n, (const char *)from + i, 4);
    f *= 2;
    n *= 2;
    memcpy((char *)to + i, type == ORT_ELEMENT_FLOAT ? (void *)&f : (void *)&n, 4);
  }
}

static ort_status *compute_strings(const ort_value *from, ort_value *to)
{
  for (size_t i = 0; i < element_count(to->info.dims, to->info.rank); i++)
    to->strings[i] = string_copy(&from->strings[i]);
  return NULL;
}

// A kernel: it runs when the stream gets there, and is used again. Its memory is pinned, so that
// nobody waits for the copies.
struct kernel {
  struct kernel *next;
  ort_session *session;
  char *in, *out;
  size_t capacity, in_bytes, out_bytes;
  ort_element_type type;
  bool busy;
};

static void run_kernel(void *context)
{
  kernel *k = context;
  compute(k->in, k->in_bytes, k->out, k->out_bytes, k->type);
}

static void end_kernel(void *context)
{
  kernel *k = context;
  pthread_mutex_lock(&k->session->lock);
  k->busy = false;
  pthread_mutex_unlock(&k->session->lock);
}

static kernel *kernel_new(ort_session *s, size_t capacity)
{
  kernel *k = calloc(1, sizeof *k);
  k->session = s;
  k->capacity = capacity;
  k->next = s->kernels;
  s->kernels = k;
  if (driver()->cuMemHostAlloc((void **)&k->in, capacity, CU_MEMHOSTALLOC_PORTABLE) !=
          CUDA_SUCCESS ||
      driver()->cuMemHostAlloc((void **)&k->out, capacity, CU_MEMHOSTALLOC_PORTABLE) !=
          CUDA_SUCCESS)
    k->capacity = 0;
  return k;
}

static kernel *kernel_take(ort_session *s, size_t bytes)
{
  pthread_mutex_lock(&s->lock);
  kernel *k = s->kernels;
  while (k != NULL && (k->busy || k->capacity < bytes))
    k = k->next;
  if (k == NULL)
    k = kernel_new(s, bytes);
  k->busy = k->capacity >= bytes;
  pthread_mutex_unlock(&s->lock);
  return k->busy ? k : NULL;
}

static void free_kernels(ort_session *s)
{
  while (s->kernels != NULL) {
    kernel *k = s->kernels;
    s->kernels = k->next;
    driver()->cuMemFreeHost(k->in);
    driver()->cuMemFreeHost(k->out);
    free(k);
  }
}

static ort_status *launch(ort_session *s, void *from, size_t from_bytes, void *to, size_t bytes,
                          ort_element_type type)
{
  kernel *k = kernel_take(s, (from_bytes > bytes ? from_bytes : bytes) + 4);
  if (k == NULL)
    return failed("Failed to allocate memory for a kernel");
  k->in_bytes = from_bytes;
  k->out_bytes = bytes;
  k->type = type;
  CUresult code = CUDA_SUCCESS;
  if (from_bytes > 0)
    code = driver()->cuMemcpyDtoHAsync_v2(k->in, (CUdeviceptr)(size_t)from, from_bytes, s->stream);
  if (code == CUDA_SUCCESS)
    code = driver()->cuLaunchHostFunc(s->stream, run_kernel, k);
  if (code == CUDA_SUCCESS && bytes > 0)
    code = driver()->cuMemcpyHtoDAsync_v2((CUdeviceptr)(size_t)to, k->out, bytes, s->stream);
  if (code == CUDA_SUCCESS)
    code = driver()->cuLaunchHostFunc(s->stream, end_kernel, k);
  return code == CUDA_SUCCESS ? NULL : failed("CUDA failure %d: kernel", code);
}

// ---- runs ----

static struct ort_tensor_info output_info(const fake_tensor *output, const ort_value *input)
{
  struct ort_tensor_info info = input->info;
  info.type = output->type;
  info.dims[0] += output->grown;
  return info;
}

static size_t index_of(const fake_tensor *list, size_t count, const char *name)
{
  size_t i = 0;
  while (i < count && strcmp(list[i].name, name) != 0)
    i++;
  return i;
}

static ort_value *input_at(const ort_session *s, const ort_binding *binding, size_t index)
{
  for (size_t i = 0; i < binding->input_count; i++)
    if (strcmp(binding->inputs[i].name, s->inputs[index].name) == 0)
      return binding->inputs[i].value;
  return NULL;
}

static ort_status *make_output(ort_session *s, const ort_tensor_info *info,
                               const ort_memory_info *where, ort_value **result)
{
  ort_value *made = value_new(info, where);
  made->owner = s;
  if (strcmp(where->name, "Cuda") == 0)
    made->data = (void *)(size_t)arena_take(s, made->bytes > 0 ? made->bytes : 4);
  else if (info->type != ORT_ELEMENT_STRING)
    made->data = calloc(1, made->bytes + 4);
  *result = made;
  return made->data != NULL || made->strings != NULL
             ? NULL
             : failed("Failed to allocate memory for requested buffer of size %zu", made->bytes);
}

static bool same_shape(const ort_tensor_info *a, const ort_tensor_info *b)
{
  return a->rank == b->rank && memcmp(a->dims, b->dims, a->rank * sizeof *a->dims) == 0;
}

// Output `k` of the binding.
static ort_status *run_output(ort_session *s, ort_binding *binding, size_t k)
{
  fake_bound *b = &binding->outputs[k];
  const size_t index = index_of(s->outputs, s->output_count, b->name);
  ort_value *from = index < s->output_count ? input_at(s, binding, index) : NULL;
  if (from == NULL)
    return failed("Missing Input: %s", s->inputs[index < s->input_count ? index : 0].name);
  const struct ort_tensor_info info = output_info(&s->outputs[index], from);
  if (b->value == NULL) {
    ort_status *status = make_output(s, &info, &b->memory, &binding->made[k]);
    if (status != NULL)
      return status;
  } else if (!same_shape(&b->value->info, &info)) {
    return failed("OrtValue shape verification failed.");
  }
  ort_value *to = b->value != NULL ? b->value : binding->made[k];
  if (info.type == ORT_ELEMENT_STRING)
    return compute_strings(from, to);
  if (strcmp(from->memory.name, "Cuda") != 0 || from->memory.device != s->device ||
      strcmp(to->memory.name, "Cuda") != 0)
    return failed("'%s' is bound on %s:%d, and the session is on Cuda:%d", b->name,
                  from->memory.name, from->memory.device, s->device);
  return launch(s, from->data, from->bytes, to->data, to->bytes, info.type);
}

static ort_status *replay(ort_session *s, const fake_graph *graph)
{
  ort_status *status = NULL;
  for (size_t i = 0; i < graph->count && status == NULL; i++)
    status = launch(s, graph->tensors[i].from, graph->tensors[i].bytes, graph->tensors[i].to,
                    graph->tensors[i].bytes, graph->tensors[i].type);
  return status;
}

static fake_graph *find_graph(ort_session *s, const char *id)
{
  for (size_t i = 0; i < s->graph_count; i++)
    if (strcmp(s->graphs[i].id, id) == 0)
      return &s->graphs[i];
  return NULL;
}

static void capture(ort_session *s, const ort_binding *binding, const char *id)
{
  if (s->graph_count == MOST_GRAPHS)
    abort();
  fake_graph *graph = &s->graphs[s->graph_count++];
  snprintf(graph->id, sizeof graph->id, "%s", id);
  for (size_t k = 0; k < binding->output_count; k++) {
    const size_t index = index_of(s->outputs, s->output_count, binding->outputs[k].name);
    const ort_value *from = input_at(s, binding, index), *to = binding->outputs[k].value;
    if (from == NULL || to == NULL)
      abort(); // a graph needs memory that stays
    graph->tensors[graph->count].from = from->data;
    graph->tensors[graph->count].to = to->data;
    graph->tensors[graph->count].bytes = to->bytes;
    graph->tensors[graph->count++].type = to->info.type;
  }
}

static ort_status *run_all(ort_session *s, ort_binding *binding, const char *id)
{
  const bool has_graph = s->captures && strcmp(id, "-1") != 0;
  const fake_graph *graph = has_graph ? find_graph(s, id) : NULL;
  ort_status *status = NULL;
  if (graph != NULL)
    return replay(s, graph);
  for (size_t k = 0; k < binding->output_count && status == NULL; k++)
    status = run_output(s, binding, k);
  if (status == NULL && has_graph)
    capture(s, binding, id);
  return status;
}

static void record_run(const ort_session *s, const ort_run_options *options,
                       const ort_binding *binding)
{
  char text[2048] = "";
  size_t length = 0;
  for (size_t i = 0; i < binding->output_count; i++)
    length += (size_t)snprintf(text + length, sizeof text - length, "%s\"%s\": \"%s\"",
                               i > 0 ? ", " : "", binding->outputs[i].name,
                               binding->outputs[i].value != NULL ? "given" : "made");
  record("{\"call\": \"RunWithBinding\", \"session\": %d, \"device\": %d, \"outputs\": {%s}, "
         "\"graph\": \"%s\", \"shrink\": \"%s\", \"no_sync\": \"%s\"}",
         s->number, s->device, text, pairs_get(&options->pairs, "gpu_graph_id"),
         pairs_get(&options->pairs, "memory.enable_memory_arena_shrinkage"),
         pairs_get(&options->pairs, "disable_synchronize_execution_providers"));
}

ort_status *RunWithBinding(ort_session *session, const ort_run_options *options,
                           const ort_binding *binding)
{
  ort_binding *b = (ort_binding *)binding;
  record_run(session, options, binding);
  if (session->context == NULL)
    return failed("a binding of a session on the CPU");
  driver()->cuCtxSetCurrent(session->context);
  drop_made(b);
  ort_status *status = run_all(session, b, pairs_get(&options->pairs, "gpu_graph_id"));
  if (status == NULL &&
      strcmp(pairs_get(&options->pairs, "disable_synchronize_execution_providers"), "1") != 0)
    driver()->cuStreamSynchronize(session->stream);
  return status;
}

ort_status *Run(ort_session *session, const ort_run_options *options,
                const char *const *input_names, const ort_value *const *inputs, size_t input_count,
                const char *const *output_names, size_t output_count, ort_value **outputs)
{
  static const ort_memory_info cpu = {.name = "Cpu"};
  ort_status *status = NULL;
  (void)options;
  record("{\"call\": \"Run\", \"session\": %d}", session->number);
  for (size_t k = 0; k < output_count && status == NULL; k++) {
    const size_t index = index_of(session->outputs, session->output_count, output_names[k]);
    size_t i = 0;
    while (i < input_count && strcmp(input_names[i], session->inputs[index].name) != 0)
      i++;
    if (i == input_count)
      return failed("Missing Input: %s", session->inputs[index].name);
    const struct ort_tensor_info info = output_info(&session->outputs[index], inputs[i]);
    status = make_output(session, &info, &cpu, &outputs[k]);
    if (status == NULL && info.type == ORT_ELEMENT_STRING)
      status = compute_strings(inputs[i], outputs[k]);
    else if (status == NULL)
      compute(inputs[i]->data, inputs[i]->bytes, outputs[k]->data, outputs[k]->bytes, info.type);
  }
  return status;
}
