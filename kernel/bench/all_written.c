// SPDX-License-Identifier: GPL-2.0-only
/*
 * Is all written that is told of a decision?
 *
 *	all_written LATENCY_MODEL NETWORK_MODEL
 *
 * Nothing clears what a decision keeps on the stack, not even a kernel that does so
 * by default. What was there before must neither decide nor get out, by an event or
 * by an answer. The kernel's own blk-linnos.c and its like (policy.h) decide about
 * the same reads twice, once with zeros and once with ones left on the stack before
 * each call: what they tell must be the same. Drives with a model of either kind,
 * with peers, and without a model, whose models change meanwhile.
 */
#define _GNU_SOURCE
#include <stdint.h>

static uint64_t sim_now_ns;
#define SHIM_CLOCK_NS sim_now_ns
#define SHIM_RANGES 256
#define SHIM_TRACES
#include "kernel_shim.h"
#include "linnos_latency.h"
#include "linnos_network.h"

#define STEPS 40000
#define TOLD_MAX (2 * STEPS)
#define STACK_BYTES 16384

/* One sum a message, of both times. */
static struct told {
	const char *what;
	u64 sum;
} told[2][TOLD_MAX];
static int n_told[2], with_features[2], again;

static void tell(const char *what, const void *bytes, size_t n)
{
	struct told *t = &told[again][n_told[again]];
	const u8 *p = bytes;

	t->what = what;
	while (n--)
		t->sum = (t->sum ^ *p++) * 1099511628211ULL;
}

static void tell_features(const char *what, const u32 *features, u32 n)
{
	if (n && n != LINNOS_N_FEATURES) {
		fprintf(stderr, "all_written: %s: %u features\n", what, n);
		exit(1);
	}
	with_features[again] += !!n;
	tell(what, &n, sizeof(n));
	tell(what, features, n * sizeof(*features));
}

static void told_all(void)
{
	if (++n_told[again] == TOLD_MAX)
		abort();
}

static int traced;
#define trace_linnos_decision_enabled() traced

static void trace_linnos_decision(int dev, u64 sector, u32 nr_sector, u32 pending,
				  const u32 *hist_pending, const u32 *hist_latency_us,
				  const s64 *out, bool revoked, u8 reason,
				  const u32 *features, u32 n_features)
{
	const u32 numbers[] = { nr_sector, pending, revoked, reason };
	const char *what = "a decision";

	tell(what, numbers, sizeof(numbers));
	tell(what, hist_pending, LINNOS_HISTORY * sizeof(u32));
	tell(what, hist_latency_us, LINNOS_HISTORY * sizeof(u32));
	tell(what, out, LINNOS_N_OUTPUTS * sizeof(*out));
	tell_features(what, features, n_features);
	told_all();
}

static void trace_linnos_expected(int dev, u32 pending, u32 expected, u32 latency_us)
{
	const u32 numbers[] = { pending, expected, latency_us };

	tell("a question", numbers, sizeof(numbers));
	told_all();
}

static void trace_linnos_peer(int dev, u64 sector, int peer, u32 pending, u32 answer,
			      const u32 *features, u32 n_features)
{
	const u32 numbers[] = { pending, answer };

	tell("a peer's answer", numbers, sizeof(numbers));
	tell_features("a peer's answer", features, n_features);
	told_all();
}

#include "policy.h"

#define DRIVES 4
#define IOS 200

static unsigned char files[2][LINNOS_NETWORK_BYTES + 1];
static size_t file_bytes[2];
static struct gendisk *disks[DRIVES];
static struct block_device bdevs[DRIVES];
static struct io {
	struct bio bio;
	struct request request;
	bool in_flight;
} ios[IOS];
static u64 random_state;

static u64 random_below(u64 n)
{
	random_state = random_state * 6364136223846793005ULL + 1442695040888963407ULL;
	return (random_state >> 33) % n;
}

static __attribute__((__noinline__)) void leave_on_stack(void)
{
	volatile u8 stack[STACK_BYTES];
	size_t i;

	for (i = 0; i < sizeof(stack); i++)
		stack[i] = again ? 0xff : 0;
}

