/* What the tests of kofi_test.ko share. */
#ifndef KOFI_TEST_H
#define KOFI_TEST_H

#include <linux/completion.h>
#include <linux/delay.h>
#include <linux/kthread.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <kofi.h>

/* Milliseconds after which something that has to happen is taken not to. */
#define KT_LONG 10000

/* Reports a promise that was kept, or not: one line of TAP in the log. */
void kt_report(bool ok, const char *what, const char *file, int line);
#define KT(ok, what) kt_report(ok, what, kbasename(__FILE__), __LINE__)

/* Two endpoints of one domain, with a queue each. */
struct kt_pair {
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_av *av;
	struct fid_ep *ep[2];
	struct fid_cq *cq[2];
	/* Of connected endpoints. */
	struct fid_eq *eq;
	/* The number of each in the address vector. */
	fi_addr_t addr[2];
	/* Buffers. */
	u8 *from, *to;
};

#define KT_BUFFER (256 << 10)

/* The provider that is tested. */
extern char *kt_provider_name;

/* An address. */
struct kt_name {
	char bytes[64];
	size_t len;
};

/* Returns an address that stands for a word: at "mine" an endpoint may be opened, at "nowhere" there is none. */
struct kt_name kt_name(const char *word);

/* Returns an offer of the provider that is tested; for FI_EP_DGRAM, of any. */
struct fi_info *kt_info(enum fi_ep_type type, u64 caps);
int kt_open(struct kt_pair *pair, u64 caps);
/* Closes all that is open; returns the first error. */
int kt_close(struct kt_pair *pair);
void kt_fill(u8 *buffer, size_t len, u8 seed);
bool kt_is_filled(const u8 *buffer, size_t len, u8 seed);
/* Waits for a completion; returns whether it came, with this context. */
bool kt_done(struct fid_cq *cq, void *context, struct fi_cq_tagged_entry *entry);
/* Waits for an error; returns its number, or zero. */
int kt_error(struct fid_cq *cq, struct fi_cq_err_entry *entry);

/* What listens, and what its endpoints have in common. */
struct kt_msg {
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_eq *eq, *listen_eq;
	struct fid_cq *cq;
	struct fid_pep *pep;
};

/* An event with room for data. */
struct kt_event {
	struct fi_eq_cm_entry cm;
	char data[64];
};

/* Waits for an event; returns its size, or an error. */
ssize_t kt_wait(struct fid_eq *eq, u32 *kind, struct kt_event *event);
/* Connects two endpoints; returns whether both were told. */
bool kt_join(struct kt_msg *msg, char *server, struct fid_ep **client, struct fid_ep **peer);

void kt_providers(void);
void kt_infos(void);
void kt_objects(void);
void kt_messages(void);
void kt_tagged(void);
void kt_queues(void);
void kt_counters(void);
void kt_access(void);
void kt_atomics(void);
void kt_connections(void);
void kt_limits(void);
void kt_again(void);
void kt_verbs(void);
void kt_closing_datagrams(void);
void kt_closing_connections(struct kt_msg *msg, char *server);

#endif
