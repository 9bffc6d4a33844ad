#include "bench/survey.h"

#include "base/clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

/** A made-up device: figures for every phase of a plan. */
struct device {
    struct survey_phase phases[SURVEY_PHASES_MAX];
    struct survey_outcome outcomes[SURVEY_PHASES_MAX];
    struct host_machine machine;
    struct survey_findings findings;
};

static struct device device;
static struct survey_verdict verdict;

static struct survey_rate rate(double per_s, double p50_us, double p99_us, double block_bytes)
{
    return (struct survey_rate){.per_s = per_s,
                                .bytes_per_s = per_s * block_bytes,
                                .p50_us = p50_us,
                                .p99_us = p99_us,
                                .max_us = 2 * p99_us};
}

/* A queue served by `servers` at once: the rate grows with what is under way until all are busy. */
static struct survey_rate served(double under_way, double servers, double each_us)
{
    double busy = under_way < servers ? under_way : servers;
    double latency_us = each_us * (under_way < servers ? 1 : under_way / servers);
    return rate(busy * 1e6 / each_us, latency_us, 1.5 * latency_us, 16384);
}

/** What a made-up device is made of. */
struct traits {
    double sync_us, servers, read_us, write_us, sequential_mib_s, sync_overlap;
};

static void make_outcome(const struct survey_phase *phase, const struct traits *traits,
                         struct survey_outcome *outcome)
{
    double under_way = phase->threads * (phase->depth == 0 ? 1.0 : phase->depth);
    double mib = 1024.0 * 1024.0;
    *outcome = (struct survey_outcome){.measured = true,
                                       .cpu_idle_percent = 90,
                                       .relative_variation = 0.04,
                                       .start_rate = 1e6 / traits->write_us,
                                       .end_rate = 1e6 / traits->write_us,
                                       .judgement_text = "steady"};
    switch (phase->work) {
    case SURVEY_APPEND:
    case SURVEY_OVERWRITE:
    case SURVEY_SYNC_MANY:
        outcome->write =
            rate(1e6 / traits->sync_us, traits->sync_us, 2 * traits->sync_us, phase->block_bytes);
        outcome->sync = rate(1e6 / traits->sync_us, 1, 2, 0);
        if (phase->work == SURVEY_SYNC_MANY)
            outcome->sync.per_s *= traits->sync_overlap;
        break;
    case SURVEY_SEQ_READ:
        outcome->read = rate(traits->sequential_mib_s, 1e6 / traits->sequential_mib_s, 1e5, mib);
        break;
    case SURVEY_SEQ_WRITE:
        outcome->write = rate(traits->sequential_mib_s, 1e6 / traits->sequential_mib_s, 1e5, mib);
        break;
    case SURVEY_READ_THREADS:
    case SURVEY_READ_DEPTH:
        outcome->read = served(under_way, traits->servers, traits->read_us);
        break;
    case SURVEY_WRITE_THREADS:
    case SURVEY_WRITE_DEPTH:
    case SURVEY_STEADY:
        outcome->write = served(under_way, traits->servers, traits->write_us);
        break;
    case SURVEY_MIXED:
        outcome->read = served(10, traits->servers, traits->read_us);
        outcome->write = served(6, traits->servers, traits->write_us);
        break;
    case SURVEY_WORK_COUNT:
        break;
    }
}

static void make_device(const struct traits *traits)
{
    unsigned count = survey_plan(200 * NS_PER_S, device.phases);
    for (unsigned i = 0; i < count; i++)
        make_outcome(&device.phases[i], traits, &device.outcomes[i]);
    device.machine = (struct host_machine){.file_system = "ext4", .virtualization = "none"};
    device.findings = (struct survey_findings){.phases = device.phases,
                                               .outcomes = device.outcomes,
                                               .count = count,
                                               .machine = &device.machine,
                                               .size_bytes = UINT64_C(2) << 30,
                                               .direct = true};
}

static const struct traits good_ssd = {
    .sync_us = 80,
    .servers = 14,
    .read_us = 90,
    .write_us = 60,
    .sequential_mib_s = 1800,
    .sync_overlap = 5,
};

static const struct traits bare_disk = {
    .sync_us = 8400,
    .servers = 1,
    .read_us = 12000,
    .write_us = 11000,
    .sequential_mib_s = 120,
    .sync_overlap = 1.05,
};

static const char *line_of(const char *topic)
{
    for (unsigned i = 0; i < verdict.count; i++)
        if (strcmp(verdict.lines[i].topic, topic) == 0)
            return verdict.lines[i].text;
    return "";
}

static void says(const char *topic, const char *part)
{
    if (strstr(line_of(topic), part) == NULL)
        fail_msg("%s: \"%s\" lacks \"%s\"", topic, line_of(topic), part);
}

static unsigned warnings(void)
{
    unsigned count = 0;
    for (unsigned i = 0; i < verdict.count; i++)
        count += verdict.lines[i].severity == SURVEY_WARNS;
    return count;
}

