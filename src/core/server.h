// SPDX-License-Identifier: Apache-2.0
// The server: the models it serves, how they come and go, and whether it is alive and ready. This
// is TRITONSERVER_Server of the C ABI. All functions may be called on any thread; those that say
// that they block must not be called on a thread that serves connections.
#ifndef NEREID_CORE_SERVER_H
#define NEREID_CORE_SERVER_H

#include "base/error.h"
#include "core/model.h"
#include "core/model_table.h"
#include "core/server_options.h"
#include "repository/upload.h"

#include <stdbool.h>
#include <stdint.h>

// Makes the server and loads the start-up models; with options->background_load that begins with
// server_poll, so that whatever else can fail at the start can do so before. Options are
// copied. Errors: INVALID_ARG and
// UNSUPPORTED for options that cannot be; INTERNAL "failed to load all models" when
// options->exit_on_error is set and a start-up model failed: there is no server then.
error *server_new(const server_options *options, server **result);

// A server without repositories and start-up, for a process that serves one model for another one
// (src/host). Options are copied.
error *server_new_host(const server_options *options, server **result);
const model_environment *server_model_environment(const server *s);

// Stops (server_stop) and releases the server. Whatever outlives the exit timeout is left to the
// process's end, since a backend may still be using it.
void server_free(server *s);

// Begins to load the start-up models where server_new did not, and blocks until they are in.
// INTERNAL "failed to load all models" when one failed, whatever exit_on_error says. When they are:
// polls the repositories and waits for the loads that follow (core/poller.h). UNAVAILABLE "polling
// is disabled" under another control mode.
error *server_poll(server *s);

// Of a server whose clients are gone: no sequence is waited for.
void server_end_sequences(server *s);

// Refuses new requests, waits for those accepted and unloads all models, for at most the exit
// timeout. INTERNAL when that expired: queued requests have been answered with an error then.
error *server_stop(server *s);

// Requests that are inside and not released. Any thread.
uint64_t server_inflight(server *s);
void server_set_exit_timeout(server *s, unsigned int seconds);

// ---- coming and going; both block ----

// Loads a model, or loads it again when its files are newer than what is served (else success
// without doing anything). `config_json` replaces the configuration file and always loads; NULL:
// none. Requests are served by the former version until the new one is in. Errors in Triton's
// texts: UNAVAILABLE unless models are controlled explicitly, INVALID_ARG for the name or "load
// failed for model …", INTERNAL "failed to load …, failed to poll from model repository".
error *server_load_model(server *s, const char *name, const char *config_json);

// Loads a model from files that the caller sends, whatever repositories hold; `config_json` is
// needed. A later server_load_model loads it from its repository again. INVALID_ARG for paths,
// UNAVAILABLE when the files cannot be stored.
error *server_load_model_files(server *s, const char *name, const char *config_json,
                               const uploaded_file *files, size_t count);

// Stops serving a model; requests inside are served. Success for a name that is not known. A load
// of the same model that runs meanwhile fails. Ensembles that are made of it stop, too, until it is
// loaded again. `dependents`: also the models of an ensemble's steps, as far as nobody asked for
// them by name and no other ensemble has them.
error *server_unload_model(server *s, const char *name, bool dependents);

#endif
