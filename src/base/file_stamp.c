// SPDX-License-Identifier: Apache-2.0
// A walk through a directory; see file_stamp.h. The walk enters a directory through only one of the
// links that lead to it, so circular links end.
#include "base/file_stamp.h"

#include "base/cleanup.h"
#include "base/log.h"
#include "base/string_map.h"

#include <inttypes.h>
#include <stdlib.h>

#define MAX_DEPTH   32      // directories below a model; deeper ones do not count as changes
#define MAX_ENTRIES 1000000 // of one walk; later ones do not count
#define LINKS_TOLD  8       // of one walk; one line gives the number of the others

typedef struct walk {
  const char *dir;
  error **refused;
  file_stamp stamp;
  uint64_t *entered; // identities of directories that links lead to
  size_t entered_count;
  size_t entries;
  size_t unfollowed; // links
} walk;

void file_stamp_add(file_stamp *sum, file_stamp other)
{
  sum->entries += other.entries;
  sum->targets += other.targets;
  sum->bytes += other.bytes;
}

// Spreads each bit over all (MurmurHash3's last step), so that sums of small numbers do not
// collide.
static uint64_t spread(uint64_t value)
{
  value = (value ^ value >> 33) * 0xff51afd7ed558ccdu;
  value = (value ^ value >> 33) * 0xc4ceb9fe1a85ec53u;
  return value ^ value >> 33;
}

void file_stamp_add_entry(file_stamp *sum, const char *name, const file_entry *entry)
{
  uint64_t state = spread(entry->change_ns) + entry->bytes;
  sum->entries += spread(string_map_hash(slice_of(name)) ^ spread(state));
}

bool file_stamp_differs(file_stamp now, file_stamp before)
{
  return now.entries != before.entries || now.targets != before.targets;
}

// Adds the directory to those entered; *fresh is false when it was among them.
static error *enter(walk *w, uint64_t identity, bool *fresh)
{
  *fresh = false;
  for (size_t i = 0; i < w->entered_count; i++)
    if (w->entered[i] == identity)
      return NULL;
  uint64_t *grown = reallocarray(w->entered, w->entered_count + 1, sizeof(*grown));
  if (grown == NULL)
    return error_no_memory();
  w->entered = grown;
  w->entered[w->entered_count++] = identity;
  *fresh = true;
  return NULL;
}

// A dangling link is reported only when something opens it; a link that is not followed is reported
// here.
static void tell_of_link(walk *w, const file_root *root, const char *name)
{
  AUTO_ERROR error *e = files_check_link(root, name);
  if (e == NULL || error_get_code(e) == ERROR_NOT_FOUND)
    return;
  if (++w->unfollowed <= LINKS_TOLD && w->dir != NULL)
    log_warning("a link in '%s' is not followed: %s", w->dir, error_message(e));
  if (*w->refused == NULL) {
    *w->refused = e;
    e = NULL;
  }
}

static error *walk_dir(walk *w, const file_root *root, const char *name, int depth);

static error *walk_entry(walk *w, const file_root *root, const char *name, int depth,
                         file_kind *kind)
{
  file_entry entry;
  bool enters = depth > 0;
  RETURN_IF_ERROR(files_look(root, name, &entry));
  *kind = entry.kind;
  if (++w->entries > MAX_ENTRIES) {
    if (w->entries == MAX_ENTRIES + 1 && w->dir != NULL)
      log_warning("'%s' has more than %d files: changes of further ones are not seen", w->dir,
                  MAX_ENTRIES);
    return NULL;
  }
  if (entry.is_link && entry.kind == FILE_ABSENT)
    tell_of_link(w, root, name);
  if (entry.kind != FILE_ABSENT || entry.is_link)
    file_stamp_add_entry(&w->stamp, name, &entry);
  if (entry.kind == FILE_REGULAR)
    w->stamp.bytes += entry.bytes;
  if (entry.is_link)
    w->stamp.targets += entry.identity;
  if (enters && entry.is_link && entry.kind == FILE_FOLDER)
    RETURN_IF_ERROR(enter(w, entry.identity, &enters));
  return enters && entry.kind == FILE_FOLDER ? walk_dir(w, root, name, depth) : NULL;
}

static error *walk_dir(walk *w, const file_root *root, const char *name, int depth)
{
  AUTO_ROOT file_root dir = FILE_ROOT_CLOSED;
  string_list names = {0};
  file_kind kind;
  RETURN_IF_ERROR(files_enter(root, name, &dir));
  if (dir.descriptor < 0) // it may not be read, or it was removed
    return NULL;
  error *e = files_list(&dir, ".", &names);
  for (size_t i = 0; e == NULL && i < names.count; i++)
    e = walk_entry(w, &dir, names.items[i], depth - 1, &kind);
  string_list_fini(&names);
  return e;
}

error *file_stamp_take(const file_root *root, const char *name, const char *dir, file_kind *kind,
                       file_stamp *stamp, error **refused)
{
  walk w = {.dir = dir, .refused = refused};
  file_entry itself;
  *stamp = (file_stamp){0};
  RETURN_IF_ERROR(files_look(root, name, &itself)); // a replacement may have older times
  w.stamp.targets = itself.identity;
  error *e = walk_entry(&w, root, name, MAX_DEPTH, kind);
  if (w.unfollowed > LINKS_TOLD && dir != NULL)
    log_warning("%zu more links in '%s' are not followed", w.unfollowed - LINKS_TOLD, dir);
  *stamp = w.stamp;
  free(w.entered);
  return e;
}
