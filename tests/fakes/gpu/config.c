// SPDX-License-Identifier: Apache-2.0
// What the played driver shows, and which faults it plays: the JSON file that NEREID_FAKE_GPU
// names, read again when it has changed. Without the variable: two devices, which reach each other.
#include "fake.h"

#include <errno.h>
#include <fnmatch.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

static mtx_t lock;
static once_flag once = ONCE_FLAG_INIT;
static fake_config *now;
static struct stat seen;

static void make_lock(void)
{
  mtx_init(&lock, mtx_plain);
}

static const char *text_of(json_t *object, const char *name, const char *usual)
{
  const char *text = json_string_value(json_object_get(object, name));
  return text == NULL ? usual : text;
}

static json_int_t number_of(json_t *object, const char *name, json_int_t usual)
{
  json_t *value = json_object_get(object, name);
  return json_is_number(value) ? (json_int_t)json_number_value(value) : usual;
}

static bool flag_of(json_t *object, const char *name, bool usual)
{
  json_t *value = json_object_get(object, name);
  return value == NULL ? usual : json_is_true(value);
}

static void read_device(json_t *object, int index, fake_device *device)
{
  char uuid[sizeof(device->uuid)], pci[sizeof(device->pci)]; // the usual ones
  json_t *item;
  size_t i;
  snprintf(device->name, sizeof(device->name), "%s", text_of(object, "name", "NVIDIA Fake GPU"));
  snprintf(uuid, sizeof(uuid), "GPU-f4ce0000-0000-4000-8000-%012d", index);
  snprintf(device->uuid, sizeof(device->uuid), "%s", text_of(object, "uuid", uuid));
  snprintf(device->parent_uuid, sizeof(device->parent_uuid), "%s",
           text_of(object, "parent_uuid", ""));
  snprintf(pci, sizeof(pci), "0000:%02x:00.0", 0x3b + index);
  snprintf(device->pci, sizeof(device->pci), "%s", text_of(object, "pci", pci));
  if (sscanf(text_of(object, "capability", "9.0"), "%d.%d", &device->major, &device->minor) != 2)
    device->major = device->minor = 0;
  device->memory = (uint64_t)number_of(object, "memory", (json_int_t)1 << 30);
  device->numa = (int)number_of(object, "numa", 0);
  device->integrated = flag_of(object, "integrated", false);
  device->vmm = flag_of(object, "vmm", true);
  device->fds = flag_of(object, "fds", true);
  device->ipc = flag_of(object, "ipc", true);
  device->utilization = (unsigned)number_of(object, "utilization", 0);
  device->power_mw = (unsigned)number_of(object, "power_mw", 75000);
  device->power_limit_mw = (unsigned)number_of(object, "power_limit_mw", 700000);
  device->energy_mj = (uint64_t)number_of(object, "energy_mj", 1000000);
  device->memory_used = (uint64_t)number_of(object, "memory_used", 0);
  device->peers = json_object_get(object, "peers") == NULL ? ~0u : 0;
  json_array_foreach(json_object_get(object, "peers"), i, item) device->peers |=
      1u << (json_integer_value(item) & 31);
  json_array_foreach(json_object_get(object, "xids"), i, item)
  {
    if (device->xid_count < 16)
      device->xids[device->xid_count++] = (unsigned)json_integer_value(item);
  }
}

// An entry that is there as it was keeps its count.
static void read_fault(json_t *object, fake_fault *fault, const fake_config *before)
{
  char *key = json_dumps(object, JSON_SORT_KEYS | JSON_COMPACT);
  snprintf(fault->key, sizeof(fault->key), "%s", key == NULL ? "" : key);
  free(key);
  snprintf(fault->function, sizeof(fault->function), "%s", text_of(object, "function", "*"));
  fault->code = (int)number_of(object, "code", 0);
  fault->device = (int)number_of(object, "device", -1);
  fault->at = (unsigned long)number_of(object, "at", 1);
  fault->times = (unsigned long)number_of(object, "times", 1);
  fault->after_bytes = (uint64_t)number_of(object, "after_bytes", 0);
  fault->later = flag_of(object, "later", false);
  fault->hang = flag_of(object, "hang", false);
  fault->spares = flag_of(object, "spares", false);
  for (int i = 0; before != NULL && i < before->fault_count; i++)
    if (strcmp(before->faults[i].key, fault->key) == 0)
      fault->calls = before->faults[i].calls;
}

