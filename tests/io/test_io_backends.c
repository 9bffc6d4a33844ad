/* Each backend on real files: falling back, deadlines, many threads, memory that runs out. */
#include "base/check.h"
#include "base/memory.h"
#include "io/io_internal.h"
#include "io/support.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

enum { PAGE = 4096, PAGES = 16 };

static char directory[256];
static char file_path[300];
static unsigned char *pages; /* PAGES aligned ones */

static int make_directory(void **state)
{
    (void)state;
    snprintf(directory, sizeof(directory), "%s", scratch_make());
    snprintf(file_path, sizeof(file_path), "%s/file", directory);
    pages = memory_alloc_aligned((size_t)PAGES * PAGE, PAGE);
    return pages == NULL;
}

static int remove_directory(void **state)
{
    (void)state;
    memory_free(pages);
    scratch_remove(directory);
    return 0;
}

/* Write and read back the file's pages through a queue; true if all went well. */
static bool pages_go_through(struct io_system *system, struct io_file *file)
{
    struct io_queue *queue;
    struct io_queue_options options = {.depth = 4, .merge_max_bytes = 2 * PAGE};
    if (io_queue_open(system, &options, &queue) != FIRN_OK)
        return false;
    bool good = true;
    for (int round = 0; round < 2; round++) {
        struct io_request requests[PAGES];
        struct io_request *pointers[PAGES];
        for (unsigned i = 0; i < PAGES; i++) {
            memset(pages + (size_t)i * PAGE, round == 0 ? (int)i + 1 : 0, PAGE);
            requests[i] = (struct io_request){.file = file,
                                              .op = round == 0 ? IO_OP_WRITE : IO_OP_READ,
                                              .size_bytes = PAGE,
                                              .buffer = pages + (size_t)i * PAGE,
                                              .offset = (uint64_t)i * PAGE};
            pointers[i] = &requests[i];
        }
        good = good && io_queue_submit(queue, pointers, PAGES) == FIRN_OK;
        good = good && io_queue_reap(queue, PAGES, PAGES, pointers) == PAGES;
        for (unsigned i = 0; i < PAGES; i++)
            good = good && requests[i].rc == FIRN_OK &&
                   (round == 0 || pages[(size_t)i * PAGE + i] == i + 1);
    }
    io_queue_close(queue);
    return good;
}

/* ---- Falling back ---- */

/* Let system calls fail as a container's filter does: `count` numbers, each with EPERM. */
static bool forbid(const int *calls, unsigned count)
{
    struct sock_filter filter[16];
    unsigned length = 0;
    filter[length++] =
        (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (unsigned i = 0; i < count; i++) {
        filter[length++] =
            (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)calls[i], 0, 1);
        filter[length++] =
            (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)EPERM);
    }
    filter[length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog program = {.len = (unsigned short)length, .filter = filter};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) == 0;
}

enum { CHILD_GOOD = 0, CHILD_UNFIT = 77 }; /* unfit: the child could not be restricted */

/* In a child: use a system of `wanted` and tell whether it is `expected`, works and warned so. */
static int use_system(enum io_backend wanted, enum io_backend expected, const char *warning)
{
    captured_start();
    struct io_system *system;
    struct io_file *file;
    if (io_system_open(wanted, clock_real(), &system) != FIRN_OK ||
        io_file_open(system, IO_CLASS_TABLE, file_path, IO_OPEN_CREATE, &file) != FIRN_OK)
        return 1;
    if (io_system_backend(system) != expected ||
        strcmp(io_system_describe(system), io_backend_name(expected)) != 0)
        return 2;
    if (!pages_go_through(system, file))
        return 3;
    io_file_close(file);
    io_system_close(system);
    if (warning == NULL ? captured.count != 0 : captured.count != 1)
        return 4;
    return warning == NULL || strcmp(captured.text, warning) == 0 ? CHILD_GOOD : 5;
}

static void check_child(pid_t child)
{
    int status;
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == CHILD_UNFIT)
        skip();
    assert_int_equal(WEXITSTATUS(status), CHILD_GOOD);
}

static void check_fallback(const int *calls, unsigned count, enum io_backend wanted,
                           enum io_backend expected, const char *warning)
{
    pid_t child = fork();
    if (child == 0) {
        if (!forbid(calls, count))
            _exit(CHILD_UNFIT);
        _exit(use_system(wanted, expected, warning));
    }
    check_child(child);
}

