#include "base/clock.h"
#include "base/memory.h"
#include "base/rng.h"
#include "bench/host.h"
#include "bench/host_internal.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

#include <cmocka.h>

#include "repeat.h"

static struct host_text as_text(const char *text)
{
    return (struct host_text){text, strlen(text)};
}

static void assert_close(double value, double expected)
{
    if (!(fabs(value - expected) <= 1e-9 * (1 + fabs(expected))))
        fail_msg("%.12g is not %.12g", value, expected);
}

static const char DISKSTATS[] =
    "   7       0 loop0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n"
    " 259       0 nvme0n1 1000 50 80000 400 2000 300 64000 9000 3 5000 9400 7 0 100 5 60 120\n"
    " 259       1 nvme0n1p1 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17\n"
    " 104       0 cciss/c0d0 11 12 13 14 15 16 17 18 19 20 21\n"
    "   8       0 sda 21 22 23 24 25 26 27 28 29 30 31 32 33 34 35\n";

static void a_devices_counters_are_found_by_its_whole_name(void **state)
{
    (void)state;
    struct host_disk_counters c;
    assert_true(host_parse_diskstats(as_text(DISKSTATS), "nvme0n1", &c));
    assert_int_equal(c.reads, 1000);
    assert_int_equal(c.reads_merged, 50);
    assert_int_equal(c.sectors_read, 80000);
    assert_int_equal(c.read_ms, 400);
    assert_int_equal(c.writes, 2000);
    assert_int_equal(c.writes_merged, 300);
    assert_int_equal(c.sectors_written, 64000);
    assert_int_equal(c.write_ms, 9000);
    assert_int_equal(c.under_way, 3);
    assert_int_equal(c.busy_ms, 5000);
    assert_int_equal(c.weighted_ms, 9400);
    assert_int_equal(c.flushes, 60);
    assert_int_equal(c.flush_ms, 120);
    assert_true(host_parse_diskstats(as_text(DISKSTATS), "nvme0n1p1", &c));
    assert_int_equal(c.reads, 1);
    assert_false(host_parse_diskstats(as_text(DISKSTATS), "nvme0n", &c));
    assert_false(host_parse_diskstats(as_text(DISKSTATS), "", &c));
}

static void old_kernels_lines_have_no_flushes(void **state)
{
    (void)state;
    struct host_disk_counters c;
    assert_true(host_parse_diskstats(as_text(DISKSTATS), "cciss/c0d0", &c));
    assert_int_equal(c.weighted_ms, 21);
    assert_int_equal(c.flushes, 0);
    assert_true(host_parse_diskstats(as_text(DISKSTATS), "sda", &c));
    assert_int_equal(c.weighted_ms, 31);
    assert_int_equal(c.flush_ms, 0);
}

static void malformed_lines_are_passed_over(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",
        "\n",
        "8",
        "8 0",
        "8 0 sda",
        "8 0 sda 1 2 3",
        "8 0 sda 1 2 3 4 5 6 7 8 9 10 x",
        "x 0 sda 1 2 3 4 5 6 7 8 9 10 11",
        "8 0 sda 1 2 3 4 5 6 7 8 9 10 99999999999999999999999",
        "8 0 sda -1 2 3 4 5 6 7 8 9 10 11",
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct host_disk_counters c;
        assert_false(host_parse_diskstats(as_text(bad[i]), "sda", &c));
    }
    struct host_disk_counters c;
    assert_true(
        host_parse_diskstats(as_text("rubbish\n\n8 0 sda 1 2 3 4 5 6 7 8 9 10 11"), "sda", &c));
    assert_int_equal(c.weighted_ms, 11);
}

