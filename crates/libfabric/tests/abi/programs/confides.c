/* Has a log of its own, which asks for providers when it is told what libfabric.conf says. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct fi_info;
struct fi_provider;
struct fid {
    size_t fclass;
    void *context;
    struct fi_ops *ops;
};
struct fi_ops {
    size_t size;
    int (*close)(struct fid *);
    int (*bind)(struct fid *, struct fid *, uint64_t);
};
struct fi_ops_log {
    size_t size;
    int (*enabled)(const struct fi_provider *, int level, int subsys, uint64_t flags);
    int (*ready)(const struct fi_provider *, int level, int subsys, uint64_t flags, uint64_t *showtime);
    void (*log)(const struct fi_provider *, int level, int subsys, const char *func, int line, const char *msg);
};
struct fid_logging {
    struct fid fid;
    struct fi_ops_log *ops;
};

int fi_open(uint32_t version, const char *name, void *attr, size_t attr_len, uint64_t flags, struct fid **fid,
            void *context);
int fi_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags,
               const struct fi_info *hints, struct fi_info **info);
void fi_freeinfo(struct fi_info *);

enum { VERSION = 2 << 16 | 6, CLASS_LOG = 26, SECONDS = 60 };

static int ask(void)
{
    struct fi_info *info;

    if (fi_getinfo(VERSION, NULL, NULL, 0, NULL, &info))
        return 1;
    fi_freeinfo(info);
    return 0;
}

static int enabled(const struct fi_provider *prov, int level, int subsys, uint64_t flags)
{
    return 1;
}

static void print(const struct fi_provider *prov, int level, int subsys, const char *func, int line, const char *msg)
{
    fputs(msg, stdout);
    if (strstr(msg, "says FI_") && ask())
        fputs("no provider answers\n", stdout);
}

int main(void)
{
    struct fi_ops_log ops = {sizeof ops, enabled, NULL, print};
    struct fid_logging log = {{CLASS_LOG}, &ops};
    struct fid *importer;

    alarm(SECONDS);
    if (fi_open(VERSION, "logging", NULL, 0, 0, &importer, NULL))
        return 2;
    if (importer->ops->bind(importer, &log.fid, 0))
        return 3;
    return ask();
}
