/*
 * A passive endpoint of tcp that rejects every connection request with the data "seen", for the programs of the hostile trials.
 */
#include <arpa/inet.h>
#include <rdma/fi_eq.h>

enum { REQUEST_DATA_MAX = 256 };

struct listener {
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_pep *pep;
	struct fid_eq *eq;
};

/* Listens at a free port. The backlog is the provider's own where it is 0. */
static inline void listener_open(struct listener *me, int backlog)
{
	struct fi_eq_attr attr = { .wait_obj = FI_WAIT_UNSPEC };
	struct fi_info *hints = fi_allocinfo();
	struct sockaddr_in at;
	size_t len = sizeof at;

	hints->ep_attr->type = FI_EP_MSG;
	hints->caps = FI_MSG;
	hints->fabric_attr->prov_name = strdup("tcp");
	expect("fi_getinfo", fi_getinfo(FI_VERSION(1, 17), "127.0.0.1", NULL, FI_SOURCE, hints, &me->info));
	fi_freeinfo(hints);
	expect("fi_fabric", fi_fabric(me->info->fabric_attr, &me->fabric, NULL));
	expect("fi_eq_open", fi_eq_open(me->fabric, &attr, &me->eq, NULL));
	expect("fi_passive_ep", fi_passive_ep(me->fabric, me->info, &me->pep, NULL));
	expect("fi_pep_bind", fi_pep_bind(me->pep, &me->eq->fid, 0));
	if (backlog)
		expect("fi_control", fi_control(&me->pep->fid, FI_BACKLOG, &backlog));
	expect("fi_listen", fi_listen(me->pep));
	expect("fi_getname", fi_getname(&me->pep->fid, &at, &len));
	printf("address fi_sockaddr_in://127.0.0.1:%u\n", ntohs(at.sin_port));
}

/* Rejects the next request. Returns whether there was one within the time, and copies its data. */
static inline int listener_reject(struct listener *me, int patience_ms, char data[REQUEST_DATA_MAX])
{
	struct { struct fi_eq_cm_entry entry; char data[REQUEST_DATA_MAX]; } asked = { 0 };
	uint32_t event;
	ssize_t len = patience_ms ? fi_eq_sread(me->eq, &event, &asked, sizeof asked - 1, patience_ms, 0)
				  : fi_eq_read(me->eq, &event, &asked, sizeof asked - 1, 0);

	if (len < 0 || event != FI_CONNREQ)
		return 0;
	memcpy(data, asked.data, sizeof asked.data);
	/* One that has left cannot be told. */
	fi_reject(me->pep, asked.entry.info->handle, "seen", 4);
	fi_freeinfo(asked.entry.info);
	return 1;
}

static inline void listener_close(struct listener *me)
{
	expect("fi_close", fi_close(&me->pep->fid));
	expect("fi_close", fi_close(&me->eq->fid));
	expect("fi_close", fi_close(&me->fabric->fid));
	fi_freeinfo(me->info);
}
