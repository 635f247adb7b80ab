// SPDX-License-Identifier: MIT
/*
 * Read random blocks of an array, one at a time, and print the latencies:
 *
 *	read_replicas [options] REPLICA[=MODEL] REPLICA[=MODEL] ...
 *
 * With --home-only each read is sent to its default replica, round robin, as a program without
 * knowledge of the drives would. The difference is the benefit of the library. With --best-drives
 * the kernel chooses the replicas. It must have LinnOS and models.
 */
#include <liblinnos.h>

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define BLOCK_BYTES 4096
#define REPLICAS_MAX 16
#define HELP                                                                                       \
	"usage: read_replicas [options] REPLICA[=MODEL] REPLICA[=MODEL] ...\n"                     \
	"Reads random 4 KiB blocks of replicas with equal contents and prints the latencies.\n\n"  \
	"  --reads N             number of reads (10000)\n"                                        \
	"  --every-us N          mean interval at random times; 0 for no pauses (0)\n"             \
	"  --seed N              seed of the random offsets (1)\n"                                 \
	"  --slow-us N           count reads that take longer (1000)\n"                            \
	"  --home-only           send each read to its default replica, without liblinnos\n"       \
	"  --query-kernel        use the kernel's predictions if it has any "                      \
	"(LINNOS_QUERY_KERNEL)\n"                                                                  \
	"  --best-drives         use linnos_kernel_best_drives() instead of liblinnos (needs "     \
	"LinnOS)\n"                                                                                \
	"  --hedge-percentile P  read a second replica after this percentile\n"                    \
	"  --duplicates          read a second replica when the expected gain is highest\n"        \
	"  --max-duplicates P    maximum percentage of hedges (no limit with --duplicates, "       \
	"otherwise 5)\n"

struct settings {
	unsigned long reads, every_us, seed, slow_us;
	int home_only, best_drives, query_kernel, duplicates;
	double hedge_percentile, max_duplicates;
};

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void sleep_until(uint64_t at_ns)
{
	struct timespec t = {.tv_sec = at_ns / 1000000000, .tv_nsec = at_ns % 1000000000};

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR)
		;
}

/* SplitMix64 */
static uint64_t draw(uint64_t *state)
{
	uint64_t x = *state += 0x9e3779b97f4a7c15;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
	x = (x ^ x >> 27) * 0x94d049bb133111eb;
	return x ^ x >> 31;
}

/* Return the time to the next read of independent users, which is exponentially distributed. */
static uint64_t draw_gap_ns(uint64_t *state, unsigned long mean_us)
{
	double share = (double)(draw(state) >> 11) / (double)(1ull << 53);

	return (uint64_t)(-log1p(-share) * (double)mean_us * 1000);
}

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static void print_latencies(const struct settings *s, uint64_t *ns, unsigned long n)
{
	unsigned long slow = 0;
	uint64_t sum_ns = 0;

	for (unsigned long i = 0; i < n; i++) {
		sum_ns += ns[i];
		slow += ns[i] > s->slow_us * 1000;
	}
	qsort(ns, n, sizeof(*ns), by_value);
	printf("reads %lu\nmean_us %.1f\np50_us %.1f\np99_us %.1f\nmax_us %.1f\nslow %lu\n", n,
	       (double)sum_ns / (double)n / 1000, (double)ns[(n - 1) / 2] / 1000,
	       (double)ns[(n - 1) * 99 / 100] / 1000, (double)ns[n - 1] / 1000, slow);
}

static void print_stats(struct linnos_array *array)
{
	struct linnos_stats s;

	linnos_array_get_stats(array, &s, sizeof(s));
	printf("queried %llu\nredirected %llu\nprobes %llu\nfailovers %llu\nhedges "
	       "%llu\nhedges_won %llu\n"
	       "saved_us_estimate %lld\n",
	       (unsigned long long)s.queried, (unsigned long long)s.redirected,
	       (unsigned long long)s.probes, (unsigned long long)s.failovers,
	       (unsigned long long)s.hedges, (unsigned long long)s.hedges_won,
	       (long long)s.saved_us_estimate);
}

static ssize_t read_home(const int *fds, unsigned int n, unsigned long i, void *buf, off_t offset)
{
	ssize_t bytes = pread(fds[i % n], buf, BLOCK_BYTES, offset);

	return bytes < 0 ? -errno : bytes;
}

/* Return the default replica if it is among the best, else the first one after it that is. */
static ssize_t read_best(const int *fds, unsigned int n, unsigned long i, void *buf, off_t offset)
{
	int best = linnos_kernel_best_drives(n, fds, BLOCK_BYTES, NULL);

	if (best < 0)
		return best;
	while (best && !(best & 1 << i % n))
		i++;
	return read_home(fds, n, i, buf, offset);
}

