/* Real files and directories: opening, sizes, names, the lock, and what people do wrong. */
#include "base/check.h"
#include "base/memory.h"
#include "io/fault.h"
#include "io/io_internal.h"
#include "io/support.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

static struct io_system *io;
static char directory[256];

static const char *path_of(const char *name)
{
    static char paths[2][300];
    static unsigned turn;
    turn ^= 1;
    snprintf(paths[turn], sizeof(paths[turn]), "%s/%s", directory, name);
    return paths[turn];
}

static int open_system(void **state)
{
    (void)state;
    snprintf(directory, sizeof(directory), "%s", scratch_make());
    return io_system_open(IO_BACKEND_THREADS, clock_real(), &io) != FIRN_OK;
}

static int close_system(void **state)
{
    (void)state;
    io_system_close(io);
    scratch_remove(directory);
    return 0;
}

static struct io_file *open_file(const char *name, unsigned flags)
{
    struct io_file *file = NULL;
    ASSERT_OK(io_file_open(io, IO_CLASS_TABLE, path_of(name), flags, &file));
    return file;
}

static unsigned mode_of(const char *path)
{
    struct stat status;
    assert_int_equal(stat(path, &status), 0);
    return status.st_mode & 07777;
}

static void files_and_directories_are_private(void **state)
{
    (void)state;
    mode_t before = umask(0);
    ASSERT_OK(io_file_close(open_file("f", IO_OPEN_CREATE)));
    ASSERT_OK(io_make_directory(io, path_of("d")));
    umask(before);
    assert_int_equal(mode_of(path_of("f")), 0600);
    assert_int_equal(mode_of(path_of("d")), 0700);
}

static void opening_follows_its_flags(void **state)
{
    (void)state;
    struct io_file *file = NULL;
    uint64_t size_bytes;
    assert_int_equal(io_file_open(io, IO_CLASS_TABLE, path_of("f"), 0, &file), FIRN_E_NOT_FOUND);
    ASSERT_TEXT("cannot open ");
    ASSERT_TEXT("/f: No such file or directory");
    assert_null(file);

    file = open_file("f", IO_OPEN_CREATE | IO_OPEN_EXCLUSIVE);
    ASSERT_OK(io_write(file, "abc", 3, 0));
    ASSERT_OK(io_file_close(file));
    assert_int_equal(
        io_file_open(io, IO_CLASS_TABLE, path_of("f"), IO_OPEN_CREATE | IO_OPEN_EXCLUSIVE, &file),
        FIRN_E_EXISTS);

    file = open_file("f", IO_OPEN_CREATE);
    ASSERT_OK(io_file_size(file, &size_bytes));
    assert_int_equal(size_bytes, 3);
    assert_string_equal(io_file_path(file), path_of("f"));
    assert_false(io_file_is_direct(file));
    assert_int_equal(io_file_alignment(file), 1);
    ASSERT_OK(io_file_close(file));

    file = open_file("f", IO_OPEN_TRUNCATE);
    ASSERT_OK(io_file_size(file, &size_bytes));
    assert_int_equal(size_bytes, 0);
    ASSERT_OK(io_file_close(file));
}

/* The flags of the one descriptor that has a path open. */
static int flags_of_open(const char *path)
{
    for (int fd = 3; fd < 1024; fd++) {
        char link[64];
        char target[300];
        snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
        ssize_t length = readlink(link, target, sizeof(target) - 1);
        if (length <= 0)
            continue;
        target[length] = '\0';
        if (strcmp(target, path) == 0)
            return fcntl(fd, F_GETFL) | (fcntl(fd, F_GETFD) == FD_CLOEXEC ? O_CLOEXEC : 0);
    }
    return -1;
}

static void durability_flags_reach_the_kernel(void **state)
{
    (void)state;
    static const struct {
        unsigned ours;
        int kernels;
    } cases[] = {{IO_OPEN_SYNC, O_SYNC}, {IO_OPEN_DSYNC, O_DSYNC}, {0, 0}};
    for (unsigned i = 0; i < ARRAY_COUNT(cases); i++) {
        struct io_file *file = open_file("f", IO_OPEN_CREATE | cases[i].ours);
        int flags = flags_of_open(path_of("f"));
        assert_int_equal(flags & O_SYNC, cases[i].kernels);
        assert_true(flags & O_CLOEXEC);
        ASSERT_OK(io_file_close(file));
        assert_int_equal(flags_of_open(path_of("f")), -1);
    }
}

