// SPDX-License-Identifier: Apache-2.0
// The tables that a server writes to its log once the start-up models are in.
#ifndef NEREID_CORE_SERVER_TABLES_H
#define NEREID_CORE_SERVER_TABLES_H

#include "core/server.h"

// Repository agents, backends, models with their states, options. One thread.
void server_log_tables(server *s);

#endif
