// SPDX-License-Identifier: Apache-2.0
// What a GPU of this machine can do, and how fast, through nereid's own layer (src/gpu):
//
//     gpu_probe WHAT [-- COMMAND...]     one line of JSON; exit status 0: it works, 1: it does not,
//                                        77: there is no GPU
//
// `scripts/gpu_check` runs it, each WHAT by itself. COMMAND is what the other process of `handles`
// and `descriptors` is started below, as nereid starts its workers below a launcher.
#include "base/clock.h"
#include "gpu/context.h"
#include "gpu/copy.h"
#include "gpu/ipc.h"
#include "gpu/pool.h"
#include "gpu/sampler.h"
#include "gpu_peer.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NO_GPU      77
#define MIB         ((size_t)1 << 20)
#define LARGE       (64 * MIB)
#define TENSOR      (4 * MIB)
#define SMALL       4096
#define SECOND_NS   1000000000.0
#define MOST_NS     (SECOND_NS / 2) // of one measurement
#define MOST_ROUNDS 2000

static const gpu_place host = {GPU_MEMORY_HOST, 0}, pinned = {GPU_MEMORY_PINNED, 0},
                       device = {GPU_MEMORY_DEVICE, 0};

static void fail(const char *text)
{
  printf("{\"error\": \"");
  for (; *text != '\0'; text++)
    printf(*text == '"' || *text == '\\' ? "\\%c" : (unsigned char)*text < ' ' ? " " : "%c", *text);
  printf("\"}\n");
  exit(1);
}

static void must(error *e)
{
  if (e != NULL)
    fail(error_message(e));
}

static double seconds_since(uint64_t start)
{
  return (double)(clock_monotonic_ns() - start) / SECOND_NS;
}

static void *take(gpu_pool *pool, size_t bytes)
{
  void *memory;
  must(gpu_pool_take(pool, bytes, &memory));
  if (memory == NULL)
    fail("a pool has less than it was made with");
  return memory;
}

// ---- devices ----

