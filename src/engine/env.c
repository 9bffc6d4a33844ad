#include "engine/env_internal.h"

#include "base/check.h"
#include "base/memory.h"
#include "engine/label_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ID_BYTES = 16, PLACE_CLASSES_BYTES = 128 };

_Static_assert(ENV_ID_TEXT_BYTES == 2 * ID_BYTES + 1, "two digits a byte");

const char *env_class_option(enum io_class class)
{
    static const char *const options[IO_CLASS_COUNT] = {
        [IO_CLASS_TABLE] = "tables_dir",  [IO_CLASS_UNDO] = "undo_dir",
        [IO_CLASS_SYSTEM] = "system_dir", [IO_CLASS_DOUBLEWRITE] = "doublewrite_dir",
        [IO_CLASS_REDO] = "redo_dir",     [IO_CLASS_BINLOG] = "binlog_dir",
        [IO_CLASS_TEMPORARY] = "tmp_dir",
    };
    return options[class];
}

/* ---- Paths ---- */

char *env_path(const char *directory, const char *name)
{
    size_t size = strlen(directory) + strlen(name) + 2;
    char *path = memory_alloc(size);
    bool slash = directory[0] != '\0' && directory[strlen(directory) - 1] == '/';
    if (path != NULL && name[0] == '/')
        memcpy(path, name, strlen(name) + 1);
    else if (path != NULL)
        snprintf(path, size, "%s%s%s", directory, slash ? "" : "/", name);
    return path;
}

char *env_normal_path(const char *path)
{
    char *normal = memory_alloc(strlen(path) + 2);
    if (normal == NULL)
        return NULL;
    char *to = normal;
    if (path[0] == '/')
        *to++ = '/';
    for (const char *part = path; *part != '\0';) {
        part += strspn(part, "/");
        size_t length = strcspn(part, "/");
        bool here = length == 1 && part[0] == '.';
        if (length != 0 && !here) {
            if (to != normal && to[-1] != '/')
                *to++ = '/';
            memcpy(to, part, length);
            to += length;
        }
        part += length;
    }
    if (to == normal)
        *to++ = '.';
    *to = '\0';
    return normal;
}

char *env_parent_path(const char *path)
{
    char *parent = env_normal_path(path);
    if (parent == NULL)
        return NULL;
    char *slash = strrchr(parent, '/');
    if (slash == NULL)
        memcpy(parent, ".", 2);
    else
        slash[slash == parent] = '\0';
    return parent;
}

/* ---- Identities ---- */

void env_format_id(const uint8_t id[ID_BYTES], char text[ENV_ID_TEXT_BYTES])
{
    for (size_t i = 0; i < ID_BYTES; i++)
        snprintf(text + 2 * i, 3, "%02x", id[i]);
}

bool env_parse_id(const char *text, uint8_t id[ID_BYTES])
{
    if (strlen(text) != ENV_ID_TEXT_BYTES - 1 ||
        strspn(text, "0123456789abcdef") != ENV_ID_TEXT_BYTES - 1)
        return false;
    for (size_t i = 0; i < ID_BYTES; i++) {
        char digits[3] = {text[2 * i], text[2 * i + 1], '\0'};
        id[i] = (uint8_t)strtoul(digits, NULL, 16);
    }
    return true;
}

/* ---- firn.env ---- */

void env_free(struct env *env)
{
    for (unsigned class = 0; class < IO_CLASS_COUNT; class ++)
        memory_free(env->class_directories[class]);
    *env = (struct env){0};
}

static bool parse_page_size(const char *text, uint32_t *page_size_bytes)
{
    char *end = NULL;
    unsigned long size_bytes = strtoul(text, &end, 10);
    if (*end != '\0' || !page_size_is_valid(size_bytes))
        return false;
    *page_size_bytes = (uint32_t)size_bytes;
    return true;
}

static firn_rc take_env_line(const char *path, const char *key, const char *value, struct env *env)
{
    if (strcmp(key, "id") == 0)
        return env_parse_id(value, env->id) ? FIRN_OK : label_raise_line(path, key);
    if (strcmp(key, "page_size") == 0)
        return parse_page_size(value, &env->page_size_bytes) ? FIRN_OK
                                                             : label_raise_line(path, key);
    for (unsigned class = 0; class < IO_CLASS_COUNT; class ++) {
        char **directory = &env->class_directories[class];
        if (strcmp(key, env_class_option(class)) != 0 || *directory != NULL || value[0] == '\0')
            continue;
        *directory = env_normal_path(value);
        return *directory != NULL ? FIRN_OK : rc_raise(FIRN_E_NOMEM, "no memory to read %s", path);
    }
    return label_raise_line(path, key);
}

