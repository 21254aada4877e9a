// Runs a fuzz target once over each file of the folder that its only argument names.
#include "fuzz.h"

#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// A copy of exactly the file's size, so that a sanitizer sees each byte that is read behind it.
static void run_file(int folder, const char *name)
{
  struct stat status;
  int file = openat(folder, name, O_RDONLY | O_CLOEXEC);
  CHECK(file >= 0 && fstat(file, &status) == 0);
  size_t size = (size_t)status.st_size;
  uint8_t *data = malloc(size > 0 ? size : 1);
  CHECK(data != NULL);
  CHECK(read(file, data, size) == (ssize_t)size);
  close(file);
  LLVMFuzzerTestOneInput(data, size);
  free(data);
}

int main(int count, char **arguments)
{
  CHECK(count == 2);
  DIR *folder = opendir(arguments[1]);
  CHECK(folder != NULL);
  size_t files = 0;
  for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
    if (entry->d_name[0] == '.')
      continue;
    printf("%s\n", entry->d_name);
    fflush(stdout); // the last name is the file that failed
    run_file(dirfd(folder), entry->d_name);
    files++;
  }
  closedir(folder);
  CHECK(files > 0);
  return 0;
}
