#include "base/units.h"
#include "bench/judge.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

/* A text that grows sentence by sentence and is cut where there is no more room. */
struct writer {
    char *text;
    size_t size_bytes, used;
};

static void say(struct writer *writer, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void say(struct writer *writer, const char *format, ...)
{
    if (writer->used >= writer->size_bytes)
        return;
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(writer->text + writer->used, writer->size_bytes - writer->used, format,
                           arguments);
    va_end(arguments);
    if (length > 0)
        writer->used += (size_t)length;
}

/* "4 s" when nearly all events are about that long, else "1.2 s to 4 s": a run's end cuts off some.
 */
static void say_lengths(struct writer *writer, const struct judgement *judgement,
                        enum judge_kind kind, const struct judge_period *period)
{
    uint64_t shortest = UINT64_MAX;
    uint64_t longest = 0;
    unsigned alike = 0;
    double usual = (double)period->length_ns;
    for (unsigned i = 0; i < judgement->event_count; i++) {
        const struct judge_event *event = &judgement->events[i];
        if (event->kind != kind)
            continue;
        shortest = event->length_ns < shortest ? event->length_ns : shortest;
        longest = event->length_ns > longest ? event->length_ns : longest;
        alike += fabs((double)event->length_ns - usual) <= 0.1 * usual;
    }
    char low[UNITS_TEXT_BYTES], high[UNITS_TEXT_BYTES];
    if (10 * alike >= 8 * period->events)
        say(writer, "%s", units_format_duration(usual, low));
    else
        say(writer, "%s to %s", units_format_duration((double)shortest, low),
            units_format_duration((double)longest, high));
}

/* Where it was, or how often it comes. */
static void say_when(struct writer *writer, const struct judgement *judgement, enum judge_kind kind,
                     const struct judge_period *period)
{
    char text[UNITS_TEXT_BYTES];
    if (period->found) {
        say(writer, ", every %s", units_format_duration((double)period->period_ns, text));
        return;
    }
    unsigned first = 0;
    while (judgement->events[first].kind != kind)
        first++;
    if (judgement->events[first].start_ns == 0)
        say(writer, ", %sfrom the start", period->events == 1 ? "" : "the first ");
    else
        say(writer, ", %s%s after the start", period->events == 1 ? "" : "the first ",
            units_format_duration((double)judgement->events[first].start_ns, text));
}

static void say_stalls(struct writer *writer, const struct judgement *judgement)
{
    char text[UNITS_TEXT_BYTES];
    unsigned count = judgement->stalls.events;
    if (count == 0 && judgement->longest_silence_ns == 0) {
        say(writer, "No stalls.");
        return;
    }
    if (count == 0) {
        say(writer, "No stalls: the longest silence was %s.",
            units_format_duration((double)judgement->longest_silence_ns, text));
        return;
    }
    say(writer, "%u stall%s of ", count, count == 1 ? "" : "s");
    say_lengths(writer, judgement, JUDGE_STALL, &judgement->stalls);
    say_when(writer, judgement, JUDGE_STALL, &judgement->stalls);
    say(writer, ": nothing was completed in %s.", count == 1 ? "it" : "them");
}

static void say_slowdowns(struct writer *writer, const struct judgement *judgement)
{
    unsigned count = judgement->slowdowns.events;
    const struct judge_speeds *speeds = &judgement->speeds;
    if (speeds->found) {
        say(writer,
            " Two speeds: for %.0f %% of the time work went on at %.0f %% of the other rate.",
            100 * speeds->slow_time_share, 100 * speeds->slow_rate_share);
        return;
    }
    if (count == 0) {
        say(writer, " No slowdowns.");
        return;
    }
    say(writer, " %u slowdown%s of ", count, count == 1 ? "" : "s");
    say_lengths(writer, judgement, JUDGE_SLOWDOWN, &judgement->slowdowns);
    say_when(writer, judgement, JUDGE_SLOWDOWN, &judgement->slowdowns);
    say(writer, ": work went on at %.0f %% of the usual rate.",
        100 * judgement->slowdowns.rate_share);
}

static void say_steady(struct writer *writer, const struct judgement *judgement)
{
    char from[UNITS_TEXT_BYTES], length[UNITS_TEXT_BYTES];
    if (judgement->warmup_ns != 0)
        say(writer, " The first %s were warm-up, unlike the rest.",
            units_format_duration((double)judgement->warmup_ns, from));
    if (!judgement->steady) {
        say(writer, " No steady state: no five rounds within 20 %% and without a slope.");
        return;
    }
    if (judgement->steady_start_ns == 0)
        say(writer, " Steady for %s from the start.",
            units_format_duration((double)judgement->steady_length_ns, length));
    else
        say(writer, " Steady for %s from %s on.",
            units_format_duration((double)judgement->steady_length_ns, length),
            units_format_duration((double)judgement->steady_start_ns, from));
}

void judge_text(const struct judgement *judgement, char *text, size_t size_bytes)
{
    if (size_bytes == 0)
        return;
    text[0] = '\0';
    struct writer writer = {text, size_bytes, 0};
    char rate[UNITS_TEXT_BYTES], silence[UNITS_TEXT_BYTES];
    if (!(judgement->mean_rate > 0)) {
        say(&writer, "Nothing was completed.");
        return;
    }
    if (judgement->usual_gap_ns == 0) {
        say(&writer,
            "Too few intervals to be judged: %s operations/s in the mean, longest silence %s.",
            units_format_count(judgement->mean_rate, rate),
            units_format_duration((double)judgement->longest_silence_ns, silence));
        return;
    }
    say_stalls(&writer, judgement);
    say_slowdowns(&writer, judgement);
    say_steady(&writer, judgement);
    say(&writer, " Median %s operations/s, relative variation %.1f %%.",
        units_format_count(judgement->median_rate, rate), 100 * judgement->relative_variation);
}
