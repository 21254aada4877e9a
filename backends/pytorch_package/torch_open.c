// SPDX-License-Identifier: Apache-2.0
// Shared objects in memory.
#include "torch_open.h"

#include "base/files.h"
#include "elf_needs.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define NAME_MAX_BYTES 64 // of a soname
#define SERIAL_BITS    32

// The loader recognizes a loaded library by its path, and a descriptor's number is reused for other
// files. Each path is therefore written differently.
void *torch_open_descriptor(int descriptor, int flags)
{
  static atomic_uint serial;
  char path[SERIAL_BITS * 2 + 64] = "/proc/self/fd";
  unsigned number = atomic_fetch_add(&serial, 1);
  size_t length = strlen(path);
  for (; number > 0; number /= 2)
    length += (size_t)snprintf(path + length, sizeof(path) - length, "%s", number % 2 ? "/." : "/");
  snprintf(path + length, sizeof(path) - length, "/%d", descriptor);
  return dlopen(path, flags);
}

int torch_memory_file(const char *name)
{
  return memfd_create(name, MFD_CLOEXEC);
}

// ---- stand-ins ----

// The smallest object that the loader takes; a symbol search in it finds nothing.
typedef struct stub_object {
  Elf64_Ehdr header;
  Elf64_Phdr segments[3];
  Elf64_Sym symbols[1];
  Elf64_Word hash[4]; // one bucket, one chain, both empty
  char names[NAME_MAX_BYTES + 2];
  _Alignas(16) Elf64_Dyn dynamic[7];
} stub_object;

static void fill_stub(stub_object *self, const char *soname)
{
  const Elf64_Addr symbols = offsetof(stub_object, symbols), hash = offsetof(stub_object, hash),
                   names = offsetof(stub_object, names), dynamic = offsetof(stub_object, dynamic);
  *self = (stub_object){.header = {.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64,
                                               ELFDATA2LSB, EV_CURRENT},
                                   .e_type = ET_DYN,
                                   .e_machine = ELF_OWN_MACHINE,
                                   .e_version = EV_CURRENT,
                                   .e_phoff = offsetof(stub_object, segments),
                                   .e_ehsize = sizeof(Elf64_Ehdr),
                                   .e_phentsize = sizeof(Elf64_Phdr),
                                   .e_phnum = 3},
                        .segments = {{.p_type = PT_LOAD,
                                      .p_flags = PF_R | PF_W,
                                      .p_filesz = sizeof(*self),
                                      .p_memsz = sizeof(*self),
                                      .p_align = 1 << 16},
                                     {.p_type = PT_DYNAMIC,
                                      .p_flags = PF_R | PF_W,
                                      .p_offset = dynamic,
                                      .p_vaddr = dynamic,
                                      .p_paddr = dynamic,
                                      .p_filesz = sizeof(self->dynamic),
                                      .p_memsz = sizeof(self->dynamic),
                                      .p_align = 8},
                                     {.p_type = PT_GNU_STACK, .p_flags = PF_R | PF_W}},
                        .hash = {1, 1},
                        .dynamic = {{DT_SONAME, {1}},
                                    {DT_HASH, {hash}},
                                    {DT_SYMTAB, {symbols}},
                                    {DT_STRTAB, {names}},
                                    {DT_STRSZ, {sizeof(self->names)}},
                                    {DT_SYMENT, {sizeof(Elf64_Sym)}},
                                    {DT_NULL, {0}}}};
  snprintf(self->names + 1, NAME_MAX_BYTES, "%s", soname);
}

bool torch_open_stub(const char *soname)
{
  stub_object stub;
  int file = strlen(soname) < NAME_MAX_BYTES ? torch_memory_file(soname) : -1;
  if (file < 0)
    return false;
  fill_stub(&stub, soname);
  bool opened = files_write(file, &stub, sizeof(stub)) &&
                torch_open_descriptor(file, RTLD_LAZY | RTLD_LOCAL | RTLD_NODELETE) != NULL;
  close(file);
  return opened;
}

bool torch_missing_library(const char *text, char *soname, size_t size)
{
  static const char *const families[] = {"libcu", "libnv"};
  const size_t length = strcspn(text, ":");
  if (length >= size || length >= NAME_MAX_BYTES ||
      strncmp(text + length, ": cannot open shared object file", 32) != 0)
    return false;
  for (size_t i = 0; i < sizeof(families) / sizeof(families[0]); i++)
    if (strncmp(text, families[i], strlen(families[i])) == 0) {
      snprintf(soname, size, "%.*s", (int)length, text);
      return true;
    }
  return false;
}

// ---- marks of symbols ----

static void clear_marks(char *symbols, size_t count)
{
  for (size_t i = 0; i < count; i++) {
    Elf64_Sym symbol;
    memcpy(&symbol, symbols + i * sizeof(symbol), sizeof(symbol));
    if (ELF64_ST_BIND(symbol.st_info) != STB_GNU_UNIQUE)
      continue;
    symbol.st_info = ELF64_ST_INFO(STB_WEAK, ELF64_ST_TYPE(symbol.st_info));
    memcpy(symbols + i * sizeof(symbol), &symbol, sizeof(symbol));
  }
}

// The loader maps the segments unchecked, and a page beyond the file's end would kill the process.
static bool has_segments(const char *bytes, size_t size, const Elf64_Ehdr *header)
{
  for (size_t i = 0; i < header->e_phnum; i++) {
    Elf64_Phdr segment;
    if (header->e_phoff > size || (i + 1) * sizeof(segment) > size - header->e_phoff)
      return false;
    memcpy(&segment, bytes + header->e_phoff + i * sizeof(segment), sizeof(segment));
    if (segment.p_offset > size || segment.p_filesz > size - segment.p_offset)
      return false;
  }
  return header->e_phnum > 0;
}

bool torch_make_unloadable(void *data, size_t size)
{
  Elf64_Ehdr header;
  char *bytes = data;
  if (size < sizeof(header))
    return false;
  memcpy(&header, bytes, sizeof(header));
  if (memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
      header.e_type != ET_DYN || header.e_machine != ELF_OWN_MACHINE ||
      !has_segments(bytes, size, &header))
    return false;
  for (size_t i = 0; i < header.e_shnum; i++) {
    Elf64_Shdr section;
    if (header.e_shoff > size || (i + 1) * sizeof(section) > size - header.e_shoff)
      break;
    memcpy(&section, bytes + header.e_shoff + i * sizeof(section), sizeof(section));
    if (section.sh_type != SHT_DYNSYM)
      continue;
    if (section.sh_offset <= size && section.sh_size <= size - section.sh_offset)
      clear_marks(bytes + section.sh_offset, section.sh_size / sizeof(Elf64_Sym));
    break; // there is only one
  }
  return true;
}
