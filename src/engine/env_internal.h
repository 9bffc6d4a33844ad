/*
 * env_internal.h -- what an environment is, as firn.env says it, and which directory is whose, as
 * firn.place says it.
 *
 * An environment exists once DIR/firn.env does: it is written last, by renaming firn.env.new, which
 * is durable before anything else is made. So firn.env.new without firn.env says that a creation
 * was cut short, and where its files may be; the files of an environment without either are
 * somebody's data, and are left alone.
 */
#ifndef FIRN_ENGINE_ENV_INTERNAL_H
#define FIRN_ENGINE_ENV_INTERNAL_H

#include "engine/store.h"

#define ENV_FILE     "firn.env"
#define ENV_FILE_NEW "firn.env.new"
#define PLACE_FILE   "firn.place"

/** What firn.env holds. */
struct env {
    uint8_t id[16];
    uint32_t page_size_bytes;
    /* As given at creation, normalised: absolute, or relative to DIR; NULL: DIR itself. Owned. */
    char *class_directories[IO_CLASS_COUNT];
};

/** Free what an env holds. */
void env_free(struct env *env);

/** Read and write firn.env or firn.env.new. Errors as label_read and label_write. */
firn_rc env_read(struct io_system *system, const char *path, struct env *env);
firn_rc env_write(struct io_system *system, const char *path, const struct env *env);

/** Write firn.place: a directory of classes (bits 1 << io_class) of the environment. */
firn_rc place_write(struct io_system *system, const char *path, const uint8_t id[16],
                    unsigned classes);

/**
 * Read firn.place and judge whether it is of this environment and holds these classes.
 *
 * @return FIRN_OK; FIRN_E_NOT_FOUND, FIRN_E_INVALID with a sentence that says what to do; as
 *         label_read
 */
firn_rc place_check(struct io_system *system, const char *directory, const uint8_t id[16],
                    unsigned classes);

enum { ENV_ID_TEXT_BYTES = 33 };

/** Write an identity as 32 hexadecimal digits, and read it. @return false if the text is none */
void env_format_id(const uint8_t id[16], char text[ENV_ID_TEXT_BYTES]);
bool env_parse_id(const char *text, uint8_t id[16]);

/** @return the option that places a class: "tables_dir", "undo_dir", ...; static. */
const char *env_class_option(enum io_class class);

/** @return directory/name, to be freed with memory_free; NULL without memory, not raised. A name
 * that is absolute stands for itself. */
char *env_path(const char *directory, const char *name);

/** @return a path without doubled and trailing slashes and without "." parts, to be freed with
 * memory_free; NULL without memory, not raised. */
char *env_normal_path(const char *path);

/** @return the directory that holds a path's last name, to be freed with memory_free; NULL without
 * memory, not raised. */
char *env_parent_path(const char *path);

#endif
