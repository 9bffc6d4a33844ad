/*
 * make_results DIRECTORY -- write made-up result files of every kind a report must be able to show.
 *
 *   steady.json       ten hours at 1 s: reads, writes and syncs, noise and nothing else
 *   stalls.json       4 s of standstill in every 10 s
 *   slowdowns.json    ten hours at 1 s: 148 MiB/s, every 20 minutes 87 MiB/s for 40 s
 *   both.json         stalls and slowdowns in one run
 *   warmup.json       a cold start, then steady
 *   open_loop.json    at a rate, with latencies from the schedule
 *   sweep.json        two groups: random reads by threads, random writes by depth
 *   modelled.json     a device model in virtual time
 *   repeat_N.json     N from 1 to 6: the same runs again and again
 *   other_N.json      N from 1 to 6: the same names on another device, other options
 *   odd.json          names that must be escaped, a run that stood still, a run of one interval
 */
#include "bench/made_series.h"

#include <stdio.h>

static struct result *result;

static void check(firn_rc rc)
{
    if (rc == FIRN_OK)
        return;
    fprintf(stderr, "make_results: %s\n", firn_error_text());
    exit(1);
}

static void begin(const char *title)
{
    static char *argv[] = {(char *)"firn", (char *)"fileio", (char *)"--file-test-mode=rndrw",
                           (char *)"run"};
    check(result_open(title, 4, argv, ".", &result));
}

static void finish(const char *directory, const char *name)
{
    char path[4096];
    snprintf(path, sizeof(path), "%s/%s", directory, name);
    check(result_write(result, path));
    result_close(result);
    printf("%s\n", path);
}

static struct made_plan usual_plan(double run_s, double rate)
{
    return (struct made_plan){.plan = {.run_s = run_s,
                                       .interval_s = 1,
                                       .rate = rate,
                                       .variation = 0.04,
                                       .correlation = 0.3},
                              .write_share = 0.4,
                              .syncs_per_s = 20,
                              .mean_us = {180, 240, 900},
                              .spread = 0.5,
                              .seed = 1};
}

static json_t *setup_of(unsigned threads, unsigned depth, const char *mode)
{
    return json_pack("{s:s, s:s, s:i, s:i, s:i, s:I, s:b}", "file_test_mode", mode, "file_io_mode",
                     depth > 1 ? "async" : "sync", "threads", (int)threads, "io_depth", (int)depth,
                     "file_block_size_bytes", 16384, "file_total_size_bytes",
                     (json_int_t)(2LL << 30), "direct", 1);
}

/* Add a run by a plan; the fields of `extra` that are set replace the usual ones. */
static void add(const struct made_plan *plan, const struct result_run *extra)
{
    struct made_result made = made_run_of(plan);
    struct result_run run = made_result_run(&made, extra->name);
    json_decref(run.setup);
    run.setup = extra->setup != NULL ? extra->setup : setup_of(8, 4, "rndrw");
    run.group = extra->group;
    run.group_x = extra->group_x;
    run.group_axis = extra->group_axis;
    run.extra = extra->extra;
    if (extra->storage != NULL)
        run.storage = extra->storage;
    if (extra->model != NULL) {
        run.model = extra->model;
        run.time_scale = extra->time_scale;
        run.host = NULL;
    }
    check(result_add(result, &run));
    made_free(&made);
}

static void make_single(const char *directory, const char *file, const char *title,
                        const struct made_plan *plan)
{
    struct result_run run = {.name = "random reads and writes 16 KiB"};
    begin(title);
    add(plan, &run);
    finish(directory, file);
}

static void make_sweep(const char *directory)
{
    char name[64];
    begin("Threads and depth");
    for (unsigned threads = 1; threads <= 64; threads *= 2) {
        /* Saturates at 8 threads: what is more only waits. */
        double rate = 13000 * fmin(threads, 8);
        struct made_plan plan = usual_plan(30, rate);
        plan.write_share = 0;
        plan.syncs_per_s = 0;
        plan.mean_us[0] = 1e6 * threads / rate;
        snprintf(name, sizeof(name), "random read 16 KiB, sync, %u threads", threads);
        struct result_run run = {.name = name,
                                 .group = "random read by threads",
                                 .group_x = threads,
                                 .group_axis = "threads",
                                 .setup = setup_of(threads, 1, "rndrd")};
        add(&plan, &run);
    }
    for (unsigned depth = 1; depth <= 128; depth *= 4) {
        double rate = 9000 * fmin(depth, 16);
        struct made_plan plan = usual_plan(30, rate);
        plan.write_share = 1;
        plan.mean_us[1] = 1e6 * depth / rate;
        snprintf(name, sizeof(name), "random write 16 KiB, async, depth %u", depth);
        struct result_run run = {.name = name,
                                 .group = "random write by depth",
                                 .group_x = depth,
                                 .group_axis = "io depth",
                                 .setup = setup_of(1, depth, "rndwr")};
        add(&plan, &run);
    }
    finish(directory, "sweep.json");
}

