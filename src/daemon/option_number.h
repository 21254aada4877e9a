// Numbers as Triton's command line takes them: blanks and a sign may come first, and what follows
// the number is left aside. Main thread, while it reads the flags.
#ifndef NEREID_DAEMON_OPTION_NUMBER_H
#define NEREID_DAEMON_OPTION_NUMBER_H

#include <stdbool.h>
#include <stdint.h>

// Reads what `text` begins with; *rest is what follows it. False when that is no number, or none
// that fits.
bool option_number_integer(const char *text, int64_t *value, const char **rest);
bool option_number_double(const char *text, double *value, const char **rest);

#endif