static fake_config *read_root(json_t *root, fake_config *before)
{
  fake_config *config = calloc(1, sizeof(*config));
  json_t *devices = json_object_get(root, "devices"), *item;
  size_t i;
  if (config == NULL && before == NULL)
    abort();
  if (config == NULL)
    return before;
  config->before = before;
  config->driver_version = (int)number_of(root, "driver_version", 13000);
  snprintf(config->nvml_version, sizeof(config->nvml_version), "%s",
           text_of(root, "nvml_version", "580.65.06"));
  config->seed = (unsigned)number_of(root, "seed", 1);
  config->delay_us = (unsigned)number_of(root, "delay_us", 200);
  config->fill_bytes = (uint64_t)number_of(root, "fill_bytes", 1 << 20);
  config->exporter_gone = (int)number_of(root, "exporter_gone", CUDA_ERROR_INVALID_VALUE);
  if (devices == NULL)
    for (config->count = 0; config->count < 2; config->count++)
      read_device(NULL, config->count, &config->devices[config->count]);
  json_array_foreach(devices, i, item)
  {
    if (config->count < FAKE_DEVICES) {
      read_device(item, config->count, &config->devices[config->count]);
      config->count++;
    }
  }
  json_array_foreach(json_object_get(root, "faults"), i, item)
  {
    if (config->fault_count < (int)(sizeof(config->faults) / sizeof(*config->faults)))
      read_fault(item, &config->faults[config->fault_count++], before);
  }
  return config;
}

const char *fake_path(void)
{
  const char *path = getenv("NEREID_FAKE_GPU");
  return path != NULL ? path : getenv("CUDA_FAKE_GPU");
}

static void read_file(const char *path)
{
  json_error_t why;
  struct stat found;
  json_t *root = NULL;
  if (path != NULL) {
    if (stat(path, &found) != 0 ||
        (now != NULL && found.st_ino == seen.st_ino && found.st_size == seen.st_size &&
         found.st_mtim.tv_sec == seen.st_mtim.tv_sec &&
         found.st_mtim.tv_nsec == seen.st_mtim.tv_nsec)) {
      path = NULL;
    } else {
      seen = found;
      root = json_load_file(path, 0, &why);
      if (root == NULL) { // what was read before stays: a test may let allocations fail
        fprintf(stderr, "the played GPU driver: %s, line %d: %s\n", path, why.line, why.text);
        path = NULL;
        if (now == NULL)
          abort();
      }
    }
  }
  if (path != NULL || now == NULL) {
    fake_acquire(&now);
    fake_config *config = read_root(root, now);
    fake_release(&now); // what it has was written by functions that sanitizers stand before
    __atomic_store_n(&now, config, __ATOMIC_RELEASE);
  }
  json_decref(root);
}

fake_config *fake_config_now(void)
{
  call_once(&once, make_lock);
  mtx_lock(&lock);
  read_file(fake_path());
  mtx_unlock(&lock);
  fake_acquire(&now);
  return __atomic_load_n(&now, __ATOMIC_ACQUIRE);
}

// As strcmp, which TSan has its eye on: it does not see what orders this file's threads.
static bool same(const char *a, const char *b)
{
  while (*a != '\0' && *a == *b) {
    a++;
    b++;
  }
  return *a == *b;
}

// Until the file has another text for it.
static void hang(const char *key)
{
  const struct timespec pause = {.tv_nsec = 5000000};
  for (;;) {
    const fake_config *config = fake_config_now();
    bool there = false;
    for (int i = 0; i < config->fault_count; i++)
      there = there || same(config->faults[i].key, key);
    if (!there)
      return;
    nanosleep(&pause, NULL);
  }
}

int fake_fault_due(const char *function, int device, bool later)
{
  fake_config *config = fake_config_now();
  for (int i = 0; i < config->fault_count; i++) {
    fake_fault *fault = &config->faults[i];
    if (fault->later != later || (fault->device >= 0 && fault->device != device) ||
        fnmatch(fault->function, function, 0) != 0)
      continue;
    if (fault->after_bytes > 0) {
      const fake_process *process = fake_counters();
      uint64_t bytes = 0;
      for (int j = FAKE_bytes_to_device; j <= FAKE_bytes_on_host; j++)
        bytes += process->counters[j];
      if (bytes < fault->after_bytes)
        continue;
    }
    unsigned long call = __atomic_add_fetch(&fault->calls, 1, __ATOMIC_RELAXED);
    if (call < fault->at || (fault->times > 0 && call >= fault->at + fault->times))
      continue;
    if (fault->hang) {
      fake_count(hangs, 1);
      hang(fault->key);
    }
    return fault->spares ? -fault->code : fault->code;
  }
  return 0;
}
