/*
 * Preloaded by redis-server. It moves the wall clock by the number in a mapped file: 8 bytes,
 * nanoseconds, little endian. In another mapped file it notes how much of the append-only file is on
 * the disk. It calls the kernel itself and looks up no symbols, so it may be called before the C
 * library is ready.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t *offset;

/* The last fdatasync of an incremental append-only file. */
static struct synced {
	volatile int64_t size;
	char file[PATH_MAX];
} *synced;

static void *map(const char *variable, size_t size, int write)
{
	const char *name = getenv(variable);
	int fd = name ? open(name, (write ? O_RDWR : O_RDONLY) | O_CLOEXEC) : -1;
	if (fd < 0)
		return NULL;
	void *page = mmap(NULL, size, PROT_READ | (write ? PROT_WRITE : 0), MAP_SHARED, fd, 0);
	close(fd);
	return page == MAP_FAILED ? NULL : page;
}

__attribute__((constructor)) static void map_files(void)
{
	offset = map("CHAOS_CLOCK", 8, 0);
	synced = map("CHAOS_SYNCED", sizeof *synced, 1);
}

int fdatasync(int fd)
{
	static volatile int busy;
	char link[64], file[PATH_MAX];
	struct stat before;
	int known = synced && !fstat(fd, &before);
	int failed = (int)syscall(SYS_fdatasync, fd);
	if (failed || !known)
		return failed;
	snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
	ssize_t n = readlink(link, file, sizeof file - 1);
	if (n < 0)
		return failed;
	file[n] = 0;
	if (!strstr(file, ".incr.aof"))
		return failed;
	while (__sync_lock_test_and_set(&busy, 1))
		;
	if (strcmp(file, synced->file)) {
		synced->size = INT64_MAX; /* killed here, nothing is cut off */
		strcpy(synced->file, file);
	}
	synced->size = before.st_size;
	__sync_lock_release(&busy);
	return failed;
}

int clock_gettime(clockid_t id, struct timespec *ts)
{
	int failed = (int)syscall(SYS_clock_gettime, id, ts);
	if (failed || !offset || (id != CLOCK_REALTIME && id != CLOCK_REALTIME_COARSE))
		return failed;
	int64_t ns = (int64_t)ts->tv_sec * 1000000000 + ts->tv_nsec + *offset;
	ts->tv_sec = ns / 1000000000;
	ts->tv_nsec = ns % 1000000000;
	return 0;
}

int gettimeofday(struct timeval *restrict tv, void *restrict zone)
{
	struct timespec ts;
	(void)zone;
	if (clock_gettime(CLOCK_REALTIME, &ts))
		return -1;
	tv->tv_sec = ts.tv_sec;
	tv->tv_usec = ts.tv_nsec / 1000;
	return 0;
}

time_t time(time_t *at)
{
	struct timespec ts;
	if (clock_gettime(CLOCK_REALTIME, &ts))
		return -1;
	if (at)
		*at = ts.tv_sec;
	return ts.tv_sec;
}
