/*
 * host_internal.h -- readers of what the kernel says of disks, processors and mounts: functions of
 * texts, so that any text can be tried on them.
 *
 * Texts need not end with '\0' and may hold anything; what is malformed is passed over.
 */
#ifndef FIRN_BENCH_HOST_INTERNAL_H
#define FIRN_BENCH_HOST_INTERNAL_H

#include "bench/host.h"

#include <stddef.h>

/** A text that is not ours. */
struct host_text {
    const char *start;
    size_t size_bytes;
};

/** A device's counters in /proc/diskstats (Documentation/admin-guide/iostats.rst). */
struct host_disk_counters {
    uint64_t reads, reads_merged, sectors_read, read_ms;
    uint64_t writes, writes_merged, sectors_written, write_ms;
    uint64_t under_way, busy_ms, weighted_ms;
    uint64_t flushes, flush_ms; /* 0 before Linux 5.5 */
};

/** The processors' times in /proc/stat, in ticks. */
struct host_cpu_counters {
    uint64_t user, nice, system, idle, iowait, irq, softirq, steal;
};

/** A mount in /proc/self/mountinfo. */
struct host_mount {
    char type[32];
    char source[256];
    char options[192]; /* the mount's and the file system's */
};

/** Read a device's counters. @return whether the device is there */
bool host_parse_diskstats(struct host_text text, const char *device,
                          struct host_disk_counters *counters);

/** Read the line of all processors. @return whether it is there */
bool host_parse_cpu(struct host_text text, struct host_cpu_counters *counters);

/** Find the mount an absolute path without links lies on. @return whether there is one */
bool host_parse_mountinfo(struct host_text text, const char *path, struct host_mount *mount);

/**
 * Find a value in lines of `name`, separator, value; quotes around it are dropped.
 *
 * @param value  size_bytes of room; "" when the name is not there
 */
void host_parse_value(struct host_text text, const char *name, char separator, char *value,
                      size_t size_bytes);

/** Find the word in brackets, as in "mq-deadline [none] bfq". */
void host_parse_bracketed(struct host_text text, char *word, size_t size_bytes);

/** What iostat -x makes of a device's counters at both ends of a time. */
void host_disk_sample(const struct host_disk_counters *before,
                      const struct host_disk_counters *after, double elapsed_s,
                      struct host_device_sample *sample);

/** A device as it was last seen. */
struct host_disk_track {
    bool there;
    struct host_disk_counters counters;
};

/**
 * Go on to a new text of /proc/diskstats.
 *
 * @param elapsed_s  since the last text
 * @return whether the device was there both times; then the sample is filled
 */
bool host_track_disk(struct host_disk_track *track, struct host_text text, const char *device,
                     double elapsed_s, struct host_device_sample *sample);

/** What a share of the processors' time went where. @return false if no tick passed; unchanged */
bool host_cpu_shares(const struct host_cpu_counters *before, const struct host_cpu_counters *after,
                     struct host_cpu_sample *sample);

#endif
