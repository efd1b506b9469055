/* What the C files of kofi_verbs.ko share. */
#ifndef KOFI_VERBS_PARTS_H
#define KOFI_VERBS_PARTS_H

#include <rdma/ib_verbs.h>
#include <rdma/rdma_cm.h>
#include "verbs_core.h"

/* A protection domain, and a queue pair that is connected with itself, over which memory is registered. */
struct kv_domain {
	struct ib_device *device;
	struct ib_pd *pd;
	struct ib_cq *cq;
	struct ib_qp *qp;
	u32 port;
	/* The queue pair takes work. Under the lock, as its steps are. */
	bool is_ready;
	/* One registration at a time. */
	struct mutex lock;
};

/* How often a domain's queue pair is not made ready, for tests. As long as that is not zero its work fails, too. */
extern int kv_fails;

/* Connects the queue pair of a domain with itself, also again after an error. */
int kv_domain_ready(struct kv_domain *of);

/* A connection, what listens for some, or what will be one. */
struct kv_link {
	struct rdma_cm_id *id;
	struct ib_cq *cq;
	/* For a poll, of which there is one at a time: on the stack of a kernel that clears its variables, they would take longer than the poll. */
	struct ib_wc ended[8];
	/* What a peer may ask at a time, as its request says. */
	u8 reads_in, reads_out;
	spinlock_t lock;
	/* What is queued when something has happened. */
	const void *owner;
	struct list_head notes;
	u32 waiting;
	struct rcu_head rcu;
};

/* Queues the task of its owner, if it has one. */
void kv_wake(struct kv_link *of);

#endif