static void where_io_uring_is_forbidden_libaio_is_used(void **state)
{
    (void)state;
    static const int setup[] = {SYS_io_uring_setup};
    static const int enter[] = {SYS_io_uring_enter};
    const char *warning = "io_uring is not available here (Operation not permitted); using libaio";
    check_fallback(setup, 1, IO_BACKEND_AUTO, IO_BACKEND_LIBAIO, warning);
    check_fallback(setup, 1, IO_BACKEND_URING, IO_BACKEND_LIBAIO, warning);
    check_fallback(enter, 1, IO_BACKEND_AUTO, IO_BACKEND_LIBAIO, warning);
}

static void where_both_are_forbidden_threads_are_used(void **state)
{
    (void)state;
    static const int calls[] = {SYS_io_uring_setup, SYS_io_setup};
    check_fallback(calls, 2, IO_BACKEND_AUTO, IO_BACKEND_THREADS,
                   "io_uring is not available here (Operation not permitted), nor is libaio "
                   "(Operation not permitted); using threads");
    check_fallback(calls, 2, IO_BACKEND_LIBAIO, IO_BACKEND_THREADS,
                   "libaio is not available here (Operation not permitted); using threads");
}

static void what_is_not_forbidden_is_used_silently(void **state)
{
    (void)state;
    static const int calls[] = {SYS_io_uring_setup, SYS_io_setup};
    check_fallback(calls, 1, IO_BACKEND_LIBAIO, IO_BACKEND_LIBAIO, NULL);
    check_fallback(calls, 2, IO_BACKEND_THREADS, IO_BACKEND_THREADS, NULL);
}

/* Kernels before 5.12 count rings as locked memory and refuse them then; later ones do not. Either
   way requests get through, and a warning comes exactly if there was a reason. */
static void no_locked_memory_is_no_obstacle(void **state)
{
    (void)state;
    int fd = open(file_path, O_RDWR | O_CREAT, 0600);
    assert_true(fd >= 0 && fchmod(fd, 0666) == 0 && chmod(directory, 0777) == 0);
    close(fd);
    pid_t child = fork();
    if (child == 0) {
        struct rlimit none = {0, 0};
        if (setrlimit(RLIMIT_MEMLOCK, &none) != 0 || (geteuid() == 0 && setuid(65534) != 0))
            _exit(CHILD_UNFIT);
        int error = -posix_backend_probe(IO_BACKEND_URING);
        char warning[256];
        snprintf(warning, sizeof(warning), "io_uring is not available here (%s); using libaio",
                 strerror(error));
        _exit(error == 0 ? use_system(IO_BACKEND_AUTO, IO_BACKEND_URING, NULL)
                         : use_system(IO_BACKEND_AUTO, IO_BACKEND_LIBAIO, warning));
    }
    check_child(child);
}

static void *return_argument(void *argument)
{
    return argument;
}

static void where_no_thread_can_be_started_the_caller_does_the_work(void **state)
{
    (void)state;
    int fd = open(file_path, O_RDWR | O_CREAT, 0600);
    assert_true(fd >= 0 && fchmod(fd, 0666) == 0 && chmod(directory, 0777) == 0);
    close(fd);
    pid_t child = fork();
    if (child == 0) {
        struct rlimit none = {0, 0};
        if (setrlimit(RLIMIT_NPROC, &none) != 0 || (geteuid() == 0 && setuid(65534) != 0))
            _exit(CHILD_UNFIT);
        pthread_t thread;
        if (pthread_create(&thread, NULL, return_argument, NULL) == 0)
            _exit(CHILD_UNFIT);
        _exit(use_system(IO_BACKEND_THREADS, IO_BACKEND_THREADS, NULL));
    }
    check_child(child);
}

