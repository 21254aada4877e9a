// Looks for libonnxruntime.so in folders; see ort_search.h.
#include "ort_search.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The entry of `folder` that begins with `prefix` and comes last by version: 3.10 after 3.9,
// so.1.31.1 after so.1.4.
static char *newest_entry(const char *folder, const char *prefix)
{
  DIR *directory = opendir(folder);
  if (directory == NULL)
    return NULL;
  char *newest = NULL;
  for (struct dirent *entry; (entry = readdir(directory)) != NULL;) {
    if (strncmp(entry->d_name, prefix, strlen(prefix)) != 0)
      continue;
    if (newest != NULL && strverscmp(entry->d_name, newest) <= 0)
      continue;
    free(newest);
    newest = strdup(entry->d_name);
  }
  closedir(directory);
  return newest;
}

char *ort_search_folder(const char *folder)
{
  char *name = newest_entry(folder, "libonnxruntime.so");
  char *path = NULL;
  if (name != NULL && asprintf(&path, "%s/%s", folder, name) < 0)
    path = NULL;
  free(name);
  return path;
}

char *ort_search_python(const char *environment)
{
  char folder[PATH_MAX];
  int length = snprintf(folder, sizeof folder, "%s/lib", environment);
  if (length < 0 || (size_t)length >= sizeof folder)
    return NULL;
  char *python = newest_entry(folder, "python3");
  if (python == NULL)
    return NULL;
  length = snprintf(folder, sizeof folder, "%s/lib/%s/site-packages/onnxruntime/capi", environment,
                    python);
  free(python);
  return length < 0 || (size_t)length >= sizeof folder ? NULL : ort_search_folder(folder);
}
