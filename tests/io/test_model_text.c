#include "base/check.h"
#include "io/model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static void every_name_of_the_catalogue_is_found(void **state)
{
    (void)state;
    static const char *const promised[] = {
        "hdd-7200", "hdd-15k",  "hdd-7200-raid10x8", "hdd-15k-raid1",
        "ssd-x25e", "ssd-sata", "ssd-sata-dc",       "ssd-slc-enterprise",
        "ssd-pcie", "nvme",     "test-stall",        "test-slowdown"};
    for (unsigned i = 0; i < ARRAY_COUNT(promised); i++) {
        struct model_spec spec;
        assert_int_equal(model_find(promised[i], &spec), FIRN_OK);
        assert_string_equal(spec.name, promised[i]);
    }
    for (unsigned i = 0; i < model_count(); i++) {
        struct model_spec spec;
        assert_int_equal(model_find(model_at(i)->name, &spec), FIRN_OK);
        assert_memory_equal(&spec, model_at(i), sizeof(spec));
        assert_true(strlen(model_at(i)->text) > 20);
        assert_non_null(model_sheet_at(i)->source);
    }
}

static void models_are_composed(void **state)
{
    (void)state;
    struct model_spec spec;
    assert_int_equal(model_find("hdd-15k:raid10x8", &spec), FIRN_OK);
    assert_int_equal(spec.raid, MODEL_RAID_10);
    assert_int_equal(spec.members, 8);
    assert_int_equal(spec.cache_bytes, 0);
    assert_string_equal(spec.name, "hdd-15k:raid10x8");
    assert_string_equal(spec.text, "RAID 10 of 8 times hdd-15k");

    assert_int_equal(model_find("hdd-7200:raid5x6+cache=512M+stripe=256K", &spec), FIRN_OK);
    assert_int_equal(spec.raid, MODEL_RAID_5);
    assert_int_equal(spec.members, 6);
    assert_int_equal(spec.cache_bytes, 536870912);
    assert_int_equal(spec.stripe_bytes, 262144);
    assert_string_equal(spec.text, "RAID 5 of 6 times hdd-7200, 512 MiB controller cache");

    assert_int_equal(model_find("ssd-x25e:raid1", &spec), FIRN_OK);
    assert_int_equal(spec.raid, MODEL_RAID_1);
    assert_int_equal(spec.members, 2);

    assert_int_equal(model_find("hdd-7200-raid10x8+cache=0", &spec), FIRN_OK);
    assert_int_equal(spec.cache_bytes, 0);
    assert_int_equal(spec.members, 8);
}

static void a_shrunk_model_holds_what_was_asked_for(void **state)
{
    (void)state;
    static const char *const models[] = {"hdd-7200", "hdd-15k:raid5x5", "hdd-7200-raid10x8",
                                         "nvme:raid0x2"};
    for (unsigned i = 0; i < ARRAY_COUNT(models); i++) {
        char text[64];
        struct model_spec spec;
        struct model_device *device = NULL;
        strcpy(text, models[i]);
        strcat(text, "+capacity=4G");
        assert_int_equal(model_find(text, &spec), FIRN_OK);
        assert_int_equal(model_device_open(&spec, 1, &device), FIRN_OK);
        assert_int_equal(model_device_capacity(device), UINT64_C(4294967296));
        model_device_close(device);
    }
}

