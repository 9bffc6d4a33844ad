#include "base/memory.h"
#include "io/model_helper.h"
#include "repeat.h"

/* Small, so that caches fill, sweeps wrap and stripes are crossed all the time. */
static const char *const small_models[] = {
    "hdd-7200+capacity=64M",
    "hdd-15k+capacity=64M",
    "hdd-15k:raid0x3+capacity=96M+stripe=16K",
    "hdd-7200:raid1x3+capacity=32M",
    "hdd-7200:raid10x4+capacity=64M+stripe=4K",
    "hdd-7200:raid5x4+capacity=96M+stripe=64K",
    "hdd-7200:raid5x3+capacity=64M+stripe=8K",
    "hdd-15k:raid5x6+capacity=160M+cache=2M+stripe=16K",
    "hdd-7200-raid10x8+capacity=64M+cache=1M",
    "hdd-15k-raid1+capacity=32M+cache=1M",
    "ssd-x25e+capacity=32M",
    "ssd-sata:raid5x5+capacity=64M",
    "ssd-pcie:raid0x2+capacity=64M",
    "nvme:raid5x4+capacity=96M+cache=1M+stripe=4K",
    "test-stall+capacity=64M",
};

enum { UNDER_WAY = 40 };

struct shadow {
    struct model_io io;
    bool under_way;
};

static void submit_random(struct model_device *device, struct shadow *shadow, struct rng *rng,
                          uint64_t now_ns)
{
    static const uint32_t sizes[] = {512, 4096, 16384, 65536, 100 * 512, 1 << 20, 3 << 20};
    struct model_io *io = &shadow->io;
    uint64_t kind = rng_below(rng, 10);
    io->op = kind < 4 ? IO_OP_READ : kind < 9 ? IO_OP_WRITE : IO_OP_SYNC_DATA;
    io->size_bytes = kind < 9 ? sizes[rng_below(rng, ARRAY_COUNT(sizes))] : 0;
    uint64_t places = (model_device_capacity(device) - io->size_bytes) / 512 + 1;
    io->offset = kind < 9 ? rng_below(rng, places) * 512 : 0;
    shadow->under_way = true;
    assert_int_equal(model_device_submit(device, io, now_ns), FIRN_OK);
}

static void take_done(struct model_io *done, uint64_t since_ns, uint64_t now_ns, unsigned *pending)
{
    uint64_t last_ns = 0;
    for (; done != NULL; done = done->next) {
        struct shadow *shadow = (struct shadow *)done;
        assert_true(shadow->under_way);
        shadow->under_way = false;
        assert_true(done->done_ns > done->arrive_ns);
        assert_true(done->done_ns >= since_ns && done->done_ns <= now_ns);
        assert_true(done->done_ns >= last_ns);
        last_ns = done->done_ns;
        (*pending)--;
    }
}

static void abuse(const char *text, uint64_t seed, unsigned rounds)
{
    struct model_device *device = open_model(text, seed);
    struct shadow shadows[UNDER_WAY] = {0};
    struct rng rng;
    unsigned pending = 0;
    uint64_t now_ns = 0;
    uint64_t since_ns = 0;
    rng_init(&rng, seed);
    for (unsigned i = 0; i < rounds || pending > 0; i++) {
        struct shadow *shadow = &shadows[rng_below(&rng, UNDER_WAY)];
        if (i < rounds && !shadow->under_way && rng_below(&rng, 3) != 0) {
            submit_random(device, shadow, &rng, now_ns);
            pending++;
            continue;
        }
        uint64_t next_ns = model_device_next(device);
        if (pending > 0)
            assert_true(next_ns != UINT64_MAX);
        /* To the next event, short of it, or past several. */
        uint64_t step_ns = rng_below(&rng, 3) == 0 ? rng_below(&rng, 50 * NS_PER_MS) : 0;
        uint64_t to_ns = next_ns == UINT64_MAX ? now_ns + step_ns : next_ns + step_ns;
        if (rng_below(&rng, 4) == 0 && next_ns != UINT64_MAX)
            to_ns = now_ns + (next_ns - now_ns) / 2;
        now_ns = to_ns;
        take_done(model_device_advance(device, now_ns), since_ns, now_ns, &pending);
        since_ns = now_ns;
    }
    model_device_close(device);
}

