// SPDX-License-Identifier: Apache-2.0
// The known faults of each device. Any thread that calls the driver records them; reading takes no
// lock.
#include "gpu/health.h"

#include "base/cleanup.h"
#include "base/state.h"
#include "base/thread.h"
#include "gpu/device.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

typedef struct fault {
  _Atomic gpu_health_state state;
  _Atomic bool dead; // this copy's context is dead, whatever state the device is in now
  char text[GPU_HEALTH_BYTES], code[64]; // guarded by `lock`
} fault;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static fault faults[MAX_GPUS];

static void set_state(fault *f, gpu_health_state state)
{
  static const unsigned allowed[] = {
      [GPU_HEALTH_GOOD] = STATE_BIT(GPU_HEALTH_CONTEXT_DEAD) | STATE_BIT(GPU_HEALTH_LOST) |
                          STATE_BIT(GPU_HEALTH_GONE),
      [GPU_HEALTH_CONTEXT_DEAD] = STATE_BIT(GPU_HEALTH_LOST) | STATE_BIT(GPU_HEALTH_GONE),
      [GPU_HEALTH_LOST] = STATE_BIT(GPU_HEALTH_GONE),
      [GPU_HEALTH_GONE] = 0,
  };
  assert(lock_is_held(&lock));
  state_assert(allowed, f->state, state);
  atomic_store_explicit(&f->state, state, memory_order_release);
}

static bool is_device(int device)
{
  return device >= 0 && device < MAX_GPUS;
}

// Keeps the worst state, and of equal ones the first.
static void set_fault(int device, gpu_health_state state, const char *text, const char *code)
{
  if (!is_device(device) || gpu_health_of(device) >= state)
    return;
  LOCK_SCOPE(&lock);
  fault *f = &faults[device];
  if (f->state >= state)
    return;
  snprintf(f->text, sizeof(f->text), "%s", text);
  snprintf(f->code, sizeof(f->code), "%s", code);
  set_state(f, state);
}

static void mark(int device, gpu_health_state state, const char *what, const char *name)
{
  char text[sizeof(faults[0].text)];
  snprintf(text, sizeof(text), "GPU %d: %s (%s)", device, what, name);
  set_fault(device, state, text, name);
}

void gpu_health_tell(int device, CUresult code)
{
  if (!gpu_error_is_sticky(code))
    return;
  if (is_device(device))
    atomic_store_explicit(&faults[device].dead, true, memory_order_release);
  mark(device, GPU_HEALTH_CONTEXT_DEAD, gpu_error_text(code), gpu_error_name(code));
}

void gpu_health_tell_lost(int device, const char *what, const char *name)
{
  mark(device, GPU_HEALTH_LOST, what, name);
}

void gpu_health_tell_gone(int device, const char *what, const char *name)
{
  mark(device, GPU_HEALTH_GONE, what, name);
}

void gpu_health_repeat(int device, gpu_health_state state, const char *text)
{
  set_fault(device, state, text, "");
}

error *gpu_error_on(int device, CUresult code, const char *what, ...)
{
  char text[256];
  va_list arguments;
  if (code == CUDA_SUCCESS)
    return NULL;
  gpu_health_tell(device, code);
  va_start(arguments, what);
  vsnprintf(text, sizeof(text), what, arguments);
  va_end(arguments);
  return gpu_error(code, "%s", text);
}

gpu_health_state gpu_health_of(int device)
{
  if (!is_device(device))
    return GPU_HEALTH_GOOD;
  return atomic_load_explicit(&faults[device].state, memory_order_acquire);
}

bool gpu_health_is_dead(int device)
{
  return is_device(device) && atomic_load_explicit(&faults[device].dead, memory_order_acquire);
}

bool gpu_health_code(int device, char *code, size_t size)
{
  if (gpu_health_of(device) == GPU_HEALTH_GOOD)
    return false;
  LOCK_SCOPE(&lock);
  snprintf(code, size, "%s", faults[device].code);
  return true;
}

void gpu_health_text(int device, char *text, size_t size)
{
  assert(size > 0);
  text[0] = '\0';
  if (!is_device(device))
    return;
  LOCK_SCOPE(&lock);
  snprintf(text, size, "%s", faults[device].text);
}
