// SPDX-License-Identifier: Apache-2.0
// The parts of the pytorch backend that need no PyTorch: names, packages, shared objects in memory.
#include "torch_names.h"
#include "torch_open.h"
#include "torch_package.h"

#include <dlfcn.h>
#include <elf.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define TENSOR "{\"type\": null, \"context\": null, \"children_spec\": []}"

static void test_an_index_stands_behind_the_first_two_lines(void **state)
{
  (void)state;
  size_t index = 99;
  assert_true(torch_index_of("INPUT__3", &index));
  assert_int_equal(index, 3);
  assert_true(torch_index_of("__0", &index));
  assert_int_equal(index, 0);
  assert_true(torch_index_of("x__", &index)); // as Triton reads it
  assert_int_equal(index, 0);
  assert_false(torch_index_of("x", &index));
  assert_false(torch_index_of("x_1", &index));
  assert_false(torch_index_of("a__b__1", &index));
  assert_false(torch_index_of("x__-1", &index));
  assert_false(torch_index_of("x__99999999999999999999", &index));
}

// The convention of `names` and the positions that they get, -1 for nowhere.
static void assert_names(json_t *names, torch_known known, torch_convention wanted,
                         const int *positions)
{
  const char *culprit;
  torch_convention convention = torch_convention_of(names, &known, &culprit);
  assert_int_equal(convention, wanted);
  for (size_t i = 0; i < json_array_size(names); i++) {
    size_t position = 0;
    bool found = torch_position_of(convention, json_string_value(json_array_get(names, i)), &known,
                                   i, &position);
    assert_int_equal(found ? (int)position : -1, positions[i]);
  }
  json_decref(names);
  json_decref(known.names);
}

static torch_known arguments(bool mixed)
{
  return (torch_known){json_pack("[ss]", "left", "right"), 2, true, false, mixed};
}

static void test_names_follow_one_of_three_conventions(void **state)
{
  (void)state;
  assert_names(json_pack("[ss]", "right", "left"), arguments(false), TORCH_BY_NAME, (int[]){1, 0});
  assert_names(json_pack("[ss]", "a__1", "b__0"), arguments(false), TORCH_BY_INDEX, (int[]){1, 0});
  assert_names(json_pack("[ss]", "a", "b"), arguments(false), TORCH_BY_ORDER, (int[]){0, 1});
  // One of each kind: their order.
  assert_names(json_pack("[ss]", "right", "b__1"), arguments(false), TORCH_BY_ORDER, (int[]){0, 1});
  // What the model does not have.
  assert_names(json_pack("[ss]", "a__0", "b__2"), arguments(false), TORCH_BY_INDEX, (int[]){0, -1});
  assert_names(json_pack("[sss]", "a", "b", "c"), arguments(false), TORCH_BY_ORDER,
               (int[]){0, 1, -1});
  // Compiled models take both side by side.
  assert_names(json_pack("[ss]", "right", "INPUT__0"), arguments(true), TORCH_BY_NAME,
               (int[]){1, 0});
  // Entries of a dictionary are what they are called.
  assert_names(json_pack("[ss]", "z", "y__7"), (torch_known){.names = json_array(), .any = true},
               TORCH_BY_ORDER, (int[]){0, 1});
  // Outputs without names of their own, and how many there are is not known.
  assert_names(json_pack("[ss]", "y__4", "y__0"), (torch_known){0}, TORCH_BY_INDEX, (int[]){4, 0});
}

static void assert_list(json_t *list, json_t *wanted)
{
  assert_true(json_equal(list, wanted));
  json_decref(list);
  json_decref(wanted);
}

static void test_a_call_specification_has_names(void **state)
{
  (void)state;
  assert_list(
      torch_input_names(
          "[1, {\"type\": \"builtins.tuple\", \"context\": \"null\", \"children_spec\": ["
          "{\"type\": \"builtins.tuple\", \"context\": null, \"children_spec\": [" TENSOR
          ", {\"type\": \"builtins.dict\", \"context\": \"[\\\"b\\\", \\\"a\\\"]\", "
          "\"children_spec\": [" TENSOR ", " TENSOR "]}]},"
          "{\"type\": \"builtins.dict\", \"context\": [\"scale\"], \"children_spec\": [" TENSOR
          "]}]}]"),
      json_pack("[ssss]", "ARGS[0]", "ARGS[1][b]", "ARGS[1][a]", "KWARGS[scale]"));
  assert_list(torch_output_names("[1, " TENSOR "]"), json_pack("[s]", "RESULT"));
  assert_list(torch_output_names("[1, {\"type\": \"builtins.list\", \"context\": \"null\", "
                                 "\"children_spec\": [" TENSOR ", " TENSOR "]}]"),
              json_pack("[ss]", "RESULT[0]", "RESULT[1]"));
}

