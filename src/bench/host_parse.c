#include "bench/host_internal.h"

#include <stdio.h>
#include <string.h>

enum { SECTOR_BYTES = 512 };

/* Cut the first line, without its end, off a text. @return false when nothing is left */
static bool next_line(struct host_text *rest, struct host_text *line)
{
    if (rest->size_bytes == 0)
        return false;
    const char *end = memchr(rest->start, '\n', rest->size_bytes);
    size_t length = end == NULL ? rest->size_bytes : (size_t)(end - rest->start);
    *line = (struct host_text){rest->start, length};
    size_t taken = end == NULL ? length : length + 1;
    *rest = (struct host_text){rest->start + taken, rest->size_bytes - taken};
    return true;
}

/* Cut the first word off a line; words are parted by blanks. */
static bool next_word(struct host_text *rest, struct host_text *word)
{
    size_t i = 0;
    while (i < rest->size_bytes && (rest->start[i] == ' ' || rest->start[i] == '\t'))
        i++;
    size_t first = i;
    while (i < rest->size_bytes && rest->start[i] != ' ' && rest->start[i] != '\t')
        i++;
    *word = (struct host_text){rest->start + first, i - first};
    *rest = (struct host_text){rest->start + i, rest->size_bytes - i};
    return word->size_bytes != 0;
}

static bool word_is(struct host_text word, const char *text)
{
    return word.size_bytes == strlen(text) && memcmp(word.start, text, word.size_bytes) == 0;
}

static void copy_word(struct host_text word, char *text, size_t size_bytes)
{
    size_t length = word.size_bytes < size_bytes ? word.size_bytes : size_bytes - 1;
    memcpy(text, word.start, length);
    text[length] = '\0';
}

/* A decimal number and nothing else; what is too large for 64 bits is none. */
static bool word_number(struct host_text word, uint64_t *number)
{
    uint64_t value = 0;
    for (size_t i = 0; i < word.size_bytes; i++) {
        char c = word.start[i];
        if (c < '0' || c > '9' || __builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, (uint64_t)(c - '0'), &value))
            return false;
    }
    *number = value;
    return word.size_bytes != 0;
}

/* Numbers at the start of a line, `max` at most. @return how many */
static unsigned next_numbers(struct host_text *rest, uint64_t *numbers, unsigned max)
{
    unsigned count = 0;
    struct host_text word;
    while (count < max && next_word(rest, &word) && word_number(word, &numbers[count]))
        count++;
    return count;
}

bool host_parse_diskstats(struct host_text text, const char *device,
                          struct host_disk_counters *counters)
{
    enum { FIELDS_MIN = 11, FIELDS_WITH_FLUSHES = 17 };
    struct host_text line, word;
    while (next_line(&text, &line)) {
        uint64_t numbers[2];
        if (next_numbers(&line, numbers, 2) != 2 || !next_word(&line, &word) ||
            !word_is(word, device))
            continue;
        uint64_t f[FIELDS_WITH_FLUSHES] = {0};
        unsigned count = next_numbers(&line, f, FIELDS_WITH_FLUSHES);
        if (count < FIELDS_MIN)
            return false;
        bool flushes = count == FIELDS_WITH_FLUSHES;
        *counters = (struct host_disk_counters){
            .reads = f[0],
            .reads_merged = f[1],
            .sectors_read = f[2],
            .read_ms = f[3],
            .writes = f[4],
            .writes_merged = f[5],
            .sectors_written = f[6],
            .write_ms = f[7],
            .under_way = f[8],
            .busy_ms = f[9],
            .weighted_ms = f[10],
            .flushes = flushes ? f[15] : 0,
            .flush_ms = flushes ? f[16] : 0,
        };
        return true;
    }
    return false;
}

