/* What the files of kofi_target.ko share. */
#ifndef KOFI_TARGET_H
#define KOFI_TARGET_H

#include <linux/fs.h>
#include <linux/slab.h>
#include <linux/workqueue.h>
#include <kofi.h>
#include "kofi_blk.h"

/* The disk: a file or a block device, or memory. */
struct target_disk {
	struct file *file;
	u8 *memory;
	/* As initiators are told; with the limits of this module. */
	struct kofi_blk_disk about;
};

int target_disk_open(struct target_disk *disk, const char *path, unsigned int megabytes, bool read_only, u32 block);
void target_disk_close(struct target_disk *disk);

/* Carries out a job with its buffer; returns zero or an error number. It may wait for the disk. */
int target_disk_carry_out(struct target_disk *disk, const struct kofi_blk_job *job, void *buffer);

/* What connections are made of. */
struct target_fabric {
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_eq *eq;
	struct workqueue_struct *workers;
};

struct target_session;

/*
 * Accepts a request for a connection, with `about` as the welcome. The session ends by itself only as far as that its peer is told so;
 * target_session_close releases it. Where it fails, `is_taken` says whether an endpoint has taken the request, which otherwise is still to be refused.
 */
struct target_session *target_session_open(struct target_fabric *on, struct target_disk *disk, struct fi_info *request,
					   const struct kofi_blk_disk *about, const u8 *initiator, bool *is_taken);

/* Tells the peer, waits for the disk, and releases the session: nothing of it happens any more. */
void target_session_close(struct target_session *session);

bool target_session_is(const struct target_session *session, const u8 *initiator);
bool target_session_has(const struct target_session *session, const struct fid *fid);
bool target_session_is_ending(const struct target_session *session);

/* Requests that arrive are not answered: for tests of time limits. */
extern bool target_mute;

#endif
