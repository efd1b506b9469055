/* Calls the two functions with a variable number of arguments, with more of them than there are registers. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

struct fi_provider {
    unsigned version, fi_version;
    void *context[4];
    const char *name;
    void *getinfo, *fabric, *cleanup;
};
struct fi_param {
    const char *name;
    unsigned type;
    const char *help_string, *value;
};

void fi_log(const struct fi_provider *, int level, int subsys, const char *func, int line,
            const char *fmt, ...);
int fi_log_enabled(const struct fi_provider *, int level, int subsys);
int fi_param_define(const struct fi_provider *, const char *name, int type, const char *fmt, ...);
int fi_param_get(struct fi_provider *, const char *name, void *value);
int fi_getparams(struct fi_param **, int *count);
void fi_freeparams(struct fi_param *);

enum { WARN = 0, CQ = 6 };
enum { STRING = 0, INT = 1, BOOL = 2 };

static struct fi_provider probe = {.name = "probe"};

static int check_parameters(void)
{
    int depth = 0, fast = 0, missing;
    char *name = NULL;

    if (fi_param_define(&probe, "depth", INT, "depth of %d to %.1f m in %s %s %s", 2, 3.5, "one", "two", "three") ||
        fi_param_define(&probe, "name", STRING, "a name") ||
        fi_param_define(&probe, "fast", BOOL, "whether it is fast") ||
        fi_param_define(&probe, "unset", INT, "never set"))
        return 1;
    if (fi_param_define(&probe, NULL, INT, "no name") != -22)
        return 2;
    fi_param_get(&probe, "depth", &depth);
    fi_param_get(&probe, "name", &name);
    fi_param_get(&probe, "fast", &fast);
    if (fi_param_get(&probe, "unset", &missing) != -61)
        return 3;
    if (fi_param_get(&probe, "undefined", &missing) != -2)
        return 4;
    printf("read: %d %s %d\n", depth, name ? name : "-", fast);
    if (name && (depth != 16 || fast != 1 || strcmp(name, "deep")))
        return 5;
    return 0;
}

static void print_help(void)
{
    struct fi_param *params;
    int count;

    if (fi_getparams(&params, &count))
        return;
    for (int i = 0; i < count; i++)
        printf("%s: %s\n", params[i].name, params[i].help_string);
    fi_freeparams(params);
}

int main(int argc, char **argv)
{
    int failed = check_parameters();

    print_help();
    if (argc > 1 && !strcmp(argv[1], "ask-first") && !fi_log_enabled(&probe, WARN, CQ))
        return failed;
    fi_log(&probe, WARN, CQ, "poll", 42,
           "%d %s %.1f %ld %d %s %.2f %.1f %.1f %.1f %.1f %.1f %.1f %.1f %d\n", 1, "two", 3.5, 4L, 5, "six",
           7.25, 8.5, 9.5, 10.5, 11.5, 12.5, 13.5, 14.5, 15);
    return failed;
}
