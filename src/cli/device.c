#include "base/check.h"
#include "base/near.h"
#include "cli/command.h"
#include "cli/device_internal.h"
#include "cli/options.h"
#include "io/model.h"

#include <errno.h>
#include <string.h>

struct device_configuration {
    bool json;
};

static const struct option_spec device_specs[] = {
    {.name = "json",
     .type = OPTION_FLAG,
     .offset = offsetof(struct device_configuration, json),
     .default_text = "off",
     .help = "Print JSON instead of text."},
    {.name = NULL},
};

static const struct option_table device_table = {
    .usage = "firn device [OPTION...] list | show NAME | check NAME",
    .intro =
        "Models of disks, RAIDs and SSDs, on which firn's benchmarks can run instead of on "
        "this machine's disk. \"list\" names them, \"show\" tells a model's parameters, "
        "\"check\" runs it in model time and puts what it does beside the device's data sheet; "
        "it fails when a figure is off by more than 15 %. NAME may be composed: a name from "
        "the list, a RAID level with its number of members, and any of +cache=SIZE (the "
        "controller's), +stripe=SIZE and +capacity=SIZE (the device shrunk to it).",
    .outro = "Examples:\n"
             "  firn device list\n"
             "  firn device show ssd-x25e\n"
             "  firn device check hdd-15k:raid10x8+cache=512M\n"
             "  firn fileio --device=hdd-7200:raid5x6 --file-test-mode=rndrw run\n",
    .options = device_specs,
};

/* ---- Output ---- */

/* Print an object and give it up. */
static firn_rc print_json(json_t *value)
{
    if (value == NULL || json_dumpf(value, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(6)) != 0) {
        json_decref(value);
        return rc_raise(FIRN_E_NOMEM, "no memory for the result");
    }
    putchar('\n');
    json_decref(value);
    return FIRN_OK;
}

static firn_rc end_output(void)
{
    if (fflush(stdout) != 0 || ferror(stdout))
        return rc_raise_errno(errno, "cannot write to standard output");
    return FIRN_OK;
}

static json_t *list_json(void)
{
    json_t *list = json_array();
    for (unsigned i = 0; list != NULL && i < model_count(); i++) {
        json_t *entry =
            json_pack("{s:s, s:s}", "name", model_at(i)->name, "text", model_at(i)->text);
        if (json_array_append_new(list, entry) != 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

/* ---- Actions ---- */

static firn_rc list_models(const struct model_spec *spec, const struct model_sheet *sheet,
                           bool as_json)
{
    (void)spec;
    (void)sheet;
    if (as_json)
        return print_json(list_json());
    for (unsigned i = 0; i < model_count(); i++)
        printf("%-20s %s\n", model_at(i)->name, model_at(i)->text);
    return FIRN_OK;
}

static firn_rc show_model(const struct model_spec *spec, const struct model_sheet *sheet,
                          bool as_json)
{
    if (as_json)
        return print_json(device_model_json(spec, sheet));
    device_print_model(spec, sheet);
    return FIRN_OK;
}

static firn_rc check_model(const struct model_spec *spec, const struct model_sheet *sheet,
                           bool as_json)
{
    static struct device_check check;
    FIRN_TRY(device_check(spec, sheet, &check));
    if (as_json)
        FIRN_TRY(print_json(device_check_json(spec, sheet, &check)));
    else
        device_print_check(spec, sheet, &check);
    FIRN_TRY(end_output());
    return check.passed ? FIRN_OK : device_raise_misses(spec, &check);
}

struct action {
    const char *name;
    bool wants_model;
    firn_rc (*run)(const struct model_spec *spec, const struct model_sheet *sheet, bool as_json);
};

static const struct action actions[] = {
    {"list", false, list_models},
    {"show", true, show_model},
    {"check", true, check_model},
};

/* ---- The command line ---- */

static const struct model_sheet *find_sheet(const char *name)
{
    for (unsigned i = 0; i < model_count(); i++)
        if (strcmp(model_at(i)->name, name) == 0)
            return model_sheet_at(i);
    return NULL;
}

static firn_rc find_action(const struct option_words *words, const struct action **action)
{
    const char *names[ARRAY_COUNT(actions)];
    char near[NEAR_TEXT_BYTES];
    if (words->positional_count == 0)
        return rc_raise(FIRN_E_INVALID, "what shall be done: list, show NAME or check NAME?");
    const char *word = words->positional[0];
    for (unsigned i = 0; i < ARRAY_COUNT(actions); i++) {
        names[i] = actions[i].name;
        if (strcmp(word, actions[i].name) == 0)
            *action = &actions[i];
    }
    if (*action == NULL)
        return rc_raise(FIRN_E_INVALID, "there is no \"firn device %s\"%s", word,
                        near_text(word, names, ARRAY_COUNT(names), "", near));
    int wanted = (*action)->wants_model ? 2 : 1;
    if (words->positional_count < wanted)
        return rc_raise(FIRN_E_INVALID, "%s which model? 'firn device list' names them", word);
    if (words->positional_count > wanted)
        return rc_raise(FIRN_E_INVALID, "\"%s\" is one word too many", words->positional[wanted]);
    return FIRN_OK;
}

static int run_action(const struct device_configuration *configuration,
                      const struct option_words *words)
{
    const struct action *action = NULL;
    struct model_spec spec = {.members = 0};
    const struct model_sheet *sheet = NULL;
    if (find_action(words, &action) != FIRN_OK)
        return command_usage("device");
    if (action->wants_model) {
        if (model_find(words->positional[1], &spec) != FIRN_OK)
            return command_usage("device");
        sheet = find_sheet(words->positional[1]);
    }
    firn_rc rc = action->run(&spec, sheet, configuration->json);
    if (rc == FIRN_OK)
        rc = end_output();
    return rc == FIRN_OK ? COMMAND_OK : command_fail("device");
}

int command_device(int argc, char **argv)
{
    struct device_configuration configuration;
    struct option_words words;
    options_defaults(&device_table, &configuration);
    if (options_parse(&device_table, argc, argv, &configuration, &words) != FIRN_OK)
        return command_usage("device");
    int status = COMMAND_OK;
    if (words.help_wanted)
        options_help(&device_table, stdout);
    else
        status = run_action(&configuration, &words);
    options_free(&words);
    return status;
}