static void columns_are_iostats(void **state)
{
    (void)state;
    struct host_disk_counters before = {.reads = 100,
                                        .reads_merged = 10,
                                        .sectors_read = 3200,
                                        .read_ms = 50,
                                        .writes = 7,
                                        .busy_ms = 1000,
                                        .weighted_ms = 2000,
                                        .flushes = 1,
                                        .flush_ms = 3};
    struct host_disk_counters after = {.reads = 500,
                                       .reads_merged = 30,
                                       .sectors_read = 16000,
                                       .read_ms = 250,
                                       .writes = 27,
                                       .writes_merged = 8,
                                       .sectors_written = 640,
                                       .write_ms = 100,
                                       .busy_ms = 2500,
                                       .weighted_ms = 2300,
                                       .flushes = 5,
                                       .flush_ms = 23};
    struct host_device_sample s;
    host_disk_sample(&before, &after, 2, &s);
    assert_close(s.r_s, 200);
    assert_close(s.w_s, 10);
    assert_close(s.f_s, 2);
    assert_close(s.rkb_s, 3200);
    assert_close(s.wkb_s, 160);
    assert_close(s.rrqm_s, 10);
    assert_close(s.wrqm_s, 4);
    assert_close(s.r_await_ms, 0.5);
    assert_close(s.w_await_ms, 5);
    assert_close(s.f_await_ms, 5);
    assert_close(s.rareq_kb, 16);
    assert_close(s.wareq_kb, 16);
    assert_close(s.aqu_sz, 0.15);
    assert_close(s.util_percent, 75);
}

static void an_idle_device_has_no_means_and_a_moment_no_rates(void **state)
{
    (void)state;
    struct host_disk_counters same = {.reads = 5, .read_ms = 7, .writes = 3, .write_ms = 9};
    struct host_disk_counters more = {.reads = 9, .read_ms = 70, .writes = 33, .write_ms = 99};
    struct host_device_sample zero = {0};
    struct host_device_sample s;
    host_disk_sample(&same, &same, 1, &s);
    assert_memory_equal(&s, &zero, sizeof(s));
    host_disk_sample(&same, &more, 0, &s);
    assert_memory_equal(&s, &zero, sizeof(s));
}

static void times_that_come_round_go_on_and_counters_set_anew_count_nothing(void **state)
{
    (void)state;
    struct host_disk_counters before = {
        .reads = 100, .read_ms = UINT32_MAX - 49, .busy_ms = UINT32_MAX, .weighted_ms = 70};
    struct host_disk_counters after = {.reads = 110, .read_ms = 50, .busy_ms = 499};
    struct host_device_sample s;
    host_disk_sample(&before, &after, 1, &s);
    assert_close(s.r_await_ms, 10);
    assert_close(s.util_percent, 50);
    assert_close(s.aqu_sz, 0);
    after.reads = 3;
    host_disk_sample(&before, &after, 1, &s);
    assert_close(s.r_s, 0);
    assert_close(s.r_await_ms, 0);
}

static void a_device_that_vanishes_and_returns_is_counted_from_its_return(void **state)
{
    (void)state;
    static const char *const gone = "   8       0 sda 1 2 3 4 5 6 7 8 9 10 11\n";
    static const char *const anew = "   8      16 sdb 4 0 8 4 0 0 0 0 0 4 4\n";
    static const char *const later = "   8      16 sdb 14 0 88 24 0 0 0 0 0 24 24\n";
    static const char *const first = "   8      16 sdb 900 0 900 900 0 0 0 0 0 9 9\n";
    struct host_disk_track track = {0};
    struct host_device_sample s;
    assert_false(host_track_disk(&track, as_text(first), "sdb", 1, &s));
    assert_true(host_track_disk(&track, as_text(first), "sdb", 1, &s));
    assert_close(s.r_s, 0);
    assert_false(host_track_disk(&track, as_text(gone), "sdb", 1, &s));
    assert_false(host_track_disk(&track, as_text(anew), "sdb", 1, &s));
    assert_true(host_track_disk(&track, as_text(later), "sdb", 1, &s));
    assert_close(s.r_s, 10);
    assert_false(host_track_disk(&track, as_text(later), "", 1, &s));
}

static void processor_shares_add_up_to_a_hundred(void **state)
{
    (void)state;
    struct host_cpu_counters before, after;
    assert_true(
        host_parse_cpu(as_text("cpu  100 10 50 800 20 3 4 5 60 0\ncpu0 1 1 1 1\n"), &before));
    assert_int_equal(before.user, 100);
    assert_int_equal(before.steal, 5);
    assert_true(host_parse_cpu(as_text("cpu  130 20 60 830 30 5 7 10 60 0\n"), &after));
    struct host_cpu_sample s = {0};
    assert_true(host_cpu_shares(&before, &after, &s));
    assert_close(s.user_percent, 40);
    assert_close(s.system_percent, 15);
    assert_close(s.iowait_percent, 10);
    assert_close(s.idle_percent, 30);
    assert_close(s.steal_percent, 5);
    /* No tick passed; and iowait was corrected downwards. */
    struct host_cpu_sample kept = s;
    assert_false(host_cpu_shares(&after, &after, &s));
    assert_memory_equal(&s, &kept, sizeof(s));
    after.iowait = 10;
    assert_true(host_cpu_shares(&before, &after, &s));
    assert_close(s.iowait_percent, 0);
    assert_close(s.user_percent + s.system_percent + s.idle_percent + s.steal_percent, 100);
    assert_false(host_parse_cpu(as_text("cpu0 1 2 3 4\nintr 5\n"), &before));
    assert_false(host_parse_cpu(as_text("cpu 1 2 3\n"), &before));
}