bool host_parse_cpu(struct host_text text, struct host_cpu_counters *counters)
{
    enum { FIELDS = 8, FIELDS_MIN = 4 };
    struct host_text line, word;
    while (next_line(&text, &line)) {
        if (!next_word(&line, &word) || !word_is(word, "cpu"))
            continue;
        uint64_t f[FIELDS] = {0};
        if (next_numbers(&line, f, FIELDS) < FIELDS_MIN)
            return false;
        /* Guests' times, which follow, are part of user and nice. */
        *counters = (struct host_cpu_counters){f[0], f[1], f[2], f[3], f[4], f[5], f[6], f[7]};
        return true;
    }
    return false;
}

/* mountinfo writes blanks, tabs, newlines and backslashes as \ and three octal digits. */
static void copy_unescaped(struct host_text word, char *text, size_t size_bytes)
{
    size_t used = 0;
    for (size_t i = 0; i < word.size_bytes && used + 1 < size_bytes; i++) {
        const char *c = word.start + i;
        bool octal = c[0] == '\\' && word.size_bytes - i > 3;
        unsigned value = 0;
        for (int d = 1; octal && d <= 3; d++) {
            octal = c[d] >= '0' && c[d] <= '7';
            value = value * 8 + (unsigned)(c[d] - '0');
        }
        text[used++] = octal ? (char)value : c[0];
        i += octal ? 3 : 0;
    }
    text[used] = '\0';
}

/* The length of a mount point that a path lies on; 0 when it does not. */
static size_t mount_point_matches(const char *point, const char *path)
{
    size_t length = strlen(point);
    if (length == 0 || point[0] != '/')
        return 0;
    if (length == 1)
        return 1;
    bool inside =
        strncmp(point, path, length) == 0 && (path[length] == '/' || path[length] == '\0');
    return inside ? length : 0;
}

bool host_parse_mountinfo(struct host_text text, const char *path, struct host_mount *mount)
{
    size_t best = 0;
    struct host_text line, word;
    while (next_line(&text, &line)) {
        /* id, parent, major:minor, root, mount point, options, optional fields, "-", type, source,
           super options */
        char point[4096];
        struct host_text options, type, source, super;
        bool whole = true;
        for (int i = 0; i < 4; i++)
            whole = whole && next_word(&line, &word);
        if (!whole || !next_word(&line, &word) || !next_word(&line, &options))
            continue;
        copy_unescaped(word, point, sizeof(point));
        while (next_word(&line, &word) && !word_is(word, "-"))
            ;
        if (!next_word(&line, &type) || !next_word(&line, &source))
            continue;
        next_word(&line, &super);
        /* Of mounts on one point the last one covers the others. */
        size_t length = mount_point_matches(point, path);
        if (length == 0 || length < best)
            continue;
        best = length;
        copy_word(type, mount->type, sizeof(mount->type));
        copy_unescaped(source, mount->source, sizeof(mount->source));
        snprintf(mount->options, sizeof(mount->options), "%.*s%s%.*s",
                 (int)(options.size_bytes < 90 ? options.size_bytes : 90), options.start,
                 super.size_bytes == 0 ? "" : ",",
                 (int)(super.size_bytes < 90 ? super.size_bytes : 90), super.start);
    }
    return best != 0;
}

static struct host_text trim(struct host_text text)
{
    const char *blanks = " \t\r\n\"";
    while (text.size_bytes != 0 && strchr(blanks, text.start[0]) != NULL) {
        text.start++;
        text.size_bytes--;
    }
    while (text.size_bytes != 0 && strchr(blanks, text.start[text.size_bytes - 1]) != NULL)
        text.size_bytes--;
    return text;
}

void host_parse_value(struct host_text text, const char *name, char separator, char *value,
                      size_t size_bytes)
{
    value[0] = '\0';
    struct host_text line;
    while (next_line(&text, &line)) {
        const char *parted = memchr(line.start, separator, line.size_bytes);
        if (parted == NULL)
            continue;
        size_t before = (size_t)(parted - line.start);
        if (!word_is(trim((struct host_text){line.start, before}), name))
            continue;
        copy_word(trim((struct host_text){parted + 1, line.size_bytes - before - 1}), value,
                  size_bytes);
        return;
    }
}

