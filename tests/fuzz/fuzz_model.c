/* Any text either names a model whose device can be opened and used, or is refused with a sentence.
   The input is the text; a byte of it chooses what the device is asked. */
#include "base/check.h"
#include "io/model.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void use(const struct model_spec *spec, uint8_t choice)
{
    static const enum io_op ops[] = {IO_OP_READ, IO_OP_WRITE, IO_OP_SYNC_DATA};
    struct model_device *device = NULL;
    ENSURE(model_device_open(spec, choice, &device) == FIRN_OK);
    uint64_t capacity_bytes = model_device_capacity(device);
    ENSURE(capacity_bytes >= 1048576);
    struct model_io io = {.op = ops[choice % ARRAY_COUNT(ops)]};
    if (io.op != IO_OP_SYNC_DATA) {
        io.size_bytes = 1U << choice % 20;
        io.offset = capacity_bytes - io.size_bytes;
    }
    ENSURE(model_device_submit(device, &io, 0) == FIRN_OK);
    struct model_io *done = NULL;
    while (done == NULL) {
        uint64_t next_ns = model_device_next(device);
        ENSURE(next_ns != UINT64_MAX);
        done = model_device_advance(device, next_ns);
    }
    ENSURE(done == &io && io.next == NULL);
    model_device_close(device);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct model_spec spec;
    char *text = malloc(size + 1);
    ENSURE(text != NULL);
    if (size != 0)
        memcpy(text, data, size);
    text[size] = '\0';
    firn_rc rc = model_find(text, &spec);
    if (rc == FIRN_OK)
        use(&spec, size == 0 ? 0 : data[size - 1]);
    else
        ENSURE((rc == FIRN_E_INVALID || rc == FIRN_E_NOT_FOUND) && firn_error_text()[0] != '\0');
    free(text);
    return 0;
}
