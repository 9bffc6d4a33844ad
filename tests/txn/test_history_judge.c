/*
 * The judge of histories, judged: histories made by hand, each with what is wrong with it at each
 * level. A judge that lets one of these pass proves nothing about the store.
 *
 * "1 a 7 70" session 1 appends 70 to list 7; "1 r 7 70,71" reads it, "-" for nothing; "1 w 8 80 0"
 * writes 80 to register 8 in place of 0 (nothing); "1 v 8 80" reads it; "+r" in the same statement;
 * "1 save", "1 back"; "1 ok", "1 fail", "1 doubt"; "0 crash"; "0 end 7 70" what list 7 is at the
 * end.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/check.h"
#include "txn/history.h"

struct example {
    const char *name;
    const char *events;
    const char *wrong[3]; /* by level: what its words begin with; NULL: nothing */
};

#define ALL(text)                                                                                  \
    {                                                                                              \
        text, text, text                                                                           \
    }
#define FROM_SNAPSHOT(text)                                                                        \
    {                                                                                              \
        NULL, text, text                                                                           \
    }
#define SERIALIZABLE(text)                                                                         \
    {                                                                                              \
        NULL, NULL, text                                                                           \
    }

static const struct example examples[] = {
    {"one after the other",
     "1 a 1 10; 1 ok; 2 r 1 10; 2 a 1 11; 2 ok; 3 r 1 10,11; 3 ok; 0 end 1 10,11", ALL(NULL)},
    {"who is rolled back leaves nothing", "1 a 1 10; 1 fail; 2 r 1 -; 2 ok; 0 end 1 -", ALL(NULL)},
    {"what one wrote oneself", "1 a 1 10; 1 r 1 10; 1 w 2 20 0; 1 v 2 20; 1 ok", ALL(NULL)},
    {"a register that is gone", "1 w 2 20 0; 1 ok; 0 end 1 -", ALL("lost commit")},
    {"a savepoint",
     "1 a 1 10; 1 save; 1 a 1 11; 1 r 1 10,11; 1 back; 1 r 1 10; 1 ok; 2 r 1 10; 2 ok", ALL(NULL)},
    {"write cycle",
     "1 a 1 10; 2 a 1 11; 2 a 2 21; 2 ok; 1 a 2 20; 1 ok; 3 r 1 10,11; 3 r 2 21,20; 3 ok",
     ALL("write cycle (G0)")},
    {"write cycle of registers", "1 w 1 10 0; 2 w 2 20 0; 2 w 1 11 10; 1 w 2 21 20; 1 ok; 2 ok",
     ALL("write cycle (G0)")},
    {"aborted read", "1 a 1 10; 2 r 1 10; 1 fail; 2 ok", ALL("aborted read (G1a)")},
    {"aborted read of a register, by one who gives up himself",
     "1 w 1 10 0; 2 v 1 10; 1 fail; 2 fail", ALL("aborted read (G1a)")},
    {"read of what a savepoint took back", "1 save; 1 a 1 10; 2 r 1 10; 1 back; 1 ok; 2 ok",
     ALL("aborted read (G1a)")},
    {"write over what was rolled back", "1 w 1 10 0; 2 w 1 11 10; 1 fail; 2 ok",
     ALL("aborted read (G1a)")},
    {"intermediate read", "1 a 1 10; 2 r 1 10; 1 a 1 11; 1 ok; 2 ok; 3 r 1 10,11; 3 ok",
     ALL("intermediate read (G1b)")},
    {"intermediate read of a register", "1 w 1 10 0; 2 v 1 10; 1 w 1 11 10; 1 ok; 2 ok",
     ALL("intermediate read (G1b)")},
    {"circular information flow", "1 a 1 10; 2 a 2 20; 1 r 2 20; 2 r 1 10; 1 ok; 2 ok",
     ALL("circular information flow (G1c)")},
    {"out of thin air", "1 r 1 10; 1 ok", ALL("T1.1 saw 10 in key 1, which nobody has written")},
    {"own append not seen", "1 a 1 10; 1 r 1 -; 1 ok", ALL("T1.1 does not see")},
    {"own append seen after going back", "1 save; 1 a 1 10; 1 back; 1 r 1 10; 1 ok",
     ALL("T1.1 sees in list 1")},
    {"own write not seen", "1 w 1 10 0; 1 v 1 0; 1 ok", ALL("T1.1 wrote 10")},
    {"no order of versions", "1 a 1 10; 1 ok; 2 a 1 11; 2 ok; 3 r 1 10; 3 ok; 4 r 1 11; 4 ok",
     ALL("lost or reordered appends")},
    {"twice", "1 a 1 10; 1 ok; 2 r 1 10,10; 2 ok", ALL("T2.1 saw 10 twice")},
    {"two in the place of one", "1 w 1 10 0; 1 ok; 2 w 1 11 0; 2 ok", ALL("lost update (P4)")},
    {"lost update", "1 v 1 0; 2 v 1 0; 1 w 1 10 0; 1 ok; 2 w 1 11 10; 2 ok",
     FROM_SNAPSHOT("lost update (P4)")},
    {"lost update of a list", "1 r 1 -; 2 r 1 -; 1 a 1 10; 1 ok; 2 a 1 11; 2 ok; 3 r 1 10,11; 3 ok",
     FROM_SNAPSHOT("lost update (P4)")},
    {"unrepeatable read", "1 r 1 -; 2 a 1 10; 2 ok; 1 r 1 10; 1 ok",
     FROM_SNAPSHOT("fractured read (G-single)")},
    {"unrepeatable read of one who gives up", "1 v 1 0; 2 w 1 10 0; 2 ok; 1 v 1 10; 1 fail",
     FROM_SNAPSHOT("fractured read (G-single)")},
    {"fractured read", "1 r 1 -; 2 a 1 10; 2 a 2 20; 2 ok; 1 r 2 20; 1 ok; 0 end 1 10; 0 end 2 20",
     FROM_SNAPSHOT("fractured read (G-single)")},
    {"fractured read in one statement",
     "1 r 1 -; 2 a 1 10; 2 a 2 20; 2 ok; 1 +r 2 20; 1 ok; 0 end 1 10; 0 end 2 20",
     ALL("fractured read (G-single)")},
    {"read skew over three", "1 r 1 -; 2 a 1 10; 2 ok; 3 r 1 10; 3 a 2 20; 3 ok; 1 r 2 20; 1 ok",
     FROM_SNAPSHOT("read skew (G-single)")},
    {"long fork",
     "3 r 2 -; 4 r 1 -; 1 a 1 10; 1 ok; 2 a 2 20; 2 ok; 3 r 1 10; 4 r 2 20; 3 ok; 4 ok",
     FROM_SNAPSHOT("long fork (G-nonadjacent)")},
    {"stale read", "1 a 1 10; 1 ok; 2 r 1 -; 2 ok; 3 r 1 10; 3 ok", ALL("stale read")},
    {"read that began early enough",
     "2 r 2 -; 1 a 1 10; 1 ok; 2 r 1 -; 2 ok; 3 r 1 10; 3 ok",
     {"stale read", NULL, NULL}},
    {"write skew",
     "9 a 1 1; 9 a 2 2; 9 ok; 1 r 2 2; 2 r 1 1; 1 a 1 10; 2 a 2 20; 1 ok; 2 ok; 3 r 1 1,10; "
     "3 r 2 2,20; 3 ok",
     SERIALIZABLE("write skew (G2-item)")},
    {"write skew over nothing",
     "1 r 2 -; 2 r 1 -; 1 a 1 10; 2 a 2 20; 1 ok; 2 ok; 3 r 1 10; 3 r 2 20; 3 ok",
     SERIALIZABLE("write skew over what is not there (G2)")},
    {"a reader sees what no order explains",
     "9 a 1 1; 9 a 2 2; 9 ok; 1 r 2 2; 2 a 2 20; 2 ok; 3 r 1 1; 3 r 2 2,20; 3 ok; 1 a 1 10; 1 ok; "
     "4 r 1 1,10; 4 ok",
     SERIALIZABLE("write skew (G2-item)")},
    {"what was acknowledged is gone", "1 a 1 10; 1 ok; 0 crash; 0 end 1 -", ALL("lost commit")},
    {"what was acknowledged last is gone", "1 a 1 10; 1 ok; 2 a 1 11; 2 ok; 0 crash; 0 end 1 10",
     ALL("lost commit")},
    {"what was in doubt is gone", "1 a 1 10; 1 a 2 20; 1 doubt; 0 crash; 0 end 1 -", ALL(NULL)},
    {"what was in doubt and has been seen is gone",
     "1 a 1 10; 2 r 1 10; 2 ok; 1 doubt; 0 crash; 0 end 1 -", ALL(NULL)},
    {"what was in doubt is there", "1 a 1 10; 1 a 2 20; 1 doubt; 0 crash; 0 end 1 10; 0 end 2 20",
     ALL(NULL)},
    {"half a transaction", "1 a 1 10; 1 a 2 20; 1 doubt; 0 crash; 0 end 1 10; 0 end 2 -",
     ALL("half a transaction")},
    {"what depends on the lost",
     "1 a 1 10; 2 r 1 10; 1 doubt; 2 a 2 20; 2 ok; 0 crash; 0 end 1 -; 0 end 2 20",
     ALL("T2.1 is there")},
    {"what was rolled back is there", "1 a 1 10; 1 fail; 0 crash; 0 end 1 10",
     ALL("in the end 10")},
    {"what was seen is gone without a crash", "1 a 1 10; 2 r 1 10; 2 ok; 1 doubt; 0 end 1 -",
     ALL("T1.1 was seen")},
};

