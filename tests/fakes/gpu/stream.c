// SPDX-License-Identifier: Apache-2.0
// Streams and events of the played devices: each stream has a thread that does its work in order,
// some time after it was enqueued. Lock: fake_lock, but while work is done.
#include "fake.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static CUstream streams;
static CUevent events;
static uint64_t tickets;
static unsigned seeds;
static cnd_t progress;
static once_flag once = ONCE_FLAG_INIT;

static void make_progress(void)
{
  cnd_init(&progress);
}

// ---- what runs ----

// The legacy stream and those that are not non-blocking take turns, in the order of their tickets.
static bool is_its_turn(const struct CUstream_st *stream, const fake_work *work)
{
  if (work->kind == FAKE_WAIT && work->after.stream->completed < work->after.sequence)
    return false;
  if (!stream->legacy && !stream->blocking)
    return true;
  for (CUstream s = streams; s != NULL; s = s->next)
    if (s != stream && s->ordinal == stream->ordinal &&
        (stream->legacy ? s->blocking : s->legacy) && s->first != NULL &&
        s->first->ticket < work->ticket)
      return false;
  return true;
}

static void take_turns(CUstream stream, const fake_work *work)
{
  while (!is_its_turn(stream, work))
    cnd_wait(&progress, &fake_lock);
  if (work->kind == FAKE_WAIT)
    fake_acquire(work->event == NULL ? &work->after.stream->sync : &work->event->sync);
  for (CUstream s = streams; s != NULL && (stream->legacy || stream->blocking); s = s->next)
    if (s->ordinal == stream->ordinal && (stream->legacy ? s->blocking : s->legacy))
      fake_acquire(&s->sync);
}

static void *place(CUdeviceptr address)
{
  return fake_is_device_address(address) ? fake_shadow(address) : (void *)address;
}

// Without the lock: it may take long, and sanitizers look at what it touches.
static void do_work(CUstream stream, fake_work *work)
{
  CUcontext context = fake_context_of(stream->ordinal);
  CUresult code = abs(fake_fault_due(work->name, context->index, true)), alive = CUDA_SUCCESS;
  if (code != CUDA_SUCCESS)
    __atomic_compare_exchange_n(&context->dead, &alive, code, false, __ATOMIC_SEQ_CST,
                                __ATOMIC_SEQ_CST);
  if (__atomic_load_n(&context->dead, __ATOMIC_SEQ_CST) != CUDA_SUCCESS)
    return;
  if (work->kind == FAKE_COPY)
    memcpy(place(work->to), work->staged != NULL ? work->staged : place(work->from), work->bytes);
  if (work->kind == FAKE_FILL)
    memset(place(work->to), work->value, work->bytes);
  if (work->kind == FAKE_HOST) {
    fake_in_host_function = true;
    work->function(work->context);
    fake_in_host_function = false;
  }
}

static void *run(void *context)
{
  CUstream stream = context;
  mtx_lock(&fake_lock);
  for (;;) {
    while (stream->first == NULL)
      cnd_wait(&stream->arrived, &fake_lock);
    fake_work *work = stream->first;
    unsigned most = fake_config_now()->delay_us;
    struct timespec delay = {.tv_nsec =
                                 most == 0 ? 0 : (long)(rand_r(&stream->random) % most) * 1000};
    mtx_unlock(&fake_lock);
    if (delay.tv_nsec > 0)
      nanosleep(&delay, NULL);
    mtx_lock(&fake_lock);
    take_turns(stream, work);
    mtx_unlock(&fake_lock);
    fake_acquire(work);
    do_work(stream, work);
    if (work->kind == FAKE_RECORD)
      fake_release(&work->event->sync);
    fake_release(&stream->sync);
    mtx_lock(&fake_lock);
    stream->completed = work->sequence;
    stream->first = work->next;
    cnd_broadcast(&progress);
    free(work->staged);
    free(work);
  }
  return NULL;
}

