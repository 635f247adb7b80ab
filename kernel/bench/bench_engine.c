// SPDX-License-Identifier: MIT
/*
 * How long does the network take? The kernel's engine against a plain loop, in one
 * run, on a stream of reads as a drive under changing load produces it.
 *
 *	bench_engine [--json FILE] [--reads N] [--no-count] --model FILE
 *
 * Critical path: a read arrives, the features are known; until it is decided.
 * Total: all that a read costs, from arrival to completion: accounting, the
 * decision and the history.
 *
 * Times are medians: of single reads for the critical path (the cost of reading
 * the clock is measured and taken off), of batches for the total. Instructions
 * are counted by valgrind in a second run of this program, so that they can be
 * compared on a machine that is busy with other things.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "measure.h"
#include "plain_network.h"

/*
 * The stream: a queue of reads of 1 to 16 pages whose depth wanders between 1
 * and 32, on a drive of 90 us a read, 12 us more for each page before it, and
 * 2 to 6 ms in bursts. It is arithmetic, not a drive: what matters here is that
 * digits, depths and repetitions are like those of real reads.
 */
#define DEPTH_MAX 32

struct event {
	uint32_t arrives; /* or completes */
	uint32_t pending; /* at arrival, itself included */
	uint32_t pages;
	uint32_t latency_us;
};

static long make_stream(struct event *events, long reads)
{
	struct event queue[DEPTH_MAX];
	uint32_t depth = 0, target = 4, pending = 0;
	long n = 0, arrived = 0, burst = 0;

	while (arrived < reads || depth) {
		if (rnd() % 64 == 0)
			target = rnd() % 8 ? 1 + rnd() % 6 : 1 + rnd() % DEPTH_MAX;
		if (!burst && rnd() % 2000 == 0)
			burst = 20 + rnd() % 60;
		if (arrived < reads && (!depth || depth < target)) {
			struct event e = { .arrives = 1 };

			e.pages = rnd() % 3 ? 1 : 1 + rnd() % 16;
			pending += e.pages;
			e.pending = pending;
			e.latency_us = 80 + rnd() % 30 + 12 * (pending - e.pages);
			if (burst) {
				e.latency_us += 2000 + rnd() % 4000;
				burst--;
			}
			queue[depth++] = e;
			events[n++] = e;
			arrived++;
		} else {
			uint32_t which = rnd() % (depth < 3 ? depth : 3);
			struct event e = queue[which];

			depth--;
			memmove(&queue[which], &queue[which + 1],
				(depth - which) * sizeof(e));
			pending -= e.pages;
			e.arrives = 0;
			events[n++] = e;
		}
	}
	return n;
}

/* One drive's state, as the kernel keeps it. */
struct drive {
	_Atomic int64_t in_flight;
	uint32_t hist_pending[LINNOS_HISTORY];
	uint32_t hist_latency_us[LINNOS_HISTORY];
	struct plain_network plain;
	struct linnos_net net;
	long slow;
};

struct engine {
	const char *name;
	bool plain;
};

static const struct engine engines[] = {
	{ "reference", true },
	{ "scalar", false },
};

#define N_ENGINES (sizeof(engines) / sizeof(engines[0]))

/* valgrind knows the two by their names: they must stay as they are */
int decide(const struct engine *engine, struct drive *drive, uint32_t pending);
void complete(struct drive *drive, const struct event *e);

__attribute__((noipa)) int decide(const struct engine *engine, struct drive *drive,
					    uint32_t pending)
{
	struct linnos_hidden hidden;
	u8 digits[LINNOS_N_INPUTS];

	linnos_features_encode(drive->hist_pending, drive->hist_latency_us, pending, digits);
	if (engine->plain)
		return plain_infer(&drive->plain, digits);
	linnos_hidden_layer(&drive->net, digits, &hidden);
	return linnos_margin(&drive->net, &hidden) > 0;
}

__attribute__((noipa)) void complete(struct drive *drive, const struct event *e)
{
	int i;

	for (i = 0; i < LINNOS_HISTORY - 1; i++) {
		drive->hist_pending[i] = drive->hist_pending[i + 1];
		drive->hist_latency_us[i] = drive->hist_latency_us[i + 1];
	}
	drive->hist_pending[i] = e->pending;
	drive->hist_latency_us[i] = e->latency_us;
	atomic_fetch_sub(&drive->in_flight, e->pages);
}