static struct survey_outcome *outcome_of(enum survey_work work)
{
    for (unsigned i = 0; i < device.findings.count; i++)
        if (device.phases[i].work == work)
            return &device.outcomes[i];
    fail_msg("no phase of work %d", work);
    return NULL;
}

static void the_plan_covers_the_series_and_fits_its_time(void **state)
{
    (void)state;
    struct survey_phase phases[SURVEY_PHASES_MAX];
    static const uint64_t times[] = {2 * NS_PER_S, 200 * NS_PER_S, 3600 * NS_PER_S};
    for (size_t t = 0; t < sizeof(times) / sizeof(times[0]); t++) {
        unsigned count = survey_plan(times[t], phases);
        unsigned works[SURVEY_WORK_COUNT] = {0};
        uint64_t sum_ns = 0;
        for (unsigned i = 0; i < count; i++) {
            works[phases[i].work]++;
            sum_ns += phases[i].warmup_ns + phases[i].time_ns;
            assert_true(phases[i].interval_ns >= 10 * NS_PER_MS);
            assert_true(phases[i].threads >= 1);
            for (unsigned j = 0; j < i; j++)
                assert_string_not_equal(phases[i].name, phases[j].name);
        }
        for (unsigned w = 0; w < SURVEY_WORK_COUNT; w++) {
            bool by_threads = w == SURVEY_READ_THREADS || w == SURVEY_WRITE_THREADS;
            bool by_depth = w == SURVEY_READ_DEPTH || w == SURVEY_WRITE_DEPTH;
            assert_int_equal(works[w], by_threads ? 7 : by_depth ? 8 : 1);
        }
        assert_true(sum_ns <= times[t]);
        assert_true(sum_ns > times[t] - NS_PER_S / 100);
    }
}

static void a_good_ssd_is_praised_without_a_warning(void **state)
{
    (void)state;
    make_device(&good_ssd);
    survey_judge(&device.findings, &verdict);
    says("redo, binary log", "Well suited");
    says("data files", "Well suited");
    says("commits", "12.5 k/s");
    says("commits", "10 k commits/s need no group commit");
    says("many syncs", "62.5 k syncs/s, 5.0 times one thread's: syncs overlap well");
    says("random reads", "One read at a time: 11.1 k/s, 90 us each (median); 14 times that from "
                         "depth 16 on (156 k/s");
    says("steadiness", "variation 4 %), no stall, no slowdown");
    says("scans", "deep queues do as well as order");
    assert_int_equal(warnings(), 0);
}

static void a_bare_disk_needs_groups_and_order(void **state)
{
    (void)state;
    make_device(&bare_disk);
    device.machine.device_rotational = true;
    survey_judge(&device.findings, &verdict);
    says("redo, binary log", "Poorly suited");
    says("data files", "Poorly suited");
    says("commits", "119/s");
    says("commits", "must take 84 along with each sync");
    says("many syncs", "syncs queue up");
    says("random reads", "One read at a time already gives all: 83.3/s");
    says("scans", "92 times as fast as random pages at their best: order on disk and "
                  "read-ahead pay");
    assert_int_equal(warnings(), 0);
}

static void syncs_too_fast_to_be_true_are_not_believed(void **state)
{
    (void)state;
    make_device(&good_ssd);
    outcome_of(SURVEY_OVERWRITE)->write.p50_us = 2;
    survey_judge(&device.findings, &verdict);
    says("durability", "something acknowledges before the bytes are safe");

    outcome_of(SURVEY_OVERWRITE)->write.p50_us = 30;
    survey_judge(&device.findings, &verdict);
    says("durability", "a cache answers. Make sure");
    strcpy(device.machine.device_write_cache, "write back");
    survey_judge(&device.findings, &verdict);
    says("durability", "a cache answers, and the device calls it volatile");
    strcpy(device.machine.device_write_cache, "write through");
    survey_judge(&device.findings, &verdict);
    assert_string_equal(line_of("durability"), "");

    outcome_of(SURVEY_OVERWRITE)->write.p50_us = 80;
    device.machine.device_rotational = true;
    survey_judge(&device.findings, &verdict);
    says("durability", "less than half a turn");

    device.machine.device_rotational = false;
    strcpy(device.machine.mount_options, "rw,relatime,nobarrier");
    survey_judge(&device.findings, &verdict);
    says("durability", "mounted without barriers");

    strcpy(device.machine.mount_options, "rw,relatime");
    strcpy(device.machine.file_system, "tmpfs");
    survey_judge(&device.findings, &verdict);
    says("durability", "nothing survives a power cut");
    says("redo, binary log", "Not to be trusted");
}

static void stalls_and_a_fallen_rate_are_warned_of(void **state)
{
    (void)state;
    make_device(&good_ssd);
    struct survey_outcome *steady = outcome_of(SURVEY_STEADY);
    steady->stalled_s = 8;
    strcpy(steady->judgement_text, "2 stalls, 4.01 s each, every 10 s.");
    survey_judge(&device.findings, &verdict);
    says("steadiness", "2 stalls, 4.01 s each, every 10 s.");
    says("redo, binary log", "Its stalls will be every commit's stalls.");
    assert_int_equal(warnings(), 1);

    steady->stalled_s = 0;
    steady->start_rate = 40000;
    steady->end_rate = 9000;
    survey_judge(&device.findings, &verdict);
    says("steadiness", "fell from 40 k/s to 9 k/s");
    assert_int_equal(warnings(), 1);

    steady->end_rate = steady->start_rate;
    steady->relative_variation = 0.4;
    survey_judge(&device.findings, &verdict);
    says("steadiness", "wavers by 40 %");
    assert_int_equal(warnings(), 0);
}