static bool start_thread(CUstream stream)
{
  pthread_t thread;
  pthread_attr_t attributes;
  sigset_t all, before;
  pthread_attr_init(&attributes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  int failure = pthread_create(&thread, &attributes, run, stream);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  pthread_attr_destroy(&attributes);
  return failure == 0;
}

// ---- the queue ----

fake_work *fake_work_new(fake_work_kind kind, const char *name)
{
  fake_work *work = calloc(1, sizeof(*work));
  if (work == NULL)
    return NULL;
  work->kind = kind;
  work->name = name;
  return work;
}

static CUresult death_of(int ordinal)
{
  return __atomic_load_n(&fake_context_of(ordinal)->dead, __ATOMIC_SEQ_CST);
}

static CUresult wait_until(CUstream stream, uint64_t sequence, void *sync)
{
  while (stream->completed < sequence)
    cnd_wait(&progress, &fake_lock);
  fake_acquire(sync);
  return death_of(stream->ordinal);
}

CUresult fake_enqueue(CUstream stream, fake_work *work, bool wait)
{
  uint64_t sequence = work->sequence = ++stream->enqueued;
  work->ticket = ++tickets;
  fake_release(work);
  if (stream->first == NULL)
    stream->first = work;
  else
    stream->last->next = work;
  stream->last = work;
  cnd_signal(&stream->arrived);
  if (!wait)
    return CUDA_SUCCESS;
  fake_count(syncs, 1);
  return wait_until(stream, sequence, &stream->sync);
}

CUresult fake_wait_for_device(int ordinal)
{
  for (CUstream s = streams; s != NULL; s = s->next)
    if (s->ordinal == ordinal || ordinal < 0)
      wait_until(s, s->enqueued, &s->sync);
  return ordinal < 0 ? CUDA_SUCCESS : death_of(ordinal);
}

static CUstream stream_new(int ordinal, bool legacy, bool blocking)
{
  CUstream s = streams;
  call_once(&once, make_progress);
  while (s != NULL && (s->alive || s->legacy || s->completed < s->enqueued))
    s = s->next;
  if (s == NULL) {
    s = calloc(1, sizeof(*s));
    if (s == NULL || cnd_init(&s->arrived) != thrd_success || !start_thread(s)) {
      free(s);
      return NULL;
    }
    s->random = fake_config_now()->seed + ++seeds;
    s->next = streams;
    streams = s;
  }
  s->ordinal = ordinal;
  s->legacy = legacy;
  s->blocking = blocking;
  s->alive = true;
  return s;
}

CUresult fake_stream_of(CUstream handle, CUstream *stream)
{
  int ordinal = fake_current()->ordinal;
  CUstream s = streams;
  while (s != NULL && (handle == NULL ? !s->legacy || s->ordinal != ordinal : s != handle))
    s = s->next;
  if (s == NULL && handle == NULL)
    s = stream_new(ordinal, true, false);
  *stream = s;
  if (s == NULL || !s->alive)
    return handle == NULL ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_INVALID_HANDLE;
  return death_of(s->ordinal);
}

void fake_close_streams(int ordinal)
{
  for (CUstream s = streams; s != NULL; s = s->next) {
    if (s->ordinal == ordinal && !s->legacy && s->alive) {
      s->alive = false;
      fake_count(streams, -1);
    }
  }
  for (CUevent e = events; e != NULL; e = e->next) {
    if (e->ordinal == ordinal && e->alive) {
      e->alive = false;
      fake_count(events, -1);
    }
  }
}

// ---- streams ----

FAKE_EXPORT CUresult cuStreamCreateWithPriority(CUstream *stream, unsigned flags, int priority)
{
  ENTER(cuStreamCreateWithPriority, true, true);
  (void)priority; // out of range is taken for the nearest
  if ((flags & ~(unsigned)CU_STREAM_NON_BLOCKING) != 0)
    return CUDA_ERROR_INVALID_VALUE;
  mtx_lock(&fake_lock);
  *stream = stream_new(fake_current()->ordinal, false, flags == 0);
  if (*stream != NULL)
    fake_count(streams, 1);
  mtx_unlock(&fake_lock);
  return *stream == NULL ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

// What is in it is done all the same.
FAKE_EXPORT CUresult cuStreamDestroy_v2(CUstream handle)
{
  CUstream stream;
  ENTER(cuStreamDestroy_v2, true, true);
  mtx_lock(&fake_lock);
  CUresult code = handle == NULL ? CUDA_ERROR_INVALID_HANDLE : fake_stream_of(handle, &stream);
  if (code != CUDA_ERROR_INVALID_HANDLE) {
    stream->alive = false;
    fake_count(streams, -1);
  }
  mtx_unlock(&fake_lock);
  return code;
}

FAKE_EXPORT CUresult cuStreamSynchronize(CUstream handle)
{
  CUstream stream;
  ENTER(cuStreamSynchronize, true, true);
  mtx_lock(&fake_lock);
  fake_count(syncs, 1);
  CUresult code = fake_stream_of(handle, &stream);
  if (code == CUDA_SUCCESS)
    code = wait_until(stream, stream->enqueued, &stream->sync);
  mtx_unlock(&fake_lock);
  return code;
}

FAKE_EXPORT CUresult cuStreamQuery(CUstream handle)
{
  CUstream stream;
  ENTER(cuStreamQuery, true, true);
  mtx_lock(&fake_lock);
  CUresult code = fake_stream_of(handle, &stream);
  if (code == CUDA_SUCCESS && stream->completed < stream->enqueued)
    code = CUDA_ERROR_NOT_READY;
  else if (code == CUDA_SUCCESS)
    fake_acquire(&stream->sync);
  mtx_unlock(&fake_lock);
  return code;
}

static bool is_event(CUevent event)
{
  CUevent e = events;
  while (e != NULL && e != event)
    e = e->next;
  return e != NULL && e->alive;
}

FAKE_EXPORT CUresult cuStreamWaitEvent(CUstream handle, CUevent event, unsigned flags)
{
  CUstream stream;
  ENTER(cuStreamWaitEvent, true, true);
  if (flags != 0)
    return CUDA_ERROR_INVALID_VALUE;
  mtx_lock(&fake_lock);
  CUresult code = fake_stream_of(handle, &stream);
  if (code == CUDA_SUCCESS && !is_event(event))
    code = CUDA_ERROR_INVALID_HANDLE;
  if (code == CUDA_SUCCESS && event->stream != NULL) {
    fake_work *work = fake_work_new(FAKE_WAIT, "cuStreamWaitEvent");
    if (work == NULL) {
      code = CUDA_ERROR_OUT_OF_MEMORY;
    } else {
      work->event = event;
      work->after.stream = event->stream;
      work->after.sequence = event->sequence;
      code = fake_enqueue(stream, work, false);
    }
  }
  mtx_unlock(&fake_lock);
  return code;
}

FAKE_EXPORT CUresult cuLaunchHostFunc(CUstream handle, CUhostFn *function, void *context)
{
  CUstream stream;
  ENTER(cuLaunchHostFunc, true, true);
  if (function == NULL)
    return CUDA_ERROR_INVALID_VALUE;
  mtx_lock(&fake_lock);
  CUresult code = fake_stream_of(handle, &stream);
  fake_work *work = code == CUDA_SUCCESS ? fake_work_new(FAKE_HOST, "cuLaunchHostFunc") : NULL;
  if (work != NULL) {
    work->function = function;
    work->context = context;
    code = fake_enqueue(stream, work, false);
  } else if (code == CUDA_SUCCESS) {
    code = CUDA_ERROR_OUT_OF_MEMORY;
  }
  mtx_unlock(&fake_lock);
  return code;
}

// Nothing is ever captured here.
FAKE_EXPORT CUresult cuThreadExchangeStreamCaptureMode(int *mode)
{
  static __thread int now;
  ENTER(cuThreadExchangeStreamCaptureMode, true, false);
  int before = now;
  if (*mode < 0 || *mode > 2)
    return CUDA_ERROR_INVALID_VALUE;
  now = *mode;
  *mode = before;
  return CUDA_SUCCESS;
}

// ---- events ----

FAKE_EXPORT CUresult cuEventCreate(CUevent *event, unsigned flags)
{
  ENTER(cuEventCreate, true, true);
  if (flags > 7 || ((flags & CU_EVENT_INTERPROCESS) != 0 && (flags & CU_EVENT_DISABLE_TIMING) == 0))
    return CUDA_ERROR_INVALID_VALUE;
  mtx_lock(&fake_lock);
  CUevent e = events;
  while (e != NULL && (e->alive || (e->stream != NULL && e->stream->completed < e->sequence)))
    e = e->next;
  if (e == NULL && (e = calloc(1, sizeof(*e))) != NULL) {
    e->next = events;
    events = e;
  }
  if (e != NULL) {
    e->alive = true;
    e->flags = flags;
    e->ordinal = fake_current()->ordinal;
    e->stream = NULL;
    *event = e;
    fake_count(events, 1);
  }
  mtx_unlock(&fake_lock);
  return e == NULL ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

FAKE_EXPORT CUresult cuEventDestroy_v2(CUevent event)
{
  ENTER(cuEventDestroy_v2, true, true);
  mtx_lock(&fake_lock);
  bool good = is_event(event);
  if (good) {
    event->alive = false;
    fake_count(events, -1);
  }
  mtx_unlock(&fake_lock);
  return good ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

FAKE_EXPORT CUresult cuEventRecord(CUevent event, CUstream handle)
{
  CUstream stream;
  ENTER(cuEventRecord, true, true);
  mtx_lock(&fake_lock);
  CUresult code = fake_stream_of(handle, &stream);
  if (code == CUDA_SUCCESS && (!is_event(event) || event->ordinal != stream->ordinal))
    code = CUDA_ERROR_INVALID_HANDLE;
  fake_work *work = code == CUDA_SUCCESS ? fake_work_new(FAKE_RECORD, "cuEventRecord") : NULL;
  if (work != NULL) {
    work->event = event;
    code = fake_enqueue(stream, work, false);
    event->stream = stream;
    event->sequence = stream->enqueued;
  } else if (code == CUDA_SUCCESS) {
    code = CUDA_ERROR_OUT_OF_MEMORY;
  }
  mtx_unlock(&fake_lock);
  return code;
}

FAKE_EXPORT CUresult cuEventQuery(CUevent event)
{
  ENTER(cuEventQuery, true, true);
  mtx_lock(&fake_lock);
  CUresult code = is_event(event) ? death_of(event->ordinal) : CUDA_ERROR_INVALID_HANDLE;
  if (code == CUDA_SUCCESS && event->stream != NULL) {
    if (event->stream->completed < event->sequence)
      code = CUDA_ERROR_NOT_READY;
    else
      fake_acquire(&event->sync);
  }
  mtx_unlock(&fake_lock);
  return code;
}

FAKE_EXPORT CUresult cuEventSynchronize(CUevent event)
{
  ENTER(cuEventSynchronize, true, true);
  mtx_lock(&fake_lock);
  fake_count(syncs, 1);
  CUresult code = is_event(event) ? death_of(event->ordinal) : CUDA_ERROR_INVALID_HANDLE;
  if (code == CUDA_SUCCESS && event->stream != NULL)
    code = wait_until(event->stream, event->sequence, &event->sync);
  mtx_unlock(&fake_lock);
  return code;
}
