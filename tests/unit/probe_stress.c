// SPDX-License-Identifier: MIT
/*
 * Run the kernel's core in several threads: reads and writes begin, are split into parts, are
 * merged, are issued more than once, fail or complete, while other threads claim probes and send
 * nothing.
 *
 *	probe_stress SEED
 *
 * Fails if anything stays counted when nothing is in flight, or if more than one hinted read in
 * fifty is sent to a drive whose answers are all late.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "linnos_drive.h"

#define THREADS 4
#define STEPS 60000
#define DEPTH 40

static struct linnos_drive drive;
static pthread_mutex_t history = PTHREAD_MUTEX_INITIALIZER;
static u64 clock_ns = 1000000000ULL;
static u32 claimed, admitted;
static unsigned int seed;

struct worker {
	struct linnos_io io[DEPTH];
	unsigned int n, seed;
};

static bool is_admitted(struct worker *worker, u32 size_class, u64 now_ns)
{
	__atomic_add_fetch(&claimed, 1, __ATOMIC_RELAXED);
	if (!linnos_probe_window_allows(&drive, size_class, now_ns) &&
	    !linnos_probe_claim(&drive, size_class, rand_r(&worker->seed) % 2, now_ns)) {
		atomic_inc(&drive.probes[size_class].refused);
		return false;
	}
	__atomic_add_fetch(&admitted, 1, __ATOMIC_RELAXED);
	/* a quarter of the admitted reads are not sent */
	return rand_r(&worker->seed) % 4;
}

/* Begin a hinted read. Large reads are split into requests of a smaller size class. */
static void begin_hinted(struct worker *worker, u64 now_ns)
{
	static const u32 sizes[] = {1, 16, 17, 100, 128};
	u32 left = sizes[rand_r(&worker->seed) % 5], most = 16, part;

	if (worker->n + 8 > DEPTH || !is_admitted(worker, linnos_size_class(left), now_ns))
		return;
	for (; left; left -= part) {
		part = min_t(u32, left, most);
		linnos_io_begin(&drive, &worker->io[worker->n++],
				linnos_region_of((u64)rand_r(&worker->seed) << 12), part,
				LINNOS_IO_READ | (left == part ? LINNOS_IO_SLOW : 0), now_ns);
	}
}

static void begin_other(struct worker *worker, u64 now_ns)
{
	if (worker->n < DEPTH)
		linnos_io_begin(&drive, &worker->io[worker->n++], 3, 1 + rand_r(&worker->seed) % 16,
				rand_r(&worker->seed) % 4 ? 0 : LINNOS_IO_READ, now_ns);
}

static void end(struct worker *worker, unsigned int which, u64 now_ns)
{
	struct linnos_io *io = &worker->io[which];
	struct linnos_completed_io ended;

	if (rand_r(&worker->seed) % 16) {
		linnos_io_issue(io, now_ns);
		io->flags |= LINNOS_IO_ANSWERED;
	}
	if (linnos_io_end(&drive, io, now_ns, &ended)) {
		pthread_mutex_lock(&history);
		linnos_history_add(&drive.history, &ended);
		linnos_probe_complete(&drive, io, ended.end_ns, true);
		pthread_mutex_unlock(&history);
	}
	*io = worker->io[--worker->n];
}

static void join(struct worker *worker, unsigned int which)
{
	struct linnos_io *last = &worker->io[worker->n - 1], *io = &worker->io[which];

	if (io == last || (io->flags ^ last->flags) & LINNOS_IO_READ)
		return;
	linnos_io_join(&drive, io, last);
	worker->n--;
}

static void predict(u64 now_ns)
{
	struct linnos_drive_snapshot view = {.now_ns = now_ns, .pages = 1};
	u32 features[LINNOS_N_FEATURES];

	linnos_load_snapshot(&drive, &view.load);
	linnos_compute_features(&drive.start_slots, &view, 100, features);
}

static void *work(void *argument)
{
	struct worker worker = {.seed = seed * THREADS + (long)argument};
	int i;

	for (i = 0; i < STEPS; i++) {
		u64 now_ns =
			__atomic_add_fetch(&clock_ns, rand_r(&worker.seed) % 4000, __ATOMIC_RELAXED);
		unsigned int which = worker.n ? rand_r(&worker.seed) % worker.n : 0;

		switch (rand_r(&worker.seed) % (worker.n ? 8 : 4)) {
		case 0 ... 2:
			begin_hinted(&worker, now_ns);
			break;
		case 3:
			begin_other(&worker, now_ns);
			break;
		case 4:
			linnos_io_issue(&worker.io[which], now_ns);
			break;
		case 5:
			join(&worker, which);
			break;
		default:
			end(&worker, which, now_ns);
		}
		if (i % 64 == 0)
			predict(now_ns);
		if (i % 5000 == 0)
			WRITE_ONCE(drive.tracks_starts, rand_r(&worker.seed) % 2);
	}
	while (worker.n)
		end(&worker, 0, READ_ONCE(clock_ns));
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t threads[THREADS];
	bool left = false;
	long i;

	seed = argc > 1 ? atoi(argv[1]) : 1;
	drive.probe_after_us = 10000;
	drive.probe_after_refused = 100;
	linnos_drive_reset_history(&drive, clock_ns);
	for (i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, work, (void *)i);
	for (i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);

	left = drive.load || drive.write_pages;
	for (i = 0; i < LINNOS_REGIONS; i++)
		left |= drive.in_region[i];
	for (i = 0; i < LINNOS_SIZE_CLASSES; i++)
		left |= drive.probes[i].in_flight || drive.probes[i].slow_in_flight;
	for (i = 0; i < LINNOS_START_SLOTS; i++)
		left |= drive.start_slots.start_ns[i];
	printf("%u of %u hinted reads admitted%s\n", admitted, claimed,
	       left ? ", and something is left in flight" : "");
	return left || admitted * 50ULL > claimed || admitted < 10;
}