static const char MOUNTINFO[] =
    "22 1 8:2 / / rw,relatime shared:1 - ext4 /dev/sda2 rw,errors=remount-ro\n"
    "23 22 0:21 / /proc rw - proc proc rw\n"
    "30 22 0:40 / /data rw,noatime shared:2 master:3 - btrfs /dev/sdb rw,subvol=/\n"
    "31 22 8:33 / /data/with\\040blank rw - xfs /dev/sdc1 rw\n"
    "32 22 0:50 / /tmp rw - tmpfs tmpfs rw,size=1g\n"
    "broken line\n"
    "33 22 0:51 / /tmp rw - ramfs cover rw\n";

static void a_path_lies_on_the_deepest_mount_that_was_made_last(void **state)
{
    (void)state;
    static const struct {
        const char *path, *type, *source;
    } cases[] = {
        {"/", "ext4", "/dev/sda2"},
        {"/data", "btrfs", "/dev/sdb"},
        {"/data/x", "btrfs", "/dev/sdb"},
        {"/database", "ext4", "/dev/sda2"},
        {"/data/with blank/db", "xfs", "/dev/sdc1"},
        {"/tmp/x", "ramfs", "cover"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct host_mount mount;
        assert_true(host_parse_mountinfo(as_text(MOUNTINFO), cases[i].path, &mount));
        assert_string_equal(mount.type, cases[i].type);
        assert_string_equal(mount.source, cases[i].source);
    }
    struct host_mount mount;
    assert_true(host_parse_mountinfo(as_text(MOUNTINFO), "/data", &mount));
    assert_string_equal(mount.options, "rw,noatime,rw,subvol=/");
    assert_false(host_parse_mountinfo(as_text("31 22 8:33 / /data rw - xfs\n"), "/data", &mount));
}

static void values_and_bracketed_words_are_found(void **state)
{
    (void)state;
    char text[16];
    host_parse_value(as_text("NAME=\"X\"\nPRETTY_NAME=\"Debian 12\"\n"), "PRETTY_NAME", '=', text,
                     sizeof(text));
    assert_string_equal(text, "Debian 12");
    host_parse_value(as_text("model name\t: A processor with a long name\n"), "model name", ':',
                     text, sizeof(text));
    assert_string_equal(text, "A processor wit");
    host_parse_value(as_text("PRETTY_NAME"), "PRETTY_NAME", '=', text, sizeof(text));
    assert_string_equal(text, "");
    host_parse_bracketed(as_text("mq-deadline [none] bfq"), text, sizeof(text));
    assert_string_equal(text, "none");
    host_parse_bracketed(as_text("none"), text, sizeof(text));
    assert_string_equal(text, "");
    host_parse_bracketed(as_text("] [none"), text, sizeof(text));
    assert_string_equal(text, "");
}

/* Nothing may be read past a text's end: each stands at the end of an allocation. */
static void damaged_texts_do_no_harm(void **state)
{
    (void)state;
    uint64_t seed = test_seed(1);
    static const char *const samples[] = {DISKSTATS, MOUNTINFO, "cpu  100 10 50 800 20 3 4 5\n",
                                          "a [b] c\nmodel name : x\n"};
    static const char junk[] = " \n\t\\0123456789[]-:/\"\xff";
    struct rng rng;
    rng_init(&rng, seed);
    for (int round = 0; round < 4000; round++) {
        const char *sample = samples[rng_below(&rng, 4)];
        size_t size_bytes = 1 + rng_below(&rng, strlen(sample));
        char *copy = malloc(size_bytes);
        memcpy(copy, sample, size_bytes);
        for (uint64_t changes = rng_below(&rng, 5); changes > 0; changes--)
            copy[rng_below(&rng, size_bytes)] = junk[rng_below(&rng, sizeof(junk))];
        struct host_text text = {copy, size_bytes};
        struct host_disk_counters disk;
        struct host_cpu_counters cpu;
        struct host_mount mount;
        char word[8];
        host_parse_diskstats(text, "sda", &disk);
        host_parse_cpu(text, &cpu);
        if (host_parse_mountinfo(text, "/data/with blank", &mount))
            assert_true(strlen(mount.type) < sizeof(mount.type) &&
                        strlen(mount.options) < sizeof(mount.options));
        host_parse_value(text, "model name", ':', word, sizeof(word));
        host_parse_bracketed(text, word, sizeof(word));
        assert_true(strlen(word) < sizeof(word));
        free(copy);
    }
}

/* In a chroot the mount that a path lies on may not be in sight. */
static bool root_is_a_mount(void)
{
    char line[4096];
    char place[2048];
    bool found = false;
    FILE *file = fopen("/proc/self/mountinfo", "r");
    while (file != NULL && fgets(line, sizeof(line), file) != NULL)
        found |= sscanf(line, "%*s %*s %*s %*s %2047s", place) == 1 && strcmp(place, "/") == 0;
    if (file != NULL)
        fclose(file);
    return found;
}

static void this_machine_is_described(void **state)
{
    (void)state;
    struct host_machine machine;
    host_describe(".", &machine);
    assert_true(machine.processors > 0);
    assert_true(machine.memory_bytes > 1000000);
    assert_true(strlen(machine.kernel) > 0);
    if (root_is_a_mount()) {
        assert_true(strlen(machine.file_system) > 0);
        assert_true(strlen(machine.mount_options) > 0);
    }
    assert_true(machine.directory_free_bytes > 0);
    if (machine.device[0] != '\0') {
        assert_true(machine.device_bytes > 0);
        assert_true(machine.device_logical_block_bytes >= 512);
    }
    host_describe("/nowhere/at/all", &machine);
    assert_string_equal(machine.file_system, "");
    assert_string_equal(machine.device, "");
    assert_int_equal(machine.directory_free_bytes, 0);
    assert_true(machine.processors > 0);
}

static void this_machine_is_sampled(void **state)
{
    (void)state;
    static const char *const directories[] = {".", "/proc", "/nowhere/at/all"};
    for (unsigned i = 0; i < 3; i++) {
        struct host_sampler *sampler = NULL;
        assert_int_equal(host_sampler_open(directories[i], &sampler), FIRN_OK);
        struct host_sample sample;
        uint64_t end_ns = clock_now(clock_real()) + 30 * NS_PER_MS;
        while (clock_now(clock_real()) < end_ns)
            ; /* be busy, to be seen */
        host_sampler_take(sampler, &sample);
        assert_true(sample.has_device == (host_sampler_device(sampler)[0] != '\0'));
        assert_true(i == 0 || !sample.has_device);
        const struct host_cpu_sample *cpu = &sample.cpu;
        assert_close(cpu->user_percent + cpu->system_percent + cpu->iowait_percent +
                         cpu->idle_percent + cpu->steal_percent,
                     100);
        assert_true(cpu->process_user_percent + cpu->process_system_percent > 0);
        host_sampler_take(sampler, &sample); /* at once: no tick has passed */
        host_sampler_close(sampler);
    }
    memory_fail_after(0);
    struct host_sampler *none = NULL;
    assert_int_equal(host_sampler_open(".", &none), FIRN_E_NOMEM);
    memory_fail_after(-1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_devices_counters_are_found_by_its_whole_name),
        cmocka_unit_test(old_kernels_lines_have_no_flushes),
        cmocka_unit_test(malformed_lines_are_passed_over),
        cmocka_unit_test(columns_are_iostats),
        cmocka_unit_test(an_idle_device_has_no_means_and_a_moment_no_rates),
        cmocka_unit_test(times_that_come_round_go_on_and_counters_set_anew_count_nothing),
        cmocka_unit_test(a_device_that_vanishes_and_returns_is_counted_from_its_return),
        cmocka_unit_test(processor_shares_add_up_to_a_hundred),
        cmocka_unit_test(a_path_lies_on_the_deepest_mount_that_was_made_last),
        cmocka_unit_test(values_and_bracketed_words_are_found),
        cmocka_unit_test(damaged_texts_do_no_harm),
        cmocka_unit_test(this_machine_is_described),
        cmocka_unit_test(this_machine_is_sampled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
