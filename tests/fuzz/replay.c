/*
 * replay.c -- main() of a fuzz harness in the builds without libFuzzer: gives it every file of its
 * kept corpus, so that what a fuzzer once found stays mended. Speaks TAP.
 */
#include <dirent.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);

/* The input is given in a block of just its size, so that the sanitizer sees reads beyond it. */
static int replay_file(const char *directory, const char *name)
{
    char path[1024];
    snprintf(path, sizeof(path), "%s/%s", directory, name);
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        return -1;
    fseek(file, 0, SEEK_END);
    long size_bytes = ftell(file);
    rewind(file);
    uint8_t *data = malloc(size_bytes > 0 ? (size_t)size_bytes : 1);
    int complete = data != NULL && size_bytes >= 0 &&
                   fread(data, 1, (size_t)size_bytes, file) == (size_t)size_bytes;
    fclose(file);
    if (complete)
        LLVMFuzzerTestOneInput(data, (size_t)size_bytes);
    free(data);
    return complete ? 0 : -1;
}

int main(void)
{
    DIR *directory = opendir(FUZZ_CORPUS);
    int tests = 0;
    int failures = 0;
    if (directory == NULL) {
        printf("not ok 1 - %s: %s\n1..1\n", FUZZ_CORPUS, strerror(errno));
        return 1;
    }
    for (struct dirent *entry = readdir(directory); entry != NULL; entry = readdir(directory)) {
        if (entry->d_name[0] == '.')
            continue;
        int failed = replay_file(FUZZ_CORPUS, entry->d_name) != 0;
        failures += failed;
        printf("%s %d - %s\n", failed ? "not ok" : "ok", ++tests, entry->d_name);
    }
    closedir(directory);
    printf("1..%d\n", tests);
    return failures != 0;
}
