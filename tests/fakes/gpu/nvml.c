// SPDX-License-Identifier: Apache-2.0
// libnvidia-ml.so.1, played: the values stand in the file, memory is what the played driver's
// processes have taken. Shows all devices of the machine, whatever CUDA_VISIBLE_DEVICES says.
#include "fake.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

struct nvmlDevice_st {
  int index;
  bool parent; // of MIG slices; it has the values that they lack
};

struct nvmlEventSet_st {
  bool registered[FAKE_DEVICES];
  unsigned told[FAKE_DEVICES]; // Xids
};

static struct nvmlDevice_st devices[FAKE_DEVICES], parents[FAKE_DEVICES];
static _Atomic unsigned users;

static nvmlReturn_t enter(int call, const char *name, nvmlDevice_t device)
{
  fake_counters()->calls[call]++;
  if (call != FAKE_CALL_nvmlInit_v2 && users == 0)
    return NVML_ERROR_UNINITIALIZED;
  return abs(fake_fault_due(name, device == NULL ? -1 : device->index, false));
}

#define ENTER_NVML(name, device)                                                                   \
  do {                                                                                             \
    nvmlReturn_t entered = enter(FAKE_CALL_##name, #name, device);                                 \
    if (entered != NVML_SUCCESS)                                                                   \
      return entered;                                                                              \
  } while (0)

static const fake_device *described(nvmlDevice_t device)
{
  return &fake_config_now()->devices[device->index];
}

static bool is_slice(nvmlDevice_t device)
{
  return !device->parent && described(device)->parent_uuid[0] != '\0';
}

static bool are_of_one(const fake_config *config, int i, int other)
{
  return config->devices[i].parent_uuid[0] != '\0' &&
         strcmp(config->devices[i].parent_uuid, config->devices[other].parent_uuid) == 0;
}

// The GPU itself, one handle for all its slices.
static nvmlDevice_t whole(const fake_config *config, int i)
{
  if (config->devices[i].parent_uuid[0] == '\0')
    return &devices[i];
  int first = 0;
  while (!are_of_one(config, i, first))
    first++;
  return &parents[first];
}

FAKE_EXPORT nvmlReturn_t nvmlInit_v2(void)
{
  ENTER_NVML(nvmlInit_v2, NULL);
  for (int i = 0; i < FAKE_DEVICES; i++) {
    devices[i].index = parents[i].index = i;
    parents[i].parent = true;
  }
  users++;
  return NVML_SUCCESS;
}

FAKE_EXPORT nvmlReturn_t nvmlShutdown(void)
{
  ENTER_NVML(nvmlShutdown, NULL);
  users--;
  return NVML_SUCCESS;
}

FAKE_EXPORT nvmlReturn_t nvmlSystemGetDriverVersion(char *version, unsigned size)
{
  ENTER_NVML(nvmlSystemGetDriverVersion, NULL);
  snprintf(version, size, "%s", fake_config_now()->nvml_version);
  return NVML_SUCCESS;
}

FAKE_EXPORT nvmlReturn_t nvmlDeviceGetCount_v2(unsigned *count)
{
  ENTER_NVML(nvmlDeviceGetCount_v2, NULL);
  *count = (unsigned)fake_config_now()->count;
  return NVML_SUCCESS;
}

// The whole GPU, also where CUDA shows a slice of it.
FAKE_EXPORT nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *id, nvmlDevice_t *device)
{
  ENTER_NVML(nvmlDeviceGetHandleByPciBusId_v2, NULL);
  const fake_config *config = fake_config_now();
  for (int i = 0; i < config->count; i++) {
    // NVML writes eight digits of the domain, CUDA four; both are read
    size_t given = strlen(id), own = strlen(config->devices[i].pci);
    if (given < 7 || own < 7 || strcasecmp(id + given - 7, config->devices[i].pci + own - 7) != 0)
      continue;
    *device = whole(config, i);
    return NVML_SUCCESS;
  }
  return NVML_ERROR_NOT_FOUND;
}

FAKE_EXPORT nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device)
{
  ENTER_NVML(nvmlDeviceGetHandleByUUID, NULL);
  const fake_config *config = fake_config_now();
  for (int i = 0; i < config->count; i++) {
    bool parent = strcmp(uuid, config->devices[i].parent_uuid) == 0;
    if (!parent && strcmp(uuid, config->devices[i].uuid) != 0)
      continue;
    *device = parent ? whole(config, i) : &devices[i];
    return NVML_SUCCESS;
  }
  return NVML_ERROR_NOT_FOUND;
}

FAKE_EXPORT nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned size)
{
  ENTER_NVML(nvmlDeviceGetUUID, device);
  const fake_device *d = described(device);
  snprintf(uuid, size, "%s", device->parent ? d->parent_uuid : d->uuid);
  return NVML_SUCCESS;
}

FAKE_EXPORT nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *name, unsigned size)
{
  ENTER_NVML(nvmlDeviceGetName, device);
  snprintf(name, size, "%s", described(device)->name);
  return NVML_SUCCESS;
}

