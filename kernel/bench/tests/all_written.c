// SPDX-License-Identifier: GPL-2.0-only
/*
 * Test that everything a decision outputs is initialised.
 *
 *	all_written LATENCY_MODEL NETWORK_MODEL
 *
 * Nothing clears the stack memory of a decision, not even a kernel that
 * initialises stack variables by default. Previous stack contents must neither
 * affect a decision nor leak through an event or an answer. The kernel's own
 * blk-linnos.c and related files (policy.h) decide on the same reads twice,
 * once with zeros and once with ones left on the stack before each call. The
 * outputs must be the same. There are drives with a model of each kind and one
 * without, and the models change meanwhile.
 */
#define _GNU_SOURCE
#include <stdint.h>

static uint64_t sim_now_ns;
#define SHIM_CLOCK_NS sim_now_ns
#define SHIM_TRACES
#include "kernel_shim.h"

#define STEPS 40000
#define OUTPUTS_MAX (2 * STEPS)
#define STACK_BYTES 16384

struct linnos_prediction;
static bool traced;
static void record_decision(u32 nr_sector, bool revoked, u8 reason, const struct linnos_prediction *found);
static void record_expected(u32 pending, u32 expected, u32 latency_us);
#define trace_linnos_decision_enabled() traced
#define trace_linnos_decision(dev, sector, nr_sector, revoked, reason, found) \
	record_decision(nr_sector, revoked, reason, found)
#define trace_linnos_expected(dev, pending, expected, latency_us) \
	record_expected(pending, expected, latency_us)
#include "policy.h"

#include "measure.h"

/* A checksum of each output, for both runs. */
static struct output {
	const char *what;
	u64 sum;
} outputs[2][OUTPUTS_MAX];
static int n_outputs[2], with_features[2], second_run;

static void add_bytes(const char *what, const void *bytes, size_t n)
{
	struct output *output = &outputs[second_run][n_outputs[second_run]];
	const u8 *p = bytes;

	output->what = what;
	while (n--)
		output->sum = (output->sum ^ *p++) * 1099511628211ULL;
}

static void end_output(void)
{
	if (++n_outputs[second_run] == OUTPUTS_MAX)
		abort();
}

/* The fields that an event contains. */
static void add_prediction(const char *what, const struct linnos_prediction *found)
{
	u32 n = found->n_features, pending = linnos_pending(&found->view);

	if (n && n != LINNOS_N_FEATURES) {
		fprintf(stderr, "all_written: %s: %u features\n", what, n);
		exit(1);
	}
	with_features[second_run] += !!n;
	add_bytes(what, &n, sizeof(n));
	add_bytes(what, &pending, sizeof(pending));
	add_bytes(what, found->features, n * sizeof(*found->features));
}

static void record_decision(u32 nr_sector, bool revoked, u8 reason, const struct linnos_prediction *found)
{
	const u32 numbers[] = { nr_sector, revoked, reason };
	const struct linnos_completed_io *past;

	add_bytes("a decision event", numbers, sizeof(numbers));
	add_prediction("a decision event", found);
	add_bytes("a decision event", found->out, sizeof(found->out));
	for (past = found->view.past; past < found->view.past + LINNOS_HISTORY; past++) {
		add_bytes("a decision event", &past->pending, sizeof(past->pending));
		add_bytes("a decision event", &past->latency_us, sizeof(past->latency_us));
	}
	end_output();
}

static void record_expected(u32 pending, u32 expected, u32 latency_us)
{
	const u32 numbers[] = { pending, expected, latency_us };

	add_bytes("a query event", numbers, sizeof(numbers));
	end_output();
}

#define DRIVES 4
#define IOS 200

static const char *models[2];
static struct gendisk *disks[DRIVES];
static struct linnos_model *spare[DRIVES];
static struct block_device bdevs[DRIVES];
static struct io ios[IOS];
static bool in_flight[IOS];

static __attribute__((__noinline__)) void leave_on_stack(void)
{
	volatile u8 stack[STACK_BYTES];
	size_t i;

	for (i = 0; i < sizeof(stack); i++)
		stack[i] = second_run ? 0xff : 0;
}

static bool start(struct io *io, int k)
{
	int op = rnd() % 5 ? REQ_OP_READ : REQ_OP_WRITE;
	bool hint = rnd() % 2;

	traced = rnd() % 2;
	leave_on_stack();
	return io_begin(io, disks[k], op, hint, 4096 * (1 + rnd() % 64));
}

static void query(int k)
{
	bool will_send = rnd() % 2;
	struct blk_expect_drive drive;
	enum blk_linnos_expected answer;

	memset(&drive, second_run ? 0xff : 0, sizeof(drive));
	drive.fd = k;
	leave_on_stack();
	answer = blk_linnos_query(&bdevs[k], LINNOS_SECTOR_UNKNOWN, 4096, sim_now_ns, will_send,
				  &drive);
	add_bytes("an answer to a query", &answer, sizeof(answer));
	add_bytes("an answer to a query", &drive, sizeof(drive));
	end_output();
}

static void step(void)
{
	int n = rnd() % IOS, k = rnd() % DRIVES, choice = rnd() % 1000;

	sim_now_ns += rnd() % 20000;
	shim_cpu = rnd() % SHIM_CPUS;
	if (!choice && k) {
		/* the other kind's model, for which a drive was created */
		struct blk_linnos *linnos = disks[k]->linnos;
		struct linnos_model *model = linnos->model;

		linnos->model = spare[k];
		linnos->drive.tracks_starts = spare[k]->latency;
		linnos->drive.ignores_regions = !spare[k]->latency ||
						!spare[k]->latency->uses_region;
		spare[k] = model;
	} else if (choice < 300) {
		query(k);
	} else if (!in_flight[n]) {
		in_flight[n] = start(&ios[n], k);
	} else if (choice < 800) {
		io_end(&ios[n]);
		in_flight[n] = false;
	}
}

/* The first drive has no model. */
static void make_drives(void)
{
	int k;

	for (k = 0; k < DRIVES; k++) {
		disks[k] = make_drive(models[k == 1]);
		spare[k] = make_drive(models[k != 1])->linnos->model;
		bdevs[k].bd_disk = disks[k];
		if (k != 2)
			linnos_set_mode(disks[k]->linnos, LINNOS_ENFORCE);
	}
	disks[0]->linnos->model = NULL;
}

static void decide_all(void)
{
	int i;

	random_state = 1;
	sim_now_ns = 1000000000;
	memset(in_flight, 0, sizeof(in_flight));
	make_drives();
	for (i = 0; i < STEPS; i++)
		step();
}

int main(int argc, char **argv)
{
	int i;

	if (argc != 3) {
		fputs("usage: all_written LATENCY_MODEL NETWORK_MODEL\n", stderr);
		return 2;
	}
	models[0] = argv[1];
	models[1] = argv[2];
	for (second_run = 0; second_run < 2; second_run++)
		decide_all();
	for (i = 0; i < n_outputs[0] || i < n_outputs[1]; i++) {
		if (outputs[0][i].sum == outputs[1][i].sum)
			continue;
		fprintf(stderr, "all_written: %s (%d) depends on previous stack contents\n",
			outputs[0][i].what, i);
		return 1;
	}
	printf("%d outputs, %d with features\n", n_outputs[0], with_features[0]);
	return 0;
}
