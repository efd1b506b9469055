/*
 * What kofi_blk.ko and kofi_target.ko share: the messages of docs/protocol/kofi-blk.md, which Rust code (kernel/blk) reads and writes.
 */
#ifndef KOFI_BLK_H
#define KOFI_BLK_H

#include <linux/types.h>

/* Lengths of the messages, in bytes; the data of a write may be behind its request. */
#define KOFI_BLK_HELLO 32
#define KOFI_BLK_WELCOME 40
#define KOFI_BLK_REFUSAL 8
#define KOFI_BLK_REQUEST 40
#define KOFI_BLK_RESPONSE 16
/* Longest handshake with its padding. */
#define KOFI_BLK_HANDSHAKE 256

/* The service of a target at its node, if none is given. */
#define KOFI_BLK_SERVICE 47593

#define KOFI_BLK_DEPTH_MAX 1024
#define KOFI_BLK_LONGEST_MIN 4096
#define KOFI_BLK_LONGEST_MAX (1 << 20)
#define KOFI_BLK_INLINE_MAX (1 << 14)

enum kofi_blk_op {
	KOFI_BLK_NOTHING = 0,
	KOFI_BLK_READ = 1,
	KOFI_BLK_WRITE = 2,
	KOFI_BLK_FLUSH = 3,
	KOFI_BLK_DISCARD = 4,
	KOFI_BLK_ZERO = 5,
};

#define KOFI_BLK_DURABLE (1 << 0)
#define KOFI_BLK_INLINE (1 << 1)

enum kofi_blk_status {
	KOFI_BLK_DONE = 0,
	KOFI_BLK_FAILED = 1,
	KOFI_BLK_INVALID = 2,
	KOFI_BLK_REFUSED = 3,
	KOFI_BLK_NO_SPACE = 4,
};

enum kofi_blk_reason {
	KOFI_BLK_REASON_VERSION = 1,
	KOFI_BLK_REASON_HANDSHAKE = 2,
	KOFI_BLK_REASON_FULL = 3,
};

#define KOFI_BLK_READ_ONLY (1 << 0)
#define KOFI_BLK_CACHE (1 << 1)
#define KOFI_BLK_HAS_DISCARD (1 << 2)
#define KOFI_BLK_HAS_ZERO (1 << 3)

/* Rust's Welcome: what a disk is like, and what a connection to it may have under way. */
struct kofi_blk_disk {
	u32 depth;
	u32 longest;
	u32 block;
	/* How many bytes of data a write's request may carry. */
	u32 inline_data;
	u16 features;
	/* In sectors. */
	u64 capacity;
	u64 content;
};

/* Rust's Response. */
struct kofi_blk_response {
	u8 status;
	u32 len;
	u64 id;
};

/* Rust's Job: inside the disk and its limits. */
struct kofi_blk_job {
	u8 op;
	bool is_durable;
	/* The data is behind the request. */
	bool is_inline;
	/* In bytes. */
	u64 position;
	u32 len;
};

/* A request at the target; the job is meant if the status is KOFI_BLK_DONE. */
struct kofi_blk_order {
	u64 id;
	u64 addr;
	u64 key;
	struct kofi_blk_job job;
	u8 status;
};

int kofi_blk_rs_init(size_t disk, size_t response);
void kofi_blk_rs_hello(const u8 *initiator, u32 depth, u32 longest, u8 *to);
int kofi_blk_rs_welcome(const void *bytes, size_t len, struct kofi_blk_disk *to);
int kofi_blk_rs_refusal(const void *bytes, size_t len);
int kofi_blk_rs_request(u8 op, u8 flags, u32 len, u64 id, u64 sector, u64 addr, u64 key, u8 *to);
int kofi_blk_rs_response(const void *bytes, size_t len, struct kofi_blk_response *to);
bool kofi_blk_rs_ends(const struct kofi_blk_response *response, u64 id, u32 len);

int kofi_target_rs_init(size_t disk, size_t order);
bool kofi_target_rs_is_meant(const struct kofi_blk_disk *disk);
int kofi_target_rs_hello(const void *bytes, size_t len, struct kofi_blk_disk *disk, u8 *initiator);
void kofi_target_rs_welcome(const struct kofi_blk_disk *disk, u8 *to);
void kofi_target_rs_refusal(int reason, u8 *to);
int kofi_target_rs_request(const void *bytes, size_t len, const struct kofi_blk_disk *disk, struct kofi_blk_order *to);
void kofi_target_rs_response(const struct kofi_blk_order *order, int error, u8 *to);

#endif
