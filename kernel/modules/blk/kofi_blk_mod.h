/*
 * What the files of kofi_blk.ko share.
 *
 * A request of the block layer has a slot, by its tag, with a buffer that targets may access. It is held by the slot until it ends: sent
 * over the connection, or parked while there is none. One thread makes connections and ends what takes too long; the completion queue's
 * callback ends what is answered.
 */
#ifndef KOFI_BLK_MOD_H
#define KOFI_BLK_MOD_H

#include <linux/blk-mq.h>
#include <linux/mutex.h>
#include <kofi.h>
#include "kofi_blk.h"

/* The parameters. */
struct blk_settings {
	const char *provider;
	const char *node;
	int service;
	u32 depth;
	u32 longest;
	/* Milliseconds after which a request fails. */
	unsigned int timeout;
	/* Milliseconds between attempts to connect; the first one, and the longest. */
	unsigned int backoff;
	unsigned int backoff_max;
};

struct blk_slot {
	/* In the list of what is sent, or parked; in none when the slot is not in use. */
	struct list_head list;
	struct request *rq;
	u64 id;
	u32 len;
	u8 op;
	/* The message with its data has not left yet, and whether the response came before that, and which. */
	bool is_leaving;
	bool is_answered;
	blk_status_t status;
	/* When it fails. */
	unsigned long deadline;
	/* Before it is room for a request, KOFI_BLK_REQUEST bytes. */
	u8 *buffer;
	/* The buffer's registration for the connection, and how a target names its start. */
	struct fid_mr *mr;
	u64 addr;
};

enum blk_phase {
	/* There is no connection. */
	BLK_DOWN,
	/* One was asked for. */
	BLK_CONNECTING,
	/* The target was asked for a sign of life. */
	BLK_PROBING,
	/* Requests are sent. */
	BLK_READY,
};

/* The connection; made by blk_link.c. */
struct blk_link {
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_eq *eq;
	struct fid_cq *cq;
	struct fid_ep *ep;
	/* Messages of the target. */
	u8 (*receives)[KOFI_BLK_RESPONSE];
	u32 receive_count;
	/* For the callback: longer than what a kernel that clears its variables should have on its stack. */
	struct fi_cq_msg_entry ended[8];
};

struct blk_device {
	struct blk_settings settings;
	u8 initiator[16];
	struct blk_mq_tag_set tags;
	struct gendisk *gendisk;
	/* The buffers of all slots, with a page before each: targets may access the buffers. */
	u8 *memory;
	struct blk_slot *slots;
	struct task_struct *thread;

	/* Protects what follows, and posting to the endpoint. */
	struct mutex lock;
	enum blk_phase phase;
	struct blk_link link;
	/* The connection is of no use any more; the thread closes it. */
	bool broken;
	/* As the first target said; later ones have to say the same, but for how much data a request may carry. */
	struct kofi_blk_disk disk;
	u32 inline_data;
	bool is_known;
	u64 next_id;
	/* The request for a sign of life. */
	u64 probe_id;
	struct list_head sent;
	struct list_head parked;
	/* Since when nothing is answered, if `failing`. */
	bool failing;
	unsigned long failing_since;
	/* The error that the log has last: attempts to connect that fail alike are one line. */
	int told;
};

/* blk_disk.c */
int blk_disk_add(struct blk_device *dev);
void blk_disk_remove(struct blk_device *dev);
int blk_memory(struct blk_device *dev);
void blk_memory_free(struct blk_device *dev);
/* Ends the request of a slot that is in no list. Called without the lock. */
void blk_end(struct blk_device *dev, struct blk_slot *slot, blk_status_t status);

/* blk_flow.c */
/* Sends or parks the request of a slot; false if it fails at once. */
bool blk_submit(struct blk_device *dev, struct blk_slot *slot);
void blk_completions(struct fid_cq *cq, void *arg);
int blk_receive_post(struct blk_device *dev, u8 *receive);
/* Asks for a sign of life. */
int blk_probe(struct blk_device *dev);
/* Sends what is parked, as far as there is room. */
void blk_send_parked(struct blk_device *dev);
/* Has the connection closed; the lock is held. */
void blk_break(struct blk_device *dev, const char *why, int error);
/* Parks what was sent over a connection that is closed. */
void blk_park_sent(struct blk_device *dev);
/* Whether a request has failed that is still sent, so that the connection has to be closed before it ends. */
bool blk_has_late_sent(struct blk_device *dev);
/* Ends what is parked and has failed, or all of it. */
void blk_fail_parked(struct blk_device *dev, bool all);

/* blk_link.c */
int blk_link_open(struct blk_device *dev);
void blk_link_close(struct blk_device *dev);
int blk_link_main(void *dev);

#endif
