/*
 * Address vectors: many at once, one by its names, looking one up, removing one.
 *
 * addresses [PROVIDER]
 */
#include "node.h"

enum { PEERS = 4 };

/* ANCHOR: share */
/* The owner of a vector that others may open by its name; it is gone with the last process that uses it. */
static struct fid_av *share(struct fid_domain *domain, const char *name)
{
	struct fi_av_attr attr = { .type = FI_AV_TABLE, .name = name, .count = 1000 };
	struct fid_av *av;

	CHECK(fi_av_open(domain, &attr, &av, NULL));
	return av;
}

/* Another process of this host, which only looks addresses up; peer i is fi_addr[i]. */
static struct fid_av *borrow(struct fid_domain *domain, const char *name, fi_addr_t **fi_addr)
{
	struct fi_av_attr attr = { .type = FI_AV_TABLE, .name = name, .flags = FI_READ };
	struct fid_av *av;

	CHECK(fi_av_open(domain, &attr, &av, NULL));
	*fi_addr = attr.map_addr;
	return av;
}
/* ANCHOR_END: share */

int main(int argc, char **argv)
{
	struct fi_av_attr attr = { .type = FI_AV_TABLE };
	struct node node;
	char address[ADDRESS_MAX] = { 0 }, found[ADDRESS_MAX] = { 0 }, text[ADDRESS_MAX];
	char all[PEERS * ADDRESS_MAX];
	fi_addr_t peers[PEERS];
	size_t len = sizeof address, found_len, text_len;
	struct fid_ep *others[PEERS];
	struct fid_av *av, *shared, *borrowed;
	fi_addr_t *ranks;
	char name[32];

	alarm(WATCHDOG_S);
	open_node(&node, argc > 1 ? argv[1] : "tcp", FI_TAGGED | FI_SHARED_AV, FI_WAIT_UNSPEC);
	for (int i = 0; i < PEERS; i++) {
		CHECK(fi_endpoint(node.domain, node.info, &others[i], NULL));
		CHECK(fi_ep_bind(others[i], &node.av->fid, 0));
		CHECK(fi_ep_bind(others[i], &node.cq->fid, FI_TRANSMIT | FI_RECV));
		CHECK(fi_enable(others[i]));
	}
	CHECK(fi_av_open(node.domain, &attr, &av, NULL));
	/* ANCHOR: many */
	/* The addresses of all peers one after the other, as a launcher would give them. */
	for (int i = 0; i < PEERS; i++) {
		len = sizeof address;
		CHECK(fi_getname(&others[i]->fid, address, &len));
		memcpy(all + (size_t)i * len, address, len);
	}
	EXPECT(fi_av_insert(av, all, PEERS, peers, 0, NULL) == PEERS);
	/* In a table, the first insertion into an empty vector gives 0, 1, 2: peers can be numbered by rank. */
	for (int i = 0; i < PEERS; i++)
		EXPECT(peers[i] == (fi_addr_t)i);
	/* ANCHOR_END: many */
	/* ANCHOR: lookup */
	/* How long the address is comes back, even if the room was too short. */
	found_len = sizeof found;
	CHECK(fi_av_lookup(av, peers[2], found, &found_len));
	EXPECT(found_len <= sizeof found);
	text_len = sizeof text;
	printf("peer 2 is %s\n", fi_av_straddr(av, found, text, &text_len));
	/* ANCHOR_END: lookup */
	snprintf(name, sizeof name, "guide-%d", (int)getpid());
	shared = share(node.domain, name);
	EXPECT(fi_av_insert(shared, all, PEERS, peers, 0, NULL) == PEERS);
	borrowed = borrow(node.domain, name, &ranks);
	EXPECT(ranks[3] == 3);
	found_len = sizeof found;
	CHECK(fi_av_lookup(borrowed, ranks[3], found, &found_len));
	EXPECT(found_len == len && !memcmp(found, all + 3 * len, len));
	CHECK(fi_close(&borrowed->fid));
	CHECK(fi_close(&shared->fid));
	/* ANCHOR: remove */
	CHECK(fi_av_remove(av, &peers[2], 1, 0));
	/* ANCHOR_END: remove */
	CHECK(fi_close(&av->fid));
	for (int i = 0; i < PEERS; i++)
		CHECK(fi_close(&others[i]->fid));
	close_node(&node);
	return EXIT_SUCCESS;
}
