// SPDX-License-Identifier: Apache-2.0
// The copies of the played driver. To and from memory that it has not pinned they have taken the
// source's bytes, or are done, when the call returns; all else happens later.
#include "fake.h"

#include <stdlib.h>
#include <string.h>

typedef struct end {
  bool device, pinned;
  int ordinal;
} end;

static CUresult look_at(CUdeviceptr address, size_t bytes, CUcontext context, end *found)
{
  fake_range *range;
  *found = (end){.device = fake_is_device_address(address)};
  if (!found->device) {
    found->pinned = fake_is_pinned((void *)address, bytes);
    return CUDA_SUCCESS;
  }
  CUresult code = fake_find(address, bytes, &range);
  if (code == CUDA_SUCCESS && fake_exporter_is_gone(range))
    code = fake_config_now()->exporter_gone;
  if (code != CUDA_SUCCESS)
    return fake_fail(context, code);
  found->ordinal = range->ordinal;
  return CUDA_SUCCESS;
}

static void count(const end *to, const end *from, const struct CUstream_st *stream, size_t bytes)
{
  if (!to->device && !from->device) {
    fake_count(copies_on_host, 1);
    fake_count(bytes_on_host, bytes);
  } else if (!from->device) {
    fake_count(copies_to_device, 1);
    fake_count(bytes_to_device, bytes);
  } else if (!to->device) {
    fake_count(copies_to_host, 1);
    fake_count(bytes_to_host, bytes);
  } else if (to->ordinal == from->ordinal) {
    fake_count(copies_on_device, 1);
    fake_count(bytes_on_device, bytes);
  } else {
    fake_count(copies_between_devices, 1);
    fake_count(bytes_between_devices, bytes);
  }
  fake_count(pageable_copies, (!to->device && !to->pinned) || (!from->device && !from->pinned));
  fake_count(foreign_copies, (!to->device || to->ordinal != stream->ordinal) &&
                                 (!from->device || from->ordinal != stream->ordinal));
}

// `staged`: what `from` had when the call came, where that is memory of the host.
static CUresult enqueue_copy(const char *name, CUdeviceptr to, CUdeviceptr from, size_t bytes,
                             CUstream handle, void **staged)
{
  CUstream stream;
  end to_end, from_end;
  CUresult code = fake_stream_of(handle, &stream);
  if (code == CUDA_SUCCESS)
    code = look_at(to, bytes, fake_context_of(stream->ordinal), &to_end);
  if (code == CUDA_SUCCESS)
    code = look_at(from, bytes, fake_context_of(stream->ordinal), &from_end);
  if (code != CUDA_SUCCESS)
    return code;
  fake_work *work = fake_work_new(FAKE_COPY, name);
  if (work == NULL)
    return CUDA_ERROR_OUT_OF_MEMORY;
  count(&to_end, &from_end, stream, bytes);
  work->to = to;
  work->from = from;
  work->bytes = bytes;
  work->staged = *staged;
  *staged = NULL;
  return fake_enqueue(stream, work, !to_end.device && !to_end.pinned);
}

static CUresult copy(const char *name, CUdeviceptr to, CUdeviceptr from, size_t bytes,
                     CUstream stream)
{
  void *staged = NULL;
  if (bytes == 0)
    return CUDA_SUCCESS;
  mtx_lock(&fake_lock);
  bool pageable = !fake_is_device_address(from) && !fake_is_pinned((void *)from, bytes);
  mtx_unlock(&fake_lock);
  if (pageable) {
    staged = malloc(bytes);
    if (staged == NULL)
      return CUDA_ERROR_OUT_OF_MEMORY;
    memcpy(staged, (void *)from, bytes);
  }
  mtx_lock(&fake_lock);
  CUresult code = enqueue_copy(name, to, from, bytes, stream, &staged);
  mtx_unlock(&fake_lock);
  free(staged);
  return code;
}

FAKE_EXPORT CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
  ENTER(cuMemcpyAsync, true, true);
  return copy("cuMemcpyAsync", to, from, bytes, stream);
}

FAKE_EXPORT CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes,
                                          CUstream stream)
{
  ENTER(cuMemcpyHtoDAsync_v2, true, true);
  if (!fake_is_device_address(to) || fake_is_device_address((CUdeviceptr)from))
    return CUDA_ERROR_INVALID_VALUE;
  return copy("cuMemcpyHtoDAsync_v2", to, (CUdeviceptr)from, bytes, stream);
}

FAKE_EXPORT CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, CUstream stream)
{
  ENTER(cuMemcpyDtoHAsync_v2, true, true);
  if (fake_is_device_address((CUdeviceptr)to) || !fake_is_device_address(from))
    return CUDA_ERROR_INVALID_VALUE;
  return copy("cuMemcpyDtoHAsync_v2", (CUdeviceptr)to, from, bytes, stream);
}

FAKE_EXPORT CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes,
                                          CUstream stream)
{
  ENTER(cuMemcpyDtoDAsync_v2, true, true);
  if (!fake_is_device_address(to) || !fake_is_device_address(from))
    return CUDA_ERROR_INVALID_VALUE;
  return copy("cuMemcpyDtoDAsync_v2", to, from, bytes, stream);
}

static bool is_memory_of(CUdeviceptr memory, CUcontext context)
{
  mtx_lock(&fake_lock);
  const fake_range *range = fake_range_at(memory);
  bool is = range != NULL && context != NULL && fake_context_of(range->ordinal) == context;
  mtx_unlock(&fake_lock);
  return is;
}

FAKE_EXPORT CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
                                       CUcontext from_context, size_t bytes, CUstream stream)
{
  ENTER(cuMemcpyPeerAsync, true, true);
  if (!is_memory_of(to, to_context) || !is_memory_of(from, from_context))
    return CUDA_ERROR_INVALID_VALUE;
  return copy("cuMemcpyPeerAsync", to, from, bytes, stream);
}

FAKE_EXPORT CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t bytes,
                                     CUstream handle)
{
  CUstream stream;
  end found;
  ENTER(cuMemsetD8Async, true, true);
  if (!fake_is_device_address(to))
    return CUDA_ERROR_INVALID_VALUE;
  mtx_lock(&fake_lock);
  CUresult code = fake_stream_of(handle, &stream);
  if (code == CUDA_SUCCESS)
    code = look_at(to, bytes, fake_context_of(stream->ordinal), &found);
  fake_work *work =
      code == CUDA_SUCCESS && bytes > 0 ? fake_work_new(FAKE_FILL, "cuMemsetD8Async") : NULL;
  if (work != NULL) {
    work->to = to;
    work->value = value;
    work->bytes = bytes;
    code = fake_enqueue(stream, work, false);
  } else if (code == CUDA_SUCCESS && bytes > 0) {
    code = CUDA_ERROR_OUT_OF_MEMORY;
  }
  mtx_unlock(&fake_lock);
  return code;
}
