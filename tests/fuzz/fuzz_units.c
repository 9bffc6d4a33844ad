/* Any text either is a size and a duration, or is refused with a sentence and changes nothing; what
   was read can be written for people. */
#include "base/check.h"
#include "base/units.h"
#include "firn.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);

static const uint64_t untouched = UINT64_C(0xfedcba9876543210);

static void judge_number(firn_rc rc, uint64_t number)
{
    if (rc == FIRN_OK) {
        ENSURE(number <= (uint64_t)INT64_MAX);
        return;
    }
    ENSURE(rc == FIRN_E_INVALID);
    ENSURE(number == untouched);
    ENSURE(strlen(firn_error_text()) > 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    char text[UNITS_TEXT_BYTES];
    char *input = malloc(size_bytes + 1);
    ENSURE(input != NULL);
    memcpy(input, data, size_bytes);
    input[size_bytes] = '\0';
    uint64_t number = untouched;
    firn_rc rc = units_parse_size(input, &number);
    judge_number(rc, number);
    ENSURE(strlen(units_format_size((double)number, text)) < UNITS_TEXT_BYTES);
    number = untouched;
    rc = units_parse_duration(input, &number);
    judge_number(rc, number);
    ENSURE(strlen(units_format_duration((double)number, text)) < UNITS_TEXT_BYTES);
    ENSURE(strlen(units_format_count((double)number, text)) < UNITS_TEXT_BYTES);
    free(input);
    return 0;
}