static void print_missing(const gpu_driver *driver)
{
  const char *comma = "";
  printf("\"missing_functions\": [");
#define REQUIRED(name, arguments)
#define OPTIONAL(name, arguments)                                                                  \
  if (driver->name == NULL) {                                                                      \
    printf("%s\"" #name "\"", comma);                                                              \
    comma = ", ";                                                                                  \
  }
  CUDA_FUNCTIONS(REQUIRED, OPTIONAL)
#undef REQUIRED
#undef OPTIONAL
  printf("], ");
}

static void print_sample(gpu_sampler *sampler, size_t index)
{
  gpu_sample s = {-1, -1, -1, -1, -1, -1};
  if (sampler != NULL)
    gpu_sampler_take(sampler, index, &s);
  printf("\"used_bytes\": %.0f, \"watts\": %.1f", s.memory_used_bytes, s.power_watts);
}

static void show_devices(const gpu_devices *devices)
{
  const gpu_driver *driver = gpu_driver_opened();
  gpu_sampler *sampler = NULL;
  error *e = gpu_sampler_new(devices, &sampler);
  printf("{\"cuda\": \"%d.%d\", ", driver->version / 1000, driver->version % 1000 / 10);
  print_missing(driver);
  printf("\"nvml\": %s, \"devices\": [", e == NULL ? "true" : "false");
  error_free(e);
  for (size_t i = 0; i < devices->count; i++) {
    const gpu_device *d = &devices->items[i];
    printf("%s{\"name\": \"%s\", \"uuid\": \"%s\", \"pci\": \"%s\", \"capability\": \"%d.%d\", "
           "\"bytes\": %llu, \"numa\": %d, \"integrated\": %s, \"virtual_memory\": %s, "
           "\"descriptors\": %s, \"context\": %s, ",
           i == 0 ? "" : ", ", d->name, d->uuid, d->pci_id, d->major, d->minor,
           (unsigned long long)d->memory_bytes, d->numa_node, d->integrated ? "true" : "false",
           d->virtual_memory ? "true" : "false", d->exports_fds ? "true" : "false",
           gpu_context_is_active(d->ordinal) ? "true" : "false");
    print_sample(sampler, i);
    printf("}");
  }
  printf("]}\n");
  gpu_sampler_free(sampler);
}

// ---- copies ----

typedef struct bench {
  gpu_pool *device, *pinned;
  gpu_stream *stream;
  gpu_event *event;
  void *on_device, *on_pinned, *on_host;
} bench;

static void open_bench(bench *b, size_t bytes)
{
  must(gpu_pool_new(device, bytes, &b->device));
  must(gpu_pool_new(pinned, bytes, &b->pinned));
  must(gpu_stream_new(0, 0, &b->stream));
  must(gpu_event_new(0, &b->event));
  b->on_device = take(b->device, bytes);
  b->on_pinned = take(b->pinned, bytes);
  b->on_host = malloc(bytes);
  if (b->on_host == NULL)
    fail("out of memory");
  memset(b->on_pinned, 1, bytes);
  memset(b->on_host, 2, bytes);
}

static void close_bench(bench *b)
{
  free(b->on_host);
  gpu_pool_give_back(b->pinned, b->on_pinned);
  gpu_pool_give_back(b->device, b->on_device);
  gpu_event_free(b->event);
  gpu_stream_free(b->stream);
  gpu_pool_free(b->pinned);
  gpu_pool_free(b->device);
}

static void enqueue(bench *b, void *to, gpu_place to_place, void *from, gpu_place from_place,
                    size_t bytes)
{
  bool done;
  must(gpu_copy(to, to_place, from, from_place, bytes, b->stream, "a copy", &done));
}

static void finish(bench *b)
{
  bool done;
  must(gpu_event_record(b->event, b->stream));
  must(gpu_event_wait(b->event, -1, &done));
}

// GB/s of copies of LARGE bytes, one after the other.
static double rate(bench *b, void *to, gpu_place to_place, void *from, gpu_place from_place)
{
  enqueue(b, to, to_place, from, from_place, LARGE);
  finish(b);
  uint64_t start = clock_monotonic_ns();
  double bytes = 0;
  do {
    enqueue(b, to, to_place, from, from_place, LARGE);
    finish(b);
    bytes += (double)LARGE;
  } while (seconds_since(start) * SECOND_NS < MOST_NS);
  return bytes / seconds_since(start) / 1e9;
}

// The same by way of pinned memory, as who has no stream copies.
static double staged_rate(void *to, gpu_place to_place, void *from, gpu_place from_place)
{
  must(gpu_copy_now(to, to_place, from, from_place, LARGE, "a copy"));
  uint64_t start = clock_monotonic_ns();
  double bytes = 0;
  do {
    must(gpu_copy_now(to, to_place, from, from_place, LARGE, "a copy"));
    bytes += (double)LARGE;
  } while (seconds_since(start) * SECOND_NS < MOST_NS);
  return bytes / seconds_since(start) / 1e9;
}

static void measure_bandwidth(const gpu_devices *devices)
{
  bench b;
  (void)devices;
  open_bench(&b, LARGE);
  double to = rate(&b, b.on_device, device, b.on_pinned, pinned);
  double from = rate(&b, b.on_pinned, pinned, b.on_device, device);
  double pageable_to = rate(&b, b.on_device, device, b.on_host, host);
  double pageable_from = rate(&b, b.on_host, host, b.on_device, device);
  printf("{\"pinned_to_device_gb_s\": %.2f, \"device_to_pinned_gb_s\": %.2f, "
         "\"pageable_to_device_gb_s\": %.2f, \"device_to_pageable_gb_s\": %.2f, ",
         to, from, pageable_to, pageable_from);
  printf("\"staged_to_device_gb_s\": %.2f, \"device_to_staged_gb_s\": %.2f}\n",
         staged_rate(b.on_device, device, b.on_host, host),
         staged_rate(b.on_host, host, b.on_device, device));
  close_bench(&b);
}

static int compare(const void *a, const void *b)
{
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

typedef void round_trip(bench *b);

// There, back, and waiting for it, as an instance does.
static void by_stream(bench *b)
{
  enqueue(b, b->on_device, device, b->on_pinned, pinned, SMALL);
  enqueue(b, b->on_pinned, pinned, b->on_device, device, SMALL);
  finish(b);
}

// As the front ends and ensembles do.
static void at_once(bench *b)
{
  must(gpu_copy_now(b->on_device, device, b->on_host, host, SMALL, "a copy"));
  must(gpu_copy_now(b->on_host, host, b->on_device, device, SMALL, "a copy"));
}

// What is in a client's memory on the device, to another place there.
static void on_device(bench *b)
{
  char *memory = b->on_device;
  enqueue(b, memory + SMALL, device, memory, device, SMALL);
  finish(b);
}

static void print_latency(bench *b, const char *name, round_trip *run)
{
  static double times[MOST_ROUNDS];
  size_t count = 0;
  for (int i = 0; i < 10; i++)
    run(b);
  uint64_t start = clock_monotonic_ns();
  while (count < MOST_ROUNDS && (count < 10 || seconds_since(start) * SECOND_NS < MOST_NS)) {
    uint64_t begun = clock_monotonic_ns();
    run(b);
    times[count++] = seconds_since(begun) * 1e6;
  }
  qsort(times, count, sizeof(*times), compare);
  printf("\"%s_p50_us\": %.2f, \"%s_p99_us\": %.2f", name, times[count / 2], name,
         times[count * 99 / 100]);
}

static void measure_latency(const gpu_devices *devices)
{
  bench b;
  (void)devices;
  open_bench(&b, 2 * SMALL);
  must(gpu_context_enter(0));
  printf("{");
  print_latency(&b, "round_trip_4k", by_stream);
  printf(", ");
  print_latency(&b, "copy_now_4k", at_once);
  printf(", ");
  print_latency(&b, "on_device_4k", on_device);
  printf("}\n");
  close_bench(&b);
}

// ---- a loop with two buffers ----

// A tensor's way: host, pinned memory, device, pinned memory, host.
static void begin_tensor(bench *b)
{
  memcpy(b->on_pinned, b->on_host, TENSOR);
  enqueue(b, b->on_device, device, b->on_pinned, pinned, TENSOR);
  enqueue(b, b->on_pinned, pinned, b->on_device, device, TENSOR);
  must(gpu_event_record(b->event, b->stream));
}

static void end_tensor(bench *b)
{
  bool done;
  must(gpu_event_wait(b->event, -1, &done));
  memcpy(b->on_host, b->on_pinned, TENSOR);
}

// While one tensor is copied by the device, this thread copies the other one.
static void measure_overlap(const gpu_devices *devices)
{
  bench two[2];
  size_t count = 0;
  (void)devices;
  open_bench(&two[0], TENSOR);
  open_bench(&two[1], TENSOR);
  must(gpu_context_enter(0));
  begin_tensor(&two[0]);
  uint64_t start = clock_monotonic_ns();
  while (count == 0 || seconds_since(start) * SECOND_NS < 2 * MOST_NS) {
    begin_tensor(&two[++count % 2]);
    end_tensor(&two[(count - 1) % 2]);
  }
  printf("{\"tensor_bytes\": %zu, \"tensors_s\": %.1f}\n", TENSOR,
         (double)count / seconds_since(start));
  end_tensor(&two[count % 2]);
  close_bench(&two[0]);
  close_bench(&two[1]);
}

// ---- what is done at a load, never by a request ----

static double time_pool(gpu_place place, size_t bytes)
{
  gpu_pool *pool;
  uint64_t start = clock_monotonic_ns();
  must(gpu_pool_new(place, bytes, &pool));
  double ms = seconds_since(start) * 1e3;
  gpu_pool_free(pool);
  return ms;
}

static double time_take(void)
{
  gpu_pool *pool;
  must(gpu_pool_new(device, LARGE, &pool));
  uint64_t start = clock_monotonic_ns();
  const int rounds = 100000;
  for (int i = 0; i < rounds; i++)
    gpu_pool_give_back(pool, take(pool, (size_t)(i % 1000) * 100));
  double ns = seconds_since(start) * SECOND_NS / rounds;
  gpu_pool_free(pool);
  return ns;
}

static void measure_allocations(const gpu_devices *devices)
{
  gpu_stream *stream;
  (void)devices;
  uint64_t start = clock_monotonic_ns();
  must(gpu_context_hold(0));
  double context = seconds_since(start) * 1e3;
  start = clock_monotonic_ns();
  must(gpu_stream_new(0, 0, &stream));
  double made = seconds_since(start) * 1e3;
  printf("{\"context_ms\": %.2f, \"stream_ms\": %.3f, \"device_64m_ms\": %.3f, "
         "\"pinned_256m_ms\": %.2f, ",
         context, made, time_pool(device, LARGE), time_pool(pinned, 4 * LARGE));
  printf("\"pool_take_and_give_ns\": %.0f}\n", time_take());
  gpu_stream_free(stream);
  gpu_context_release(0);
}

// ---- two processes ----

typedef struct offer {
  bool descriptor; // comes with the message; else the handle
  unsigned char handle[64];
  size_t offset, bytes;
} offer;

typedef struct answer {
  double us;      // to open it
  char text[400]; // empty: it was opened, read and written
} answer;

// Of the other process: what is there must be of byte 1; becomes 2.
static error *use(const unsigned char *memory, size_t bytes)
{
  unsigned char *copy = malloc(bytes);
  error *e = copy == NULL ? error_no_memory()
                          : gpu_copy_now(copy, host, memory, device, bytes, "what was shared");
  for (size_t i = 0; e == NULL && i < bytes; i++)
    if (copy[i] != 1)
      e = error_new(ERROR_INTERNAL, "byte %zu is %d, not 1", i, copy[i]);
  if (e == NULL) {
    memset(copy, 2, bytes);
    e = gpu_copy_now((void *)memory, device, copy, host, bytes, "what was shared");
  }
  free(copy);
  return e;
}

static error *open_and_use(const offer *o, int fd, double *us)
{
  gpu_region *region = NULL;
  gpu_mapping mapping;
  uint64_t start = clock_monotonic_ns();
  error *e;
  if (!o->descriptor) {
    RETURN_IF_ERROR(gpu_ipc_open(0, o->handle, &mapping));
    *us = seconds_since(start) * 1e6;
    e = use((unsigned char *)mapping.base + o->offset, o->bytes);
    error *closed = gpu_ipc_close(&mapping);
    error_free(e != NULL ? closed : NULL);
    return e != NULL ? e : closed;
  }
  RETURN_IF_ERROR(gpu_region_new(0, LARGE, &region));
  e = gpu_region_import(region, fd, o->bytes);
  *us = seconds_since(start) * 1e6;
  if (e == NULL)
    e = use(gpu_region_base(region), o->bytes);
  gpu_region_free(region);
  return e;
}

static int run_peer(void)
{
  offer o;
  int fd;
  error *e = gpu_context_hold(0); // is not what is measured
  while (receive_message(STDIN_FILENO, &o, sizeof(o), &fd)) {
    answer a = {0};
    if (e == NULL)
      e = open_and_use(&o, fd, &a.us);
    if (e != NULL)
      snprintf(a.text, sizeof(a.text), "%s", error_message(e));
    error_free(e);
    e = NULL;
    send_message(STDIN_FILENO, &a, sizeof(a), -1);
  }
  return 0;
}

static char **below; // the command that the other process is started by; NULL-terminated

static void ask_peer(const offer *o, int fd, const void *memory)
{
  static char name[] = "peer", program[PATH_MAX];
  char *command[64];
  size_t count = 0;
  answer a;
  peer p;
  unsigned char last;
  if (readlink("/proc/self/exe", program, sizeof(program) - 1) <= 0)
    fail("cannot tell where this program is");
  while (below != NULL && below[count] != NULL && count < 60) {
    command[count] = below[count];
    count++;
  }
  command[count] = program;
  command[count + 1] = name;
  command[count + 2] = NULL;
  unsigned char *ones = malloc(o->bytes);
  if (ones == NULL)
    fail("out of memory");
  memset(ones, 1, o->bytes);
  must(gpu_copy_now((void *)memory, device, ones, host, o->bytes, "a copy"));
  free(ones);
  if (!peer_start(&p, command))
    fail("the other process does not start");
  if (!send_message(p.socket, o, sizeof(*o), fd) || !receive_message(p.socket, &a, sizeof(a), NULL))
    fail("the other process has ended without an answer");
  bool ended = peer_end(&p);
  must(gpu_copy_now(&last, host, (const char *)memory + o->bytes - 1, device, 1, "a copy"));
  if (a.text[0] != '\0')
    fail(a.text);
  if (last != 2 || !ended)
    fail(ended ? "what the other process wrote is not seen" : "the other process ended badly");
  printf("{\"open_us\": %.1f, \"bytes\": %zu}\n", a.us, o->bytes);
}

static void share_handle(const gpu_devices *devices)
{
  gpu_pool *pool;
  offer o = {.bytes = 3 * MIB};
  (void)devices;
  must(gpu_pool_new(device, LARGE, &pool));
  void *first = take(pool, SMALL), *memory = take(pool, o.bytes); // so that there is an offset
  must(gpu_ipc_export(0, memory, o.handle, &o.offset));
  ask_peer(&o, -1, memory);
  gpu_pool_give_back(pool, first);
  gpu_pool_give_back(pool, memory);
  gpu_pool_free(pool);
}

static void share_descriptor(const gpu_devices *devices)
{
  gpu_region *region;
  offer o = {.descriptor = true};
  int fd;
  (void)devices;
  must(gpu_region_new(0, LARGE, &region));
  must(gpu_region_grow(region, 3 * MIB, &fd, &o.bytes));
  ask_peer(&o, fd, gpu_region_base(region));
  close(fd);
  gpu_region_free(region);
}

// ---- what is asked for ----

static const struct probe {
  const char *name;
  void (*run)(const gpu_devices *devices);
} probes[] = {
    {"devices", show_devices},    {"bandwidth", measure_bandwidth},
    {"latency", measure_latency}, {"allocations", measure_allocations},
    {"handles", share_handle},    {"descriptors", share_descriptor},
    {"overlap", measure_overlap},
};

int main(int count, char **arguments)
{
  const gpu_devices *devices;
  const char *why;
  const char *what = count > 1 ? arguments[1] : "";
  if (strcmp(what, "peer") == 0)
    return run_peer();
  if (count > 3 && strcmp(arguments[2], "--") == 0)
    below = arguments + 3;
  for (size_t i = 0; i < sizeof(probes) / sizeof(*probes); i++) {
    if (strcmp(what, probes[i].name) != 0)
      continue;
    must(gpu_devices_find(&devices, &why));
    if (devices->count == 0) {
      fprintf(stderr, "no GPU here: %s\n", why);
      return NO_GPU;
    }
    probes[i].run(devices);
    return 0;
  }
  fprintf(stderr,
          "usage: gpu_probe devices|bandwidth|latency|overlap|allocations|handles|descriptors "
          "[-- COMMAND...]\n");
  return 2;
}
