// SPDX-License-Identifier: MIT
/*
 * Send small reads to a drive at regular intervals. Optionally, THREADS other threads
 * send reads of another size to LOAD_DEVICE at the same time.
 *
 *	loaded_reads WAY DEVICE SECONDS [LOAD_DEVICE BYTES PERIOD_US THREADS HINTED]
 *
 * WAY	hint: with RWF_LATCRIT; plain: without; ask: query the kernel before each
 *	read (BLKEXPECT), and do not send one that is expected to be slow, unless a
 *	probe is due
 *
 * A small read of 4 KiB is sent every 100 us. Each other thread reads BYTES every
 * PERIOD_US, or as soon as its previous read has ended. If its read is refused, it
 * sends the next one after 20 us. The output is a JSON object with the numbers of
 * small reads served and refused, and an array of the latencies of those served in us.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/blk-linnos.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define RWF_LATCRIT 0x00008000
#define SMALL_BYTES 4096
#define PERIOD_NS 100000
#define AGAIN_NS 20000
#define MIB (1 << 20)

static volatile int stop;
static const char *load_device;
static size_t load_bytes;
static long load_period_ns;
static int load_flags;

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static long now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000L + t.tv_nsec;
}

static void sleep_until(long ns)
{
	struct timespec t = { .tv_sec = ns / 1000000000L, .tv_nsec = ns % 1000000000L };

	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
}

/* Return the time of the next read, which is now if the period has already passed. */
static long next_after(long at_ns, long period_ns)
{
	long now = now_ns();

	return at_ns + period_ns < now ? now : at_ns + period_ns;
}

static int open_device(const char *path, off_t *bytes)
{
	int fd = open(path, O_RDONLY | O_DIRECT);

	if (fd < 0)
		die(path);
	*bytes = lseek(fd, 0, SEEK_END);
	return fd;
}

static void *send_load(void *seed)
{
	unsigned int state = (unsigned int)(size_t)seed;
	off_t bytes;
	int fd = open_device(load_device, &bytes);
	struct iovec iov = { aligned_alloc(4096, load_bytes), load_bytes };
	off_t places = (bytes - (off_t)load_bytes) / MIB;
	long at_ns = now_ns();

	while (!stop) {
		off_t offset = (off_t)(rand_r(&state) % places) * MIB;
		ssize_t got = preadv2(fd, &iov, 1, offset, load_flags);

		if (got < 0 && errno != EBUSY)
			die(load_device);
		at_ns = got < 0 ? now_ns() + AGAIN_NS : next_after(at_ns, load_period_ns);
		sleep_until(at_ns);
	}
	close(fd);
	free(iov.iov_base);
	return NULL;
}

/* Return true if a client that has another replica would read from this drive. */
static int would_read_from(int fd, struct blk_expect *query)
{
	query->n_drives = 1;
	query->bytes = SMALL_BYTES;
	query->drives[0].fd = fd;
	if (ioctl(fd, BLKEXPECT, query))
		die("BLKEXPECT");
	return !(query->drives[0].flags & BLK_EXPECT_SLOW) || query->drives[0].flags & BLK_EXPECT_PROBE;
}

static void read_small(const char *way, const char *device, double seconds)
{
	struct blk_expect *ask = calloc(1, BLK_EXPECT_BYTES(1));
	int flags = strcmp(way, "hint") ? 0 : RWF_LATCRIT;
	struct iovec iov = { aligned_alloc(4096, SMALL_BYTES), SMALL_BYTES };
	off_t bytes;
	int fd = open_device(device, &bytes), asks = !strcmp(way, "ask");
	long at_ns = now_ns(), end_ns = at_ns + (long)(seconds * 1e9);
	long refused = 0, served = 0;
	unsigned int state = 1;

	printf("{\"us\": [");
	for (; at_ns < end_ns; sleep_until(at_ns = next_after(at_ns, PERIOD_NS))) {
		off_t offset = (off_t)(rand_r(&state) % (bytes / SMALL_BYTES)) * SMALL_BYTES;
		long begin_ns = now_ns();

		if (asks && !would_read_from(fd, ask)) {
			refused++;
		} else if (preadv2(fd, &iov, 1, offset, flags) == SMALL_BYTES) {
			printf("%s%ld", served++ ? "," : "", (now_ns() - begin_ns) / 1000);
		} else if (errno == EBUSY) {
			refused++;
		} else {
			die(device);
		}
	}
	printf("], \"served\": %ld, \"refused\": %ld}\n", served, refused);
	free(iov.iov_base);
	free(ask);
	close(fd);
}

int main(int argc, char **argv)
{
	int n_threads = argc == 9 ? atoi(argv[7]) : 0;
	pthread_t threads[64];

	if ((argc != 4 && argc != 9) || n_threads > 64) {
		fprintf(stderr, "usage: see the beginning of the source\n");
		return 2;
	}
	if (argc == 9) {
		load_device = argv[4];
		load_bytes = strtoul(argv[5], NULL, 10);
		load_period_ns = atol(argv[6]) * 1000;
		load_flags = atoi(argv[8]) ? RWF_LATCRIT : 0;
	}
	for (int i = 0; i < n_threads; i++)
		if (pthread_create(&threads[i], NULL, send_load, (void *)(size_t)(i + 7)))
			die("pthread_create");
	read_small(argv[1], argv[2], atof(argv[3]));
	stop = 1;
	for (int i = 0; i < n_threads; i++)
		pthread_join(threads[i], NULL);
	return 0;
}
