// SPDX-License-Identifier: Apache-2.0
// Runs a fuzz target on every file of the directories that it is given.
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int replay(const char *path)
{
  static uint8_t data[1 << 20];
  FILE *file = fopen(path, "rb");
  if (file == NULL)
    return 0;
  size_t size = fread(data, 1, sizeof(data), file);
  fclose(file);
  uint8_t *copy = malloc(size + 1); // so that a sanitizer sees the end
  if (copy == NULL)
    return 0;
  memcpy(copy, data, size);
  LLVMFuzzerTestOneInput(copy, size);
  free(copy);
  return 1;
}

int main(int count, char **dirs)
{
  int replayed = 0;
  for (int i = 1; i < count; i++) {
    DIR *dir = opendir(dirs[i]);
    if (dir == NULL)
      return 1;
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
      char path[4096];
      snprintf(path, sizeof(path), "%s/%s", dirs[i], entry->d_name);
      if (entry->d_name[0] != '.')
        replayed += replay(path);
    }
    closedir(dir);
  }
  printf("%d inputs\n", replayed);
  return replayed > 0 ? 0 : 1;
}
