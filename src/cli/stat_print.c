#include "base/units.h"
#include "cli/stat_internal.h"

#include <string.h>

static const char *size_text(double size_bytes, char text[UNITS_TEXT_BYTES])
{
    return units_format_size(size_bytes, text);
}

/* ---- Figures that follow from others ---- */

static uint32_t page_size(const struct stat_report *report)
{
    return report->status.page_size_bytes;
}

/* How much of the leaves' room is used. */
static double fill_percent(const struct stat_report *report, const struct btree_shape *shape)
{
    double room = (double)shape->leaf_pages * page_size(report);
    return room > 0 ? 100 * (room - (double)shape->free_bytes) / room : 0;
}

/* How many steps from leaf to leaf are no steps to the next page of the file. */
static double jump_percent(const struct btree_shape *shape)
{
    return shape->leaf_pages > 1 ? 100 * (double)shape->leaf_jumps / (double)(shape->leaf_pages - 1)
                                 : 0;
}

static double hit_percent(const struct buffer_counters *pool)
{
    return pool->fixes > 0 ? 100 * (double)(pool->fixes - pool->misses) / (double)pool->fixes : 0;
}

static double age_percent(const struct store_status *status)
{
    return status->log_capacity_bytes > 0
               ? 100 * (double)status->checkpoint_age_bytes / (double)status->log_capacity_bytes
               : 0;
}

/* ---- For people ---- */

static void print_environment(const struct stat_report *report)
{
    char size[UNITS_TEXT_BYTES];
    printf("Environment %s, pages of %s\n", report->directory, size_text(page_size(report), size));
    for (unsigned class = 0; class < IO_CLASS_COUNT; class ++)
        printf("  %-12s %s (%s)\n", io_class_name(class), report->class_directories[class],
               report->devices[class]);
}

static void print_spaces(const struct stat_report *report)
{
    char size[UNITS_TEXT_BYTES];
    printf("\n%-24s %-10s %10s %10s %6s %10s\n", "Tablespace", "class", "pages", "in use", "%",
           "size");
    for (size_t i = 0; i < report->space_count; i++) {
        const struct stat_space *space = &report->spaces[i];
        double share = space->pages > 0 ? 100.0 * space->pages_used / space->pages : 0;
        printf("%-24s %-10s %10u %10u %6.1f %10s\n", space->name, io_class_name(space->class),
               space->pages, space->pages_used, share,
               size_text((double)space->pages * page_size(report), size));
    }
}

static void print_trees(const struct stat_report *report)
{
    printf("\n%-24s %-6s %6s %12s %9s %9s %9s %6s %6s\n", "Tree", "place", "height", "rows",
           "inner", "leaves", "large", "fill %", "jump %");
    for (size_t i = 0; i < report->tree_count; i++) {
        const struct stat_tree *tree = &report->trees[i];
        const struct btree_shape *shape = &tree->shape;
        const char *place = tree->shared ? "system" : tree->guest ? "guest" : "own";
        printf("%-24s %-6s", tree->name, place);
        if (tree->damaged)
            printf(" damaged\n");
        else if (!tree->walked)
            printf(" not walked\n");
        else
            printf(" %6u %12llu %9llu %9llu %9llu %6.1f %6.1f\n", shape->height,
                   (unsigned long long)shape->rows, (unsigned long long)shape->inner_pages,
                   (unsigned long long)shape->leaf_pages, (unsigned long long)shape->blob_pages,
                   fill_percent(report, shape), jump_percent(shape));
    }
}

static void print_count(const char *name, uint64_t count)
{
    printf("  %-28s %14llu\n", name, (unsigned long long)count);
}

static void print_pool(const struct buffer_counters *pool)
{
    char size[UNITS_TEXT_BYTES];
    printf("\nBuffer pool, %s, since it was opened\n", size_text((double)pool->size_bytes, size));
    print_count("pages", pool->pages_total);
    print_count("  free", pool->pages_free);
    print_count("  with data", pool->pages_data);
    print_count("    dirty", pool->pages_dirty);
    print_count("    old", pool->pages_old);
    print_count("requests", pool->fixes);
    printf("  %-28s %14.2f\n", "hit ratio, %", hit_percent(pool));
    print_count("pages read", pool->pages_read);
    print_count("  ahead", pool->pages_read_ahead);
    print_count("  ahead and evicted unused", pool->read_ahead_evicted);
    print_count("pages written", pool->pages_written);
    print_count("pages made young", pool->pages_made_young);
    print_count("pages not made young", pool->pages_not_made_young);
    print_count("pages evicted", pool->pages_evicted);
    print_count("waits for a free page", pool->free_waits);
    printf("  %-28s %14s\n", "doublewrite", pool->doublewrite ? "on" : "off");
    print_count("doublewrite pages", pool->doublewrite_pages);
    print_count("doublewrite batches", pool->doublewrite_batches);
}

static void print_log(const struct stat_report *report)
{
    const struct store_status *status = &report->status;
    char size[UNITS_TEXT_BYTES];
    printf("\nLog, %u files of %s\n", report->log_files,
           size_text((double)report->log_file_size_bytes, size));
    print_count("log sequence number", status->lsn);
    print_count("durable up to", status->durable_lsn);
    print_count("last checkpoint at", status->checkpoint_lsn);
    printf("  %-28s %14s\n", "capacity", size_text((double)status->log_capacity_bytes, size));
    printf("  %-28s %14s  (%.1f %% of capacity)\n", "checkpoint age",
           size_text((double)status->checkpoint_age_bytes, size), age_percent(status));
}

