/* Asks, duplicates, replaces pieces by its own as programs do, and releases everything. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct fabric_attr {
    void *fabric;
    char *name, *prov_name;
    uint32_t prov_version, api_version;
};
struct fi_info {
    struct fi_info *next;
    uint64_t caps, mode;
    uint32_t addr_format;
    size_t src_addrlen, dest_addrlen;
    void *src_addr, *dest_addr, *handle, *tx_attr, *rx_attr, *ep_attr, *domain_attr;
    struct fabric_attr *fabric_attr;
    void *nic;
};

int fi_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags,
               const struct fi_info *hints, struct fi_info **info);
void fi_freeinfo(struct fi_info *);
struct fi_info *fi_dupinfo(const struct fi_info *);

static int ask(const struct fi_info *hints)
{
    struct fi_info *list, *info, *copy;
    int count = 0;

    if (fi_getinfo(2 << 16 | 7, "127.0.0.1", "47592", 0, hints, &list))
        return 0;
    for (info = list; info; info = info->next, count++) {
        copy = fi_dupinfo(info);
        free(copy->src_addr);
        copy->src_addr = calloc(1, 16);
        copy->src_addrlen = 16;
        free(copy->fabric_attr->prov_name);
        copy->fabric_attr->prov_name = strdup("other");
        fi_freeinfo(copy);
    }
    fi_freeinfo(list);
    return count;
}

int main(void)
{
    struct fi_info *hints = fi_dupinfo(NULL);
    int count;

    hints->mode = ~0ULL;
    count = ask(NULL) && ask(hints);
    hints->fabric_attr->prov_name = strdup("tcp");
    count = count && ask(hints);
    hints->caps = 1ULL << 60;
    if (ask(hints))
        count = 0;
    fi_freeinfo(hints);
    fi_freeinfo(NULL);
    if (!count)
        puts("nothing was found, or too much");
    return !count;
}
