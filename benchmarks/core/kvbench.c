/*
 * kvbench.c -- one engine, one workload, one line of JSON. benchmarks/core/run starts it many
 * times.
 */
#include "base/units.h"
#include "workload.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

static const struct kv_driver *const drivers[] = {
    &kv_firn,    &kv_firn_txn,    &kv_lmdb,   &kv_wiredtiger,
    &kv_rocksdb, &kv_rocksdb_txn, &kv_sqlite, &kv_bdb,
};
enum { DRIVERS = sizeof drivers / sizeof drivers[0] };

static const char *const works[] = {
    [WORK_FILL] = "fill",           [WORK_GET] = "get",       [WORK_SCAN] = "scan",
    [WORK_INCREMENT] = "increment", [WORK_INSERT] = "insert", [WORK_CRASH] = "crash",
    [WORK_RECOVER] = "recover",
};

static const char *const durabilities[] = {
    [KV_BUFFERED] = "buffered",
    [KV_SYNCED] = "synced",
    [KV_WRITTEN] = "written",
};

enum long_option {
    OPTION_HELP = 'h',
    OPTION_ROWS = 256,
    OPTION_THREADS,
    OPTION_SECONDS,
    OPTION_OPS,
    OPTION_WARM,
    OPTION_WARM_OPS,
    OPTION_SEED,
    OPTION_CACHE,
    OPTION_LOG,
    OPTION_PAGE,
    OPTION_DURABILITY,
    OPTION_COLD,
    OPTION_CRASH_LOG,
};

static const struct option long_options[] = {
    {"help", no_argument, NULL, OPTION_HELP},
    {"rows", required_argument, NULL, OPTION_ROWS},
    {"threads", required_argument, NULL, OPTION_THREADS},
    {"seconds", required_argument, NULL, OPTION_SECONDS},
    {"ops", required_argument, NULL, OPTION_OPS},
    {"warm", required_argument, NULL, OPTION_WARM},
    {"warm-ops", required_argument, NULL, OPTION_WARM_OPS},
    {"seed", required_argument, NULL, OPTION_SEED},
    {"cache", required_argument, NULL, OPTION_CACHE},
    {"log", required_argument, NULL, OPTION_LOG},
    {"page", required_argument, NULL, OPTION_PAGE},
    {"durability", required_argument, NULL, OPTION_DURABILITY},
    {"cold", no_argument, NULL, OPTION_COLD},
    {"crash-log", required_argument, NULL, OPTION_CRASH_LOG},
    {NULL, 0, NULL, 0},
};

static void usage(FILE *out)
{
    fputs(
        "Usage: kvbench [OPTION...] ENGINE WORK DIRECTORY\n"
        "       kvbench list          engines: name, log or nolog, direct or limited, version\n"
        "\n"
        "ENGINE is one of the list, WORK one of fill get scan increment insert crash recover.\n"
        "\n"
        "  --rows N          rows that are there, or that fill makes (default 2000000)\n"
        "  --threads N       (default 1)\n"
        "  --seconds S       how long (default 5)\n"
        "  --ops N           so many operations a thread instead\n"
        "  --warm S          the same work before, uncounted (default 0.5)\n"
        "  --warm-ops N      and before that, by number of operations (default 0)\n"
        "  --seed N          of the choice of rows; insert makes other rows for each (default 0)\n"
        "  --cache SIZE      memory for data (default 1G)\n"
        "  --log SIZE        log between checkpoints (default 256M)\n"
        "  --page SIZE       where an engine lets one choose (default 16K)\n"
        "  --durability D    of a commit: buffered, written or synced (default buffered)\n"
        "  --cold            cache nothing beside the cache; begin with empty caches\n"
        "  --crash-log SIZE  when crash kills itself (default 1G)\n",
        out);
}

static uint64_t parse_number(const char *text)
{
    char *end;
    errno = 0;
    unsigned long long number = strtoull(text, &end, 10);
    if (end == text || *end != '\0' || errno != 0)
        kv_die("\"%s\" is no number", text);
    return number;
}

static double parse_seconds(const char *text)
{
    char *end;
    double number = strtod(text, &end);
    if (end == text || *end != '\0' || !(number >= 0 && number < 1e6))
        kv_die("\"%s\" is no time in seconds", text);
    return number;
}

static uint64_t parse_size(const char *text)
{
    uint64_t size_bytes = 0;
    if (units_parse_size(text, &size_bytes) != FIRN_OK)
        kv_die("%s", firn_error_text());
    return size_bytes;
}

static unsigned parse_name(const char *text, const char *const *names, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        if (strcmp(text, names[i]) == 0)
            return i;
    kv_die("there is no \"%s\"; see --help", text);
}

