#include "cli/options.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct configuration {
    bool validate;
    uint64_t threads;
    double rate;
    uint64_t size_bytes;
    uint64_t time_ns;
    int mode;
    unsigned flags;
    const char *output;
    bool summary;
};

static const char *const modes[] = {"rndrd", "rndwr", "rndrw", NULL};
static const char *const flag_words[] = {"sync", "dsync", "direct", NULL};

#define FIELD(name) offsetof(struct configuration, name)

static const struct option_spec specs[] = {
    {.type = OPTION_SECTION, .help = "Work"},
    {.name = "threads",
     .type = OPTION_COUNT,
     .offset = FIELD(threads),
     .default_text = "1",
     .value_name = "N",
     .min = 1,
     .max = 64,
     .help = "Workers."},
    {.name = "rate", .type = OPTION_NUMBER, .offset = FIELD(rate), .default_text = "0"},
    {.name = "file-size",
     .type = OPTION_SIZE,
     .offset = FIELD(size_bytes),
     .default_text = "2G",
     .value_name = "SIZE",
     .min = 512,
     .max = 1024.0 * 1024 * 1024 * 1024,
     .help = "How much."},
    {.name = "time", .type = OPTION_DURATION, .offset = FIELD(time_ns), .default_text = "10"},
    {.name = "mode",
     .type = OPTION_CHOICE,
     .offset = FIELD(mode),
     .default_text = "rndrw",
     .choices = modes},
    {.name = "extra-flags",
     .type = OPTION_SET,
     .offset = FIELD(flags),
     .default_text = "",
     .choices = flag_words},
    {.name = "validate", .type = OPTION_FLAG, .offset = FIELD(validate), .help = "Prove it."},
    {.name = "summary", .type = OPTION_FLAG, .offset = FIELD(summary), .default_text = "on"},
    {.type = OPTION_SECTION, .help = "Output"},
    {.name = "output", .type = OPTION_TEXT, .offset = FIELD(output), .value_name = "FILE"},
    {.name = "o", .alias_of = "output"},
    {.name = "max-time", .alias_of = "time"},
    {.name = "check", .alias_of = "validate"},
    {.name = "rand-init", .ignored_value = true},
    {0},
};

static const struct option_table table = {
    .usage = "firn test [OPTION...] WORD",
    .intro = "Tests options.",
    .outro = "Examples:\n  firn test --threads=4",
    .options = specs,
};

static struct configuration configuration;
static struct option_words words;

/* Parse the words of a line that is cut at blanks. */
static char line_bytes[1024];
static firn_rc parse(const char *line)
{
    static char *argv[64];
    int argc = 0;
    char *save = NULL;
    assert_true(strlen(line) < sizeof(line_bytes));
    strcpy(line_bytes, line);
    argv[argc++] = (char *)"test";
    for (char *word = strtok_r(line_bytes, " ", &save); word != NULL;
         word = strtok_r(NULL, " ", &save))
        argv[argc++] = word;
    argv[argc] = NULL;
    options_free(&words);
    options_defaults(&table, &configuration);
    return options_parse(&table, argc, argv, &configuration, &words);
}

static void refused(const char *line, const char *text)
{
    firn_rc rc = parse(line);
    if (rc != FIRN_E_INVALID || strstr(firn_error_text(), text) == NULL)
        fail_msg("%s: %d, \"%s\" instead of \"%s\"", line, rc, firn_error_text(), text);
}

static void every_field_has_its_default(void **state)
{
    (void)state;
    assert_int_equal(parse(""), FIRN_OK);
    assert_int_equal(configuration.threads, 1);
    assert_int_equal(configuration.size_bytes, UINT64_C(2) << 30);
    assert_int_equal(configuration.time_ns, 10000000000);
    assert_int_equal(configuration.mode, 2);
    assert_int_equal(configuration.flags, 0);
    assert_false(configuration.validate);
    assert_true(configuration.summary);
    assert_null(configuration.output);
    assert_int_equal(words.positional_count, 0);
    assert_false(words.help_wanted);
}

