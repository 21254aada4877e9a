// NULL-terminated vectors of texts, as processes are started with. An addition that fails is kept
// until the vector is taken. Load threads.
#ifndef NEREID_PYTHON_TEXT_VECTOR_H
#define NEREID_PYTHON_TEXT_VECTOR_H

#include <stdbool.h>
#include <stddef.h>

typedef struct text_vector {
  char **items;
  size_t count;
  bool failed;
} text_vector;

void text_vector_add(text_vector *self, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

// The items, for text_vector_free(); NULL when there was no memory.
char **text_vector_take(text_vector *self);
void text_vector_free(char **items); // NULL does nothing

#endif
