// SPDX-License-Identifier: GPL-2.0-only
/*
 * Measure whether two cores that read from one drive decide on twice as many
 * reads as one core.
 *
 *	two_cores [--json FILE] MODEL
 *
 * The kernel's own blk-linnos.c and related files are compiled into this
 * program (policy.h). They admit and complete hinted reads on two pinned
 * threads: on one drive that both use, and on one drive each. The latter is the
 * maximum that the machine's cores allow. There is no block layer and no drive.
 * Other work between the reads keeps the cores from accessing the same lines
 * all the time. It is measured with none of it, which is the worst case, and
 * with 1 us, which scales perfectly and is less than the time of a read from
 * null_blk in a kernel without LinnOS.
 */
#include "policy.h"

#include <sched.h>

#include "measure.h"

#define DEPTH 4
#define READS 100000
#define ROUNDS 9

/* Time of the other work of a core per read, which no other core waits for. */
static u64 other_work_ns;
static pthread_barrier_t start_line;

struct core {
	int cpu;
	struct gendisk *disk;
	double seconds;
};

static void work(void)
{
	u64 until = clock_ns() + other_work_ns;

	while (other_work_ns && clock_ns() < until)
		;
}

/* Each core has a few reads in flight, as a process would. */
static void *submit_and_complete(void *argument)
{
	struct core *core = argument;
	struct io ios[DEPTH] = {};
	cpu_set_t set;
	u64 begin;
	long i;

	shim_cpu = core->cpu;
	CPU_ZERO(&set);
	CPU_SET(core->cpu, &set);
	if (pthread_setaffinity_np(pthread_self(), sizeof(set), &set))
		fprintf(stderr, "two_cores: CPU %d is not ours\n", core->cpu);
	pthread_barrier_wait(&start_line);
	begin = clock_ns();
	for (i = 0; i < READS + DEPTH; i++) {
		work();
		if (i >= DEPTH)
			io_end(&ios[i % DEPTH]);
		if (i < READS)
			io_begin(&ios[i % DEPTH], core->disk, REQ_OP_READ, true,
				 4096 * (i % DEPTH + 1));
	}
	core->seconds = (clock_ns() - begin) * 1e-9;
	return NULL;
}

/* Return the decisions per second; all reads are admitted. */
static double decided_per_s(int cores, struct gendisk *first, struct gendisk *second)
{
	struct core core[2] = { { 0, first }, { 1, second } };
	pthread_t thread[2];
	double seconds = 0;
	int i;

	pthread_barrier_init(&start_line, NULL, cores);
	for (i = 0; i < cores; i++)
		if (pthread_create(&thread[i], NULL, submit_and_complete, &core[i]))
			abort();
	for (i = 0; i < cores; i++) {
		pthread_join(thread[i], NULL);
		seconds = max(seconds, core[i].seconds);
	}
	check_idle(first);
	return cores * READS / seconds;
}

int main(int argc, char **argv)
{
	static const char *const names[] = { "one_core", "one_drive", "drive_each" };
	struct gendisk *disk, *other;
	const char *path = NULL;
	double rate[3][ROUNDS];
	FILE *json;
	int i, k;

	if (argc == 4 && !strcmp(argv[1], "--json")) {
		path = argv[2];
		argv += 2;
		argc -= 2;
	}
	if (argc != 2) {
		fputs("usage: two_cores [--json FILE] MODEL\n", stderr);
		return 2;
	}
	json = open_json(path);
	disk = make_drive(argv[1]);
	other = make_drive(argv[1]);
	for (other_work_ns = 0; other_work_ns <= 1000; other_work_ns += 1000) {
		printf("%llu ns of other work a read:\n", other_work_ns);
		for (k = 0; k < ROUNDS; k++) {
			rate[0][k] = decided_per_s(1, disk, disk);
			rate[1][k] = decided_per_s(2, disk, disk);
			rate[2][k] = decided_per_s(2, disk, other);
		}
		fprintf(json, "%s{\"other_work_ns\": %llu", other_work_ns ? ",\n " : "[",
			other_work_ns);
		for (i = 0; i < 3; i++) {
			double per_s = median(rate[i], ROUNDS);
			/* sorted at this point */
			double ratio = per_s / rate[0][ROUNDS / 2];

			printf("  %-10s %6.2f million decisions/s, %.2f x\n", names[i],
			       per_s / 1e6, ratio);
			fprintf(json, ", \"%s_per_s\": %.0f, \"%s_ratio\": %.3f", names[i], per_s,
				names[i], ratio);
		}
		fputs("}", json);
	}
	fputs("]\n", json);
	close_json(json);
	return 0;
}
