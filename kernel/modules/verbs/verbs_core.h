/* What the Rust code of kofi_verbs.ko calls. Hosts and ports are in the order of the processor. */
#ifndef KOFI_VERBS_CORE_H
#define KOFI_VERBS_CORE_H

#include <linux/types.h>

/* Most that a connection manager brings along with an event. */
#define KV_EVENT_DATA 256

struct kv_domain;
struct kv_region;
struct kv_link;

/* A device of the host, and what it can do. */
struct kv_device {
	char name[64];
	/* An IPv4 address at which others reach it. */
	u32 host;
	u32 depth;
	u32 pieces;
	u32 read_pieces;
	u32 regions;
	u32 region_pages;
	u32 queue_pairs;
	u32 queues;
	u64 longest;
};

/* A piece of memory as a device sees it: struct ib_sge. */
struct kv_piece {
	u64 addr;
	u32 len;
	u32 key;
};

enum kv_opcode { KV_SEND, KV_WRITE, KV_READ };
#define KV_WITH_DATA 1
#define KV_FENCE 2
/* Its end is not reported unless it fails. */
#define KV_UNSIGNALED 4

/* Work for the queue of sends. */
struct kv_work {
	u64 id;
	const struct kv_piece *list;
	u64 remote;
	u32 count;
	u32 key;
	u32 opcode;
	u32 flags;
	u32 data;
	u32 reserved;
};

#define KV_IS_MESSAGE 1
#define KV_IS_WRITE 2
#define KV_HAS_DATA 4
#define KV_HAS_TAKEN_KEY 8

/* Work that has ended. */
struct kv_done {
	u64 id;
	u32 status;
	u32 len;
	u32 data;
	u32 flags;
};

/* An event of a connection: an RDMA_CM_EVENT. */
struct kv_event {
	u32 kind;
	s32 status;
	u32 len;
	u8 data[KV_EVENT_DATA];
};

size_t kv_devices(struct kv_device *to, size_t space);
struct kv_domain *kv_domain_open(const char *name, size_t len, int *status);
void kv_domain_close(struct kv_domain *of);
struct kv_region *kv_region_new(struct kv_domain *of, void *base, size_t len, bool is_read, bool is_written, u32 *key, int *status);
void kv_region_free(struct kv_region *of);
int kv_map(struct kv_domain *of, void *base, size_t len, bool is_written, struct kv_piece *to, u32 space);
void kv_unmap(struct kv_domain *of, bool is_written, const struct kv_piece *list, u32 count);

struct kv_link *kv_link_open(const void *owner, int *status);
void kv_link_close(struct kv_link *of);
void kv_link_set_owner(struct kv_link *of, const void *owner);
int kv_link_bind(struct kv_link *of, u32 host, u16 port);
int kv_link_listen(struct kv_link *of, int backlog);
void kv_link_name(struct kv_link *of, u32 *host, u16 *port);
void kv_link_peer(struct kv_link *of, u32 *host, u16 *port);
int kv_link_resolve(struct kv_link *of, u32 host, u16 port);
int kv_link_route(struct kv_link *of);
int kv_link_connect(struct kv_link *of, const u8 *data, u8 len);
int kv_link_accept(struct kv_link *of, const u8 *data, u8 len);
int kv_link_reject(struct kv_link *of, const u8 *data, u8 len);
void kv_link_established(struct kv_link *of);
void kv_link_disconnect(struct kv_link *of);
struct kv_link *kv_link_arrival(struct kv_link *of, struct kv_event *event);
bool kv_link_event(struct kv_link *of, struct kv_event *event);

int kv_queues_open(struct kv_link *of, struct kv_domain *domain, u32 depth, u32 pieces);
void kv_queues_close(struct kv_link *of);
int kv_post(struct kv_link *of, const struct kv_work *work);
int kv_post_receive(struct kv_link *of, u64 id, const struct kv_piece *list, u32 count);
int kv_poll(struct kv_link *of, struct kv_done *to, int space);
bool kv_arm(struct kv_link *of);
void kv_warn(const char *text, size_t len);

int kv_start(void);
void kv_stop(void);

/* Queues the task of an endpoint or a listener; from any context. */
void kofi_verbs_rs_wake(const void *owner);

#endif