static void every_type_is_read_in_every_spelling(void **state)
{
    (void)state;
    assert_int_equal(parse("--threads=8 --rate 12.5 --file-size=16K --time=2m --mode=rndrd "
                           "--extra-flags=direct,sync --validate --summary=no --output=x.json"),
                     FIRN_OK);
    assert_int_equal(configuration.threads, 8);
    assert_true(configuration.rate == 12.5);
    assert_int_equal(configuration.size_bytes, 16384);
    assert_int_equal(configuration.time_ns, 120000000000);
    assert_int_equal(configuration.mode, 0);
    assert_int_equal(configuration.flags, 5);
    assert_true(configuration.validate);
    assert_false(configuration.summary);
    assert_string_equal(configuration.output, "x.json");
    static const char *const on[] = {"--validate=on", "--validate=yes", "--validate=true",
                                     "--validate=1", "--check"};
    static const char *const off[] = {"--validate --validate=off", "--validate --check=no",
                                      "--validate --validate=false", "--validate --validate=0"};
    for (size_t i = 0; i < sizeof(on) / sizeof(on[0]); i++) {
        assert_int_equal(parse(on[i]), FIRN_OK);
        assert_true(configuration.validate);
    }
    for (size_t i = 0; i < sizeof(off) / sizeof(off[0]); i++) {
        assert_int_equal(parse(off[i]), FIRN_OK);
        assert_false(configuration.validate);
    }
    assert_int_equal(parse("-o a"), FIRN_OK);
    assert_string_equal(configuration.output, "a");
    assert_int_equal(parse("-ob"), FIRN_OK);
    assert_string_equal(configuration.output, "b");
}

static void words_may_stand_anywhere(void **state)
{
    (void)state;
    for (int posix = 0; posix < 2; posix++) {
        if (posix)
            setenv("POSIXLY_CORRECT", "1", 1);
        assert_int_equal(parse("one --threads=2 two --validate three -- --time=3 -x"), FIRN_OK);
        unsetenv("POSIXLY_CORRECT");
        assert_int_equal(configuration.threads, 2);
        assert_int_equal(configuration.time_ns, 10000000000);
        assert_true(configuration.validate);
        static const char *const expected[] = {"one", "two", "three", "--time=3", "-x"};
        assert_int_equal(words.positional_count, 5);
        for (int i = 0; i < 5; i++)
            assert_string_equal(words.positional[i], expected[i]);
    }
}

static void the_last_of_equal_options_counts(void **state)
{
    (void)state;
    assert_int_equal(parse("--time=3 --max-time=4 --threads=2 --threads=7"), FIRN_OK);
    assert_int_equal(configuration.time_ns, 4000000000);
    assert_int_equal(configuration.threads, 7);
}

static void given_options_are_known_under_any_spelling(void **state)
{
    (void)state;
    assert_int_equal(parse("--max-time=4 --rand-init=on"), FIRN_OK);
    assert_true(options_given(&table, &words, "time"));
    assert_true(options_given(&table, &words, "max-time"));
    assert_true(options_given(&table, &words, "rand-init"));
    assert_false(options_given(&table, &words, "threads"));
}

static void unknown_options_are_refused_with_near_names(void **state)
{
    (void)state;
    refused("--thread=4", "there is no option --thread; did you mean --threads?");
    refused("--threads4", "did you mean --threads?");
    refused("--tiem=4", "did you mean --time?");
    refused("--max-tiem=4", "did you mean --max-time?");
    refused("--file-siez 4", "did you mean --file-size?");
    refused("--no-validate", "write --validate=off");
    refused("-threads=4", "write --threads with two dashes");
    refused("-x", "there is no option -x");
    refused("--=4", "there is no option --");
    refused("--hel", "did you mean --help?");
    assert_int_equal(parse("--zzzzzzzz"), FIRN_E_INVALID);
    assert_string_equal(firn_error_text(), "there is no option --zzzzzzzz");
}

static void beginnings_of_names_are_not_accepted(void **state)
{
    (void)state;
    refused("--valid", "there is no option --valid; did you mean --validate?");
    refused("--file=2G", "did you mean --file-size?");
    refused("--out a", "there is no option --out");
}