/* ---- Reading ---- */

static size_t read_list(const char *text, int64_t *elements)
{
    size_t count = 0;
    while (*text != '-' && *text != '\0') {
        char *rest;
        elements[count++] = strtoll(text, &rest, 10);
        text = *rest == ',' ? rest + 1 : rest;
    }
    return count;
}

struct event {
    unsigned session;
    char verb[8];
    unsigned key;
    char value[64];
    long long replaced;
};

/* What belongs to no session. */
static void play_end(struct history *history, const struct event *event)
{
    int64_t elements[16];
    if (strcmp(event->verb, "crash") == 0)
        history->is_crashed = true;
    else
        history_final_list(history, event->key, elements, read_list(event->value, elements));
}

static void play_operation(struct history_log *log, const struct event *event)
{
    int64_t elements[16];
    const char *verb = event->verb;
    if (*verb == '+')
        verb++;
    else
        history_statement(log);
    switch (*verb) {
    case 'a':
        history_append(log, event->key, strtoll(event->value, NULL, 10));
        break;
    case 'r':
        history_list(log, event->key, elements, read_list(event->value, elements));
        break;
    case 'w':
        history_write(log, event->key, strtoll(event->value, NULL, 10), event->replaced);
        break;
    default:
        history_value(log, event->key, strtoll(event->value, NULL, 10));
    }
}

