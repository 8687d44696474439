#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

/* What the wall clock of this process is wrong by: seconds, in a file that others may write. */
static volatile long *wrong;

__attribute__((constructor)) static void begin(void) {
    const char *name = getenv("WRONG_CLOCK");
    int file = name ? open(name, O_RDONLY | O_CLOEXEC) : -1;
    void *found = file < 0 ? MAP_FAILED : mmap(NULL, sizeof(long), PROT_READ, MAP_SHARED, file, 0);
    if (file >= 0) close(file);
    if (found != MAP_FAILED) wrong = found;
}

int clock_gettime(clockid_t which, struct timespec *now) {
    int failed = syscall(SYS_clock_gettime, which, now);
    if (!failed && wrong && (which == CLOCK_REALTIME || which == CLOCK_REALTIME_COARSE)) now->tv_sec += *wrong;
    return failed;
}

int gettimeofday(struct timeval *now, void *zone) {
    int failed = syscall(SYS_gettimeofday, now, zone);
    if (!failed && wrong && now) now->tv_sec += *wrong;
    return failed;
}

time_t time(time_t *told) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (told) *told = now.tv_sec;
    return now.tv_sec;
}