static void bad_values_are_refused_by_name(void **state)
{
    (void)state;
    refused("--threads=0", "--threads: 0 is out of range; it goes from 1 to 64");
    refused("--threads=65", "out of range");
    refused("--threads=-1", "--threads: \"-1\" is not a whole number");
    refused("--threads=4x", "not a whole number");
    refused("--threads=", "--threads: \"\" is not a whole number");
    refused("--threads=99999999999999999999999", "not a whole number");
    refused("--rate=nan", "--rate: \"nan\" is not a number");
    refused("--rate=", "not a number");
    refused("--file-size=100", "--file-size: 100 is out of range; it goes from 512 B to 1 TiB");
    refused("--file-size=2Q", "--file-size: \"2Q\" is not a size");
    refused("--max-time=x", "--max-time: \"x\" is not a duration");
    refused("--mode=rndr", "--mode: there is no \"rndr\"; did you mean rndrd, rndwr or rndrw?");
    refused("--mode=zzz", "--mode: there is no \"zzz\"; choose from rndrd, rndwr, rndrw");
    refused("--extra-flags=direct,fast", "--extra-flags: there is no \"fast\"");
    refused("--validate=maybe", "--validate: \"maybe\" is neither on nor off");
    refused("--check=maybe", "--check: \"maybe\" is neither on nor off");
    refused("--threads", "--threads needs a value");
    refused("one -o", "-o needs a value");
}

static void help_ends_the_reading(void **state)
{
    (void)state;
    assert_int_equal(parse("--help --nonsense"), FIRN_OK);
    assert_true(words.help_wanted);
    assert_int_equal(parse("run -h"), FIRN_OK);
    assert_true(words.help_wanted);
}

static char *help_text(void)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    options_help(&table, out);
    fclose(out);
    return text;
}

static void help_teaches_every_option(void **state)
{
    (void)state;
    char *text = help_text();
    static const char *const parts[] = {
        "Usage: firn test [OPTION...] WORD\n",
        "\nWork:\n",
        "  --threads=N ",
        "Workers. (1 to 64; default 1)",
        "(512 B to 1 TiB; default 2 GiB)",
        "(default 10 s)",
        "One of: rndrd, rndwr, rndrw. (default rndrw)",
        "Any of, with commas between: sync,",
        "(default none)",
        "--validate[=on|off]",
        "(default off)",
        "-o, --output=FILE",
        "Also accepted:\n  --max-time                  as --time\n",
        "--rand-init                 without effect",
        "\nExamples:\n  firn test --threads=4\n",
    };
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        if (strstr(text, parts[i]) == NULL)
            fail_msg("\"%s\" is missing in\n%s", parts[i], text);
    for (char *line = text; line != NULL; line = strchr(line, '\n')) {
        line += line != text;
        assert_true(strcspn(line, "\n") <= 80);
    }
    free(text);
}

static void the_setup_names_its_units(void **state)
{
    (void)state;
    assert_int_equal(parse("--time=1.5 --extra-flags=dsync --validate"), FIRN_OK);
    json_t *setup = options_json(&table, &configuration);
    json_t *expected =
        json_pack("{s:i, s:f, s:I, s:f, s:s, s:s, s:b, s:b, s:n}", "threads", 1, "rate", 0.0,
                  "file_size_bytes", (json_int_t)2 << 30, "time_s", 1.5, "mode", "rndrw",
                  "extra_flags", "dsync", "validate", 1, "summary", 1, "output");
    assert_non_null(expected);
    assert_true(json_equal(setup, expected));
    json_decref(setup);
    json_decref(expected);
}

static int free_words(void **state)
{
    (void)state;
    options_free(&words);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_field_has_its_default),
        cmocka_unit_test(every_type_is_read_in_every_spelling),
        cmocka_unit_test(words_may_stand_anywhere),
        cmocka_unit_test(the_last_of_equal_options_counts),
        cmocka_unit_test(given_options_are_known_under_any_spelling),
        cmocka_unit_test(unknown_options_are_refused_with_near_names),
        cmocka_unit_test(beginnings_of_names_are_not_accepted),
        cmocka_unit_test(bad_values_are_refused_by_name),
        cmocka_unit_test(help_ends_the_reading),
        cmocka_unit_test(help_teaches_every_option),
        cmocka_unit_test(the_setup_names_its_units),
    };
    return cmocka_run_group_tests(tests, NULL, free_words);
}