struct hand {
    bool is_open[HISTORY_SESSIONS_MAX];
    uint32_t savepoint[HISTORY_SESSIONS_MAX];
};

static void play(struct history *history, struct hand *hand, const struct event *event)
{
    if (event->session == 0) {
        play_end(history, event);
        return;
    }
    unsigned session = event->session - 1;
    struct history_log *log = &history->logs[session];
    if (!hand->is_open[session])
        history_begin(log);
    hand->is_open[session] = true;
    if (strcmp(event->verb, "save") == 0) {
        hand->savepoint[session] = history_savepoint(log);
    } else if (strcmp(event->verb, "back") == 0) {
        history_undo(log, hand->savepoint[session]);
    } else if (strchr("arwv+", event->verb[0]) != NULL) {
        play_operation(log, event);
    } else {
        history_end(log, strcmp(event->verb, "ok") == 0     ? HISTORY_COMMITTED
                         : strcmp(event->verb, "fail") == 0 ? HISTORY_ABORTED
                                                            : HISTORY_IN_DOUBT);
        hand->is_open[session] = false;
    }
}

static void play_all(struct history *history, const char *events)
{
    char copy[512], *rest;
    struct hand hand = {.is_open = {false}};
    snprintf(copy, sizeof copy, "%s", events);
    for (char *text = strtok_r(copy, ";", &rest); text != NULL; text = strtok_r(NULL, ";", &rest)) {
        struct event event = {.session = 0};
        assert_true(sscanf(text, " %u %7s %u %63s %lld", &event.session, event.verb, &event.key,
                           event.value, &event.replaced) >= 2);
        play(history, &hand, &event);
    }
}