static void parse_option(int option, struct kv_options *options, struct workload *workload)
{
    switch (option) {
    case OPTION_ROWS:
        workload->rows = parse_number(optarg);
        break;
    case OPTION_THREADS:
        workload->threads = options->threads = (unsigned)parse_number(optarg);
        break;
    case OPTION_SECONDS:
        workload->seconds = parse_seconds(optarg);
        break;
    case OPTION_OPS:
        workload->ops = parse_number(optarg);
        break;
    case OPTION_WARM:
        workload->warm_seconds = parse_seconds(optarg);
        break;
    case OPTION_WARM_OPS:
        workload->warm_ops = parse_number(optarg);
        break;
    case OPTION_SEED:
        workload->seed = parse_number(optarg);
        break;
    case OPTION_CACHE:
        options->cache_bytes = parse_size(optarg);
        break;
    case OPTION_LOG:
        options->log_bytes = parse_size(optarg);
        break;
    case OPTION_PAGE:
        options->page_bytes = (uint32_t)parse_size(optarg);
        break;
    case OPTION_DURABILITY:
        options->durability = (enum kv_durability)parse_name(optarg, durabilities, 3);
        break;
    case OPTION_COLD:
        options->cold = true;
        break;
    case OPTION_CRASH_LOG:
        workload->crash_log_bytes = parse_size(optarg);
        break;
    case OPTION_HELP:
        usage(stdout);
        exit(0);
    default:
        usage(stderr);
        exit(2);
    }
}

static const struct kv_driver *find_driver(const char *name)
{
    for (unsigned i = 0; i < DRIVERS; i++)
        if (strcmp(drivers[i]->name, name) == 0)
            return drivers[i];
    kv_die("there is no engine \"%s\"; see kvbench list", name);
}

static int list_drivers(void)
{
    for (unsigned i = 0; i < DRIVERS; i++)
        printf("%s %s %s %s\n", drivers[i]->name, drivers[i]->has_log ? "log" : "nolog",
               drivers[i]->direct ? "direct" : "limited", drivers[i]->version());
    return 0;
}

static void print_figures(const struct kv_driver *driver, const struct kv_options *options,
                          const struct workload *workload, const struct figures *figures)
{
    printf("{\"engine\":\"%s\",\"work\":\"%s\",\"threads\":%u,\"durability\":\"%s\",\"cold\":%s,",
           driver->name, works[workload->work], workload->threads,
           durabilities[options->durability], options->cold ? "true" : "false");
    printf("\"cache_bytes\":%llu,\"log_limit_bytes\":%llu,\"rows\":%llu,\"ops\":%llu,"
           "\"seconds\":%.6f,\"ops_per_s\":%.1f,\"cpu_seconds\":%.6f,\"syncs\":%llu,",
           (unsigned long long)options->cache_bytes, (unsigned long long)options->log_bytes,
           (unsigned long long)workload->rows, (unsigned long long)figures->ops, figures->seconds,
           (double)figures->ops / figures->seconds, figures->cpu_seconds,
           (unsigned long long)figures->syncs);
    printf("\"read_bytes\":%llu,\"write_bytes\":%llu,\"close_write_bytes\":%llu,"
           "\"close_seconds\":%.6f,\"worst_ms\":%.3f,\"log_bytes\":%llu,"
           "\"memory_peak_bytes\":%llu}\n",
           (unsigned long long)figures->read_bytes, (unsigned long long)figures->write_bytes,
           (unsigned long long)figures->close_write_bytes, figures->close_seconds,
           figures->worst_ms, (unsigned long long)figures->log_bytes,
           (unsigned long long)figures->memory_peak_bytes);
}

int main(int argc, char **argv)
{
    struct kv_options options = {
        .cache_bytes = UINT64_C(1) << 30,
        .log_bytes = UINT64_C(256) << 20,
        .page_bytes = 16384,
        .threads = 1,
    };
    struct workload workload = {
        .rows = 2000000,
        .threads = 1,
        .seconds = 5,
        .warm_seconds = 0.5,
        .crash_log_bytes = UINT64_C(1) << 30,
    };
    struct figures figures;
    int option;
    while ((option = getopt_long(argc, argv, "h", long_options, NULL)) != -1)
        parse_option(option, &options, &workload);
    if (argc - optind == 1 && strcmp(argv[optind], "list") == 0)
        return list_drivers();
    if (argc - optind != 3 || workload.threads == 0 || workload.rows == 0) {
        usage(stderr);
        return 2;
    }
    const struct kv_driver *driver = find_driver(argv[optind]);
    workload.work = (enum work)parse_name(argv[optind + 1], works, sizeof works / sizeof works[0]);
    options.directory = argv[optind + 2];
    options.reads_only = workload.work == WORK_GET || workload.work == WORK_SCAN;
    options.keep_log = workload.work == WORK_CRASH;
    if (!driver->has_log && (workload.work == WORK_CRASH || workload.work == WORK_RECOVER))
        kv_die("%s has no log", driver->name);
    if (mkdir(options.directory, 0700) != 0 && errno != EEXIST)
        kv_die("cannot make %s: %s", options.directory, strerror(errno));
    workload_run(driver, &options, &workload, &figures);
    print_figures(driver, &options, &workload, &figures);
    return 0;
}