static void what_bends_the_figures_is_said(void **state)
{
    (void)state;
    make_device(&good_ssd);
    strcpy(device.machine.virtualization, "kvm");
    device.findings.direct = false;
    outcome_of(SURVEY_MIXED)->cpu_steal_percent = 12;
    survey_judge(&device.findings, &verdict);
    says("page cache", "Direct I/O is refused here");
    says("virtual machine", "Under kvm");
    says("processors", "Up to 12 % of processor time");
    assert_int_equal(warnings(), 3);
}

static void busy_processors_are_told_from_busy_devices(void **state)
{
    (void)state;
    make_device(&good_ssd);
    device.machine.processors = 8;
    struct survey_outcome *first = outcome_of(SURVEY_READ_DEPTH);
    first->cpu_idle_percent = 87; /* one of eight is busy, and by us */
    first->process_percent = 99;
    survey_judge(&device.findings, &verdict);
    says("processors", "The survey itself was busy all the time in \"random read, depth 1\"");
    assert_int_equal(warnings(), 1);

    first->process_percent = 10;
    first->cpu_idle_percent = 55; /* by others */
    survey_judge(&device.findings, &verdict);
    says("processors",
         "Other programs took up to 44 % of the processors (in \"random read, depth 1");
    assert_int_equal(warnings(), 1);

    first->process_percent = 320; /* forty percent of all, and by us */
    survey_judge(&device.findings, &verdict);
    says("processors", "The survey itself");
    assert_int_equal(warnings(), 1);
}

static void reads_too_fast_for_a_disk_come_from_a_cache(void **state)
{
    (void)state;
    make_device(&bare_disk);
    device.machine.device_rotational = true;
    for (unsigned i = 0; i < device.findings.count; i++)
        if (device.phases[i].work == SURVEY_READ_DEPTH)
            device.outcomes[i].read.p50_us = 300;
    survey_judge(&device.findings, &verdict);
    says("controller cache", "2 GiB fit a cache on the way");
    assert_int_equal(warnings(), 1);
}

static void a_model_is_named_and_the_machine_left_out(void **state)
{
    (void)state;
    make_device(&bare_disk);
    strcpy(device.machine.virtualization, "kvm");
    device.findings.model = "hdd-7200";
    survey_judge(&device.findings, &verdict);
    says("modelled", "the model hdd-7200");
    assert_int_equal(warnings(), 1);
}

static void the_verdict_becomes_part_of_the_result(void **state)
{
    (void)state;
    make_device(&bare_disk);
    device.findings.model = "hdd-7200";
    survey_judge(&device.findings, &verdict);
    json_t *array = survey_verdict_json(&verdict);
    assert_int_equal(json_array_size(array), verdict.count);
    json_t *last = json_array_get(array, verdict.count - 1);
    assert_string_equal(json_string_value(json_object_get(last, "severity")), "warns");
    assert_string_equal(json_string_value(json_object_get(last, "topic")), "modelled");
    json_t *first = json_array_get(array, 0);
    assert_string_equal(json_string_value(json_object_get(first, "severity")), "tells");
    assert_string_equal(json_string_value(json_object_get(first, "text")), verdict.lines[0].text);
    json_decref(array);
}

static void what_was_not_measured_is_passed_over(void **state)
{
    (void)state;
    make_device(&good_ssd);
    unsigned count = device.findings.count;
    for (unsigned done = 0; done <= count; done++) {
        for (unsigned i = 0; i < count; i++)
            device.outcomes[i].measured = i < done;
        survey_judge(&device.findings, &verdict);
        if (done == 0)
            assert_int_equal(verdict.count, 0);
        if (done == 2) {
            says("commits", "One thread");
            assert_string_equal(line_of("random reads"), "");
        }
    }
    says("steadiness", "steady");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_plan_covers_the_series_and_fits_its_time),
        cmocka_unit_test(a_good_ssd_is_praised_without_a_warning),
        cmocka_unit_test(a_bare_disk_needs_groups_and_order),
        cmocka_unit_test(syncs_too_fast_to_be_true_are_not_believed),
        cmocka_unit_test(stalls_and_a_fallen_rate_are_warned_of),
        cmocka_unit_test(what_bends_the_figures_is_said),
        cmocka_unit_test(busy_processors_are_told_from_busy_devices),
        cmocka_unit_test(reads_too_fast_for_a_disk_come_from_a_cache),
        cmocka_unit_test(a_model_is_named_and_the_machine_left_out),
        cmocka_unit_test(the_verdict_becomes_part_of_the_result),
        cmocka_unit_test(what_was_not_measured_is_passed_over),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