static void send(struct io *io, int k)
{
	struct rq_qos *rqos = &disks[k]->linnos->rqos;
	blk_status_t status;

	*io = (struct io){ .bio.bi_bdev = &bdevs[k] };
	io->bio.op = random_below(5) ? REQ_OP_READ : REQ_OP_WRITE;
	io->bio.bi_iter.bi_size = 4096 * (1 + random_below(64));
	io->request.q = disks[k]->queue;
	io->request.bio = &io->bio;
	if (random_below(2)) {
		io->bio.bi_opf = REQ_LATCRIT;
		traced = random_below(2);
		leave_on_stack();
		status = blk_linnos_decide(&io->bio);
		if (status)
			return;
	}
	blk_linnos_ops.arrive(rqos, &io->bio);
	blk_linnos_ops.track(rqos, &io->request, &io->bio);
	__blk_linnos_issue_rq(&io->request);
	io->in_flight = true;
}

static void complete(struct io *io)
{
	__blk_linnos_complete_rq(&io->request, io->bio.bi_iter.bi_size);
	blk_linnos_done_bio(&io->bio);
	io->in_flight = false;
}

static void ask(int k)
{
	bool in_full = random_below(2), look = random_below(2);
	struct blk_expect_drive drive;
	enum blk_linnos_expected answer;

	memset(&drive, again ? 0xff : 0, sizeof(drive));
	drive.fd = k;
	leave_on_stack();
	answer = blk_linnos_ask(&bdevs[k], 4096, sim_now_ns, look,
				in_full ? &drive : NULL);
	tell("an answer", &answer, sizeof(answer));
	if (in_full)
		tell("an answer", &drive, sizeof(drive));
	told_all();
}

static void step(void)
{
	struct io *io = &ios[random_below(IOS)];
	int k = random_below(DRIVES), way = random_below(1000), kind;
	const char *why;

	sim_now_ns += random_below(20000);
	shim_cpu = random_below(SHIM_CPUS);
	if (!way && k) {
		kind = random_below(2);
		if (linnos_set_model(disks[k]->linnos, files[kind], file_bytes[kind],
				     &why))
			abort();
	} else if (way < 300) {
		ask(k);
	} else if (!io->in_flight) {
		send(io, k);
	} else if (way < 800) {
		complete(io);
	}
}

/* The first has no model, the last ones have peers. */
static void make_drives(void)
{
	int k;

	for (k = 0; k < DRIVES; k++) {
		disks[k] = make_drive(files[k == 1], file_bytes[k == 1],
				      k == 2 ? LINNOS_OBSERVE : LINNOS_ENFORCE);
		bdevs[k].bd_disk = disks[k];
	}
	disks[0]->linnos->model = NULL;
	for (k = 2; k < DRIVES; k++) {
		struct linnos_peers *peers = kzalloc(sizeof(*peers), GFP_KERNEL);

		peers->at[0] = disks[(k + 1) % DRIVES]->linnos;
		peers->at[1] = disks[1]->linnos;
		peers->at[2] = disks[5 - k]->linnos;
		disks[k]->linnos->peers = peers;
	}
}

static void decide_all(void)
{
	int i;

	random_state = 1;
	sim_now_ns = 1000000000;
	shim_cpu = 0;
	memset(ios, 0, sizeof(ios));
	make_drives();
	for (i = 0; i < STEPS; i++)
		step();
}

int main(int argc, char **argv)
{
	int k, i;

	if (argc != 3) {
		fputs("usage: all_written LATENCY_MODEL NETWORK_MODEL\n", stderr);
		return 2;
	}
	for (k = 0; k < 2; k++)
		file_bytes[k] = read_model(argv[1 + k], files[k], sizeof(files[k]));
	for (again = 0; again < 2; again++)
		decide_all();
	for (i = 0; i < n_told[0] || i < n_told[1]; i++) {
		if (told[0][i].sum == told[1][i].sum)
			continue;
		fprintf(stderr, "all_written: %s (%d) tells what was on the stack\n",
			told[0][i].what, i);
		return 1;
	}
	printf("%d times something was told, %d with features\n", n_told[0],
	       with_features[0]);
	return 0;
}