static void judge(const struct example *example, enum history_level level)
{
    struct history history;
    history_init(&history);
    play_all(&history, example->events);
    const char *wrong = history_wrong(&history, level, NULL);
    const char *wanted = example->wrong[level];
    if ((wrong == NULL) != (wanted == NULL) ||
        (wrong != NULL && strncmp(wrong, wanted, strlen(wanted)) != 0))
        fail_msg("%s, level %d: %s\n  should be: %s", example->name, (int)level,
                 wrong != NULL ? wrong : "nothing is wrong", wanted != NULL ? wanted : "nothing");
    history_free(&history);
}

static void test_what_is_wrong_with_histories_made_by_hand(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(examples); i++)
        for (int level = HISTORY_READ_COMMITTED; level <= HISTORY_SERIALIZABLE; level++)
            judge(&examples[i], (enum history_level)level);
}

/* A cycle through many, among many who do no wrong. */
static void test_a_long_cycle_is_found_among_many(void **state)
{
    (void)state;
    enum { RING = HISTORY_SESSIONS_MAX, OTHERS = 3000 };
    struct history history;
    history_init(&history);
    for (unsigned i = 0; i < RING; i++) {
        history_begin(&history.logs[i]);
        history_statement(&history.logs[i]);
        history_list(&history.logs[i], i, NULL, 0);
    }
    for (unsigned i = 0; i < RING; i++) { /* to the list that the one before has read */
        history_append(&history.logs[i], (i + RING - 1) % RING, 1 + i);
        history_end(&history.logs[i], HISTORY_COMMITTED);
    }
    for (unsigned i = 0; i < OTHERS; i++) {
        struct history_log *log = &history.logs[i % HISTORY_SESSIONS_MAX];
        history_begin(log);
        history_statement(log);
        history_append(log, RING + i, 1);
        history_end(log, HISTORY_COMMITTED);
    }
    for (unsigned i = 0; i < RING; i++) {
        int64_t element = 1 + (i + 1) % RING;
        history_final_list(&history, i, &element, 1);
    }
    for (unsigned i = 0; i < OTHERS; i++)
        history_final_list(&history, RING + i, &(int64_t){1}, 1);
    assert_null(history_wrong(&history, HISTORY_READ_COMMITTED, NULL));
    const char *wrong = history_wrong(&history, HISTORY_SERIALIZABLE, NULL);
    assert_non_null(wrong);
    assert_non_null(strstr(wrong, "write skew over what is not there (G2)"));
    history_free(&history);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_wrong_with_histories_made_by_hand),
        cmocka_unit_test(test_a_long_cycle_is_found_among_many),
    };
    return cmocka_run_group_tests_name("history_judge", tests, NULL, NULL);
}