static void a_queue_that_cannot_be_had_says_what_to_do(void **state)
{
    (void)state;
    struct io_system *system;
    ASSERT_OK(io_system_open(IO_BACKEND_URING, clock_real(), &system));
    if (io_system_backend(system) != IO_BACKEND_URING) {
        io_system_close(system);
        skip();
    }
    struct rlimit before;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    struct rlimit none = {.rlim_cur = 3, .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    struct io_queue *queue;
    struct io_queue_options options = {.depth = 4};
    firn_rc rc = io_queue_open(system, &options, &queue);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(rc, FIRN_E_IO);
    ASSERT_TEXT("cannot open a queue of depth 4 by io_uring: Too many open files; this process may "
                "have 3 (ulimit -n)");
    io_system_close(system);
}

/* ---- Behaviour of every backend ---- */

static void check_deadlines(enum io_backend backend, struct clock *clock)
{
    struct io_driver *driver = posix_driver_create(backend, clock);
    struct io_driver_queue *queue;
    struct io_request *request;
    assert_non_null(driver);
    assert_int_equal(driver->ops->queue_open(driver, 2, &queue), 0);
    for (int past = 0; past < 2; past++) {
        uint64_t deadline_ns = clock_now(clock) + (past ? 0 : 3 * NS_PER_MS);
        int count;
        do
            count = queue->ops->queue_reap(queue, 1, 1, deadline_ns, &request);
        while (count == -EINTR); /* a ring that was closed may leave a signal behind */
        assert_int_equal(count, 0);
        assert_true(clock_now(clock) >= deadline_ns);
    }
    queue->ops->queue_close(queue);
    driver->ops->destroy(driver);
}

static void waiting_ends_at_the_deadline(void **state)
{
    (void)state;
    struct clock *scaled;
    ASSERT_OK(clock_open_scaled(0.5, &scaled));
    for (unsigned b = 0; b < ARRAY_COUNT(moving_backends); b++) {
        check_deadlines(moving_backends[b], clock_real());
        check_deadlines(moving_backends[b], scaled);
    }
    clock_close(scaled);
}

static void errors_of_the_kernel_come_back(void **state)
{
    (void)state;
    char path[300];
    snprintf(path, sizeof(path), "%s/small", directory);
    for (unsigned b = 0; b < ARRAY_COUNT(moving_backends); b++) {
        struct io_system *system;
        struct io_file *file;
        struct io_queue *queue;
        struct io_queue_options options = {.depth = 2};
        ASSERT_OK(io_system_open(moving_backends[b], clock_real(), &system));
        ASSERT_OK(io_file_open(system, IO_CLASS_TABLE, path, IO_OPEN_CREATE, &file));
        ASSERT_OK(io_file_set_size(file, 100));
        ASSERT_OK(io_queue_open(system, &options, &queue));
        struct io_request requests[2] = {
            {.file = file, .op = IO_OP_READ, .size_bytes = 200, .buffer = pages},
            /* no address of ours: EFAULT */
            {.file = file, .op = IO_OP_READ, .size_bytes = 64, .buffer = (void *)(uintptr_t)PAGE},
        };
        struct io_request *pointers[2] = {&requests[0], &requests[1]};
        ASSERT_OK(io_queue_submit(queue, pointers, 2));
        assert_int_equal(io_queue_reap(queue, 2, 2, pointers), 2);
        assert_int_equal(requests[0].rc, FIRN_E_SHORT);
        assert_int_equal(requests[1].rc, FIRN_E_IO);
        assert_int_equal(requests[1].error, EFAULT);
        io_queue_close(queue);
        ASSERT_OK(io_file_close(file));
        io_system_close(system);
    }
}

static void reaping_with_nothing_under_way_returns_at_once(void **state)
{
    (void)state;
    for (enum io_backend b = IO_BACKEND_URING; b < IO_BACKEND_COUNT; b++) {
        struct io_system *system;
        struct io_queue *queue;
        struct io_queue_options options = {.depth = 8};
        struct io_request *pointer;
        ASSERT_OK(io_system_open(b, clock_real(), &system));
        ASSERT_OK(io_queue_open(system, &options, &queue));
        assert_int_equal(io_queue_reap(queue, 1, 1, &pointer), 0);
        assert_int_equal(io_queue_reap(queue, 0, 1, &pointer), 0);
        ASSERT_OK(io_queue_submit(queue, NULL, 0));
        io_queue_close(queue);
        io_system_close(system);
    }
}

/* Looking without waiting must find what completes in time, or a polling caller would hang. */
static void looking_finds_completions(void **state)
{
    (void)state;
    for (enum io_backend b = IO_BACKEND_URING; b < IO_BACKEND_COUNT; b++) {
        struct io_system *system;
        struct io_file *file;
        struct io_queue *queue;
        struct io_queue_options options = {.depth = 8};
        ASSERT_OK(io_system_open(b, clock_real(), &system));
        ASSERT_OK(
            io_file_open(system, IO_CLASS_REDO, file_path, IO_OPEN_CREATE | IO_OPEN_DIRECT, &file));
        ASSERT_OK(io_queue_open(system, &options, &queue));
        for (unsigned i = 0; i < 50; i++) {
            struct io_request request = {
                .file = file, .op = IO_OP_WRITE, .size_bytes = PAGE, .buffer = pages};
            struct io_request *pointer = &request;
            ASSERT_OK(io_queue_submit(queue, &pointer, 1));
            while (io_queue_reap(queue, 0, 1, &pointer) == 0)
                ;
            ASSERT_OK(io_request_raise(&request));
        }
        io_queue_close(queue);
        ASSERT_OK(io_file_close(file));
        io_system_close(system);
    }
}

static void the_null_backend_moves_nothing(void **state)
{
    (void)state;
    struct io_system *system;
    struct io_file *file;
    struct io_queue *queue;
    struct io_queue_options options = {.depth = 8};
    uint64_t size_bytes;
    char path[300];
    snprintf(path, sizeof(path), "%s/null", directory);
    ASSERT_OK(io_system_open(IO_BACKEND_NULL, clock_real(), &system));
    ASSERT_OK(io_file_open(system, IO_CLASS_TABLE, path, IO_OPEN_CREATE, &file));
    ASSERT_OK(io_queue_open(system, &options, &queue));
    memset(pages, 7, PAGE);
    struct io_request write = {
        .file = file, .op = IO_OP_WRITE, .size_bytes = PAGE, .buffer = pages};
    struct io_request sync = {.file = file, .op = IO_OP_SYNC_ALL};
    struct io_request *pointers[2] = {&write, &sync};
    ASSERT_OK(io_queue_submit(queue, pointers, 2));
    assert_int_equal(io_queue_reap(queue, 2, 2, pointers), 2);
    ASSERT_OK(io_request_raise(&write));
    ASSERT_OK(io_request_raise(&sync));
    ASSERT_OK(io_write(file, pages, PAGE, 0));
    ASSERT_OK(io_sync(file, IO_SYNC_DATA));
    ASSERT_OK(io_file_size(file, &size_bytes));
    assert_int_equal(size_bytes, 0);
    io_queue_close(queue);
    ASSERT_OK(io_file_close(file));
    io_system_close(system);
}

/* ---- Many threads ---- */

enum { THREADS = 4, ROUNDS = 40 };

struct worker {
    struct io_system *system;
    struct io_file *file;
    unsigned number;
    bool good;
};

/* Each thread has its own pages of one file, a queue of its own and single requests between. */
static void *work(void *argument)
{
    struct worker *worker = argument;
    struct io_queue *queue;
    struct io_queue_options options = {.depth = 2, .merge_max_bytes = 1 << 20};
    unsigned char *own = pages + (size_t)worker->number * 2 * PAGE;
    uint64_t start = (uint64_t)worker->number * 2 * PAGE;
    bool good = io_queue_open(worker->system, &options, &queue) == FIRN_OK;
    for (unsigned i = 0; i < ROUNDS && good; i++) {
        struct io_request requests[3];
        struct io_request *pointers[3];
        memset(own, (int)(worker->number * 50 + i), (size_t)2 * PAGE);
        for (unsigned j = 0; j < 3; j++) {
            requests[j] = (struct io_request){.file = worker->file,
                                              .op = j == 2 ? IO_OP_SYNC_DATA : IO_OP_WRITE,
                                              .size_bytes = PAGE,
                                              .buffer = own + (size_t)(j % 2) * PAGE,
                                              .offset = start + (uint64_t)(j % 2) * PAGE};
            pointers[j] = &requests[j];
        }
        good = io_queue_submit(queue, pointers, 3) == FIRN_OK &&
               io_queue_reap(queue, 3, 3, pointers) == 3;
        for (unsigned j = 0; j < 3; j++)
            good = good && requests[j].rc == FIRN_OK;
        memset(own, 0xff, (size_t)2 * PAGE);
        good = good && io_read(worker->file, own, (size_t)2 * PAGE, start) == FIRN_OK;
        good = good && own[PAGE] == (unsigned char)(worker->number * 50 + i);
    }
    io_queue_close(queue);
    worker->good = good;
    return NULL;
}

static void threads_share_a_system_and_its_counters_add_up(void **state)
{
    (void)state;
    static struct io_counters counters;
    for (unsigned b = 0; b < ARRAY_COUNT(moving_backends); b++) {
        struct worker workers[THREADS];
        pthread_t ids[THREADS];
        struct io_system *system;
        struct io_file *file;
        ASSERT_OK(io_system_open(moving_backends[b], clock_real(), &system));
        ASSERT_OK(io_file_open(system, IO_CLASS_TABLE, file_path, IO_OPEN_CREATE, &file));
        for (unsigned i = 0; i < THREADS; i++) {
            workers[i] = (struct worker){.system = system, .file = file, .number = i};
            assert_int_equal(pthread_create(&ids[i], NULL, work, &workers[i]), 0);
        }
        for (unsigned i = 0; i < 100; i++) { /* while they count */
            io_system_counters(system, IO_CLASS_COUNT, &counters);
            assert_true(counters.writes <= THREADS * ROUNDS * 2);
        }
        for (unsigned i = 0; i < THREADS; i++) {
            pthread_join(ids[i], NULL);
            assert_true(workers[i].good);
        }
        io_system_counters(system, IO_CLASS_TABLE, &counters);
        assert_int_equal(counters.writes, THREADS * ROUNDS * 2);
        assert_int_equal(counters.syncs, THREADS * ROUNDS);
        assert_int_equal(counters.reads, THREADS * ROUNDS);
        assert_int_equal(counters.bytes_read, THREADS * ROUNDS * 2 * PAGE);
        assert_int_equal(counters.sync_ns.count, THREADS * ROUNDS);
        ASSERT_OK(io_file_close(file));
        io_system_close(system);
    }
}

/* ---- Memory that runs out ---- */

/* Open, use and close everything; the first failure ends it, all that was opened is closed. */
static firn_rc use_everything(enum io_backend backend)
{
    struct io_system *system;
    struct io_file *file;
    struct io_queue *queue;
    struct io_lock *lock;
    struct io_queue_options options = {.depth = 8, .merge_max_bytes = 1 << 20};
    FIRN_TRY(io_system_open(backend, clock_real(), &system));
    firn_rc rc;
    FIRN_TRY_GOTO(io_lock_directory(system, directory, &lock), close_system);
    FIRN_TRY_GOTO(io_file_open(system, IO_CLASS_UNDO, file_path, IO_OPEN_CREATE, &file), unlock);
    FIRN_TRY_GOTO(io_queue_open(system, &options, &queue), close_file);
    struct io_request requests[PAGES];
    struct io_request *pointers[PAGES];
    for (unsigned i = 0; i < PAGES; i++) {
        requests[i] = (struct io_request){.file = file,
                                          .op = IO_OP_WRITE,
                                          .size_bytes = PAGE,
                                          .buffer = pages + (size_t)i * PAGE,
                                          .offset = (uint64_t)i * PAGE};
        pointers[i] = &requests[i];
    }
    FIRN_TRY_GOTO(io_queue_submit(queue, pointers, PAGES), close_queue);
    assert_int_equal(io_queue_reap(queue, PAGES, PAGES, pointers), PAGES);
    for (unsigned i = 0; i < PAGES; i++)
        assert_int_equal(requests[i].rc, FIRN_OK);
close_queue:
    assert_int_equal(io_queue_pending(queue), 0);
    io_queue_close(queue);
close_file:
    io_file_close(file);
unlock:
    io_unlock_directory(lock);
close_system:
    io_system_close(system);
    return rc;
}

static void each_allocation_may_fail(void **state)
{
    (void)state;
    for (enum io_backend b = IO_BACKEND_URING; b < IO_BACKEND_COUNT; b++) {
        unsigned failures = 0;
        unsigned tries = 0;
        firn_rc rc = FIRN_E_NOMEM;
        /* One that fails may be done without (a merge), so a success is not yet the end. */
        for (long k = 0; k < 40; k++) {
            memory_fail_after(k);
            rc = use_everything(b);
            memory_fail_after(-1);
            if (rc != FIRN_OK) {
                assert_int_equal(rc, FIRN_E_NOMEM);
                assert_string_not_equal(firn_error_text(), "");
                failures++;
            }
            tries++;
        }
        assert_int_equal(rc, FIRN_OK);
        assert_true(failures >= 7 && failures < tries);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(where_io_uring_is_forbidden_libaio_is_used),
        cmocka_unit_test(where_both_are_forbidden_threads_are_used),
        cmocka_unit_test(what_is_not_forbidden_is_used_silently),
        cmocka_unit_test(no_locked_memory_is_no_obstacle),
        cmocka_unit_test(where_no_thread_can_be_started_the_caller_does_the_work),
        cmocka_unit_test(a_queue_that_cannot_be_had_says_what_to_do),
        cmocka_unit_test(waiting_ends_at_the_deadline),
        cmocka_unit_test(errors_of_the_kernel_come_back),
        cmocka_unit_test(reaping_with_nothing_under_way_returns_at_once),
        cmocka_unit_test(looking_finds_completions),
        cmocka_unit_test(the_null_backend_moves_nothing),
        cmocka_unit_test(threads_share_a_system_and_its_counters_add_up),
        cmocka_unit_test(each_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
