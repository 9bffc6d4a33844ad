/* gnuplot as a process of its own, in the pictures' directory. */
#include "base/log.h"
#include "report/report_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { STATUS_NO_GNUPLOT = 127, COMPLAINT_BYTES = 256 };

_Noreturn static void become_gnuplot(const char *directory, int complaints)
{
    int nothing = open("/dev/null", O_RDWR);
    if (nothing < 0 || dup2(nothing, STDIN_FILENO) < 0 || dup2(nothing, STDOUT_FILENO) < 0 ||
        dup2(complaints, STDERR_FILENO) < 0 || chdir(directory) != 0)
        _exit(STATUS_NO_GNUPLOT - 1);
    umask(077);
    execlp("gnuplot", "gnuplot", "pictures.gp", (char *)NULL);
    _exit(STATUS_NO_GNUPLOT);
}

/* The first line that gnuplot complains with; the rest is read so that it can end. */
static void read_complaint(int complaints, char complaint[COMPLAINT_BYTES])
{
    FILE *in = fdopen(complaints, "r");
    char line[COMPLAINT_BYTES];
    if (in == NULL) {
        close(complaints);
        return;
    }
    while (fgets(line, sizeof(line), in) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        if (*complaint == '\0')
            memcpy(complaint, line, sizeof(line));
    }
    fclose(in);
}

void report_run_gnuplot(const char *directory)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) {
        log_warning("gnuplot cannot be started, so there are no pictures: %s", strerror(errno));
        return;
    }
    pid_t child = fork();
    if (child == 0)
        become_gnuplot(directory, ends[1]);
    close(ends[1]);
    char complaint[COMPLAINT_BYTES] = "";
    read_complaint(ends[0], complaint);
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) < 0)
        log_warning("gnuplot cannot be started, so there are no pictures: %s", strerror(errno));
    else if (WIFEXITED(status) && WEXITSTATUS(status) == STATUS_NO_GNUPLOT)
        log_warning("gnuplot is not installed, so there are no pictures: install it (Debian: "
                    "gnuplot-nox) and run it on %s/pictures.gp, or report again",
                    directory);
    else if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        log_warning("gnuplot failed on %s/pictures.gp, so pictures are missing: %s", directory,
                    *complaint == '\0' ? "it did not say why" : complaint);
}
