// SPDX-License-Identifier: Apache-2.0
// Reads /proc. Processes that start or end meanwhile may be left out.
#include "process_memory.h"

#include "base/text.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_PROCESSES 512 // in one answer

// Reads the number after blanks.
static bool read_number(const char *text, uint64_t *number)
{
  text += strspn(text, " \t");
  return text_to_uint64((slice){text, strspn(text, "0123456789")}, number);
}

static bool read_pss(pid_t process, uint64_t *bytes)
{
  char path[64], line[128];
  bool found = false;
  snprintf(path, sizeof(path), "/proc/%d/smaps_rollup", (int)process);
  FILE *file = fopen(path, "re");
  if (file == NULL)
    return false;
  while (!found && fgets(line, sizeof(line), file) != NULL)
    if (strncmp(line, "Pss:", 4) == 0) { // "Pss:     1234 kB"
      found = read_number(line + strlen("Pss:"), bytes);
      *bytes *= 1024;
    }
  fclose(file);
  return found;
}

static uint64_t read_resident(pid_t process)
{
  char path[64], line[128] = "";
  snprintf(path, sizeof(path), "/proc/%d/statm", (int)process);
  FILE *file = fopen(path, "re");
  if (file == NULL)
    return 0;
  char *pages = fgets(line, sizeof(line), file); // "<size> <resident> …"
  fclose(file);
  uint64_t count = 0;
  pages = pages == NULL ? NULL : strchr(pages, ' ');
  return pages != NULL && read_number(pages, &count) ? count * (uint64_t)sysconf(_SC_PAGESIZE) : 0;
}

static uint64_t add_tree(pid_t process, int *left);

static uint64_t add_children(const char *path, int *left)
{
  uint64_t bytes = 0, child;
  char *word = NULL; // "<child> "
  size_t size = 0;
  FILE *file = fopen(path, "re");
  while (file != NULL && *left > 0 && getdelim(&word, &size, ' ', file) > 0 &&
         read_number(word, &child))
    bytes += add_tree((pid_t)child, left);
  if (file != NULL)
    fclose(file);
  free(word);
  return bytes;
}

// Each thread lists its own children.
static uint64_t add_tree(pid_t process, int *left)
{
  char path[64 + sizeof((struct dirent *)NULL)->d_name];
  uint64_t bytes = 0;
  if (!read_pss(process, &bytes))
    bytes = read_resident(process);
  --*left;
  snprintf(path, sizeof(path), "/proc/%d/task", (int)process);
  DIR *threads = opendir(path);
  const struct dirent *entry;
  while (threads != NULL && *left > 0 && (entry = readdir(threads)) != NULL) {
    if (entry->d_name[0] == '.')
      continue;
    snprintf(path, sizeof(path), "/proc/%d/task/%s/children", (int)process, entry->d_name);
    bytes += add_children(path, left);
  }
  if (threads != NULL)
    closedir(threads);
  return bytes;
}

uint64_t process_memory(pid_t process)
{
  int left = MAX_PROCESSES;
  return add_tree(process, &left);
}

void process_memory_report(TRITONBACKEND_ModelInstance *instance, uint64_t bytes)
{
  TRITONSERVER_BufferAttributes *usage = NULL;
  TRITONSERVER_Error *error = TRITONSERVER_BufferAttributesNew(&usage);
  if (error == NULL) {
    TRITONSERVER_BufferAttributesSetByteSize(usage, bytes);
    error = TRITONBACKEND_ModelInstanceReportMemoryUsage(instance, &usage, 1);
    TRITONSERVER_BufferAttributesDelete(usage);
  }
  if (error != NULL) // memory is short: the previous report stays
    TRITONSERVER_ErrorDelete(error);
}
