/* What the Rust code of kofi_tcp.ko calls. Hosts and ports are in the order of the processor. */
#ifndef KOFI_TCP_SOCKET_H
#define KOFI_TCP_SOCKET_H

#include <linux/types.h>
#include <linux/uio.h>

struct ktcp;
struct ktcp_timer;

struct ktcp *ktcp_open(const void *owner, int *status);
void ktcp_close(struct ktcp *of);
void ktcp_set_owner(struct ktcp *of, const void *owner);
bool ktcp_take_happened(struct ktcp *of);
void ktcp_let_happen(struct ktcp *of);
int ktcp_bind(struct ktcp *of, u32 host, u16 port);
int ktcp_listen(struct ktcp *of, int backlog);
int ktcp_connect(struct ktcp *of, u32 host, u16 port);
struct ktcp *ktcp_accept(struct ktcp *of, const void *owner, int *status);
int ktcp_name(struct ktcp *of, u32 *host, u16 *port);
int ktcp_peer(struct ktcp *of, u32 *host, u16 *port);
void ktcp_prepare(struct ktcp *of, int silent_s);
int ktcp_connected(struct ktcp *of);
ssize_t ktcp_send(struct ktcp *of, struct kvec *pieces, size_t count, size_t len);
ssize_t ktcp_recv(struct ktcp *of, struct kvec *pieces, size_t count, size_t len);
void ktcp_shut_writing(struct ktcp *of);
bool ktcp_is_closed_by_peer(struct ktcp *of);
size_t ktcp_unread(struct ktcp *of);
struct ktcp_timer *ktcp_timer_new(const void *owner);
void ktcp_timer_set(struct ktcp_timer *of, u32 ms);
void ktcp_timer_free(struct ktcp_timer *of);
u64 ktcp_now(void);
u32 ktcp_random(void);
u32 ktcp_host(void);
void ktcp_warn(const char *text, size_t len);

/* Queues the task of an endpoint or a listener; from any context. */
void kofi_tcp_rs_wake(const void *owner);

#endif
