// Vectors that grow by one.
#include "process/text_vector.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

void text_vector_add(text_vector *self, const char *format, ...)
{
  char **grown = reallocarray(self->items, self->count + 2, sizeof *grown);
  va_list values;
  if (grown == NULL) {
    self->failed = true;
    return;
  }
  self->items = grown;
  va_start(values, format);
  int length = vasprintf(&grown[self->count], format, values);
  va_end(values);
  if (length < 0)
    self->failed = true;
  else
    self->count++;
  grown[self->count] = NULL;
}

char **text_vector_take(text_vector *self)
{
  char **items = self->items;
  if (self->failed) {
    text_vector_free(items);
    items = NULL;
  }
  *self = (text_vector){0};
  return items;
}

void text_vector_free(char **items)
{
  for (char **item = items; item != NULL && *item != NULL; item++)
    free(*item);
  free(items);
}
