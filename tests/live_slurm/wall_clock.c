/* A wall clock of its own for Python on one machine of a site: preloaded, it adds what a file says to the time.

   The file, named by WALL_CLOCK_FILE, holds one number of 64 bits, in seconds; it is mapped, so that a change
   counts at once. Steady clocks, waits, files' times and programs other than Python are left as they are. */

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t *ahead_s;

__attribute__((constructor)) static void begin(void)
{
    const char *path = getenv("WALL_CLOCK_FILE");
    if (path == NULL || strncmp(program_invocation_short_name, "python", 6) != 0)
        return;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return;
    void *at = mmap(NULL, sizeof *ahead_s, PROT_READ, MAP_SHARED, file, 0);
    close(file);
    if (at != MAP_FAILED)
        ahead_s = at;
}

int clock_gettime(clockid_t clock, struct timespec *at)
{
    int code = (int)syscall(SYS_clock_gettime, clock, at);
    if (code == 0 && ahead_s != NULL && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        at->tv_sec += *ahead_s;
    return code;
}

int gettimeofday(struct timeval *restrict at, void *restrict zone)
{
    struct timespec now;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &now) != 0)
        return -1;
    at->tv_sec = now.tv_sec;
    at->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *at)
{
    struct timespec now;
    if (clock_gettime(CLOCK_REALTIME, &now) != 0)
        return -1;
    if (at != NULL)
        *at = now.tv_sec;
    return now.tv_sec;
}