void host_parse_bracketed(struct host_text text, char *word, size_t size_bytes)
{
    word[0] = '\0';
    const char *open = memchr(text.start, '[', text.size_bytes);
    if (open == NULL)
        return;
    size_t left = text.size_bytes - (size_t)(open - text.start);
    const char *close = memchr(open, ']', left);
    if (close != NULL)
        copy_word((struct host_text){open + 1, (size_t)(close - open) - 1}, word, size_bytes);
}

/* How far a counter went. One that went back was set anew: its device left and came again. */
static double counted(uint64_t before, uint64_t after)
{
    return after >= before ? (double)(after - before) : 0;
}

/* Times are written in 32 bits and come round after 49 days of them. */
static double counted_ms(uint64_t before, uint64_t after)
{
    if (after >= before)
        return (double)(after - before);
    if (before > UINT32_MAX)
        return 0;
    uint32_t round = (uint32_t)(after - before);
    return round < UINT32_MAX / 2 ? round : 0;
}

static double mean(double sum, double count)
{
    return count > 0 ? sum / count : 0;
}

void host_disk_sample(const struct host_disk_counters *before,
                      const struct host_disk_counters *after, double elapsed_s,
                      struct host_device_sample *sample)
{
    *sample = (struct host_device_sample){0};
    if (!(elapsed_s > 0))
        return;
    double reads = counted(before->reads, after->reads);
    double writes = counted(before->writes, after->writes);
    double flushes = counted(before->flushes, after->flushes);
    double read_kb = counted(before->sectors_read, after->sectors_read) * SECTOR_BYTES / 1024;
    double written_kb =
        counted(before->sectors_written, after->sectors_written) * SECTOR_BYTES / 1024;
    sample->r_s = reads / elapsed_s;
    sample->w_s = writes / elapsed_s;
    sample->f_s = flushes / elapsed_s;
    sample->rkb_s = read_kb / elapsed_s;
    sample->wkb_s = written_kb / elapsed_s;
    sample->rrqm_s = counted(before->reads_merged, after->reads_merged) / elapsed_s;
    sample->wrqm_s = counted(before->writes_merged, after->writes_merged) / elapsed_s;
    sample->r_await_ms = mean(counted_ms(before->read_ms, after->read_ms), reads);
    sample->w_await_ms = mean(counted_ms(before->write_ms, after->write_ms), writes);
    sample->f_await_ms = mean(counted_ms(before->flush_ms, after->flush_ms), flushes);
    sample->rareq_kb = mean(read_kb, reads);
    sample->wareq_kb = mean(written_kb, writes);
    sample->aqu_sz = counted_ms(before->weighted_ms, after->weighted_ms) / (1000 * elapsed_s);
    sample->util_percent = counted_ms(before->busy_ms, after->busy_ms) / (10 * elapsed_s);
}

bool host_track_disk(struct host_disk_track *track, struct host_text text, const char *device,
                     double elapsed_s, struct host_device_sample *sample)
{
    struct host_disk_counters counters;
    bool there = device[0] != '\0' && host_parse_diskstats(text, device, &counters);
    bool both = there && track->there;
    if (both)
        host_disk_sample(&track->counters, &counters, elapsed_s, sample);
    if (there)
        track->counters = counters;
    track->there = there;
    return both;
}

bool host_cpu_shares(const struct host_cpu_counters *before, const struct host_cpu_counters *after,
                     struct host_cpu_sample *sample)
{
    /* iowait, and idle with it, may go back a little: the kernel corrects what it guessed. */
    double user = counted(before->user, after->user) + counted(before->nice, after->nice);
    double system = counted(before->system, after->system) + counted(before->irq, after->irq) +
                    counted(before->softirq, after->softirq);
    double iowait = counted(before->iowait, after->iowait);
    double idle = counted(before->idle, after->idle);
    double steal = counted(before->steal, after->steal);
    double total = user + system + iowait + idle + steal;
    if (!(total > 0))
        return false;
    sample->user_percent = 100 * user / total;
    sample->system_percent = 100 * system / total;
    sample->iowait_percent = 100 * iowait / total;
    sample->idle_percent = 100 * idle / total;
    sample->steal_percent = 100 * steal / total;
    return true;
}
