// SPDX-License-Identifier: Apache-2.0
// Any bytes as the archive of an environment, or as the entries of a sound one: mutations of a tar
// fail at its checksums. Whatever is in it: what it leaves lies in the directory, is bounded, and
// leads nowhere else.
#include "base/dir.h"
#include "fuzz.h"
#include "pyenv/unpack.h"

#include <archive.h>
#include <archive_entry.h>
#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static const unpack_limits LIMITS = {.bytes = 1 << 20, .entries = 200};

static char place[64]; // holds the directory `in`, and the file `out`, which nobody may touch
static char inside[80];
static bool is_whole; // of the archive that was unpacked last
static uint64_t bytes, entries;

static void make_place(void)
{
  snprintf(place, sizeof place, "/dev/shm/nereid-unpack-%d", (int)getpid());
  snprintf(inside, sizeof inside, "%s/in", place);
  CHECK(mkdir(place, 0700) == 0);
  int parent = open(place, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  int outside = openat(parent, "out", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  CHECK(write(outside, "x", 1) == 1);
  close(outside);
  close(parent);
}

static void remove_place(void)
{
  int root = open("/dev/shm", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  CHECK(dir_remove(root, strrchr(place, '/') + 1));
  close(root);
}

static bool may_lead_out(const char *path)
{
  const char *name = path + strlen(inside);
  return strncmp(name, "/bin/python", strlen("/bin/python")) == 0;
}

static int look_at(const char *path, const struct stat *status, int type, struct FTW *walk)
{
  (void)type, (void)walk;
  char real[PATH_MAX];
  CHECK(S_ISREG(status->st_mode) || S_ISDIR(status->st_mode) || S_ISLNK(status->st_mode));
  entries++;
  if (S_ISREG(status->st_mode)) {
    CHECK((status->st_mode & (S_ISUID | S_ISGID | S_ISVTX | 0077)) == 0);
    bytes += (uint64_t)status->st_size / status->st_nlink;
  }
  if (is_whole && S_ISLNK(status->st_mode) && !may_lead_out(path) && realpath(path, real) != NULL)
    CHECK(strncmp(real, inside, strlen(inside)) == 0);
  return 0;
}

static void check_outside(int parent)
{
  struct stat status;
  DIR *dir = opendir(place);
  int count = 0;
  CHECK(dir != NULL);
  while (readdir(dir) != NULL)
    count++;
  closedir(dir);
  CHECK(count == 4); // ".", "..", "in" and "out"
  CHECK(fstatat(parent, "out", &status, AT_SYMLINK_NOFOLLOW) == 0);
  CHECK(S_ISREG(status.st_mode) && status.st_size == 1 && status.st_nlink == 1);
}

// An entry: its type, mode and size, a byte each, its name's line, and its link's.
static void add_entry(struct archive *archive, fuzz_input *input)
{
  static const mode_t types[] = {AE_IFREG, AE_IFDIR, AE_IFLNK, 0, AE_IFIFO, AE_IFCHR};
  static const char content[256];
  struct archive_entry *entry = archive_entry_new();
  CHECK(entry != NULL);
  const mode_t type = types[fuzz_byte(input) % (sizeof types / sizeof types[0])];
  const mode_t mode = (mode_t)fuzz_byte(input) << 4; // up to setuid
  const uint8_t size = fuzz_byte(input);
  char *name = fuzz_copy(fuzz_take_until(input, '\n'), 0);
  char *link = fuzz_copy(fuzz_take_until(input, '\n'), 0);
  archive_entry_set_pathname(entry, name);
  archive_entry_set_filetype(entry, type == 0 ? AE_IFREG : type);
  archive_entry_set_perm(entry, mode);
  if (type == 0)
    archive_entry_set_hardlink(entry, link);
  else if (type == AE_IFLNK)
    archive_entry_set_symlink(entry, link);
  archive_entry_set_size(entry, type == AE_IFREG ? size : 0);
  if (archive_write_header(archive, entry) == ARCHIVE_OK && type == AE_IFREG)
    archive_write_data(archive, content, size);
  archive_entry_free(entry);
  free(name);
  free(link);
}

static void write_entries(int file, fuzz_input *input)
{
  struct archive *archive = archive_write_new();
  CHECK(archive != NULL);
  archive_write_set_format_pax_restricted(archive);
  archive_write_set_bytes_per_block(archive, 0);
  CHECK(archive_write_open_fd(archive, file) == ARCHIVE_OK);
  while (input->size > 0)
    add_entry(archive, input);
  archive_write_close(archive);
  archive_write_free(archive);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  if (*place == '\0') {
    make_place();
    atexit(remove_place);
  }
  int archive = memfd_create("archive", MFD_CLOEXEC);
  CHECK(archive >= 0);
  fuzz_input input = {.data = data, .size = size};
  if (size > 0 && data[0] == 'E' && fuzz_byte(&input) == 'E')
    write_entries(archive, &input);
  else
    CHECK(write(archive, data, size) == (ssize_t)size);
  CHECK(lseek(archive, 0, SEEK_SET) == 0);
  int parent = open(place, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  CHECK(mkdirat(parent, "in", 0700) == 0);
  int dir = openat(parent, "in", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  TRITONSERVER_Error *error = unpack_archive(archive, "archive", dir, &LIMITS);
  is_whole = error == NULL;
  CHECK(error == NULL || *TRITONSERVER_ErrorMessage(error) != '\0');
  TRITONSERVER_ErrorDelete(error);
  close(dir);
  close(archive);
  bytes = entries = 0;
  CHECK(nftw(inside, look_at, 16, FTW_PHYS) == 0);
  CHECK(bytes <= LIMITS.bytes);
  CHECK(entries <= 1 + LIMITS.entries * MAX_DIR_DEPTH); // each may need the directories above it
  check_outside(parent);
  CHECK(dir_remove(parent, "in"));
  close(parent);
  return 0;
}