firn_rc env_read(struct io_system *system, const char *path, struct env *env)
{
    struct label label;
    struct env read = {0};
    firn_rc rc = FIRN_OK;
    bool has_id = false;
    const char *key;
    const char *value;
    FIRN_TRY(label_read(system, path, "environment", &label));
    while (rc == FIRN_OK && label_next(&label, &key, &value)) {
        has_id |= strcmp(key, "id") == 0;
        rc = take_env_line(path, key, value, &read);
    }
    if (rc == FIRN_OK && (!has_id || read.page_size_bytes == 0))
        rc = rc_raise(FIRN_E_CORRUPT, "%s lacks its line \"%s\"; restore the file from a backup",
                      path, has_id ? "page_size" : "id");
    label_free(&label);
    if (rc == FIRN_OK)
        *env = read;
    else
        env_free(&read);
    return rc;
}

firn_rc env_write(struct io_system *system, const char *path, const struct env *env)
{
    struct label label;
    char id[ENV_ID_TEXT_BYTES];
    char page_size[16];
    label_begin(&label, "environment");
    env_format_id(env->id, id);
    snprintf(page_size, sizeof(page_size), "%u", env->page_size_bytes);
    label_add(&label, "id", id);
    label_add(&label, "page_size", page_size);
    for (unsigned class = 0; class < IO_CLASS_COUNT; class ++)
        if (env->class_directories[class] != NULL)
            label_add(&label, env_class_option(class), env->class_directories[class]);
    firn_rc rc = label_write(&label, system, path);
    label_free(&label);
    return rc;
}

/* ---- firn.place ---- */

firn_rc place_write(struct io_system *system, const char *path, const uint8_t id[16],
                    unsigned classes)
{
    struct label label;
    char text[ENV_ID_TEXT_BYTES];
    char list[PLACE_CLASSES_BYTES] = "";
    label_begin(&label, "place");
    env_format_id(id, text);
    for (unsigned class = 0; class < IO_CLASS_COUNT; class ++)
        if (classes & 1U << class)
            snprintf(list + strlen(list), sizeof(list) - strlen(list), "%s%s",
                     list[0] == '\0' ? "" : " ", env_class_option(class));
    label_add(&label, "id", text);
    label_add(&label, "holds", list);
    firn_rc rc = label_write(&label, system, path);
    label_free(&label);
    return rc;
}

static bool list_has(const char *list, const char *word)
{
    size_t length = strlen(word);
    for (const char *at = list; (at = strstr(at, word)) != NULL; at += length)
        if ((at == list || at[-1] == ' ') && (at[length] == '\0' || at[length] == ' '))
            return true;
    return false;
}

static firn_rc judge_place(const char *path, const char *id_text, const char *list,
                           const uint8_t id[16], unsigned classes)
{
    uint8_t found[ID_BYTES];
    if (!env_parse_id(id_text, found))
        return label_raise_line(path, "id");
    for (unsigned class = 0; class < IO_CLASS_COUNT; class ++) {
        const char *option = env_class_option(class);
        if (!(classes & 1U << class))
            continue;
        if (memcmp(found, id, ID_BYTES) != 0)
            return rc_raise(FIRN_E_INVALID,
                            "%s belongs to another environment: the %s of this one is not there; "
                            "put its directory back, or mount its file system",
                            path, option);
        if (!list_has(list, option))
            return rc_raise(FIRN_E_INVALID,
                            "%s says that its directory is the %s of this environment, not the "
                            "%s: put the directories back in their places",
                            path, list, option);
    }
    return FIRN_OK;
}

firn_rc place_check(struct io_system *system, const char *directory, const uint8_t id[16],
                    unsigned classes)
{
    struct label label;
    const char *key = "";
    const char *id_text = "";
    const char *list = "";
    char *path = env_path(directory, PLACE_FILE);
    if (path == NULL)
        return rc_raise(FIRN_E_NOMEM, "no memory to look at %s", directory);
    firn_rc rc = label_read(system, path, "place", &label);
    if (rc == FIRN_E_NOT_FOUND) {
        ASSERT(classes != 0);
        unsigned class = (unsigned)__builtin_ctz(classes);
        rc = rc_raise(FIRN_E_NOT_FOUND,
                      "%s, the %s of the environment, is missing or is not the one that it was: "
                      "put it back, or mount its file system",
                      directory, env_class_option(class));
    } else if (rc == FIRN_OK) {
        if (!label_next(&label, &key, &id_text) || strcmp(key, "id") != 0 ||
            !label_next(&label, &key, &list) || strcmp(key, "holds") != 0)
            rc = label_raise_line(path, key);
        else
            rc = judge_place(path, id_text, list, id, classes);
        label_free(&label);
    }
    memory_free(path);
    return rc;
}
