// SPDX-License-Identifier: GPL-2.0-only
/*
 * Do two cores that read from one drive decide twice as many reads as one?
 *
 *	two_cores [--json FILE] MODEL
 *
 * The kernel's own blk-linnos.c and its like, compiled into this program
 * (policy.h), admit and complete hinted reads on two pinned
 * threads: on one drive that both use, and on a drive each. The latter is what
 * the machine's cores give at most. There is no block layer and no drive here.
 * Their work, done in between, keeps the cores from meeting all the time: once
 * there is none of it, the worst case, and once 1 us of work that scales by
 * itself, less than a read from null_blk takes in a kernel without LinnOS.
 */
#include "policy.h"

#include <sched.h>

#define DEPTH 4
#define READS 100000
#define ROUNDS 9
#define ONE_US 1000

/* What else a read makes its core do, and no other core waits for. */
static long other_work_ns;

static void work(void)
{
	u64 until;

	if (!other_work_ns)
		return;
	until = ktime_get_ns() + other_work_ns;
	while (ktime_get_ns() < until)
		;
}

static pthread_barrier_t start_line;

struct core {
	int cpu;
	struct gendisk *disk;
	double seconds;
	u64 decided;
};

/* Each core has a few reads in flight, as one process would. */
static void *submit_and_complete(void *argument)
{
	struct core *core = argument;
	struct rq_qos *rqos = &core->disk->linnos->rqos;
	struct block_device bdev = { .bd_disk = core->disk };
	struct bio bios[DEPTH] = { 0 };
	struct request requests[DEPTH] = { 0 };
	cpu_set_t set;
	u64 begin;
	long i;

	shim_cpu = core->cpu;
	CPU_ZERO(&set);
	CPU_SET(core->cpu, &set);
	if (pthread_setaffinity_np(pthread_self(), sizeof(set), &set))
		fprintf(stderr, "two_cores: CPU %d is not ours\n", core->cpu);
	for (i = 0; i < DEPTH; i++) {
		bios[i].bi_bdev = &bdev;
		bios[i].bi_iter.bi_size = 4096 * (i + 1);
		requests[i].q = core->disk->queue;
		requests[i].bio = &bios[i];
	}
	pthread_barrier_wait(&start_line);
	begin = ktime_get_ns();
	for (i = 0; i < READS + DEPTH; i++) {
		struct bio *bio = &bios[i % DEPTH];

		work();
		if (i >= DEPTH) {
			__blk_linnos_complete_rq(&requests[i % DEPTH],
						 bio->bi_iter.bi_size);
			blk_linnos_done_bio(bio);
		}
		if (i >= READS)
			continue;
		bio->bi_opf |= REQ_LATCRIT;
		if (!blk_linnos_decide(bio))
			core->decided++;
		blk_linnos_ops.arrive(rqos, bio);
		blk_linnos_ops.track(rqos, &requests[i % DEPTH], bio);
		__blk_linnos_issue_rq(&requests[i % DEPTH]);
	}
	core->seconds = (ktime_get_ns() - begin) * 1e-9;
	return NULL;
}

/* Decisions per second. */
static double measure(int cores, struct gendisk **disks)
{
	struct core core[SHIM_CPUS] = { 0 };
	pthread_t thread[SHIM_CPUS];
	double seconds = 0;
	u64 decided = 0;
	int i;

	pthread_barrier_init(&start_line, NULL, cores);
	for (i = 0; i < cores; i++) {
		core[i].cpu = i;
		core[i].disk = disks[i];
		if (pthread_create(&thread[i], NULL, submit_and_complete, &core[i]))
			abort();
	}
	for (i = 0; i < cores; i++) {
		pthread_join(thread[i], NULL);
		seconds = max(seconds, core[i].seconds);
		decided += core[i].decided;
	}
	if (linnos_pending_pages(disks[0]->linnos)) {
		fprintf(stderr, "two_cores: pages stay pending\n");
		exit(1);
	}
	return decided / seconds;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
	static const char *const names[] = { "one core", "two cores, one drive",
					     "two cores, a drive each" };
	static const long works_ns[] = { 0, ONE_US };
	double rate[3][ROUNDS], median[2][3];
	unsigned char file[LINNOS_NETWORK_BYTES + 1];
	struct gendisk *disks[2], *shared[2];
	const char *json = NULL;
	size_t bytes;
	FILE *f;
	int i, k, w;

	if (argc == 4 && !strcmp(argv[1], "--json")) {
		json = argv[2];
		argv += 2;
		argc -= 2;
	}
	if (argc != 2) {
		fprintf(stderr, "usage: two_cores [--json FILE] MODEL\n");
		return 2;
	}
	bytes = read_model(argv[1], file, sizeof(file));
	disks[0] = make_drive(file, bytes, LINNOS_OBSERVE);
	disks[1] = make_drive(file, bytes, LINNOS_OBSERVE);
	shared[0] = shared[1] = disks[0];
	for (w = 0; w < 2; w++) {
		other_work_ns = works_ns[w];
		printf("%ld ns of other work a read:\n", other_work_ns);
		for (k = 0; k < ROUNDS; k++) {
			rate[0][k] = measure(1, disks);
			rate[1][k] = measure(2, shared);
			rate[2][k] = measure(2, disks);
		}
		for (i = 0; i < 3; i++) {
			qsort(rate[i], ROUNDS, sizeof(double), by_value);
			median[w][i] = rate[i][ROUNDS / 2];
			printf("  %-24s %6.2f million decisions/s, %.2f x\n", names[i],
			       median[w][i] / 1e6, median[w][i] / median[w][0]);
		}
	}
	if (!json)
		return 0;
	f = fopen(json, "w");
	if (!f) {
		fprintf(stderr, "two_cores: %s: %s\n", json, strerror(errno));
		return 1;
	}
	for (w = 0; w < 2; w++)
		fprintf(f,
			"%s{\"other_work_ns\": %ld, \"one_core_per_s\": %.0f, "
			"\"one_drive_per_s\": %.0f, \"drive_each_per_s\": %.0f, "
			"\"one_drive_ratio\": %.3f, \"drive_each_ratio\": %.3f}%s\n",
			w ? " " : "[", works_ns[w], median[w][0], median[w][1], median[w][2],
			median[w][1] / median[w][0], median[w][2] / median[w][0], w ? "]" : ",");
	if (fclose(f))
		return 1;
	return 0;
}
