// SPDX-License-Identifier: GPL-2.0-only
/*
 * What does it cost to ask drives which of them should serve a read?
 *
 *	bench_ask LATENCY_MODEL NETWORK_MODEL [JSON]
 *
 * The kernel's own blk-linnos.c and its like, compiled into this program
 * (policy.h): what BLKEXPECT asks of them, 1, 3 and 8 drives, beside a decision
 * about a hinted read, and beside the system call that does the least, which
 * asking costs as well. Each drive has four reads in flight and has answered
 * some. Medians of batches, with all in the caches.
 */
#define SHIM_RANGES 256
#include "policy.h"

#include <sys/syscall.h>
#include <unistd.h>

#include "measure.h"

#define DRIVES 8
#define IN_FLIGHT 4
#define BATCH 256
#define BATCHES 101
#define READ_BYTES 4096

static struct gendisk *disks[DRIVES];
static struct block_device bdevs[DRIVES];
static volatile unsigned long sink;

/* As linnos_ask_drives() of blk-linnos-ioctl.c, which holds files besides. */
static void ask(int n)
{
	enum blk_linnos_expected answers[DRIVES];
	struct blk_expect_drive drives[DRIVES];
	u64 now_ns = ktime_get_ns();
	int i;

	for (i = 0; i < n; i++)
		answers[i] = blk_linnos_ask(&bdevs[i], READ_BYTES, now_ns, false,
					    &drives[i]);
	sink += blk_linnos_best(answers, n);
}

static void ask_1(void)
{
	ask(1);
}

static void ask_3(void)
{
	ask(3);
}

static void ask_8(void)
{
	ask(8);
}

/* It is admitted, since the drive observes, and never sent. */
static void decide(void)
{
	struct bio bio = { .bi_bdev = &bdevs[0], .bi_opf = REQ_LATCRIT };

	bio.bi_iter.bi_size = READ_BYTES;
	sink += blk_linnos_decide(&bio);
}

static void least_system_call(void)
{
	sink += syscall(SYS_getppid);
}

static double median_ns(void (*run)(void))
{
	double times[BATCHES];
	int batch, i;

	for (batch = 0; batch < BATCHES; batch++) {
		double start = clock_ns();

		for (i = 0; i < BATCH; i++)
			run();
		times[batch] = (clock_ns() - start) / BATCH;
	}
	return quantile(times, BATCHES, 0.5);
}

static void finish(struct request *rq, struct bio *bio)
{
	__blk_linnos_complete_rq(rq, READ_BYTES);
	blk_linnos_done_bio(bio);
}

/* A drive that has answered reads, and has some more. */
static void load(int k)
{
	static struct bio bios[DRIVES][2 * IN_FLIGHT];
	static struct request requests[DRIVES][2 * IN_FLIGHT];
	int i;

	for (i = 0; i < 2 * IN_FLIGHT; i++) {
		struct request *rq = &requests[k][i];
		struct bio *bio = &bios[k][i];

		*bio = (struct bio){ .bi_bdev = &bdevs[k] };
		bio->bi_iter.bi_size = READ_BYTES;
		*rq = (struct request){ .q = disks[k]->queue, .bio = bio };
		blk_linnos_ops.arrive(&disks[k]->linnos->rqos, bio);
		blk_linnos_ops.track(&disks[k]->linnos->rqos, rq, bio);
		__blk_linnos_issue_rq(rq);
		if (i < IN_FLIGHT)
			finish(rq, bio);
	}
}

static void make_drives(const void *model, size_t bytes)
{
	int k;

	for (k = 0; k < DRIVES; k++) {
		disks[k] = make_drive(model, bytes, LINNOS_OBSERVE);
		bdevs[k].bd_disk = disks[k];
		load(k);
	}
}

static const struct {
	const char *name;
	void (*run)(void);
} ways[] = {
	{ "decide_one_hinted_read", decide },
	{ "ask_1_drive", ask_1 },
	{ "ask_3_drives", ask_3 },
	{ "ask_8_drives", ask_8 },
};
#define N_WAYS (int)ARRAY_SIZE(ways)

int main(int argc, char **argv)
{
	static const char *const kinds[] = { "latency", "network" };
	static unsigned char file[1 << 20];
	double ns[2][N_WAYS], call_ns;
	int kind, k;

	if (argc < 3) {
		fputs("usage: bench_ask LATENCY_MODEL NETWORK_MODEL [JSON]\n", stderr);
		return 2;
	}
	call_ns = median_ns(least_system_call);
	printf("%-24s %6.1f ns\n", "least_system_call", call_ns);
	for (kind = 0; kind < 2; kind++) {
		make_drives(file, read_model(argv[1 + kind], file, sizeof(file)));
		printf("%s:\n", kinds[kind]);
		for (k = 0; k < N_WAYS; k++) {
			ns[kind][k] = median_ns(ways[k].run);
			printf("  %-22s %6.1f ns, %.2f of a decision\n", ways[k].name,
			       ns[kind][k], ns[kind][k] / ns[kind][0]);
		}
	}
	if (argc > 3) {
		FILE *f = fopen(argv[3], "w");

		if (!f) {
			perror(argv[3]);
			return 1;
		}
		fprintf(f, "{\"least_system_call_ns\": %.1f", call_ns);
		for (kind = 0; kind < 2; kind++)
			for (k = 0; k < N_WAYS; k++)
				fprintf(f, ",\n \"%s_%s_ns\": %.1f", kinds[kind],
					ways[k].name, ns[kind][k]);
		fputs("}\n", f);
		if (fclose(f)) {
			perror(argv[3]);
			return 1;
		}
	}
	return 0;
}
