// SPDX-License-Identifier: GPL-2.0-only
/*
 * Measure the cost of the policy for an I/O, and for a query about the best
 * drive.
 *
 *	bench_policy [--json FILE] MODEL...
 *
 * The kernel's own blk-linnos.c and related files are compiled into this
 * program (policy.h). It measures a decision on a hinted read, the whole path
 * of a read and of a write, and BLKEXPECT queries about 1, 3 and 8 drives,
 * compared with the cheapest system call. Drives are in observe mode, have four
 * reads in flight, and have completed some.
 */
#include <stdint.h>

/*
 * The policy reads the real clock, because this is part of the cost, but gets a
 * time that advances by this much with each reading.
 */
#define CLOCK_STEP_NS 123000
static uint64_t simulated_ns(void);
#define SHIM_CLOCK_NS simulated_ns()
#include "policy.h"

#include <sys/syscall.h>

#include "measure.h"

#define DRIVES 8
#define IN_FLIGHT 4
#define READ_BYTES 4096

static struct gendisk *disks[DRIVES];
static struct block_device bdevs[DRIVES];
static volatile unsigned long sink;

static uint64_t simulated_ns(void)
{
	static uint64_t now_ns;

	sink += clock_ns();
	return now_ns += CLOCK_STEP_NS;
}

/* The same as linnos_query_drives() of blk-linnos-ioctl.c, which also holds the files. */
static void ask(int n)
{
	enum blk_linnos_expected answers[DRIVES];
	struct blk_expect_drive drives[DRIVES];
	u64 now_ns = ktime_get_ns();
	int i;

	for (i = 0; i < n; i++)
		answers[i] = blk_linnos_query(&bdevs[i], 0, READ_BYTES, now_ns,
					    true, &drives[i]);
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

/* The read is admitted, because the drive is in observe mode, and never sent. */
static void decide(void)
{
	struct bio bio = { .bi_bdev = &bdevs[0], .bi_opf = REQ_LATCRIT };

	bio.bi_iter.bi_size = READ_BYTES;
	sink += blk_linnos_decide(&bio);
}

static void begin_and_end(int op, bool hint)
{
	struct io io;

	io_begin(&io, disks[0], op, hint, READ_BYTES);
	io_end(&io);
}

static void hinted_read(void)
{
	begin_and_end(REQ_OP_READ, true);
}

static void plain_read(void)
{
	begin_and_end(REQ_OP_READ, false);
}

static void plain_write(void)
{
	begin_and_end(REQ_OP_WRITE, false);
}

static void least_system_call(void)
{
	sink += syscall(SYS_getppid);
}

static const struct way ways[] = {
	{ "decision", decide },
	{ "hinted_read", hinted_read },
	{ "read", plain_read },
	{ "write", plain_write },
	{ "ask_1_drive", ask_1 },
	{ "ask_3_drives", ask_3 },
	{ "ask_8_drives", ask_8 },
	{ "least_system_call", least_system_call },
};

static void make_drives(const char *model)
{
	static struct io ios[2 * IN_FLIGHT];
	int k, i;

	for (k = 0; k < DRIVES; k++) {
		disks[k] = make_drive(model);
		bdevs[k].bd_disk = disks[k];
		for (i = 0; i < 2 * IN_FLIGHT; i++) {
			io_begin(&ios[i], disks[k], REQ_OP_READ, false, READ_BYTES);
			if (i >= IN_FLIGHT)
				io_end(&ios[i]);
		}
	}
}

int main(int argc, char **argv)
{
	const char *path = NULL, *before = "{";
	FILE *json;
	int m = 1;

	if (argc > 2 && !strcmp(argv[1], "--json")) {
		path = argv[2];
		m = 3;
	}
	if (m >= argc) {
		fputs("usage: bench_policy [--json FILE] MODEL...\n", stderr);
		return 2;
	}
	json = open_json(path);
	for (; m < argc; m++, before = ",\n ") {
		shim_used = 0;
		make_drives(argv[m]);
		printf("%s:\n", argv[m]);
		fprintf(json, "%s\"%s\": ", before, argv[m]);
		measure(ways, ARRAY_SIZE(ways), json, argv[0], argv[m]);
	}
	fputs("}\n", json);
	close_json(json);
	return 0;
}