static void direct_files_know_their_alignment(void **state)
{
    (void)state;
    captured_start();
    struct io_file *file = open_file("f", IO_OPEN_CREATE | IO_OPEN_DIRECT);
    captured_stop();
    uint32_t alignment = io_file_alignment(file);
    if (!io_file_is_direct(file)) { /* this file system refuses */
        assert_int_equal(captured.count, 1);
        assert_int_equal(alignment, 1);
    } else {
        assert_int_equal(captured.count, 0);
        assert_int_equal(flags_of_open(path_of("f")) & O_DIRECT, O_DIRECT);
        unsigned char *buffer = memory_alloc_aligned((size_t)alignment * 2, alignment);
        memset(buffer, 3, (size_t)alignment * 2);
        ASSERT_OK(io_write(file, buffer, alignment, alignment)); /* as little as it says */
        ASSERT_OK(io_read(file, buffer + alignment, alignment, 0));
        assert_int_equal(buffer[alignment], 0);
        assert_int_equal(io_read(file, buffer, alignment, 1), FIRN_E_INVALID);
        memory_free(buffer);
    }
    ASSERT_OK(io_file_close(file));
}

/* A file system with no direct I/O, on every Linux. */
static void where_direct_io_is_refused_the_page_cache_serves(void **state)
{
    (void)state;
    struct io_file *file;
    char text[8] = "";
    captured_start();
    ASSERT_OK(io_file_open(io, IO_CLASS_TABLE, "/proc/self/comm", IO_OPEN_DIRECT, &file));
    captured_stop();
    assert_int_equal(captured.count, 1);
    assert_non_null(strstr(captured.text, "/proc/self/comm refuses direct I/O"));
    assert_false(io_file_is_direct(file));
    ASSERT_OK(io_read(file, text, 4, 0));
    assert_string_equal(text, "test");
    ASSERT_OK(io_file_close(file));
}

static void sizes_can_be_set_and_grown(void **state)
{
    (void)state;
    unsigned char bytes[4096];
    uint64_t size_bytes;
    struct io_file *file = open_file("f", IO_OPEN_CREATE);
    ASSERT_OK(io_write(file, "0123456789", 10, 0));
    ASSERT_OK(io_file_set_size(file, 4));
    ASSERT_OK(io_file_set_size(file, 100));
    ASSERT_OK(io_read(file, bytes, 100, 0));
    assert_memory_equal(bytes, "0123\0\0\0\0\0\0", 10);
    ASSERT_OK(io_file_allocate(file, 2, 100000));
    ASSERT_OK(io_file_size(file, &size_bytes));
    assert_int_equal(size_bytes, 100002);
    ASSERT_OK(io_read(file, bytes, 4, 0));
    assert_memory_equal(bytes, "0123", 4);
    ASSERT_OK(io_read(file, bytes, 2, 100000));
    ASSERT_OK(io_file_close(file));
}

