// SPDX-License-Identifier: Apache-2.0
// Watches the devices: asks CUDA about contexts, and NVML for Xids. One thread at a time; fault.c
// keeps the results.
#include "gpu/health.h"

#include "base/cleanup.h"
#include "gpu/context.h"
#include "gpu/nvml_library.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#define MAX_EVENTS 64 // handled in one call

typedef struct watched {
  bool is; // NVML reports its Xids
  nvmlDevice_t board;
  char uuid[96];     // the board's
  unsigned instance; // MIG; NVML_NO_INSTANCE: none, or unknown
  _Atomic uint64_t xids;
  _Atomic uint32_t last_xid;
} watched;

typedef enum watching {
  NOT_TRIED,
  WATCHING,
  NOT_POSSIBLE,
} watching;

static pthread_mutex_t looking = PTHREAD_MUTEX_INITIALIZER; // guards looking and all below
static watching watch_state;
static const gpu_nvml *nvml;
static nvmlEventSet_t events;
static watched all[MAX_GPUS];

// Xids that need a reset, or worse, by NVIDIA's list. Other Xids show up as errors of the process's
// own calls, if they concern it.
static const struct lost_by {
  uint32_t xid;
  const char *what;
  bool gone; // it accesses no memory any more
} lost_by[] = {
    {48, "double-bit ECC error", false},
    {62, "its micro-controller halted", false},
    {64, "ECC page retirement or row remapping failed", false},
    {79, "the GPU has fallen off the bus", true},
    {95, "uncontained memory error", false},
    {119, "its firmware (GSP) does not answer", false},
    {120, "its firmware (GSP) failed", false},
    {140, "unrecovered ECC error", false},
};

static void watch(const gpu_device *device)
{
  watched *w = &all[device->ordinal];
  nvmlDevice_t slice;
  w->instance = NVML_NO_INSTANCE;
  w->is = gpu_nvml_find_board(nvml, device, &w->board) &&
          nvml->nvmlDeviceGetUUID(w->board, w->uuid, sizeof(w->uuid)) == NVML_SUCCESS &&
          nvml->nvmlDeviceRegisterEvents(w->board, NVML_EVENT_XID, events) == NVML_SUCCESS;
  if (device->slice && nvml->nvmlDeviceGetGpuInstanceId != NULL &&
      gpu_nvml_find(nvml, device, &slice) &&
      nvml->nvmlDeviceGetGpuInstanceId(slice, &w->instance) != NVML_SUCCESS)
    w->instance = NVML_NO_INSTANCE;
}

// Opens NVML, which then stays open.
static watching start_watching(const gpu_devices *devices)
{
  AUTO_ERROR error *e = gpu_nvml_open(&nvml);
  if (e != NULL)
    return NOT_POSSIBLE;
  if (nvml->nvmlEventSetCreate(&events) != NVML_SUCCESS) {
    gpu_nvml_close(nvml);
    return NOT_POSSIBLE;
  }
  for (size_t i = 0; i < devices->count; i++)
    watch(&devices->items[i]);
  return WATCHING;
}

static void tell_xid(int device, uint32_t xid)
{
  char name[32];
  atomic_fetch_add_explicit(&all[device].xids, 1, memory_order_relaxed);
  atomic_store_explicit(&all[device].last_xid, xid, memory_order_relaxed);
  snprintf(name, sizeof(name), "Xid %u", xid);
  for (size_t i = 0; i < sizeof(lost_by) / sizeof(*lost_by); i++)
    if (lost_by[i].xid == xid)
      (lost_by[i].gone ? gpu_health_tell_gone : gpu_health_tell_lost)(device, lost_by[i].what,
                                                                      name);
}

// With MIG, marks each slice that the event may be about.
static void tell_event(const nvmlEventData_t *event, const gpu_devices *devices)
{
  char uuid[sizeof(all[0].uuid)];
  if (event->eventType != NVML_EVENT_XID ||
      nvml->nvmlDeviceGetUUID(event->device, uuid, sizeof(uuid)) != NVML_SUCCESS)
    return;
  for (size_t i = 0; i < devices->count; i++) {
    const watched *w = &all[devices->items[i].ordinal];
    bool other_slice = w->instance != NVML_NO_INSTANCE &&
                       event->gpuInstanceId != NVML_NO_INSTANCE &&
                       w->instance != event->gpuInstanceId;
    if (w->is && strcmp(w->uuid, uuid) == 0 && !other_slice)
      tell_xid(devices->items[i].ordinal, (uint32_t)event->eventData);
  }
}

// NVML says that one of the devices is lost, but not which.
static void find_lost(const gpu_devices *devices)
{
  unsigned milliwatts;
  for (size_t i = 0; i < devices->count; i++) {
    const watched *w = &all[devices->items[i].ordinal];
    if (w->is && nvml->nvmlDeviceGetPowerUsage(w->board, &milliwatts) == NVML_ERROR_GPU_IS_LOST)
      gpu_health_tell_gone(devices->items[i].ordinal, "the GPU is lost", "NVML_ERROR_GPU_IS_LOST");
  }
}

static void read_events(const gpu_devices *devices)
{
  nvmlReturn_t code = NVML_SUCCESS;
  for (int i = 0; i < MAX_EVENTS && code == NVML_SUCCESS; i++) {
    nvmlEventData_t event = {0};
    code = nvml->nvmlEventSetWait_v2(events, &event, 0);
    if (code == NVML_SUCCESS)
      tell_event(&event, devices);
  }
  if (code == NVML_ERROR_GPU_IS_LOST)
    find_lost(devices);
}

void gpu_health_look(void)
{
  const gpu_devices *devices;
  AUTO_ERROR error *e = gpu_devices_find(&devices, NULL);
  if (e != NULL || devices->count == 0 || pthread_mutex_trylock(&looking) != 0)
    return;
  for (size_t i = 0; i < devices->count; i++)
    gpu_health_tell(devices->items[i].ordinal, gpu_context_ask(devices->items[i].ordinal));
  if (watch_state == NOT_TRIED)
    watch_state = start_watching(devices);
  if (watch_state == WATCHING)
    read_events(devices);
  pthread_mutex_unlock(&looking);
}

uint64_t gpu_health_xids(int device)
{
  return device < 0 || device >= MAX_GPUS
             ? 0
             : atomic_load_explicit(&all[device].xids, memory_order_relaxed);
}

uint32_t gpu_health_last_xid(int device)
{
  return device < 0 || device >= MAX_GPUS
             ? 0
             : atomic_load_explicit(&all[device].last_xid, memory_order_relaxed);
}
