#include "cli.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

/* Descriptors 0 to 2 exist, so that no file opened later is taken for standard output; one that was
   closed cannot be written to, so that a lost result is told. */
static void open_standard_descriptors(void)
{
    int fd;
    do
        fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd > STDERR_FILENO)
        close(fd);
}

int main(int argc, char **argv)
{
    open_standard_descriptors();
    /* a closed pipe, or a file that may not grow, is a failed write, which is told */
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
    struct cli cli = {0};
    out_start(&cli.out, STDOUT_FILENO);
    int words = argc > 0 ? argc - 1 : 0;
    int code = cli_run(&cli, words, (const char *const *)argv + (argc > 0));
    out_end(&cli.out);
    return code;
}