static void a_file_that_may_not_grow_says_so(void **state)
{
    (void)state;
    struct io_file *file = open_file("f", IO_OPEN_CREATE);
    pid_t child = fork();
    if (child == 0) {
        struct rlimit limit = {4096, 4096};
        signal(SIGXFSZ, SIG_IGN);
        setrlimit(RLIMIT_FSIZE, &limit);
        firn_rc rc = io_file_allocate(file, 0, 1 << 20);
        bool good = rc == FIRN_E_NOSPACE && strstr(firn_error_text(), "ulimit -f") != NULL;
        uint64_t size_bytes = 1;
        good = good && io_file_size(file, &size_bytes) == FIRN_OK && size_bytes == 0;
        _exit(good ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    ASSERT_OK(io_file_close(file));
}

static firn_rc collect_name(const char *name, void *context)
{
    char *names = context;
    strcat(strcat(names, name), " ");
    return strcmp(name, "stop") == 0 ? FIRN_E_CORRUPT : FIRN_OK;
}

static void names_can_be_listed_renamed_and_removed(void **state)
{
    (void)state;
    char names[300] = "";
    char from[300];
    ASSERT_OK(io_file_close(open_file("a", IO_OPEN_CREATE)));
    snprintf(from, sizeof(from), "%s", path_of("a"));
    ASSERT_OK(io_rename(io, from, path_of("b")));
    ASSERT_OK(io_sync_directory(io, directory));
    ASSERT_OK(io_list(io, directory, collect_name, names));
    assert_string_equal(names, "b ");
    ASSERT_OK(io_remove(io, path_of("b")));
    assert_int_equal(io_remove(io, path_of("b")), FIRN_E_NOT_FOUND);
    ASSERT_TEXT("cannot remove ");
    names[0] = '\0';
    ASSERT_OK(io_list(io, directory, collect_name, names));
    assert_string_equal(names, "");
    ASSERT_OK(io_file_close(open_file("stop", IO_OPEN_CREATE)));
    assert_int_equal(io_list(io, directory, collect_name, names), FIRN_E_CORRUPT);
}

static void directories_can_be_made_and_removed(void **state)
{
    (void)state;
    ASSERT_OK(io_make_directory(io, path_of("d")));
    assert_int_equal(io_make_directory(io, path_of("d")), FIRN_E_EXISTS);
    assert_int_equal(io_make_directory(io, path_of("x/d")), FIRN_E_NOT_FOUND);
    ASSERT_OK(io_remove_directory(io, path_of("d")));
    assert_int_equal(io_remove_directory(io, path_of("d")), FIRN_E_NOT_FOUND);
}

static void what_people_do_wrong_gets_a_clear_answer(void **state)
{
    (void)state;
    struct io_file *file;
    struct io_lock *lock;
    char names[8];
    ASSERT_OK(io_make_directory(io, path_of("d")));
    ASSERT_OK(io_file_close(open_file("f", IO_OPEN_CREATE)));
    assert_int_equal(io_file_open(io, IO_CLASS_TABLE, path_of("d"), 0, &file), FIRN_E_INVALID);
    ASSERT_TEXT("/d: Is a directory");
    assert_int_equal(io_file_open(io, IO_CLASS_TABLE, path_of("d"), IO_OPEN_READ_ONLY, &file),
                     FIRN_E_INVALID);
    ASSERT_TEXT("/d: Is a directory");
    assert_int_equal(io_list(io, path_of("f"), collect_name, names), FIRN_E_INVALID);
    ASSERT_TEXT("/f: Not a directory");
    assert_int_equal(io_sync_directory(io, path_of("f")), FIRN_E_INVALID);
    assert_int_equal(io_sync_directory(io, path_of("none")), FIRN_E_NOT_FOUND);
    ASSERT_OK(io_sync_directory(io, directory)); /* neither was a failed sync */
    assert_int_equal(io_lock_directory(io, path_of("none"), &lock), FIRN_E_NOT_FOUND);
    ASSERT_TEXT("/none: No such file or directory");
    assert_int_equal(io_lock_directory(io, path_of("f"), &lock), FIRN_E_INVALID);
    ASSERT_TEXT("/f: Not a directory");
}

static void a_directory_without_permission_says_so(void **state)
{
    (void)state;
    ASSERT_OK(io_make_directory(io, path_of("d")));
    assert_int_equal(chmod(path_of("d"), 0500), 0);
    pid_t child = fork();
    if (child == 0) {
        struct io_file *file;
        struct io_lock *lock;
        if (geteuid() == 0 &&
            (chmod(directory, 0711) != 0 || chmod(path_of("d"), 0555) != 0 || setuid(65534) != 0))
            _exit(1);
        if (io_lock_directory(io, path_of("d"), &lock) != FIRN_E_PERMISSION ||
            strstr(firn_error_text(), "Permission denied; check its owner") == NULL)
            _exit(2);
        if (io_file_open(io, IO_CLASS_REDO, path_of("d/f"), IO_OPEN_CREATE, &file) !=
                FIRN_E_PERMISSION ||
            strstr(firn_error_text(), "cannot create") == NULL)
            _exit(3);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(chmod(path_of("d"), 0700), 0);
}

static void interrupted_calls_are_made_again(void **state)
{
    (void)state;
    static const struct fault_plan plan = {
        .kind = FAULT_ERROR, .targets = FAULT_ALL, .first = 1, .every = 2, .error = EINTR};
    struct fault_injector *injector;
    struct io_lock *lock;
    char from[300];
    ASSERT_OK(fault_attach(io, 1, &injector));
    fault_set_plans(injector, &plan, 1);
    ASSERT_OK(io_make_directory(io, path_of("d")));
    ASSERT_OK(io_lock_directory(io, path_of("d"), &lock));
    struct io_file *file = open_file("d/f", IO_OPEN_CREATE);
    ASSERT_OK(io_file_set_size(file, 100));
    ASSERT_OK(io_file_allocate(file, 0, 200));
    ASSERT_OK(io_write(file, "x", 1, 0));
    ASSERT_OK(io_sync(file, IO_SYNC_ALL));
    ASSERT_OK(io_file_close(file));
    snprintf(from, sizeof(from), "%s", path_of("d/f"));
    ASSERT_OK(io_rename(io, from, path_of("d/g")));
    ASSERT_OK(io_sync_directory(io, path_of("d")));
    ASSERT_OK(io_remove(io, path_of("d/g")));
    io_unlock_directory(lock);
    ASSERT_OK(io_remove_directory(io, path_of("d")));
    assert_true(fault_hits(injector) >= 10);
}

/* ---- The lock ---- */

static void a_directory_is_locked_once(void **state)
{
    (void)state;
    struct io_lock *lock;
    struct io_lock *second = NULL;
    char text[64];
    ASSERT_OK(io_lock_directory(io, directory, &lock));
    assert_int_equal(io_lock_directory(io, directory, &second), FIRN_E_BUSY);
    assert_null(second);
    snprintf(text, sizeof(text), "is in use by process %ld", (long)getpid());
    ASSERT_TEXT(text);
    io_unlock_directory(lock);
    assert_int_equal(access(path_of("firn.lock"), F_OK), -1);
    ASSERT_OK(io_lock_directory(io, directory, &lock));
    io_unlock_directory(lock);
    io_unlock_directory(NULL);
}

static void a_lock_ends_with_its_process(void **state)
{
    (void)state;
    int ready[2];
    int go[2];
    char byte = 0;
    struct io_lock *lock;
    assert_true(pipe(ready) == 0 && pipe(go) == 0);
    pid_t child = fork();
    if (child == 0) {
        byte = io_lock_directory(io, directory, &lock) == FIRN_OK;
        if (write(ready[1], &byte, 1) != 1 || read(go[0], &byte, 1) != 1)
            _exit(1);
        _exit(0); /* without unlocking, as a crash does */
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    assert_int_equal(byte, 1);
    assert_int_equal(io_lock_directory(io, directory, &lock), FIRN_E_BUSY);
    char text[64];
    snprintf(text, sizeof(text), "is in use by process %ld", (long)child);
    ASSERT_TEXT(text);
    assert_int_equal(write(go[1], &byte, 1), 1);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(access(path_of("firn.lock"), F_OK), 0);
    ASSERT_OK(io_lock_directory(io, directory, &lock)); /* what was left over is no obstacle */
    io_unlock_directory(lock);
    close(ready[0]);
    close(ready[1]);
    close(go[0]);
    close(go[1]);
}

/* Processes that lock and unlock as fast as they can never hold it together. */
static void racing_processes_never_both_hold_the_lock(void **state)
{
    (void)state;
    enum { RACERS = 3, TURNS = 300 };
    pid_t children[RACERS];
    for (unsigned i = 0; i < RACERS; i++) {
        children[i] = fork();
        if (children[i] != 0)
            continue;
        unsigned held = 0;
        while (held < TURNS) {
            struct io_lock *lock;
            if (io_lock_directory(io, directory, &lock) != FIRN_OK)
                continue;
            int fd = open(path_of("held"), O_CREAT | O_EXCL, 0600);
            if (fd < 0 || unlink(path_of("held")) != 0)
                _exit(1);
            close(fd);
            io_unlock_directory(lock);
            held++;
        }
        _exit(0);
    }
    for (unsigned i = 0; i < RACERS; i++) {
        int status;
        assert_int_equal(waitpid(children[i], &status, 0), children[i]);
        assert_int_equal(status, 0);
    }
}

int main(void)
{
#define TEST(function) cmocka_unit_test_setup_teardown(function, open_system, close_system)
    const struct CMUnitTest tests[] = {
        TEST(files_and_directories_are_private),
        TEST(opening_follows_its_flags),
        TEST(durability_flags_reach_the_kernel),
        TEST(direct_files_know_their_alignment),
        TEST(where_direct_io_is_refused_the_page_cache_serves),
        TEST(sizes_can_be_set_and_grown),
        TEST(a_file_that_may_not_grow_says_so),
        TEST(names_can_be_listed_renamed_and_removed),
        TEST(directories_can_be_made_and_removed),
        TEST(what_people_do_wrong_gets_a_clear_answer),
        TEST(a_directory_without_permission_says_so),
        TEST(interrupted_calls_are_made_again),
        TEST(a_directory_is_locked_once),
        TEST(a_lock_ends_with_its_process),
        TEST(racing_processes_never_both_hold_the_lock),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