void stat_print(const struct stat_report *report)
{
    print_environment(report);
    print_spaces(report);
    if (report->tree_count != 0)
        print_trees(report);
    print_pool(&report->status.buffer);
    print_log(report);
}

/* ---- JSON ---- */

/* Names of files may be any bytes, JSON may not. */
static json_t *text_json(const char *text)
{
    json_t *value = json_string(text);
    return value != NULL ? value : json_string("(not UTF-8)");
}

static json_t *places_json(const struct stat_report *report)
{
    json_t *places = json_object();
    for (unsigned class = 0; places != NULL && class < IO_CLASS_COUNT; class ++) {
        json_t *place =
            json_pack("{s:o, s:o}", "directory", text_json(report->class_directories[class]),
                      "device", text_json(report->devices[class]));
        if (json_object_set_new(places, io_class_name(class), place) != 0) {
            json_decref(places);
            return NULL;
        }
    }
    return places;
}

static json_t *space_json(const struct stat_report *report, const struct stat_space *space)
{
    return json_pack("{s:o, s:i, s:s, s:o, s:I, s:I, s:I}", "name", text_json(space->name),
                     "number", (int)space->space, "class", io_class_name(space->class), "path",
                     text_json(space->path), "pages", (json_int_t)space->pages, "pages_used",
                     (json_int_t)space->pages_used, "size_bytes",
                     (json_int_t)space->pages * page_size(report));
}

static json_t *tree_json(const struct stat_report *report, const struct stat_tree *tree)
{
    const struct btree_shape *shape = &tree->shape;
    if (!tree->walked || tree->damaged)
        return json_pack("{s:o, s:b, s:b}", "name", text_json(tree->name), "shared", tree->shared,
                         "damaged", tree->damaged);
    return json_pack("{s:o, s:b, s:b, s:i, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:f}", "name",
                     text_json(tree->name), "shared", tree->shared, "damaged", tree->damaged,
                     "height", (int)shape->height, "rows", (json_int_t)shape->rows, "inner_pages",
                     (json_int_t)shape->inner_pages, "leaf_pages", (json_int_t)shape->leaf_pages,
                     "blob_pages", (json_int_t)shape->blob_pages, "key_bytes",
                     (json_int_t)shape->key_bytes, "value_bytes", (json_int_t)shape->value_bytes,
                     "leaf_free_bytes", (json_int_t)shape->free_bytes, "fill_percent",
                     fill_percent(report, shape), "jump_percent", jump_percent(shape));
}

static json_t *pool_json(const struct buffer_counters *pool)
{
    json_t *object =
        json_pack("{s:f, s:b}", "hit_percent", hit_percent(pool), "doublewrite", pool->doublewrite);
    const struct {
        const char *name;
        uint64_t value;
    } counts[] = {
        {"size_bytes", pool->size_bytes},
        {"pages_total", pool->pages_total},
        {"pages_free", pool->pages_free},
        {"pages_data", pool->pages_data},
        {"pages_dirty", pool->pages_dirty},
        {"pages_old", pool->pages_old},
        {"requests", pool->fixes},
        {"misses", pool->misses},
        {"pages_read", pool->pages_read},
        {"pages_read_ahead", pool->pages_read_ahead},
        {"read_ahead_evicted", pool->read_ahead_evicted},
        {"pages_written", pool->pages_written},
        {"pages_made_young", pool->pages_made_young},
        {"pages_not_made_young", pool->pages_not_made_young},
        {"pages_evicted", pool->pages_evicted},
        {"free_waits", pool->free_waits},
        {"doublewrite_pages", pool->doublewrite_pages},
        {"doublewrite_batches", pool->doublewrite_batches},
    };
    for (size_t i = 0; object != NULL && i < sizeof(counts) / sizeof(counts[0]); i++)
        if (json_object_set_new(object, counts[i].name,
                                json_integer((json_int_t)counts[i].value)) != 0) {
            json_decref(object);
            return NULL;
        }
    return object;
}

static json_t *log_json(const struct stat_report *report)
{
    const struct store_status *status = &report->status;
    return json_pack("{s:I, s:i, s:I, s:I, s:I, s:I, s:I, s:f}", "file_size_bytes",
                     (json_int_t)report->log_file_size_bytes, "files", (int)report->log_files,
                     "lsn", (json_int_t)status->lsn, "durable_lsn", (json_int_t)status->durable_lsn,
                     "checkpoint_lsn", (json_int_t)status->checkpoint_lsn, "capacity_bytes",
                     (json_int_t)status->log_capacity_bytes, "checkpoint_age_bytes",
                     (json_int_t)status->checkpoint_age_bytes, "checkpoint_age_percent",
                     age_percent(status));
}

json_t *stat_json(const struct stat_report *report)
{
    json_t *spaces = json_array();
    json_t *trees = json_array();
    bool complete = spaces != NULL && trees != NULL;
    for (size_t i = 0; complete && i < report->space_count; i++)
        complete = json_array_append_new(spaces, space_json(report, &report->spaces[i])) == 0;
    for (size_t i = 0; complete && i < report->tree_count; i++)
        complete = json_array_append_new(trees, tree_json(report, &report->trees[i])) == 0;
    if (!complete) {
        json_decref(spaces);
        json_decref(trees);
        return NULL;
    }
    return json_pack("{s:o, s:i, s:o, s:o, s:o, s:o, s:o}", "directory",
                     text_json(report->directory), "page_size_bytes", (int)page_size(report),
                     "classes", places_json(report), "tablespaces", spaces, "trees", trees,
                     "buffer_pool", pool_json(&report->status.buffer), "log", log_json(report));
}