static void start(struct drive *drive)
{
	memset(drive->hist_pending, 0, sizeof(drive->hist_pending));
	memset(drive->hist_latency_us, 0, sizeof(drive->hist_latency_us));
	drive->slow = 0;
}

#ifdef __x86_64__
#define TICKS "rdtsc"
static uint64_t ticks(void)
{
	__builtin_ia32_lfence();
	uint64_t t = __builtin_ia32_rdtsc();

	__builtin_ia32_lfence();
	return t;
}
#else
#define TICKS "clock_gettime"
static uint64_t ticks(void)
{
	return clock_ns();
}
#endif

static double ns_per_tick(void)
{
	uint64_t t = ticks(), ns = clock_ns();

	usleep(50000);
	return (double)(clock_ns() - ns) / (ticks() - t);
}

struct result {
	double critical_ns, critical_p99_ns, total_ns;
	double critical_instructions, total_instructions;
	long slow;
};

#define BATCH 200

static void run(const struct engine *engine, struct drive *drive, const struct event *events,
		long n, double scale, struct result *result)
{
	double *critical = malloc(n * sizeof(double));
	double *total = malloc(n * sizeof(double));
	double *nothing = malloc(n * sizeof(double));
	long decisions = 0, batches = 0, in_batch = 0, i;
	double overhead;
	uint64_t since;

	for (i = 0; i < n; i++) {
		uint64_t t = ticks();

		nothing[i] = ticks() - t;
	}
	overhead = quantile(nothing, n, 0.5);

	start(drive);
	for (i = 0; i < n; i++) {
		if (events[i].arrives) {
			uint64_t t = ticks();
			int slow = decide(engine, drive, events[i].pending);

			critical[decisions++] = ticks() - t - overhead;
			drive->slow += slow;
			atomic_fetch_add(&drive->in_flight, events[i].pages);
		} else {
			complete(drive, &events[i]);
		}
	}
	result->slow = drive->slow;
	result->critical_ns = quantile(critical, decisions, 0.5) * scale;
	result->critical_p99_ns = quantile(critical, decisions, 0.99) * scale;

	start(drive);
	since = clock_ns();
	for (i = 0; i < n; i++) {
		if (!events[i].arrives) {
			complete(drive, &events[i]);
			continue;
		}
		drive->slow += decide(engine, drive, events[i].pending);
		atomic_fetch_add(&drive->in_flight, events[i].pages);
		if (++in_batch == BATCH) {
			uint64_t now = clock_ns();

			total[batches++] = (double)(now - since) / BATCH;
			since = now;
			in_batch = 0;
		}
	}
	result->total_ns = quantile(total, batches, 0.5);
	free(critical);
	free(total);
	free(nothing);
}

/* For valgrind: nothing but the work. */
static void only(const char *name, struct drive *drive, const struct event *events, long n)
{
	size_t k;
	long i;

	for (k = 0; k < N_ENGINES; k++) {
		if (strcmp(engines[k].name, name))
			continue;
		start(drive);
		for (i = 0; i < n; i++) {
			if (events[i].arrives)
				decide(&engines[k], drive, events[i].pending);
			else
				complete(drive, &events[i]);
		}
	}
}

static double count_instructions(const char *self, const char *name, const char *functions,
				 const char *model, long reads)
{
	char command[1024], line[256];
	double counted = -1;
	FILE *pipe;

	snprintf(command, sizeof(command),
		 "valgrind --tool=callgrind --callgrind-out-file=/dev/null %s '%s' --only %s "
		 "--reads %ld --model '%s' 2>&1",
		 functions, self, name, reads, model);
	pipe = popen(command, "r");
	if (!pipe)
		return -1;
	while (fgets(line, sizeof(line), pipe)) {
		const char *found = strstr(line, "Collected : ");

		if (found)
			counted = strtod(found + strlen("Collected : "), NULL) / reads;
	}
	pclose(pipe);
	return counted;
}

static int load_model(struct drive *drive, const char *path)
{
	unsigned char file[LINNOS_NETWORK_BYTES + 1];
	enum linnos_model_error error;
	size_t bytes;
	FILE *f;

	f = fopen(path, "rb");
	if (!f) {
		fprintf(stderr, "bench_engine: %s: %s\n", path, strerror(errno));
		return 1;
	}
	bytes = fread(file, 1, sizeof(file), f);
	fclose(f);
	error = linnos_network_parse(&drive->net, file, bytes);
	if (error) {
		fprintf(stderr, "bench_engine: %s: %s\n", path, linnos_model_error_string(error));
		return 1;
	}
	plain_read(&drive->plain, file);
	return 0;
}

