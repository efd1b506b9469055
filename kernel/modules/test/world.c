/* Endpoints to test with. */
#include <linux/in.h>
#include <linux/inet.h>
#include "kofi_test.h"

struct kt_name kt_name(const char *word)
{
	struct sockaddr_in at = {
		.sin_family = AF_INET,
		.sin_addr.s_addr = strcmp(kt_provider_name, "kofi_verbs") ? htonl(INADDR_LOOPBACK) : in_aton("10.0.0.1"),
		.sin_port = htons(strcmp(word, "nowhere") ? 47601 : 1),
	};
	struct kt_name name = {};

	if (strcmp(kt_provider_name, "kofi_loop")) {
		memcpy(name.bytes, &at, sizeof(at));
		name.len = sizeof(at);
	} else {
		name.len = snprintf(name.bytes, sizeof(name.bytes), "kofi_loop://%s", word) + 1;
	}
	return name;
}

struct fi_info *kt_info(enum fi_ep_type type, u64 caps)
{
	struct fi_info *hints = fi_allocinfo(), *info = NULL;

	if (!hints)
		return NULL;
	hints->ep_attr->type = type;
	hints->caps = caps;
	hints->fabric_attr->prov_name = type == FI_EP_DGRAM ? NULL : kstrdup(kt_provider_name, GFP_KERNEL);
	if (fi_getinfo(KOFI_VERSION, NULL, 0, 0, hints, &info))
		info = NULL;
	fi_freeinfo(hints);
	return info;
}

static int kt_endpoint(struct kt_pair *pair, int at)
{
	struct fi_cq_attr attr = { .format = FI_CQ_FORMAT_TAGGED, .wait_obj = FI_WAIT_UNSPEC };
	char name[64];
	size_t len = sizeof(name);
	int status;

	status = fi_cq_open(pair->domain, &attr, &pair->cq[at], NULL);
	if (!status)
		status = fi_ep_open(pair->domain, pair->info, &pair->ep[at], NULL);
	if (!status)
		status = fi_ep_bind(pair->ep[at], &pair->cq[at]->fid, FI_SEND | FI_RECV);
	if (!status)
		status = fi_ep_bind(pair->ep[at], &pair->av->fid, 0);
	if (!status)
		status = fi_enable(pair->ep[at]);
	if (!status)
		status = fi_getname(&pair->ep[at]->fid, name, &len);
	if (!status)
		status = fi_av_insert(pair->av, name, 1, &pair->addr[at], 0, NULL) == 1 ? 0 : -EINVAL;
	return status;
}

int kt_open(struct kt_pair *pair, u64 caps)
{
	int status;

	memset(pair, 0, sizeof(*pair));
	pair->from = kvzalloc(KT_BUFFER, GFP_KERNEL);
	pair->to = kvzalloc(KT_BUFFER, GFP_KERNEL);
	pair->info = kt_info(FI_EP_RDM, caps);
	if (!pair->info || !pair->from || !pair->to)
		return -ENOMEM;
	status = fi_fabric(pair->info->fabric_attr, &pair->fabric, NULL);
	if (!status)
		status = fi_domain(pair->fabric, pair->info, &pair->domain, NULL);
	if (!status)
		status = fi_av_open(pair->domain, NULL, &pair->av, NULL);
	if (!status)
		status = kt_endpoint(pair, 0);
	if (!status)
		status = kt_endpoint(pair, 1);
	return status;
}

#define KT_CLOSE(object)                                                                                               \
	do {                                                                                                           \
		int result = (object) ? fi_close(&(object)->fid) : 0;                                                  \
		status = status ?: result;                                                                             \
	} while (0)

int kt_close(struct kt_pair *pair)
{
	int status = 0;

	KT_CLOSE(pair->ep[0]);
	KT_CLOSE(pair->ep[1]);
	KT_CLOSE(pair->cq[0]);
	KT_CLOSE(pair->cq[1]);
	KT_CLOSE(pair->eq);
	KT_CLOSE(pair->av);
	KT_CLOSE(pair->domain);
	KT_CLOSE(pair->fabric);
	fi_freeinfo(pair->info);
	kvfree(pair->from);
	kvfree(pair->to);
	return status;
}

void kt_fill(u8 *buffer, size_t len, u8 seed)
{
	size_t at;

	for (at = 0; at < len; at++)
		buffer[at] = seed + at * 7 + (at >> 8);
}

bool kt_is_filled(const u8 *buffer, size_t len, u8 seed)
{
	size_t at;

	for (at = 0; at < len; at++)
		if (buffer[at] != (u8)(seed + at * 7 + (at >> 8)))
			return false;
	return true;
}

bool kt_done(struct fid_cq *cq, void *context, struct fi_cq_tagged_entry *entry)
{
	struct fi_cq_tagged_entry own;

	entry = entry ?: &own;
	return fi_cq_sread(cq, entry, 1, NULL, KT_LONG) == 1 && entry->op_context == context;
}

int kt_error(struct fid_cq *cq, struct fi_cq_err_entry *entry)
{
	struct fi_cq_tagged_entry done;
	struct fi_cq_err_entry own;

	memset(&own, 0, sizeof(own));
	entry = entry ?: &own;
	if (fi_cq_sread(cq, &done, 1, NULL, KT_LONG) != -FI_EAVAIL)
		return 0;
	return fi_cq_error(cq, entry, 0) == 1 ? entry->err : 0;
}
