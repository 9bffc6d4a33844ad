/* What the kernel says of disks, processors and mounts may be anything: the readers stay within the
   text and their room, and what they make of two texts is a number. */
#include "base/check.h"
#include "bench/host_internal.h"

#include <math.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);

static void judge_disk(struct host_text text)
{
    struct host_disk_track track = {0};
    struct host_text half = {text.start, text.size_bytes / 2};
    struct host_device_sample sample;
    host_track_disk(&track, half, "vda", 1, &sample);
    if (!host_track_disk(&track, text, "vda", 1, &sample))
        return;
    const double *columns = (const double *)&sample;
    for (size_t i = 0; i < sizeof(sample) / sizeof(*columns); i++)
        ENSURE(isfinite(columns[i]) && columns[i] >= 0);
}

static void judge_cpu(struct host_text text)
{
    struct host_cpu_counters counters[2] = {0};
    struct host_cpu_sample sample;
    if (!host_parse_cpu(text, &counters[1]) ||
        !host_cpu_shares(&counters[0], &counters[1], &sample))
        return;
    ENSURE(sample.idle_percent >= 0 && sample.idle_percent <= 100.0001);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    struct host_text text = {(const char *)data, size_bytes};
    struct host_mount mount;
    char value[16];
    judge_disk(text);
    judge_cpu(text);
    if (host_parse_mountinfo(text, "/a/b", &mount))
        ENSURE(memchr(mount.type, '\0', sizeof(mount.type)) != NULL &&
               memchr(mount.source, '\0', sizeof(mount.source)) != NULL &&
               memchr(mount.options, '\0', sizeof(mount.options)) != NULL);
    host_parse_value(text, "PRETTY_NAME", '=', value, sizeof(value));
    ENSURE(strlen(value) < sizeof(value));
    host_parse_bracketed(text, value, sizeof(value));
    ENSURE(strlen(value) < sizeof(value));
    return 0;
}
