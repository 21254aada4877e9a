// SPDX-License-Identifier: Apache-2.0
// Reads on from clients that were refused within a body. Closing a socket with unread data resets
// the connection, and then the client may never see the reply, because many clients write all of
// their request first. So their bytes are read and dropped, up to a size and for a while.
#ifndef NEREID_FRONTEND_HTTP_TRANSPORT_LINGER_H
#define NEREID_FRONTEND_HTTP_TRANSPORT_LINGER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LINGER_POLL_MS 20

typedef struct linger_list linger_list;

// NULL when memory is short.
linger_list *linger_new(void);
void linger_free(linger_list *list);

// Duplicates the socket and reads at most `max_bytes` from it. False when that fails, and the
// client may miss its reply. Any thread.
bool linger_add(linger_list *list, int socket_fd, uint64_t max_bytes, uint64_t now_ms);

// Watcher thread: reads from all clients, closes those that have ended.
void linger_read(linger_list *list, uint64_t now_ms);
// Watcher thread: closes clients whose time is over, or that have been silent for long.
void linger_expire(linger_list *list, uint64_t now_ms);

bool linger_is_busy(linger_list *list); // any thread

#endif
