// Taking leave of clients that were refused in the middle of a body: whoever closes a socket with
// unread data in it resets the connection, and the client may never see the reply. So what the
// client still sends is read and dropped, up to a size and for a while.
#ifndef NEREID_FRONTEND_HTTP_LINGER_H
#define NEREID_FRONTEND_HTTP_LINGER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LINGER_POLL_MS 20

typedef struct linger_list linger_list;

// `max_bytes`: how much of one client is read at most. NULL when memory is short.
linger_list *linger_new(size_t max_bytes);
void linger_free(linger_list *list);

// Keeps a duplicate of the socket. False when it cannot: then the client has to do without. Any
// thread.
bool linger_add(linger_list *list, int socket_fd, uint64_t now_ms);

// Watcher thread: reads from all; closes those that have ended.
void linger_read(linger_list *list);
// Watcher thread: closes those whose time is over.
void linger_expire(linger_list *list, uint64_t now_ms);

bool linger_is_busy(linger_list *list); // any thread

#endif
