// Cuts what comes out of a pipe into lines.
#include "process/output.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

enum {
  PIECE = 16384, // read at a time, so that no worker keeps the others waiting
  MAX_DRAIN = 1 << 20
};

static void end_line(worker_output *self)
{
  size_t length = self->length;
  if (length > 0 && self->line[length - 1] == '\r')
    length--;
  for (char *nul = self->line; (nul = memchr(nul, '\0', length - (size_t)(nul - self->line)));)
    *nul = ' '; // what is a text for people ends at one
  self->take_line(self->user, self->line, length, self->cut);
  if (length > 0) {
    size_t kept = length < sizeof self->last ? length : sizeof self->last - 1;
    memcpy(self->last, self->line, kept);
    self->last[kept] = '\0';
  }
  self->length = 0;
  self->cut = false;
}

static void split(worker_output *self, const char *bytes, size_t count)
{
  for (const char *end = bytes + count; bytes < end; bytes++)
    if (*bytes == '\n')
      end_line(self);
    else if (self->length < MAX_WORKER_LINE)
      self->line[self->length++] = *bytes;
    else
      self->cut = true;
}

// The bytes read, 0 when nothing is there yet, -1 at the end.
static ssize_t read_piece(worker_output *self)
{
  char piece[PIECE];
  ssize_t got;
  do
    got = read(self->descriptor, piece, sizeof piece);
  while (got < 0 && errno == EINTR);
  if (got > 0)
    split(self, piece, (size_t)got);
  if (got == 0)
    return -1;
  return got < 0 && errno == EAGAIN ? 0 : got;
}

void worker_output_end(worker_output *self)
{
  ssize_t total = 0, got;
  if (self->descriptor < 0)
    return;
  while (total < MAX_DRAIN && (got = read_piece(self)) > 0)
    total += got;
  if (self->length > 0)
    end_line(self);
  close(self->descriptor);
  self->descriptor = -1;
}

bool worker_output_read(worker_output *self)
{
  if (self->descriptor >= 0 && read_piece(self) >= 0)
    return true;
  worker_output_end(self);
  return false;
}
