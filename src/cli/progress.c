#include "cli/progress_internal.h"

#include "base/clock.h"
#include "cli/terminal.h"

#include <unistd.h>

static const uint64_t QUIET_NS = 2 * NS_PER_S;     /* short work needs no progress */
static const uint64_t REDRAW_NS = 200 * NS_PER_MS; /* faster is not read, only costs */

void progress_start(struct progress *progress, const char *label, enum progress_unit unit,
                    double total)
{
    *progress = (struct progress){
        .out = isatty(STDERR_FILENO) ? stderr : NULL,
        .label = label,
        .unit = unit,
        .total = total,
        .start_ns = clock_now(clock_real()),
    };
}

void progress_label(struct progress *progress, const char *label)
{
    progress->label = label;
    progress->drawn_ns = 0;
}

/* From the mean rate so far. */
static double left_ns(const struct progress *progress, double done, uint64_t now_ns)
{
    double elapsed_ns = (double)(now_ns - progress->start_ns);
    return done > 0 && progress->total > done ? elapsed_ns * (progress->total - done) / done : 0;
}

bool progress_is_due(const struct progress *progress, double done, uint64_t now_ns)
{
    if (now_ns - progress->start_ns < QUIET_NS || now_ns - progress->drawn_ns < REDRAW_NS)
        return false;
    return progress->drawn || left_ns(progress, done, now_ns) > 0;
}

char *progress_format_time(double ns, char text[UNITS_TEXT_BYTES])
{
    uint64_t seconds = (uint64_t)(ns / 1e9 + 0.999);
    if (seconds < 60)
        snprintf(text, UNITS_TEXT_BYTES, "%u s", (unsigned)seconds);
    else if (seconds < 3600)
        snprintf(text, UNITS_TEXT_BYTES, "%u:%02u min", (unsigned)(seconds / 60),
                 (unsigned)(seconds % 60));
    else
        snprintf(text, UNITS_TEXT_BYTES, "%.0f:%02u h", (double)(seconds / 3600),
                 (unsigned)(seconds / 60 % 60));
    return text;
}

char *progress_format(const struct progress *progress, double done, uint64_t now_ns, size_t width,
                      char text[PROGRESS_TEXT_BYTES])
{
    char rate[UNITS_TEXT_BYTES] = "";
    char left[UNITS_TEXT_BYTES];
    double elapsed_s = (double)(now_ns - progress->start_ns) / 1e9;
    double percent = done >= progress->total ? 100 : 100 * done / progress->total;
    if (progress->unit == PROGRESS_BYTES)
        units_format_size(done / elapsed_s, rate);
    else if (progress->unit == PROGRESS_COUNT)
        units_format_count(done / elapsed_s, rate);
    progress_format_time(left_ns(progress, done, now_ns), left);
    size_t room = width < PROGRESS_TEXT_BYTES ? width : PROGRESS_TEXT_BYTES;
    snprintf(text, room, "%3.0f %%  %s left  %s%s%s", percent, left, rate,
             rate[0] == '\0' ? "" : "/s  ", progress->label);
    return text;
}

void progress_update(struct progress *progress, double done)
{
    char text[PROGRESS_TEXT_BYTES];
    if (progress->out == NULL)
        return;
    uint64_t now_ns = clock_now(clock_real());
    if (!progress_is_due(progress, done, now_ns))
        return;
    progress_format(progress, done, now_ns, (size_t)terminal_width(progress->out), text);
    fprintf(progress->out, "\r%s\033[K", text);
    fflush(progress->out);
    progress->drawn = true;
    progress->drawn_ns = now_ns;
}

void progress_wipe(struct progress *progress)
{
    if (!progress->drawn)
        return;
    fputs("\r\033[K", progress->out);
    fflush(progress->out);
    progress->drawn = false;
    progress->drawn_ns = 0;
}

void progress_end(struct progress *progress)
{
    progress_wipe(progress);
    progress->out = NULL;
}
