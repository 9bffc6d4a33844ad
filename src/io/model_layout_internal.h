/*
 * model_layout_internal.h -- where files lie on a modelled device.  *
 * The device is cut into units. A file takes the units behind its last one while they are free,
 * else the next free run that holds what it asks for; a run that was just begun has room left
 * behind it, so that files that grow side by side are not woven into each other. A layout is used
 * under its driver's mutex.
 */
#ifndef FIRN_IO_MODEL_LAYOUT_INTERNAL_H
#define FIRN_IO_MODEL_LAYOUT_INTERNAL_H

#include <stdint.h>

struct model_layout;
struct model_file;

/** Make the layout of an empty device. @return NULL without memory */
struct model_layout *model_layout_create(uint64_t capacity_bytes);
void model_layout_destroy(struct model_layout *layout);

/** Find a file by path, or note a new one without room. Give it back with model_layout_release. It
 * keeps its place while it is closed. @return NULL without memory */
struct model_file *model_layout_hold(struct model_layout *layout, const char *path);
void model_layout_release(struct model_layout *layout, struct model_file *file);

/** Make a file's room at least so large. @return 0; -ENOSPC or -ENOMEM, then nothing changed */
int model_layout_grow(struct model_layout *layout, struct model_file *file, uint64_t size_bytes);

/** Give back the room behind a size. */
void model_layout_cut(struct model_layout *layout, struct model_file *file, uint64_t size_bytes);

/** @return the bytes a file has room for. */
uint64_t model_layout_room(const struct model_file *file);

/** A name is gone; its file's room is free once nobody holds it. */
void model_layout_remove(struct model_layout *layout, const char *path);

/** A file or directory has a new name, perhaps in place of a file. Without memory for the name the
 * old place is forgotten. */
void model_layout_rename(struct model_layout *layout, const char *from, const char *to);

/** Find a place within a file's room. @return how many bytes follow on the device from there on */
uint64_t model_layout_map(const struct model_file *file, uint64_t offset, uint64_t *device_offset);

#endif
