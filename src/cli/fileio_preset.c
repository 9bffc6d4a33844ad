/*
 * fileio_preset.c -- `firn fileio --preset=survey` is `firn survey` under a name that people know;
 * the options that both have go along.
 */
#include "cli/command.h"
#include "cli/fileio_internal.h"

#include <inttypes.h>
#include <string.h>

/* fileio's name of an option and survey's. */
static const char *const shared[][2] = {
    {"file-total-size", "--size"},  {"time", "--time"},
    {"io-backend", "--io-backend"}, {"device", "--device"},
    {"time-scale", "--time-scale"},
};

enum { SHARED_COUNT = sizeof(shared) / sizeof(shared[0]), WORD_BYTES = 32 };

static bool is_passed_on(const char *name)
{
    for (size_t i = 0; i < SHARED_COUNT; i++)
        if (strcmp(name, shared[i][0]) == 0)
            return true;
    return strcmp(name, "preset") == 0 || strcmp(name, "dir") == 0;
}

static firn_rc check_words(const struct option_words *words)
{
    if (words->positional_count > 1 ||
        (words->positional_count == 1 && strcmp(words->positional[0], "run") != 0))
        return rc_raise(FIRN_E_INVALID, "--preset=survey prepares, runs and cleans up by itself: "
                                        "say run, or nothing");
    const struct option_spec *spec = fileio_options.options;
    for (size_t i = 0; spec[i].name != NULL || spec[i].help != NULL; i++)
        if (words->given[i] && spec[i].alias_of == NULL && !spec[i].ignored_value &&
            !is_passed_on(spec[i].name))
            return rc_raise(FIRN_E_INVALID, "--preset=survey chooses --%s by itself; leave it out",
                            spec[i].name);
    return FIRN_OK;
}

int fileio_run_preset(const struct fileio_command *command, const struct option_words *words)
{
    const struct fileio_config *config = &command->config;
    char size[WORD_BYTES], time[WORD_BYTES];
    const char *values[SHARED_COUNT] = {size, time,
                                        io_backend_name((enum io_backend)config->io_backend),
                                        config->device, command->time_scale_text};
    const char *line[2 * SHARED_COUNT + 3] = {"survey"};
    int count = 1;
    if (check_words(words) != FIRN_OK)
        return command_usage("fileio");
    snprintf(size, sizeof(size), "%" PRIu64, config->file_total_size);
    snprintf(time, sizeof(time), "%" PRIu64 "ns", config->time_ns);
    for (size_t i = 0; i < SHARED_COUNT; i++)
        if (options_given(&fileio_options, words, shared[i][0])) {
            line[count++] = shared[i][1];
            line[count++] = values[i];
        }
    if (options_given(&fileio_options, words, "dir"))
        line[count++] = config->directory;
    return command_survey(count, (char **)line);
}
