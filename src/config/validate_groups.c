// SPDX-License-Identifier: Apache-2.0
// The rules of instance groups, which have been normalized: every group has its name, kind and
// GPUs. Called from load threads. Texts are Triton's; rules of our own say what was expected.
#include "base/text.h"
#include "config/rules.h"

#include <inttypes.h>

#define MAX_GROUP_INSTANCES 4096 // of one group: each is a thread, so a typing error must not pass

typedef Inference__ModelInstanceGroup instance_group;

#define REFUSE_GROUP(r, group, path, fix, text, ...)                                               \
  refuse(r, path, fix, "instance group %s of model %s " text, (group)->name,                       \
         (r)->config->name __VA_OPT__(, ) __VA_ARGS__)

static void check_gpus(rules *r, const instance_group *group, const char *path)
{
  const phrase at = say("%s.gpus", path);
  if (group->n_gpus == 0 && r->gpus.count == 0)
    REFUSE_GROUP(r, group, say("%s.kind", path).text, "use KIND_CPU, or leave kind out",
                 "has kind KIND_GPU but no GPUs are available");
  else if (group->n_gpus == 0)
    REFUSE_GROUP(r, group, at.text, NULL, "has kind KIND_GPU but specifies no GPUs");
  AUTO_BUFFER buffer ids = BUFFER_EMPTY;
  for (size_t i = 0; i < r->gpus.count; i++)
    buffer_append_format(&ids, "%s%" PRId32, i > 0 ? ", " : "", r->gpus.ids[i]);
  buffer_append_char(&ids, '\0');
  for (size_t i = 0; i < group->n_gpus && !ids.failed; i++) {
    if (!config_has_gpu(r->gpus, group->gpus[i]))
      REFUSE_GROUP(r, group, say("%s[%zu]", at.text, i).text,
                   r->gpus.count == 0 ? "use KIND_CPU without gpus" : NULL,
                   "specifies invalid or unsupported gpu id %" PRId32
                   ". GPUs with at least the minimum required CUDA compute compatibility "
                   "of %f are: %s",
                   group->gpus[i], r->gpus.capability, ids.data);
  }
  r->found->failed = r->found->failed || ids.failed;
}

static void check_kind(rules *r, const instance_group *group, const char *path)
{
  switch (group->kind) {
  case INFERENCE__MODEL_INSTANCE_GROUP__KIND__KIND_GPU:
    check_gpus(r, group, path);
    return;
  case INFERENCE__MODEL_INSTANCE_GROUP__KIND__KIND_CPU:
  case INFERENCE__MODEL_INSTANCE_GROUP__KIND__KIND_MODEL:
    if (group->n_gpus > 0)
      REFUSE_GROUP(r, group, say("%s.gpus", path).text, "leave gpus out",
                   "has kind %s but specifies one or more GPUs", config_kind_name(group->kind));
    return;
  default:
    refuse_as(r, ERROR_INTERNAL, path, NULL,
              "instance group %s of model %s has unexpected kind KIND_AUTO", group->name,
              r->config->name);
  }
}

// As in Triton, text after the number is ignored.
static void check_profile(rules *r, const instance_group *group, const char *profile,
                          const char *path)
{
  int64_t index;
  const char *rest;
  if (profile[0] == '\0')
    refuse(r, path, "give the number of a profile", "profile name must not be empty");
  else if (!text_begins_int64(profile, &index, &rest))
    refuse(r, path, "give the number of a profile", "unable to parse '%s': stoi", profile);
  else if (index < 0)
    REFUSE_GROUP(r, group, path, NULL,
                 "and platform %s specifies invalid profile %s. The field should contain the "
                 "string representation of a non-negative integer.",
                 r->config->platform, profile);
}

static void check_profiles(rules *r, const instance_group *group, const char *path)
{
  if (group->n_profile == 0)
    return;
  if (!is_text(r->config->platform, PLATFORM_TENSORRT)) {
    REFUSE_GROUP(r, group, say("%s.profile", path).text, "leave it out",
                 "and platform %sspecifies profile field which is only supported for TensorRT "
                 "models",
                 r->config->platform);
    return;
  }
  for (size_t i = 0; i < group->n_profile; i++)
    check_profile(r, group, group->profile[i], say("%s.profile[%zu]", path, i).text);
}

static void check_group(rules *r, const instance_group *group, size_t index)
{
  const phrase path = say("instance_group[%zu]", index);
  check_kind(r, group, path.text);
  check_profiles(r, group, path.text);
  if (config_group_instances(group) > MAX_GROUP_INSTANCES)
    REFUSE_GROUP(r, group, say("%s.count", path.text).text, NULL,
                 "makes %zu instances, expected at most %d", config_group_instances(group),
                 MAX_GROUP_INSTANCES);
}

void rules_instance_groups(rules *r)
{
  const Inference__ModelConfig *config = r->config;
  if (config->scheduling_choice_case ==
      INFERENCE__MODEL_CONFIG__SCHEDULING_CHOICE_ENSEMBLE_SCHEDULING)
    return;
  if (config->n_instance_group == 0)
    refuse(r, "instance_group", NULL, "must specify one or more 'instance group's for %s",
           config->name);
  for (size_t i = 0; i < config->n_instance_group; i++)
    check_group(r, config->instance_group[i], i);
}
