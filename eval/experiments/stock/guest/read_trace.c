// SPDX-License-Identifier: MIT
/*
 * Reads a workload's blocks when they are due, each from the replica that WHO selects:
 *
 *	read_trace WHO START_S READS LATENCIES REPLICA[=MODEL]...
 *
 * WHO	home: each read goes to its default replica
 *	liblinnos: linnos_pread(); the default replica is each in turn
 *	hedged: the same, hedged at p95 of its latencies so far, at most 5 % of the reads
 *	asked: linnos_kernel_best_drives(); the default replica if no other is better
 * START_S	when the workload begins, in seconds of the epoch
 * READS	struct read, in the order of due_ns
 * LATENCIES	gets each read's latency since it was due, in ns, as uint64_t, in the same order
 *
 * The statistics of liblinnos are printed.
 */
#include <liblinnos.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* As many users as reads are ever under way at once; the replayer has no limit. */
#define N_THREADS 256
#define STACK_BYTES (256 << 10)
#define REPLICAS_MAX 16

struct read {
	uint64_t due_ns;
	uint64_t offset;
	uint32_t bytes;
	uint32_t home;
};

static struct read *reads;
static uint64_t *latency_ns, n_reads, start_ns;
static size_t longest;
static atomic_ulong next_read;
static int fds[REPLICAS_MAX];
static unsigned int n_replicas;
static struct linnos_array *array; /* NULL if liblinnos is not used */
static int asks;

static void fail(const char *what, int error)
{
	fprintf(stderr, "read_trace: %s: %s\n", what, strerror(error));
	exit(1);
}

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return (uint64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void sleep_until(uint64_t at_ns)
{
	struct timespec t = {.tv_sec = at_ns / 1000000000, .tv_nsec = at_ns % 1000000000};

	while (clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &t, NULL) == EINTR)
		;
}

static unsigned int replica_of(const struct read *r)
{
	unsigned int replica = r->home;
	int best;

	if (!asks)
		return replica;
	best = linnos_kernel_best_drives(n_replicas, fds, r->bytes, NULL);
	if (best < 0)
		fail("linnos_kernel_best_drives()", -best);
	while (best && !(best & 1 << replica))
		replica = (replica + 1) % n_replicas;
	return replica;
}

static void *read_some(void *unused)
{
	struct linnos_queue *queue = NULL;
	void *buf;

	(void)unused;
	if (array && linnos_queue_create(&queue, array, NULL))
		fail(linnos_error(), ENOMEM);
	/* Not 50 us later, to be woken together with others. */
	prctl(PR_SET_TIMERSLACK, 1);
	if (posix_memalign(&buf, 4096, longest))
		fail("memory", ENOMEM);
	for (;;) {
		unsigned long i = atomic_fetch_add(&next_read, 1);
		const struct read *r = &reads[i];
		ssize_t bytes;

		if (i >= n_reads)
			break;
		sleep_until(start_ns + r->due_ns);
		if (array) {
			bytes = linnos_pread(queue, buf, r->bytes, r->offset);
		} else {
			bytes = pread(fds[replica_of(r)], buf, r->bytes, r->offset);
			bytes = bytes < 0 ? -errno : bytes;
		}
		latency_ns[i] = now_ns() - start_ns - r->due_ns;
		if (bytes != r->bytes)
			fail("a read", bytes < 0 ? -bytes : EIO);
	}
	linnos_queue_close(queue);
	free(buf);
	return NULL;
}

static void load(const char *path)
{
	int fd = open(path, O_RDONLY);
	struct stat st;

	if (fd < 0 || fstat(fd, &st))
		fail(path, errno);
	n_reads = st.st_size / sizeof(*reads);
	reads = malloc(st.st_size);
	latency_ns = calloc(n_reads, sizeof(*latency_ns));
	if (!reads || !latency_ns || read(fd, reads, st.st_size) != st.st_size)
		fail(path, EIO);
	close(fd);
	for (uint64_t i = 0; i < n_reads; i++)
		longest = reads[i].bytes > longest ? reads[i].bytes : longest;
}

static void open_replicas(char **names, const char *who)
{
	const char *paths[REPLICAS_MAX], *models[REPLICAS_MAX];
	struct linnos_options options = LINNOS_OPTIONS_INIT;

	for (unsigned int k = 0; k < n_replicas; k++) {
		char *equals = strrchr(names[k], '=');

		if (equals)
			*equals = 0;
		paths[k] = names[k];
		models[k] = equals ? equals + 1 : NULL;
		fds[k] = open(paths[k], O_RDONLY | O_DIRECT);
		if (fds[k] < 0)
			fail(paths[k], errno);
	}
	asks = !strcmp(who, "asked");
	if (asks || !strcmp(who, "home"))
		return;
	if (!strcmp(who, "hedged"))
		options.hedge_percentile = 95;
	if (linnos_array_open(&array, n_replicas, paths, models, &options)) {
		fprintf(stderr, "read_trace: %s\n", linnos_error());
		exit(1);
	}
}

int main(int argc, char **argv)
{
	pthread_t threads[N_THREADS];
	struct linnos_stats stats = {0};
	pthread_attr_t attributes;
	FILE *out;

	if (argc < 6 || argc - 5 > REPLICAS_MAX)
		fail("WHO START_S READS LATENCIES REPLICA[=MODEL]...", EINVAL);
	start_ns = strtoull(argv[2], NULL, 10) * 1000000000;
	n_replicas = argc - 5;
	load(argv[3]);
	/* Not earlier, because the replayer does not write to a drive that it finds in use. */
	sleep_until(start_ns - 1000000000);
	open_replicas(argv + 5, argv[1]);
	if (now_ns() > start_ns)
		fail("START_S", ETIME);
	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, STACK_BYTES);
	for (int i = 0; i < N_THREADS; i++)
		if (pthread_create(&threads[i], &attributes, read_some, NULL))
			fail("a thread", EAGAIN);
	for (int i = 0; i < N_THREADS; i++)
		pthread_join(threads[i], NULL);
	out = fopen(argv[4], "w");
	if (!out || fwrite(latency_ns, sizeof(*latency_ns), n_reads, out) != n_reads || fclose(out))
		fail(argv[4], errno);
	if (array)
		linnos_array_get_stats(array, &stats, sizeof(stats));
	printf("{\"redirected\": %llu, \"probes\": %llu, \"hedges\": %llu, \"hedges_won\": %llu, "
	       "\"failovers\": %llu}\n",
	       (unsigned long long)stats.redirected, (unsigned long long)stats.probes,
	       (unsigned long long)stats.hedges, (unsigned long long)stats.hedges_won,
	       (unsigned long long)stats.failovers);
	return 0;
}