static void test_what_is_no_call_specification_has_none(void **state)
{
  (void)state;
  const char *const texts[] = {NULL, "", "[]", "[1]", "{}", "[1, 2]", "[1, [" TENSOR "]]"};
  for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
    assert_null(torch_input_names(texts[i]));
    assert_null(torch_output_names(texts[i]));
  }
  char deep[8192] = "[1, ";
  for (int i = 0; i < 100; i++)
    strcat(deep, "{\"type\": \"t\", \"children_spec\": [");
  strcat(deep, TENSOR);
  for (int i = 0; i < 100; i++)
    strcat(deep, "]}");
  strcat(deep, "]");
  assert_null(torch_output_names(deep));
}

static void test_a_keyword_may_lack_its_brackets(void **state)
{
  (void)state;
  torch_known known = {json_pack("[ss]", "ARGS[0]", "KWARGS[scale]"), 2, true, false, true};
  assert_names(json_pack("[sss]", "KWARGSscale", "ARGS[0]", "KWARGSscal"), known, TORCH_BY_ORDER,
               (int[]){0, 1, -1});
  known.names = json_pack("[ss]", "ARGS[0]", "KWARGS[scale]");
  assert_names(json_pack("[ss]", "KWARGSscale", "ARGS[0]"), known, TORCH_BY_NAME, (int[]){1, 0});
}

static void test_a_stand_in_is_found_by_its_soname(void **state)
{
  (void)state;
  char soname[64];
  assert_null(dlopen("libnereid_absent.so.7", RTLD_LAZY));
  assert_true(torch_open_stub("libnereid_absent.so.7"));
  void *handle = dlopen("libnereid_absent.so.7", RTLD_LAZY);
  assert_non_null(handle);
  assert_null(dlsym(handle, "nereid_absent"));
  dlclose(handle);
  assert_true(torch_missing_library("libcudart.so.13: cannot open shared object file: No such file",
                                    soname, sizeof(soname)));
  assert_string_equal(soname, "libcudart.so.13");
  assert_false(torch_missing_library("libfoo.so.1: cannot open shared object file: No such file",
                                     soname, sizeof(soname)));
  assert_false(
      torch_missing_library("libcudart.so.13: invalid ELF header", soname, sizeof(soname)));
  assert_false(torch_missing_library("", soname, sizeof(soname)));
}

static void test_each_descriptor_is_another_library(void **state)
{
  (void)state;
  char name[32];
  for (int i = 0; i < 5; i++) { // each has the number of the one before
    snprintf(name, sizeof(name), "libnereid_number%d.so", i);
    assert_true(torch_open_stub(name));
    void *handle = dlopen(name, RTLD_LAZY);
    assert_non_null(handle);
    dlclose(handle);
  }
}

static void test_other_bytes_are_no_shared_object(void **state)
{
  (void)state;
  char bytes[512] = {0};
  assert_false(torch_make_unloadable(bytes, 0));
  assert_false(torch_make_unloadable(bytes, sizeof(bytes)));
  Elf64_Ehdr header = {.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64},
                       .e_type = ET_DYN,
                       .e_machine = EM_S390,
                       .e_phnum = 1,
                       .e_phoff = sizeof(header)};
  memcpy(bytes, &header, sizeof(header));
  assert_false(torch_make_unloadable(bytes, sizeof(bytes)));
}

// One segment of `segment_size` bytes from the beginning.
static bool is_whole(size_t segment_size)
{
  char bytes[512] = {0};
  Elf64_Ehdr header = {.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64},
                       .e_type = ET_DYN,
                       .e_machine =
                           strcmp(torch_own_machine.name, "x86_64") == 0 ? EM_X86_64 : EM_AARCH64,
                       .e_phnum = 1,
                       .e_phoff = sizeof(header)};
  Elf64_Phdr segment = {.p_type = PT_LOAD, .p_filesz = segment_size};
  memcpy(bytes, &header, sizeof(header));
  memcpy(bytes + sizeof(header), &segment, sizeof(segment));
  return torch_make_unloadable(bytes, sizeof(bytes));
}

static void test_a_shared_object_has_what_its_segments_say(void **state)
{
  (void)state;
  assert_true(is_whole(512));
  assert_false(is_whole(513));
  assert_false(is_whole(SIZE_MAX));
}

