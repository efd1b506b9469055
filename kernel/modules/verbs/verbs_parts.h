/* What the C files of kofi_verbs.ko share. */
#ifndef KOFI_VERBS_PARTS_H
#define KOFI_VERBS_PARTS_H

#include <rdma/ib_verbs.h>
#include "verbs_core.h"

/* A protection domain, and a queue pair that is connected with itself, over which memory is registered. */
struct kv_domain {
	struct ib_device *device;
	struct ib_pd *pd;
	struct ib_cq *cq;
	struct ib_qp *qp;
	u32 port;
	/* One registration at a time. */
	struct mutex lock;
};

#endif
