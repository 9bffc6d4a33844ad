/*
 * batch.c -- 64 adjacent pages in one batch against 64 submits of one page each.
 *
 * Reads a prepared file from its start, 1 MiB at a time, both ways in turn, on the real device and
 * on a modelled RAID in virtual time; prints JSON. A single submit waits for its page before the
 * next, as an engine without read-ahead does.
 */
#include "base/check.h"
#include "base/memory.h"
#include "base/rc.h"
#include "bench/stats.h"
#include "io/io.h"
#include "io/model.h"

#include <stdio.h>

enum { PAGES = 64, PAGE_BYTES = 16384, ROUNDS = 5 };

struct batch_reader {
    struct io_file *file;
    struct io_queue *queue;
    struct clock *clock;
    unsigned char *buffer;
    struct io_request requests[PAGES];
};

/* Read one MiB at `offset`, `together` pages a submit. */
static firn_rc read_pages(struct batch_reader *reader, uint64_t offset, unsigned together)
{
    struct io_request *pointers[PAGES];
    for (unsigned i = 0; i < PAGES; i++) {
        reader->requests[i] = (struct io_request){
            .file = reader->file,
            .op = IO_OP_READ,
            .size_bytes = PAGE_BYTES,
            .buffer = reader->buffer + (size_t)i * PAGE_BYTES,
            .offset = offset + (uint64_t)i * PAGE_BYTES,
        };
        pointers[i] = &reader->requests[i];
    }
    for (unsigned i = 0; i < PAGES; i += together) {
        FIRN_TRY(io_queue_submit(reader->queue, pointers + i, together));
        struct io_request *done[PAGES];
        unsigned count = io_queue_reap(reader->queue, together, PAGES, done);
        for (unsigned k = 0; k < count; k++)
            if (done[k]->rc != FIRN_OK)
                return io_request_raise(done[k]);
    }
    return FIRN_OK;
}

static firn_rc measure(struct batch_reader *reader, uint64_t size_bytes, unsigned together,
                       double *mib_s)
{
    uint64_t start_ns = clock_now(reader->clock);
    uint64_t stride = (uint64_t)PAGES * PAGE_BYTES;
    for (uint64_t offset = 0; offset + stride <= size_bytes; offset += stride)
        FIRN_TRY(read_pages(reader, offset, together));
    double elapsed_s = (double)(clock_now(reader->clock) - start_ns) / 1e9;
    *mib_s = (double)(size_bytes / stride) / elapsed_s;
    return FIRN_OK;
}

/* Medians over rounds that take turns, so that a drifting device harms both alike. */
static firn_rc compare_ways(struct io_system *system, const char *path, const char *name, bool last)
{
    struct batch_reader reader = {.clock = io_system_clock(system)};
    struct io_queue_options options = {.depth = PAGES, .merge_max_bytes = PAGES * PAGE_BYTES};
    double batch_mib_s[ROUNDS], single_mib_s[ROUNDS];
    uint64_t size_bytes = 0;
    firn_rc rc;
    reader.buffer = memory_alloc_aligned((size_t)PAGES * PAGE_BYTES, 4096);
    if (reader.buffer == NULL)
        return rc_raise(FIRN_E_NOMEM, "no memory for the pages");
    clock_join(reader.clock);
    FIRN_TRY_GOTO(io_file_open(system, IO_CLASS_TABLE, path, IO_OPEN_READ_ONLY | IO_OPEN_DIRECT,
                               &reader.file),
                  free_buffer);
    FIRN_TRY_GOTO(io_queue_open(system, &options, &reader.queue), close_file);
    FIRN_TRY_GOTO(io_file_size(reader.file, &size_bytes), close_queue);
    for (unsigned i = 0; i < ROUNDS; i++) {
        FIRN_TRY_GOTO(measure(&reader, size_bytes, PAGES, &batch_mib_s[i]), close_queue);
        FIRN_TRY_GOTO(measure(&reader, size_bytes, 1, &single_mib_s[i]), close_queue);
    }
    stats_sort(batch_mib_s, ROUNDS);
    stats_sort(single_mib_s, ROUNDS);
    printf(" \"%s\": {\"batch_mib_s\": %.1f, \"single_mib_s\": %.1f}%s\n", name,
           batch_mib_s[ROUNDS / 2], single_mib_s[ROUNDS / 2], last ? "" : ",");
close_queue:
    io_queue_close(reader.queue);
close_file:
    io_file_close(reader.file);
free_buffer:
    clock_leave(reader.clock);
    memory_free(reader.buffer);
    return rc;
}

static firn_rc run(const char *path)
{
    struct io_system *system = NULL;
    FIRN_TRY(io_system_open(IO_BACKEND_AUTO, clock_real(), &system));
    printf("{\n");
    firn_rc rc = compare_ways(system, path, "real device", false);
    io_system_close(system);
    FIRN_TRY(rc);

    struct model_spec spec;
    struct clock *clock = NULL;
    FIRN_TRY(model_find("hdd-7200-raid10x8", &spec));
    FIRN_TRY(clock_open_virtual(&clock));
    rc = io_system_open(IO_BACKEND_AUTO, clock, &system);
    if (rc == FIRN_OK) {
        rc = model_attach(system, &spec);
        if (rc == FIRN_OK)
            rc = compare_ways(system, path, "modelled hdd-7200-raid10x8", true);
        io_system_close(system);
    }
    clock_close(clock);
    printf("}\n");
    return rc;
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: batch FILE\n");
        return 2;
    }
    if (run(argv[1]) != FIRN_OK) {
        fprintf(stderr, "batch: %s\n", firn_error_text());
        return 1;
    }
    return 0;
}