int main(int argc, char **argv)
{
	const char *json = NULL, *model_path = NULL, *only_engine = NULL;
	static struct drive the_drive, *drive = &the_drive;
	struct result results[N_ENGINES] = { { 0 } };
	struct event *events;
	long reads = 40000, n;
	int count = 1, i;
	double scale;
	size_t k;

	for (i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--no-count")) {
			count = 0;
		} else if (i + 1 == argc) {
			fprintf(stderr, "bench_engine: %s: unknown, or wants a value\n", argv[i]);
			return 2;
		} else if (!strcmp(argv[i], "--json")) {
			json = argv[++i];
		} else if (!strcmp(argv[i], "--model")) {
			model_path = argv[++i];
		} else if (!strcmp(argv[i], "--reads")) {
			reads = atol(argv[++i]);
		} else if (!strcmp(argv[i], "--only")) {
			only_engine = argv[++i];
		} else {
			fprintf(stderr, "bench_engine: %s: unknown option\n", argv[i]);
			return 2;
		}
	}
	if (reads < 1000) {
		fprintf(stderr, "bench_engine: --reads: at least 1000\n");
		return 2;
	}
	if (!model_path) {
		fprintf(stderr, "bench_engine: --model: which?\n");
		return 2;
	}
	if (load_model(drive, model_path))
		return 1;
	events = malloc(2 * reads * sizeof(*events));
	random_state = 0x4c494e4e;
	n = make_stream(events, reads);
	if (only_engine) {
		only(only_engine, drive, events, n);
		return 0;
	}

	scale = !strcmp(TICKS, "rdtsc") ? ns_per_tick() : 1;
	for (k = 0; k < N_ENGINES; k++) {
		run(&engines[k], drive, events, n, scale, &results[k]);
		if (results[k].slow != results[0].slow) {
			fprintf(stderr, "bench_engine: %s decides differently: %ld slow, not %ld\n",
				engines[k].name, results[k].slow, results[0].slow);
			return 1;
		}
		results[k].critical_instructions = -1;
		results[k].total_instructions = -1;
		if (!count)
			continue;
		results[k].critical_instructions = count_instructions(
			argv[0], engines[k].name, "--toggle-collect=decide", model_path, 1000);
		results[k].total_instructions = count_instructions(
			argv[0], engines[k].name,
			"--toggle-collect=decide --toggle-collect=complete", model_path, 1000);
	}

	printf("%ld reads, %.1f %% predicted slow; medians\n\n", reads,
	       100.0 * results[0].slow / reads);
	printf("%-10s %14s %8s %14s %14s %8s %14s\n", "engine", "critical ns", "x", "instructions",
	       "total ns", "x", "instructions");
	for (k = 0; k < N_ENGINES; k++) {
		const struct result *r = &results[k];

		printf("%-10s %14.1f %8.1f %14.0f %14.1f %8.1f %14.0f\n", engines[k].name,
		       r->critical_ns, results[0].critical_ns / r->critical_ns,
		       r->critical_instructions, r->total_ns, results[0].total_ns / r->total_ns,
		       r->total_instructions);
	}
	printf("\nmemory: packed model %zu bytes\n", sizeof(struct linnos_net));

	if (json) {
		FILE *f = fopen(json, "w");

		if (!f) {
			fprintf(stderr, "bench_engine: %s: %s\n", json, strerror(errno));
			return 1;
		}
		fprintf(f, "{\"reads\": %ld, \"model_bytes\": %zu, \"engines\": [", reads,
			sizeof(struct linnos_net));
		for (k = 0; k < N_ENGINES; k++) {
			const struct result *r = &results[k];

			fprintf(f,
				"%s\n  {\"engine\": \"%s\", \"critical_ns\": %.2f, \"critical_p99_ns\": %.2f, "
				"\"critical_speedup\": %.2f, \"critical_instructions\": %.1f, "
				"\"total_ns\": %.2f, \"total_speedup\": %.2f, \"total_instructions\": %.1f}",
				k ? "," : "", engines[k].name, r->critical_ns, r->critical_p99_ns,
				results[0].critical_ns / r->critical_ns, r->critical_instructions,
				r->total_ns, results[0].total_ns / r->total_ns, r->total_instructions);
		}
		fprintf(f, "\n]}\n");
		if (fclose(f))
			return 1;
	}
	return 0;
}