static void every_request_comes_back_once(void **state)
{
    (void)state;
    unsigned rounds = test_runs(3000);
    uint64_t seed = test_seed(1);
    for (unsigned i = 0; i < ARRAY_COUNT(small_models); i++)
        abuse(small_models[i], seed + i, rounds);
}

/* Requests under way may be given up by closing. */
static void a_busy_device_can_be_closed(void **state)
{
    (void)state;
    for (unsigned i = 0; i < ARRAY_COUNT(small_models); i++) {
        struct model_device *device = open_model(small_models[i], 1);
        struct shadow shadows[UNDER_WAY] = {0};
        struct rng rng;
        rng_init(&rng, i);
        for (unsigned k = 0; k < UNDER_WAY; k++)
            submit_random(device, &shadows[k], &rng, k * 1000);
        model_device_close(device);
    }
}

static uint64_t trace(const char *text, uint64_t seed)
{
    struct model_device *device = open_model(text, seed);
    struct shadow shadows[UNDER_WAY] = {0};
    struct rng rng;
    uint64_t now_ns = 0;
    uint64_t sum = 0;
    rng_init(&rng, 3);
    for (unsigned k = 0; k < UNDER_WAY; k++)
        submit_random(device, &shadows[k], &rng, 0);
    for (unsigned i = 0; i < 500; i++)
        for (struct model_io *io = wait_done(device, &now_ns), *next; io != NULL; io = next) {
            next = io->next;
            sum = sum * 31 + io->done_ns + (uint64_t)((struct shadow *)io - shadows);
            submit_random(device, (struct shadow *)io, &rng, now_ns);
        }
    model_device_close(device);
    return sum;
}

static void equal_seeds_give_equal_times(void **state)
{
    (void)state;
    for (unsigned i = 0; i < ARRAY_COUNT(small_models); i++)
        assert_int_equal(trace(small_models[i], 5), trace(small_models[i], 5));
    assert_int_not_equal(trace("hdd-15k+capacity=64M", 5), trace("hdd-15k+capacity=64M", 6));
}

static void a_request_without_memory_is_not_taken(void **state)
{
    (void)state;
    struct model_spec spec = find("hdd-7200:raid5x4+cache=1M");
    long k = 0;
    for (;; k++) {
        struct model_device *device = NULL;
        memory_fail_after(k);
        firn_rc rc = model_device_open(&spec, 1, &device);
        memory_fail_after(-1);
        if (rc == FIRN_OK) {
            model_device_close(device);
            break;
        }
        assert_int_equal(rc, FIRN_E_NOMEM);
        assert_null(device);
    }
    assert_true(k > 5);

    struct model_device *device = open_model("hdd-7200:raid5x4", 1);
    struct model_io io = {.op = IO_OP_WRITE, .size_bytes = 64 << 20};
    uint64_t now_ns = 0;
    memory_fail_after(0);
    assert_int_equal(model_device_submit(device, &io, 0), FIRN_E_NOMEM);
    memory_fail_after(-1);
    assert_int_equal(model_device_next(device), UINT64_MAX);
    assert_int_equal(model_device_submit(device, &io, 0), FIRN_OK);
    assert_ptr_equal(wait_done(device, &now_ns), &io);
    model_device_close(device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_request_comes_back_once),
        cmocka_unit_test(a_busy_device_can_be_closed),
        cmocka_unit_test(equal_seeds_give_equal_times),
        cmocka_unit_test(a_request_without_memory_is_not_taken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