static void make_repeats(const char *directory)
{
    char file[64];
    for (unsigned number = 1; number <= 6; number++)
        for (int other = 0; other <= 1; other++) {
            begin(other ? "Disk B" : "Disk A");
            static const char *const modes[] = {"rndrd", "rndwr"};
            for (unsigned m = 0; m < 2; m++) {
                struct made_plan plan =
                    usual_plan(60, (other ? 9000 : 14000) * (1 + 0.01 * (number * 7 % 5)));
                plan.write_share = m;
                plan.syncs_per_s = 0;
                plan.seed = number + 10 * (unsigned)other;
                struct result_run run = {.name = m == 0 ? "random read 16 KiB, depth 4"
                                                        : "random write 16 KiB, depth 4",
                                         .setup = setup_of(other ? 4 : 8, 4, modes[m]),
                                         .storage = other ? "libaio" : "io_uring"};
                add(&plan, &run);
            }
            snprintf(file, sizeof(file), "%s_%u.json", other ? "other" : "repeat", number);
            finish(directory, file);
        }
}

static void make_modelled(const char *directory)
{
    struct made_plan plan = usual_plan(600, 4000);
    plan.plan.stalls = (struct train){100, 1.5, 40};
    struct result_run run = {.name = "random write 16 KiB on a model",
                             .model = "ssd-sata-x25e",
                             .time_scale = 0,
                             .storage = "model(ssd-sata-x25e) over null",
                             .extra = json_pack("{s:i}", "model_pauses", 6)};
    begin("A device model");
    add(&plan, &run);
    finish(directory, "modelled.json");
}

static void make_odd(const char *directory)
{
    struct made_plan plan = usual_plan(20, 3000);
    begin("</script><script>alert(1)</script> & \"quotes\" \xff\xfe \xe2\x98\x83");
    struct result_run run = {.name = "<img src=x onerror=alert(1)> 'single' \\back",
                             .setup =
                                 json_pack("{s:s, s:n}", "<b>key</b>", "\"]]></script>", "unset")};
    add(&plan, &run);
    plan.plan.stalls = (struct train){1000, 1000, 0};
    plan.syncs_per_s = 0;
    struct result_run still = {.name = "stood still"};
    add(&plan, &still);
    plan = usual_plan(1, 3000);
    struct result_run brief = {.name = "one interval"};
    add(&plan, &brief);
    finish(directory, "odd.json");
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "Usage: make_results DIRECTORY\n");
        return 2;
    }
    const char *directory = argv[1];
    struct made_plan plan = usual_plan(36000, 11000);
    make_single(directory, "steady.json", "Ten steady hours", &plan);
    plan = usual_plan(36000, 148 * 64);
    plan.plan.slow = (struct train){1200, 40, 605};
    plan.plan.slow_share = 87.0 / 148;
    make_single(directory, "slowdowns.json", "Ten hours with slowdowns", &plan);
    plan = usual_plan(300, 11000);
    plan.plan.stalls = (struct train){10, 4, 3};
    make_single(directory, "stalls.json", "Stalls", &plan);
    plan = usual_plan(600, 11000);
    plan.plan.stalls = (struct train){20, 2, 6};
    plan.plan.slow = (struct train){60, 10, 45};
    plan.plan.slow_share = 0.6;
    make_single(directory, "both.json", "Stalls and slowdowns", &plan);
    plan = usual_plan(300, 11000);
    plan.plan.ramp_s = 40;
    plan.plan.ramp_share = 0.3;
    make_single(directory, "warmup.json", "A cold start", &plan);
    plan = usual_plan(120, 5000);
    plan.open_loop = true;
    make_single(directory, "open_loop.json", "Open loop", &plan);
    make_sweep(directory);
    make_repeats(directory);
    make_modelled(directory);
    make_odd(directory);
    return 0;
}