/* Return the number of completed reads. */
static unsigned long read_all(const struct settings *s, struct linnos_array *array,
			      struct linnos_queue *queue, const int *fds, unsigned int n,
			      uint64_t *ns)
{
	uint64_t state = s->seed, blocks = linnos_array_size(array) / BLOCK_BYTES,
		 due_ns = now_ns();
	void *buf;

	if (!blocks || posix_memalign(&buf, BLOCK_BYTES, BLOCK_BYTES))
		return 0;
	for (unsigned long i = 0; i < s->reads; i++) {
		off_t offset = (off_t)(draw(&state) % blocks) * BLOCK_BYTES;
		uint64_t start_ns;
		ssize_t bytes;

		if (s->every_us) {
			due_ns += draw_gap_ns(&state, s->every_us);
			sleep_until(due_ns);
		}
		start_ns = now_ns();
		if (s->best_drives)
			bytes = read_best(fds, n, i, buf, offset);
		else if (s->home_only)
			bytes = read_home(fds, n, i, buf, offset);
		else
			bytes = linnos_pread(queue, buf, BLOCK_BYTES, offset);
		ns[i] = now_ns() - start_ns;
		if (bytes != BLOCK_BYTES) {
			fprintf(stderr, "read_replicas: %s\n",
				bytes < 0 && !*linnos_error() ? strerror((int)-bytes)
							      : linnos_error());
			free(buf);
			return i;
		}
	}
	free(buf);
	return s->reads;
}

static int run(const struct settings *s, char **arguments, unsigned int n)
{
	const char *paths[REPLICAS_MAX], *models[REPLICAS_MAX];
	struct linnos_options options = LINNOS_OPTIONS_INIT;
	uint64_t *ns = calloc(s->reads, sizeof(*ns));
	int fds[REPLICAS_MAX], best;
	struct linnos_queue *queue = NULL;
	struct linnos_array *array;
	unsigned long n_read = 0;

	for (unsigned int k = 0; k < n; k++) {
		char *equals = strrchr(arguments[k], '=');

		if (equals)
			*equals = 0;
		paths[k] = arguments[k];
		models[k] = equals ? equals + 1 : NULL;
		fds[k] = open(paths[k], O_RDONLY | O_DIRECT | O_CLOEXEC);
		/* The file system does not support O_DIRECT. */
		if (fds[k] < 0 && errno == EINVAL)
			fds[k] = open(paths[k], O_RDONLY | O_CLOEXEC);
	}
	best = s->best_drives ? linnos_kernel_best_drives(n, fds, BLOCK_BYTES, NULL) : 0;
	if (best < 0) {
		fprintf(stderr,
			"read_replicas: --best-drives: %s; the replicas must be block devices, and "
			"the kernel must have LinnOS\n",
			strerror(-best));
		return 1;
	}
	options.flags = s->query_kernel ? LINNOS_QUERY_KERNEL : 0;
	options.flags |= s->duplicates ? LINNOS_DUPLICATES : 0;
	options.hedge_percentile = s->hedge_percentile;
	options.max_duplicates = s->max_duplicates;
	if (linnos_array_open(&array, n, paths, models, &options) ||
	    linnos_queue_create(&queue, array, NULL)) {
		fprintf(stderr, "read_replicas: %s\n", linnos_error());
	} else if (ns) {
		n_read = read_all(s, array, queue, fds, n, ns);
		if (n_read)
			print_latencies(s, ns, n_read);
		if (!s->home_only && !s->best_drives)
			print_stats(array);
	}
	linnos_queue_close(queue);
	linnos_array_close(array);
	for (unsigned int k = 0; k < n; k++)
		if (fds[k] >= 0)
			close(fds[k]);
	free(ns);
	return n_read == s->reads ? 0 : 1;
}

int main(int argc, char **argv)
{
	struct settings s = {.reads = 10000, .seed = 1, .slow_us = 1000, .max_duplicates = -1};
	unsigned long *const numbers[] = {&s.reads, &s.every_us, &s.seed, &s.slow_us};
	double *const percentages[] = {&s.hedge_percentile, &s.max_duplicates};
	enum { NUMBER = 0, PERCENTAGE = 4, USAGE = 6 };
	const struct option known[] = {
		{"reads", required_argument, NULL, NUMBER},
		{"every-us", required_argument, NULL, NUMBER + 1},
		{"seed", required_argument, NULL, NUMBER + 2},
		{"slow-us", required_argument, NULL, NUMBER + 3},
		{"hedge-percentile", required_argument, NULL, PERCENTAGE},
		{"max-duplicates", required_argument, NULL, PERCENTAGE + 1},
		{"help", no_argument, NULL, USAGE},
		{"home-only", no_argument, &s.home_only, 1},
		{"best-drives", no_argument, &s.best_drives, 1},
		{"query-kernel", no_argument, &s.query_kernel, 1},
		{"duplicates", no_argument, &s.duplicates, 1},
		{0},
	};
	int i, c;

	while ((c = getopt_long(argc, argv, "", known, &i)) >= 0) {
		if (c == USAGE) {
			fputs(HELP, stdout);
			return 0;
		}
		if (c == '?')
			break;
		if (known[i].flag)
			continue;
		if (c < PERCENTAGE)
			*numbers[c] = strtoul(optarg, NULL, 10);
		else
			*percentages[c - PERCENTAGE] = strtod(optarg, NULL);
	}
	if (c == '?' || argc - optind < 1 || argc - optind > REPLICAS_MAX || !s.reads) {
		fputs(HELP, stderr);
		return 1;
	}
	return run(&s, argv + optind, argc - optind);
}
