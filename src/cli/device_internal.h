/*
 * device_internal.h -- the parts of `firn device`: the command (device.c), what is printed of a
 * model (device_show.c) and of its check (device_check.c).
 */
#ifndef FIRN_CLI_DEVICE_INTERNAL_H
#define FIRN_CLI_DEVICE_INTERNAL_H

#include "bench/device_check.h"

#include <jansson.h>

/** Print a model's parameters for people. */
void device_print_model(const struct model_spec *spec, const struct model_sheet *sheet);

/** @return a model's parameters as an object, units last in the names; NULL without memory. */
json_t *device_model_json(const struct model_spec *spec, const struct model_sheet *sheet);

/** Print a check for people. */
void device_print_check(const struct model_spec *spec, const struct model_sheet *sheet,
                        const struct device_check *check);

/** @return a check as an object; NULL without memory. */
json_t *device_check_json(const struct model_spec *spec, const struct model_sheet *sheet,
                          const struct device_check *check);

/** Say which figures miss the data sheet, as the thread's error text. @return FIRN_E_INVALID */
firn_rc device_raise_misses(const struct model_spec *spec, const struct device_check *check);

#endif
