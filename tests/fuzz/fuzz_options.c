/* Any command line either parses into values within their bounds or is refused with a sentence. The
   input is the words, each ended by a newline. */
#include "base/check.h"
#include "cli/options.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { WORDS_MAX = 64 };

struct configuration {
    bool flag;
    uint64_t count;
    double number;
    uint64_t size_bytes;
    uint64_t time_ns;
    int choice;
    unsigned set;
    const char *text;
};

static const char *const words_of_choice[] = {"rndrd", "rndwr", "seqrd", NULL};

#define FIELD(name) offsetof(struct configuration, name)

static const struct option_spec specs[] = {
    {.type = OPTION_SECTION, .help = "All types"},
    {.name = "flag", .type = OPTION_FLAG, .offset = FIELD(flag)},
    {.name = "count",
     .type = OPTION_COUNT,
     .offset = FIELD(count),
     .default_text = "1",
     .min = 1,
     .max = 1024},
    {.name = "number",
     .type = OPTION_NUMBER,
     .offset = FIELD(number),
     .default_text = "0.5",
     .min = -1,
     .max = 1},
    {.name = "file-size", .type = OPTION_SIZE, .offset = FIELD(size_bytes), .default_text = "2G"},
    {.name = "time", .type = OPTION_DURATION, .offset = FIELD(time_ns), .default_text = "10"},
    {.name = "mode",
     .type = OPTION_CHOICE,
     .offset = FIELD(choice),
     .default_text = "rndrd",
     .choices = words_of_choice},
    {.name = "extra-flags",
     .type = OPTION_SET,
     .offset = FIELD(set),
     .default_text = "",
     .choices = words_of_choice},
    {.name = "output", .type = OPTION_TEXT, .offset = FIELD(text)},
    {.name = "o", .alias_of = "output"},
    {.name = "max-time", .alias_of = "time"},
    {.name = "rand-init", .ignored_value = true},
    {0},
};

static const struct option_table table = {.usage = "fuzz", .options = specs};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* @return the number of words; they point into text, which is cut up. */
static int cut_words(char *text, char **argv)
{
    int argc = 0;
    char *save = NULL;
    argv[argc++] = (char *)"fuzz";
    for (char *word = strtok_r(text, "\n", &save); word != NULL && argc < WORDS_MAX;
         word = strtok_r(NULL, "\n", &save))
        argv[argc++] = word;
    argv[argc] = NULL;
    return argc;
}

static void check_parsed(const struct configuration *configuration,
                         const struct option_words *words, int argc)
{
    ENSURE(configuration->count >= 1 && configuration->count <= 1024);
    ENSURE(configuration->number >= -1 && configuration->number <= 1);
    ENSURE(configuration->choice >= 0 && configuration->choice < 3);
    ENSURE(configuration->set < 8);
    ENSURE(words->positional_count < argc);
    if (!options_given(&table, words, "time"))
        ENSURE(configuration->time_ns == 10000000000);
    json_t *setup = options_json(&table, configuration);
    ENSURE(setup != NULL && json_object_size(setup) == 8);
    json_decref(setup);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *argv[WORDS_MAX + 1];
    struct configuration configuration;
    struct option_words words;
    char *text = malloc(size + 1);
    ENSURE(text != NULL);
    if (size != 0)
        memcpy(text, data, size);
    text[size] = '\0';
    int argc = cut_words(text, argv);
    options_defaults(&table, &configuration);
    firn_rc rc = options_parse(&table, argc, argv, &configuration, &words);
    if (rc == FIRN_OK) {
        check_parsed(&configuration, &words, argc);
        options_free(&words);
    } else {
        ENSURE(rc == FIRN_E_INVALID && firn_error_text()[0] != '\0');
        ENSURE(strchr(firn_error_text(), '\n') == NULL);
    }
    free(text);
    return 0;
}
