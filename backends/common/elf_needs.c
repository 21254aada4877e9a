// SPDX-License-Identifier: Apache-2.0
// Reads the dynamic section with pread.
#include "elf_needs.h"

#include <fcntl.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#define MOST_SEGMENTS 256
#define MOST_ENTRIES  4096 // in the dynamic section
#define MOST_NAME     256  // bytes, including the NUL

typedef struct elf_object {
  int file;
  Elf64_Phdr segments[MOST_SEGMENTS];
  size_t segment_count;
} elf_object;

static bool read_at(int file, uint64_t offset, void *to, size_t bytes)
{
  return offset <= INT64_MAX && pread(file, to, bytes, (off_t)offset) == (ssize_t)bytes;
}

static const char *read_segments(elf_object *self)
{
  Elf64_Ehdr header;
  if (!read_at(self->file, 0, &header, sizeof(header)) ||
      memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
      header.e_phentsize != sizeof(Elf64_Phdr))
    return "is no 64-bit shared object";
  if (header.e_phnum > MOST_SEGMENTS)
    return "has too many segments";
  self->segment_count = header.e_phnum;
  return read_at(self->file, header.e_phoff, self->segments,
                 self->segment_count * sizeof(self->segments[0]))
             ? NULL
             : "is cut off";
}

// The file offset of an address.
static bool offset_of(const elf_object *self, uint64_t address, uint64_t *offset)
{
  for (size_t i = 0; i < self->segment_count; i++) {
    const Elf64_Phdr *s = &self->segments[i];
    if (s->p_type != PT_LOAD || address < s->p_vaddr || address - s->p_vaddr >= s->p_filesz)
      continue;
    return !__builtin_add_overflow(s->p_offset, address - s->p_vaddr, offset);
  }
  return false;
}

static bool add_name(const elf_object *self, uint64_t offset, string_list *names)
{
  char name[MOST_NAME];
  const ssize_t size =
      offset <= INT64_MAX ? pread(self->file, name, sizeof(name), (off_t)offset) : -1;
  if (size <= 0 || memchr(name, '\0', (size_t)size) == NULL || name[0] == '\0')
    return false;
  return string_list_add(names, name);
}

// Reads the entries of the section at `dynamic`. A first pass finds `strings`, where the names are.
static const char *read_entries(const elf_object *self, const Elf64_Phdr *dynamic,
                                string_list *names)
{
  uint64_t strings = 0;
  bool known = false;
  for (int look = 0; look < 2; look++) {
    const size_t most = dynamic->p_filesz / sizeof(Elf64_Dyn);
    for (size_t i = 0; i < most && i < MOST_ENTRIES; i++) {
      Elf64_Dyn entry;
      uint64_t name = 0;
      if (!read_at(self->file, dynamic->p_offset + i * sizeof(entry), &entry, sizeof(entry)))
        return "is cut off";
      if (entry.d_tag == DT_NULL)
        break;
      if (look == 0 && entry.d_tag == DT_STRTAB)
        known = offset_of(self, entry.d_un.d_ptr, &strings);
      if (look == 1 && entry.d_tag == DT_NEEDED &&
          (__builtin_add_overflow(strings, entry.d_un.d_val, &name) ||
           !add_name(self, name, names)))
        return "names a library that cannot be read";
    }
    if (!known)
      return "has no names of libraries";
  }
  return NULL;
}

bool elf_needs(const char *path, string_list *names, const char **why)
{
  elf_object self = {.file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  *why = self.file < 0 ? "cannot be read" : read_segments(&self);
  for (size_t i = 0; *why == NULL && i < self.segment_count; i++)
    if (self.segments[i].p_type == PT_DYNAMIC) {
      *why = read_entries(&self, &self.segments[i], names);
      break;
    }
  if (self.file >= 0)
    close(self.file);
  return *why == NULL && !names->failed;
}
