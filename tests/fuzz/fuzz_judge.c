/* Any sequence of intervals and silences is judged: what is found lies within the run, in order, is
   counted once, and can be said in words. Four bytes of input are an interval: its length, a share
   of a rate, and a silence in it. */
#include "base/check.h"
#include "bench/judge.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { INTERVAL_BYTES = 4, INTERVALS_MAX = 600 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct judge_sample samples[INTERVALS_MAX];
static struct meter_silence silences[INTERVALS_MAX];

static void make_run(const uint8_t *data, size_t size, struct judge_input *input)
{
    *input = (struct judge_input){.samples = samples, .silences = silences};
    uint64_t now_ns = 0;
    uint64_t quiet_since_ns = 0; /* silences do not overlap */
    for (; size >= INTERVAL_BYTES && input->count < INTERVALS_MAX;
         data += INTERVAL_BYTES, size -= INTERVAL_BYTES) {
        uint64_t length_ns = (uint64_t)data[0] * data[0] * NS_PER_MS;
        struct judge_sample *sample = &samples[input->count++];
        *sample = (struct judge_sample){
            .start_ns = now_ns, .length_ns = length_ns, .operations = data[1] * data[1]};
        now_ns += length_ns;
        uint64_t silence_ns = (uint64_t)data[2] * data[3] * NS_PER_MS;
        if (silence_ns < JUDGE_SILENCE_MIN_NS || silence_ns > now_ns - quiet_since_ns)
            continue;
        sample->silence_start_ns = now_ns - silence_ns;
        sample->silence_ns = silence_ns;
        quiet_since_ns = now_ns;
        silences[input->silence_count++] =
            (struct meter_silence){sample->silence_start_ns, silence_ns};
    }
    if (input->count != 0 && data != NULL && size % 2 == 1 && input->silence_count != 0)
        input->silence_count--; /* the run ends in it, or it is not told */
}

static void check_events(const struct judgement *judgement, uint64_t run_ns)
{
    unsigned stalls = 0;
    uint64_t last_start_ns = 0;
    for (unsigned i = 0; i < judgement->event_count; i++) {
        const struct judge_event *event = &judgement->events[i];
        ENSURE(event->start_ns >= last_start_ns);
        ENSURE(event->length_ns <= run_ns && event->start_ns <= run_ns - event->length_ns);
        ENSURE(event->length_ns > 0);
        ENSURE(event->kind == JUDGE_STALL ? !(event->rate_share > 0)
                                          : event->rate_share >= 0 && event->rate_share < 0.9);
        stalls += event->kind == JUDGE_STALL;
        last_start_ns = event->start_ns;
    }
    ENSURE(stalls == judgement->stalls.events);
    ENSURE(judgement->event_count - stalls == judgement->slowdowns.events);
    ENSURE(judgement->stalled_ns <= run_ns && judgement->slowed_ns <= run_ns);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct judge_input input;
    struct judgement judgement;
    make_run(data, size, &input);
    uint64_t run_ns = input.count == 0
                          ? 0
                          : samples[input.count - 1].start_ns + samples[input.count - 1].length_ns;
    ENSURE(judge(&input, &judgement) == FIRN_OK);
    check_events(&judgement, run_ns);
    ENSURE(judgement.warmup_ns <= run_ns);
    ENSURE(judgement.steady_start_ns + judgement.steady_length_ns <= run_ns);
    ENSURE(isfinite(judgement.median_rate) && judgement.median_rate >= 0);
    ENSURE(isfinite(judgement.mean_rate) && isfinite(judgement.relative_variation));
    ENSURE(!judgement.stalls.found || judgement.stalls.period_ns > 0);
    char text[600];
    judge_text(&judgement, text, sizeof(text));
    ENSURE(strlen(text) > 0 && strlen(text) < sizeof(text) && text[strlen(text) - 1] == '.');
    judge_free(&judgement);
    return 0;
}
