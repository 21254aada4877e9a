// SPDX-License-Identifier: Apache-2.0
// The server: the models it serves, how they come and go, and whether it is alive and ready. This
// is TRITONSERVER_Server of the C ABI. Any thread may call these functions, but a thread that
// serves connections must not call those that block.
#ifndef NEREID_CORE_SERVER_H
#define NEREID_CORE_SERVER_H

#include "base/error.h"
#include "core/model.h"
#include "core/model_table.h"
#include "core/server_options.h"
#include "repository/upload.h"

#include <stdbool.h>
#include <stdint.h>

// Makes the server and loads the start-up models. With options->background_load, server_poll begins
// these loads, after everything else that can fail at the start. Options are copied. Errors:
// INVALID_ARG and UNSUPPORTED for bad options; INTERNAL "failed to load all models" when
// options->exit_on_error is set and a start-up model failed; there is no server then.
error *server_new(const server_options *options, server **result);

// A server without repositories and start-up models, in a process that serves one model for another
// server (src/host). Options are copied.
error *server_new_host(const server_options *options, server **result);
const model_environment *server_model_environment(const server *s);

// Stops (server_stop) and releases the server. What outlives the exit timeout is left to the end of
// the process, since a backend may still use it.
void server_free(server *s);

// Before the start-up models are in: begins their loads if server_new did not, and blocks until
// they are. INTERNAL "failed to load all models" when one failed, whatever exit_on_error says.
// Afterwards: polls the repositories and waits for the loads (core/poller.h). UNAVAILABLE "polling
// is disabled" under another control mode.
error *server_poll(server *s);

// The clients are gone: no sequence gets further requests.
void server_end_sequences(server *s);

// Refuses new requests, waits for the accepted ones and unloads all models, for at most the exit
// timeout. INTERNAL when it expired; queued requests have then been answered with an error.
error *server_stop(server *s);

// Requests that are inside and not released. Any thread.
uint64_t server_inflight(server *s);
void server_set_exit_timeout(server *s, unsigned int seconds);

// ---- coming and going; both block ----

// Loads a model, or loads it again when its files have changed (else does nothing). `config_json`
// replaces the configuration file and always loads; NULL: none. The former version serves until the
// new one is in. Errors in Triton's words: UNAVAILABLE unless models are controlled explicitly,
// INVALID_ARG for the name or "load failed for model …", INTERNAL "failed to load …, failed to poll
// from model repository".
error *server_load_model(server *s, const char *name, const char *config_json);

// Loads a model from files that the caller sends, whatever repositories hold; `config_json` is
// needed. A later server_load_model loads from the repository again. INVALID_ARG for paths,
// UNAVAILABLE when the files cannot be stored.
error *server_load_model_files(server *s, const char *name, const char *config_json,
                               const uploaded_file *files, size_t count);

// Stops serving a model; requests inside are served. Success for an unknown name. A load of the
// same model that runs meanwhile fails. Ensembles made of it stop too, until it is loaded again.
// `dependents`: also unloads the models of an ensemble's steps, unless somebody asked for them by
// name or another ensemble has them.
error *server_unload_model(server *s, const char *name, bool dependents);

#endif