static void what_is_no_model_is_refused_with_help(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        firn_rc rc;
        const char *said;
    } cases[] = {
        {"hdd-7201", FIRN_E_NOT_FOUND, "did you mean hdd-7200"},
        {"sdd-x25e", FIRN_E_NOT_FOUND, "did you mean ssd-x25e"},
        {"floppy-disk-with-a-label", FIRN_E_NOT_FOUND, "firn device list"},
        {"", FIRN_E_NOT_FOUND, "firn device list"},
        {"hdd-15k:raid6x8", FIRN_E_INVALID, "no RAID level"},
        {"hdd-15k:", FIRN_E_INVALID, "no RAID level"},
        {"hdd-15k:raid10", FIRN_E_INVALID, "no RAID level"},
        {"hdd-15k:raid10x", FIRN_E_INVALID, "no RAID level"},
        {"hdd-15k:raid10x8z", FIRN_E_INVALID, "no RAID level"},
        {"hdd-15k:raid10x5", FIRN_E_INVALID, "even"},
        {"hdd-15k:raid5x2", FIRN_E_INVALID, "at least 3"},
        {"hdd-15k:raid0x1", FIRN_E_INVALID, "2 to 64"},
        {"hdd-15k:raid0x-3", FIRN_E_INVALID, "no RAID level"},
        {"hdd-15k:raid0x99999999999999999999", FIRN_E_INVALID, "2 to 64"},
        {"hdd-15k-raid1:raid0x2", FIRN_E_INVALID, "RAID already"},
        {"hdd-15k+cash=1M", FIRN_E_INVALID, "+cache=SIZE"},
        {"hdd-15k+cache", FIRN_E_INVALID, "+cache=SIZE"},
        {"hdd-15k+cache=", FIRN_E_INVALID, "not a size"},
        {"hdd-15k+cache=1K", FIRN_E_INVALID, "1M to 64G"},
        {"hdd-15k+", FIRN_E_INVALID, "nothing behind"},
        {"hdd-15k+cache=1M+", FIRN_E_INVALID, "nothing behind"},
        {"hdd-15k:raid0x2+stripe=5000", FIRN_E_INVALID, "power of two"},
        {"hdd-15k:raid0x2+stripe=8G", FIRN_E_INVALID, "too large"},
        {"hdd-15k+capacity=1T", FIRN_E_INVALID, "larger"},
        {"hdd-15k+capacity=1K", FIRN_E_INVALID, "at least 1 MiB"},
        {"hdd-15k:raid10x8+cache=512M+stripe=64K+capacity=1G+cache=512M+cache=1G", FIRN_E_INVALID,
         "too long"},
    };
    for (unsigned i = 0; i < ARRAY_COUNT(cases); i++) {
        struct model_spec spec = {.members = 77};
        assert_int_equal(model_find(cases[i].text, &spec), cases[i].rc);
        assert_int_equal(spec.members, 77);
        if (strstr(firn_error_text(), cases[i].said) == NULL)
            fail_msg("\"%s\": \"%s\" does not say \"%s\"", cases[i].text, firn_error_text(),
                     cases[i].said);
    }
}

static void values_out_of_range_are_refused(void **state)
{
    (void)state;
    struct model_device *device = NULL;
    struct model_spec spec = *model_at(0);
    spec.disk.seek_average_ms = 20;
    assert_int_equal(model_device_open(&spec, 1, &device), FIRN_E_INVALID);
    spec = *model_at(0);
    spec.disk.seek_full_ms = 60;
    assert_int_equal(model_device_open(&spec, 1, &device), FIRN_E_INVALID);
    spec = *model_at(0);
    spec.disk.rpm = 0;
    assert_int_equal(model_device_open(&spec, 1, &device), FIRN_E_INVALID);
    assert_int_equal(model_find("nvme", &spec), FIRN_OK);
    spec.ssd.channels = 65;
    assert_int_equal(model_device_open(&spec, 1, &device), FIRN_E_INVALID);
    assert_int_equal(model_find("test-stall", &spec), FIRN_OK);
    spec.ssd.dip_length_s = 10;
    assert_int_equal(model_device_open(&spec, 1, &device), FIRN_E_INVALID);
    assert_null(device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_name_of_the_catalogue_is_found),
        cmocka_unit_test(models_are_composed),
        cmocka_unit_test(a_shrunk_model_holds_what_was_asked_for),
        cmocka_unit_test(what_is_no_model_is_refused_with_help),
        cmocka_unit_test(values_out_of_range_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
