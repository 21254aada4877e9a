// SPDX-License-Identifier: Apache-2.0
// A worker of tests: a process that says over its channel what a Python worker says.
//   worker_program SCRIPT FILE
// SCRIPT has a letter for each start, of which the last one stands for all further ones; FILE has a
// byte for each start so far.
//   h  exits with status 7 before it has said hello
//   s  says nothing
//   v  is of another version
//   l  says no to WORK_LOAD
//   i  says no to WORK_INITIALIZE
//   f  does not answer WORK_FINALIZE
//   b  is not ready
//   q  answers whether it is ready when it is given other work
//   o  has neither auto_complete_config nor is_ready
//   r  does all that it should
#include "channel.h"
#include "channel_descriptor.h"
#include "codec/protocol.h"
#include "wire.h"

#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "worker_program.h"

static channel *mine;
static char script;
static channel_message unanswered; // 'q': id 0: none

static void send_control(channel_ring ring, channel_message message, const wire_writer *control)
{
  if (!channel_allocate(mine, control->size, &message.offset))
    exit(101);
  memcpy(channel_own(mine, message.offset), control->to, control->size);
  message.size = control->size;
  if (!channel_send(mine, ring, &message))
    exit(102);
}

static void put_string(wire_writer *writer, const char *text)
{
  wire_put_text(writer, text, strlen(text));
}

static void answer(const channel_message *work)
{
  uint8_t bytes[256];
  wire_writer writer = {.to = bytes, .room = sizeof bytes};
  bool refused = (work->kind == WORK_LOAD && script == 'l') ||
                 (work->kind == WORK_INITIALIZE && script == 'i');
  wire_put_u8(&writer, !refused);
  if (refused) {
    put_string(&writer, "no module named 'absent'");
    put_string(&writer, "Traceback: no module named 'absent'");
  } else if (work->kind == WORK_HELLO) {
    wire_put_u32(&writer, script == 'v' ? PROTOCOL_VERSION + 1 : PROTOCOL_VERSION);
    put_string(&writer, "3.11");
    put_string(&writer, "/usr/bin/python3");
  } else if (work->kind == WORK_LOAD) {
    wire_put_u8(&writer, script != 'o');
    wire_put_u8(&writer, 0);
    wire_put_u8(&writer, script != 'o');
  } else if (work->kind == WORK_AUTO_COMPLETE) {
    put_string(&writer, "{\"completed\":true}");
  } else if (work->kind == WORK_IS_READY) {
    wire_put_u8(&writer, script != 'b');
  }
  send_control(CHANNEL_ANSWERS, *work, &writer);
}

static void execute(const channel_message *work)
{
  if (unanswered.id != 0)
    answer(&unanswered);
  unanswered.id = 0;
  if (work->value == PLAYED_EXIT)
    exit(3);
  if (work->value == PLAYED_KILL)
    raise(SIGKILL);
  if (work->value == PLAYED_HANG)
    return;
  if (work->value == PLAYED_CALL)
    channel_send(mine, CHANNEL_CALLS, &(channel_message){.kind = CALL_RELEASE, .value = 77});
  answer(work);
}

static void work_on(const channel_message *work)
{
  if (work->kind == WORK_EXECUTE)
    execute(work);
  else if (work->kind == WORK_IS_READY && script == 'q')
    unanswered = *work;
  else if (work->kind != WORK_FINALIZE || script != 'f')
    answer(work);
}

int main(int count, char **arguments)
{
  struct stat starts;
  channel_message work;
  int file = count == 3 ? open(arguments[2], O_WRONLY | O_APPEND | O_CLOEXEC) : -1;
  if (file < 0 || fstat(file, &starts) != 0 || write(file, "x", 1) != 1)
    return 103;
  size_t letters = strlen(arguments[1]), start = (size_t)starts.st_size;
  script = arguments[1][start < letters ? start : letters - 1];
  if (script == 'h')
    return 7;
  if (channel_attach(channel_receive_descriptor(PROTOCOL_SOCKET), &mine) != 0)
    return 104;
  if (script != 's')
    answer(&(channel_message){.kind = WORK_HELLO});
  while (channel_receive(mine, CHANNEL_WORK, -1, &work) == CHANNEL_MESSAGE) {
    work_on(&work);
    channel_done(mine, CHANNEL_WORK);
    if (work.kind == WORK_FINALIZE && script != 'f')
      return 0;
  }
  return 105;
}