// The loader looks at one table of symbols, and so does what clears their marks: a file with many
// that overlap is not walked through over and over.
static void test_marks_are_cleared_in_one_table(void **state)
{
  (void)state;
  struct {
    Elf64_Ehdr header;
    Elf64_Phdr segment;
    Elf64_Shdr sections[3];
    Elf64_Sym symbols[2];
  } object = {.header = {.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64},
                         .e_type = ET_DYN,
                         .e_machine =
                             strcmp(torch_own_machine.name, "x86_64") == 0 ? EM_X86_64 : EM_AARCH64,
                         .e_phnum = 1,
                         .e_phoff = sizeof(Elf64_Ehdr),
                         .e_shnum = 3,
                         .e_shoff = sizeof(Elf64_Ehdr) + sizeof(Elf64_Phdr)}};
  const unsigned char mark = ELF64_ST_INFO(STB_GNU_UNIQUE, STT_OBJECT);
  const size_t symbols = sizeof(object) - sizeof(object.symbols);
  for (size_t i = 0; i < 2; i++) {
    object.sections[i + 1] = (Elf64_Shdr){.sh_type = SHT_DYNSYM,
                                          .sh_offset = symbols + i * sizeof(Elf64_Sym),
                                          .sh_size = sizeof(Elf64_Sym)};
    object.symbols[i].st_info = mark;
  }
  assert_true(torch_make_unloadable(&object, sizeof(object)));
  assert_int_equal(object.symbols[0].st_info, ELF64_ST_INFO(STB_WEAK, STT_OBJECT));
  assert_int_equal(object.symbols[1].st_info, mark);
  object.sections[1].sh_size = SIZE_MAX; // beyond the file
  object.symbols[0].st_info = mark;
  assert_true(torch_make_unloadable(&object, sizeof(object)));
  assert_int_equal(object.symbols[0].st_info, mark);
}

static bool has_avx2_alone(const char *set)
{
  return strcmp(set, "AVX2") == 0;
}

static void assert_checked(json_t *metadata, bool needs_more, const char *said)
{
  const torch_machine machine = {"x86_64", has_avx2_alone};
  torch_package package = TORCH_PACKAGE_EMPTY;
  package.metadata = metadata;
  package.needs_more = needs_more;
  TRITONSERVER_Error *error = torch_package_check(&package, &machine, "1/model.pt2");
  if (said == NULL)
    assert_null(error);
  else
    assert_non_null(strstr(TRITONSERVER_ErrorMessage(error), said));
  TRITONSERVER_ErrorDelete(error);
  torch_package_fini(&package);
}

static void test_a_package_says_what_it_was_compiled_for(void **state)
{
  (void)state;
  assert_checked(json_object(), false, NULL);
  assert_checked(json_pack("{ssss}", "AOTI_MACHINE", "x86_64", "AOTI_CPU_ISA", "AVX2"), false,
                 NULL);
  assert_checked(json_pack("{ss}", "AOTI_CPU_ISA", "AVX512 AMX_TILE"), false,
                 "for the instruction set AVX512, which this processor does not have");
  assert_checked(json_pack("{ss}", "AOTI_CPU_ISA", "AVX2 AMX_TILE"), false, "set AMX_TILE,");
  assert_checked(json_pack("{ss}", "AOTI_MACHINE", "aarch64"), false,
                 "was compiled for aarch64, and this machine is x86_64");
  assert_checked(json_pack("{ss}", "AOTI_DEVICE_KEY", "cuda"), false, "for device 'cuda'");
  assert_checked(json_object(), true, "operators that have no C interface");
}

// Only where the processor has it can it be asked for.
static void test_this_machine_has_amx_where_linux_gives_it(void **state)
{
  (void)state;
  char text[1 << 16];
  FILE *file = fopen("/proc/cpuinfo", "r");
  assert_non_null(file);
  text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
  fclose(file);
  if (strstr(text, " amx_tile") == NULL)
    assert_false(torch_own_machine.has("AMX_TILE"));
  assert_true(torch_own_machine.has("SOMETHING_NEWER"));
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_an_index_stands_behind_the_first_two_lines),
      cmocka_unit_test(test_names_follow_one_of_three_conventions),
      cmocka_unit_test(test_a_call_specification_has_names),
      cmocka_unit_test(test_what_is_no_call_specification_has_none),
      cmocka_unit_test(test_a_keyword_may_lack_its_brackets),
      cmocka_unit_test(test_a_stand_in_is_found_by_its_soname),
      cmocka_unit_test(test_each_descriptor_is_another_library),
      cmocka_unit_test(test_other_bytes_are_no_shared_object),
      cmocka_unit_test(test_a_shared_object_has_what_its_segments_say),
      cmocka_unit_test(test_marks_are_cleared_in_one_table),
      cmocka_unit_test(test_a_package_says_what_it_was_compiled_for),
      cmocka_unit_test(test_this_machine_has_amx_where_linux_gives_it),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