FAKE_EXPORT nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device,
                                                       nvmlUtilization_t *rates)
{
  ENTER_NVML(nvmlDeviceGetUtilizationRates, device);
  if (described(device)->parent_uuid[0] != '\0') // neither a slice nor a GPU that is cut up
    return NVML_ERROR_NOT_SUPPORTED;
  rates->gpu = described(device)->utilization;
  rates->memory = 0;
  return NVML_SUCCESS;
}

FAKE_EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory)
{
  ENTER_NVML(nvmlDeviceGetMemoryInfo_v2, device);
  const fake_device *d = described(device);
  if (memory->version != NVML_MEMORY_V2)
    return NVML_ERROR_INVALID_ARGUMENT;
  memory->total = d->memory;
  memory->reserved = 0;
  memory->used = d->memory_used + fake_used_by_all(device->index);
  memory->free = memory->used > memory->total ? 0 : memory->total - memory->used;
  return NVML_SUCCESS;
}

FAKE_EXPORT nvmlReturn_t nvmlDeviceGetPowerUsage(nvmlDevice_t device, unsigned *milliwatts)
{
  ENTER_NVML(nvmlDeviceGetPowerUsage, device);
  *milliwatts = described(device)->power_mw;
  return is_slice(device) ? NVML_ERROR_NOT_SUPPORTED : NVML_SUCCESS;
}

FAKE_EXPORT nvmlReturn_t nvmlDeviceGetPowerManagementLimit(nvmlDevice_t device,
                                                           unsigned *milliwatts)
{
  ENTER_NVML(nvmlDeviceGetPowerManagementLimit, device);
  *milliwatts = described(device)->power_limit_mw;
  return is_slice(device) ? NVML_ERROR_NOT_SUPPORTED : NVML_SUCCESS;
}

FAKE_EXPORT nvmlReturn_t nvmlDeviceGetTotalEnergyConsumption(nvmlDevice_t device,
                                                             unsigned long long *millijoules)
{
  ENTER_NVML(nvmlDeviceGetTotalEnergyConsumption, device);
  *millijoules = described(device)->energy_mj;
  return is_slice(device) ? NVML_ERROR_NOT_SUPPORTED : NVML_SUCCESS;
}

FAKE_EXPORT nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned *current,
                                              unsigned *pending)
{
  ENTER_NVML(nvmlDeviceGetMigMode, device);
  *current = *pending = device->parent;
  return is_slice(device) ? NVML_ERROR_INVALID_ARGUMENT : NVML_SUCCESS;
}

FAKE_EXPORT nvmlReturn_t nvmlDeviceGetGpuInstanceId(nvmlDevice_t device, unsigned *id)
{
  ENTER_NVML(nvmlDeviceGetGpuInstanceId, device);
  *id = (unsigned)device->index + 1; // any that is no other slice's
  return is_slice(device) ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
}

// ---- events ----

FAKE_EXPORT nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t *set)
{
  ENTER_NVML(nvmlEventSetCreate, NULL);
  *set = calloc(1, sizeof(**set));
  return *set == NULL ? NVML_ERROR_UNKNOWN : NVML_SUCCESS;
}

FAKE_EXPORT nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t device, unsigned long long types,
                                                  nvmlEventSet_t set)
{
  ENTER_NVML(nvmlDeviceRegisterEvents, device);
  if (types != NVML_EVENT_XID)
    return NVML_ERROR_NOT_SUPPORTED;
  const fake_config *config = fake_config_now();
  for (int i = 0; i < config->count; i++) {
    if (i != device->index && (!device->parent || !are_of_one(config, i, device->index)))
      continue;
    set->registered[i] = true;
    set->told[i] = config->devices[i].xid_count; // what was before is not told
  }
  return NVML_SUCCESS;
}

FAKE_EXPORT nvmlReturn_t nvmlEventSetWait_v2(nvmlEventSet_t set, nvmlEventData_t *event,
                                             unsigned timeout_ms)
{
  ENTER_NVML(nvmlEventSetWait_v2, NULL);
  const struct timespec pause = {.tv_nsec = 1000000};
  for (unsigned waited = 0;; waited++) {
    const fake_config *config = fake_config_now();
    for (int i = 0; i < config->count; i++) {
      const fake_device *device = &config->devices[i];
      if (!set->registered[i] || set->told[i] >= device->xid_count)
        continue;
      bool slice = device->parent_uuid[0] != '\0';
      *event = (nvmlEventData_t){.device = whole(config, i),
                                 .eventType = NVML_EVENT_XID,
                                 .eventData = device->xids[set->told[i]++],
                                 .gpuInstanceId = slice ? (unsigned)i + 1 : 0xFFFFFFFF,
                                 .computeInstanceId = 0xFFFFFFFF};
      return NVML_SUCCESS;
    }
    if (waited >= timeout_ms)
      return NVML_ERROR_TIMEOUT;
    nanosleep(&pause, NULL);
  }
}

FAKE_EXPORT nvmlReturn_t nvmlEventSetFree(nvmlEventSet_t set)
{
  ENTER_NVML(nvmlEventSetFree, NULL);
  free(set);
  return NVML_SUCCESS;
}

// Each row of the table: what is missing does not link.
#define ROW(name, arguments) (void (*)(void)) name,
__attribute__((used)) static void (*const rows[])(void) = {NVML_FUNCTIONS(ROW, ROW)};
