/*
 * kOFI: the fabric interface of the kernel (docs/kofi.md).
 *
 * The structures, constants and calls are those of libfabric's headers, which this one includes, with struct kvec for struct iovec. A
 * call of an object goes through the tables that its handle points to, as in user space. All calls are for process context.
 *
 * What the proposal for a kernel OpenFabrics interface (kOFI, 2015) names, and what it is here:
 *
 *   kofi_provider_register, kofi_provider_deregister    below
 *   fi_getinfo, fi_freeinfo, fi_dupinfo, fi_fabric      below: exported by kofi.ko as kofi_getinfo and so on
 *   fi_ep_open                                          fi_endpoint
 *   fi_bind (an address to an endpoint)                 fi_setname; fi_bind is libfabric's, of objects to each other
 *   fi_sendto, fi_recvfrom                              fi_send, fi_recv, whose peer only reliable datagrams look at
 *   fi_eq_error, fi_cq_error                            fi_eq_readerr, fi_cq_readerr
 *   fi_close of any object                              fi_close(&object->fid)
 *   fi_domain, fi_endpoint, fi_cq_open, fi_ep_bind, fi_enable, fi_listen, fi_accept, fi_connect, fi_eq_read, fi_eq_sread,
 *   fi_cq_read, fi_cq_sread, fi_send, fi_recv, fi_sendmsg, fi_recvmsg, fi_sendv, fi_recvv, fi_read, fi_write, fi_readmsg,
 *   fi_writemsg, fi_mr_reg, fi_mr_desc                  under these names
 */
#ifndef KOFI_H
#define KOFI_H

#include <linux/limits.h>
#include <linux/module.h>

/* The functions of libfabric's headers that kofi.ko exports; fi_getinfo, whose service is a number here, follows below. */
#define fi_freeinfo kofi_freeinfo
#define fi_dupinfo kofi_dupinfo
#define fi_fabric kofi_fabric

#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

/*
 * Addresses are strings (FI_ADDR_STR) of kofi_loop, and struct sockaddr_in (FI_SOCKADDR_IN) of kofi_tcp, where a node is an IPv4 address in
 * numbers and a service a port. A consumer that opens what fi_getinfo offers need not know: fi_getname, fi_av_insert and fi_connect take the
 * endpoint's format, and a connection that is refused is so in fi_connect, or later by an event.
 */

/* The version of the interface, and of the API of libfabric that it follows. */
#define KOFI_VERSION FI_VERSION(2, 7)

/* What a provider registers. */
struct kofi_provider {
	const char *name;
	uint32_t version;
	int (*getinfo)(uint32_t version, const char *node, const int service, uint64_t flags, struct fi_info *hints,
		       struct fi_info **info);
	int (*freeinfo)(struct fi_info *info);
	int (*fabric)(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context);
	/* Filled in by kofi_provider_register. */
	struct module *owner;
};

int kofi_provider_register_owned(unsigned int version, struct kofi_provider *provider, struct module *owner);

/*
 * Registers a provider that was written for `version` of the interface. It stays valid until it is deregistered, and its module is not
 * unloaded while a fabric of it is open. Returns zero, -FI_ENOSYS for a version that is not known, -FI_EALREADY, -FI_EINVAL.
 */
#define kofi_provider_register(version, provider) kofi_provider_register_owned(version, provider, THIS_MODULE)

/* Removes a provider. Returns zero, -FI_EBUSY while a fabric of it is open, -FI_ENOENT. */
int kofi_provider_deregister(struct kofi_provider *provider);

/*
 * Returns the offers of all providers that fit the hints, by the rules of fi_getinfo(3). The service is a number, which a provider appends to
 * the node. Where none fits, -FI_ENODATA, and the log says why.
 */
int kofi_getinfo(uint32_t version, const char *node, int service, uint64_t flags, struct fi_info *hints,
		 struct fi_info **info);
void kofi_freeinfo(struct fi_info *info);

/* Returns a copy of an entry, an empty one for NULL, or NULL when there is no memory. */
struct fi_info *kofi_dupinfo(const struct fi_info *info);

/* Opens a fabric; -FI_ENODEV when its provider is not registered any more. */
int kofi_fabric(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context);

uint32_t kofi_version(void);

/*
 * Memory of lists of struct fi_info, for providers; zero when it is returned. As in user space, a program may replace a string or an address by one
 * of its own, from kmalloc or kstrdup; fi_freeinfo releases it.
 */
void *kofi_alloc(size_t size);
void kofi_free(void *memory);

#define fi_getinfo kofi_getinfo

/* Called when a queue has got completions: the callback reads them until there is none. */
struct kofi_cq_callback {
	void (*call)(struct fid_cq *cq, void *arg);
	void *arg;
};

#define KOFI_CQ_CALLBACK (1 << 30)

/*
 * For consumers that do not wait in fi_cq_sread: has `call` called by a thread of the kernel, in process context and without a lock of kOFI held,
 * after completions were added; never twice at once for a queue. It may post, read and close endpoints, and it may not close the queue. NULL ends it:
 * when that returns, the callback does not run any more, and its argument may go.
 */
static inline int kofi_cq_set_callback(struct fid_cq *cq, void (*call)(struct fid_cq *cq, void *arg), void *arg)
{
	struct kofi_cq_callback callback = { .call = call, .arg = arg };

	return fi_control(&cq->fid, KOFI_CQ_CALLBACK, &callback);
}

static inline int fi_ep_open(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep, void *context)
{
	return fi_endpoint(domain, info, ep, context);
}

static inline ssize_t fi_sendto(struct fid_ep *ep, const void *buf, size_t len, void *desc, fi_addr_t dest, void *context)
{
	return fi_send(ep, buf, len, desc, dest, context);
}

static inline ssize_t fi_recvfrom(struct fid_ep *ep, void *buf, size_t len, void *desc, fi_addr_t src, void *context)
{
	return fi_recv(ep, buf, len, desc, src, context);
}

static inline ssize_t fi_eq_error(struct fid_eq *eq, struct fi_eq_err_entry *buf, uint64_t flags)
{
	return fi_eq_readerr(eq, buf, flags);
}

static inline ssize_t fi_cq_error(struct fid_cq *cq, struct fi_cq_err_entry *buf, uint64_t flags)
{
	return fi_cq_readerr(cq, buf, flags);
}

#endif
