// SPDX-License-Identifier: GPL-2.0-only
/*
 * How many lines of memory go from one CPU to another for an I/O, with up to 64?
 *
 *	shared_lines [--json FILE] [--lines] [--together] [--most CPUS] MODEL...
 *
 * No machine with so many is needed, nor one that is idle: the kernel's own
 * blk-linnos.c and its like run in this program (policy.h) on CPUs that are
 * numbers, one step at a time in the order of a clock that is made up. The
 * compiler has them report each access to memory (-fsanitize=thread, whose
 * functions are those below), and it is counted what caches that keep one
 * another's lines valid would have to move: a line is read that another CPU has
 * written since, or written that this CPU does not have for itself alone. What it
 * costs is not modelled: nobody waits.
 *
 * Each CPU has reads or writes in flight, and sends the next a moment after one
 * has ended. So the CPUs take turns, and a line that all of them write is always
 * elsewhere: this is the worst case.
 *
 * --together: no CPU is quiet (blk-linnos-cpus.h), and each I/O is counted and each
 * read recorded where all see it at once.
 */
#define _GNU_SOURCE
#include <stdint.h>

static uint64_t sim_now_ns;
#define SHIM_CLOCK_NS sim_now_ns
#define SHIM_CPUS 64
#include "policy.h"

#define QUIETLY __attribute__((no_sanitize("thread")))

/* Lines, of what shim_alloc() gave; each is in some caches, or one's own. */
#define LINE_BYTES 64
#define LINES_MAX (1 << 16)

static struct line {
	uint64_t sharers;
	bool own;
	uint64_t moved;
} lines[LINES_MAX];
static uint64_t transfers;

QUIETLY static struct line *line_of(uintptr_t address)
{
	size_t begin = 0;
	int i;

	for (i = 0; i < shim_n_ranges; i++) {
		const struct shim_range *r = &shim_ranges[i];

		if (address >= r->begin && address < r->begin + r->bytes)
			return &lines[begin + (address - r->begin) / LINE_BYTES];
		begin += (r->bytes + LINE_BYTES - 1) / LINE_BYTES;
		if (begin >= LINES_MAX)
			abort();
	}
	return NULL;
}

QUIETLY static void touch_line(struct line *line, bool write)
{
	uint64_t me = 1ULL << shim_cpu;
	bool have = line->sharers & me;

	/* what nobody has had comes from memory: not from another CPU */
	if (line->sharers && (write ? !(have && line->sharers == me) : !have)) {
		line->moved++;
		transfers++;
	}
	line->sharers = write ? me : line->sharers | me;
}

QUIETLY static void touch(const volatile void *p, size_t bytes, bool write)
{
	uintptr_t address = (uintptr_t)p;
	uintptr_t last = (address + bytes - 1) / LINE_BYTES;
	uintptr_t n;

	for (n = address / LINE_BYTES; n <= last; n++) {
		uintptr_t at = n * LINE_BYTES;
		struct line *line = line_of(at < address ? address : at);

		if (line)
			touch_line(line, write);
	}
}

/* What the compiler calls. */
#define ACCESS(name, bytes, write)                       \
	QUIETLY void __tsan_##name(void *p)              \
	{                                                \
		touch(p, bytes, write);                  \
	}
ACCESS(read1, 1, false)
ACCESS(read2, 2, false)
ACCESS(read4, 4, false)
ACCESS(read8, 8, false)
ACCESS(read16, 16, false)
ACCESS(write1, 1, true)
ACCESS(write2, 2, true)
ACCESS(write4, 4, true)
ACCESS(write8, 8, true)
ACCESS(write16, 16, true)
ACCESS(unaligned_read2, 2, false)
ACCESS(unaligned_read4, 4, false)
ACCESS(unaligned_read8, 8, false)
ACCESS(unaligned_read16, 16, false)
ACCESS(unaligned_write2, 2, true)
ACCESS(unaligned_write4, 4, true)
ACCESS(unaligned_write8, 8, true)
ACCESS(unaligned_write16, 16, true)

QUIETLY void __tsan_read_range(void *p, size_t bytes)
{
	touch(p, bytes, false);
}

QUIETLY void __tsan_write_range(void *p, size_t bytes)
{
	touch(p, bytes, true);
}

QUIETLY void __tsan_func_entry(void *from)
{
}

QUIETLY void __tsan_func_exit(void *from)
{
}

QUIETLY void __tsan_init(void)
{
}

QUIETLY void __tsan_atomic_thread_fence(int order)
{
}

/* One thread runs all CPUs, so plain operations are atomic here. */
#define ATOMICS(bits)                                                                  \
	QUIETLY u##bits __tsan_atomic##bits##_load(const volatile void *p, int order)  \
	{                                                                              \
		touch(p, sizeof(u##bits), false);                                      \
		return *(const volatile u##bits *)p;                                   \
	}                                                                              \
	QUIETLY u##bits __tsan_atomic##bits##_exchange(volatile void *p, u##bits n, int order) \
	{                                                                              \
		u##bits old = *(volatile u##bits *)p;                                  \
		touch(p, sizeof(u##bits), true);                                       \
		*(volatile u##bits *)p = n;                                            \
		return old;                                                            \
	}                                                                              \
	QUIETLY void __tsan_atomic##bits##_store(volatile void *p, u##bits n, int order) \
	{                                                                              \
		__tsan_atomic##bits##_exchange(p, n, order);                           \
	}                                                                              \
	FETCH(bits, add, +)                                                            \
	FETCH(bits, sub, -)                                                            \
	FETCH(bits, or, |)                                                             \
	FETCH(bits, and, &)                                                            \
	QUIETLY bool __tsan_atomic##bits##_compare_exchange_strong(                    \
		volatile void *p, void *old, u##bits n, int order, int otherwise)      \
	{                                                                              \
		u##bits is = *(volatile u##bits *)p;                                   \
		bool same = is == *(u##bits *)old;                                     \
		touch(p, sizeof(u##bits), true);                                       \
		if (same)                                                              \
			*(volatile u##bits *)p = n;                                    \
		else                                                                   \
			*(u##bits *)old = is;                                          \
		return same;                                                           \
	}
#define FETCH(bits, name, operator)                                                    \
	QUIETLY u##bits __tsan_atomic##bits##_fetch_##name(volatile void *p, u##bits n, int order) \
	{                                                                              \
		return __tsan_atomic##bits##_exchange(p, *(volatile u##bits *)p operator n, order); \
	}
ATOMICS(8)
ATOMICS(32)
ATOMICS(64)

/* What is sent, and what the drive does. */
struct load {
	const char *name;
	bool hinted;
	int writes_of_10;
	int completed_by; /* how many CPUs further on */
};

static const struct load loads[] = {
	{ "plain reads", false, 0, 0 },
	{ "hinted reads", true, 0, 0 },
	{ "hinted reads, 3 of 10 I/Os are writes", true, 3, 0 },
	{ "writes", false, 10, 0 },
	{ "hinted reads, completed elsewhere", true, 0, 1 },
};

struct drive {
	const char *name;
	u64 fastest_ns;
	u64 slowest_ns;
};

static const struct drive drives[] = {
	{ "80 us", 60000, 100000 },
	{ "8 us", 6000, 10000 },
};

static const int cpu_counts[] = { 1, 2, 4, 8, 16, 64 };

#define DEPTH 4
#define IOS_OF_CPU 3000
#define IOS_BEFORE 500
/* From the end of an I/O until its successor is sent. */
#define PAUSE_NS 1000

struct io {
	struct bio bio;
	struct request request;
	u64 due_ns;
	bool in_flight;
};

static u64 random_state = 1;

QUIETLY static u64 random_below(u64 n)
{
	random_state = random_state * 6364136223846793005ULL + 1442695040888963407ULL;
	return (random_state >> 33) % n;
}

static void submit(struct gendisk *disk, struct io *io, const struct load *load)
{
	struct rq_qos *rqos = &disk->linnos->rqos;
	bool write = random_below(10) < (u64)load->writes_of_10;

	io->bio.op = write ? REQ_OP_WRITE : REQ_OP_READ;
	io->bio.bi_iter.bi_size = 4096;
	io->request.q = disk->queue;
	io->request.bio = &io->bio;
	io->request.io_start_time_ns = 0;
	io->in_flight = true;
	if (load->hinted && !write) {
		io->bio.bi_opf = REQ_LATCRIT;
		if (blk_linnos_decide(&io->bio)) {
			io->in_flight = false;
			return;
		}
	}
	blk_linnos_ops.arrive(rqos, &io->bio);
	blk_linnos_ops.track(rqos, &io->request, &io->bio);
	__blk_linnos_issue_rq(&io->request);
}

static void complete(struct io *io)
{
	__blk_linnos_complete_rq(&io->request, io->bio.bi_iter.bi_size);
	blk_linnos_done_bio(&io->bio);
}

static bool together;

static struct gendisk *drive_of(const void *model, size_t bytes)
{
	struct gendisk *disk = make_drive(model, bytes, LINNOS_OBSERVE);

	if (together)
		disk->linnos->quiet_ns = 0;
	return disk;
}

/* Transfers of an I/O. */
static double measure(struct gendisk *disk, int cpus, const struct load *load,
		      const struct drive *drive)
{
	struct block_device bdev = { .bd_disk = disk };
	int n = cpus * DEPTH, i, first;
	struct io *ios = calloc(n, sizeof(*ios));
	u64 counted_from = 0;
	long ended = 0;

	for (i = 0; i < n; i++) {
		ios[i].bio.bi_bdev = &bdev;
		ios[i].due_ns = sim_now_ns + random_below(drive->slowest_ns);
	}
	while (ended < (long)IOS_OF_CPU * cpus) {
		first = 0;
		for (i = 1; i < n; i++)
			if (ios[i].due_ns < ios[first].due_ns)
				first = i;
		sim_now_ns = ios[first].due_ns;
		shim_cpu = first / DEPTH;
		if (!ios[first].in_flight) {
			submit(disk, &ios[first], load);
			ios[first].due_ns +=
				ios[first].in_flight ?
					drive->fastest_ns +
						random_below(drive->slowest_ns -
							     drive->fastest_ns) :
					drive->fastest_ns;
		} else {
			shim_cpu = (shim_cpu + load->completed_by) % cpus;
			complete(&ios[first]);
			ios[first].in_flight = false;
			ios[first].due_ns += PAUSE_NS;
			if (++ended == (long)IOS_BEFORE * cpus) {
				counted_from = transfers;
				for (i = 0; i < LINES_MAX; i++)
					lines[i].moved = 0;
			}
		}
	}
	counted_from = transfers - counted_from;
	for (i = 0; i < n; i++) {
		shim_cpu = i / DEPTH;
		if (ios[i].in_flight)
			complete(&ios[i]);
	}
	free(ios);
	if (linnos_pending_pages(disk->linnos) || linnos_reads_in_flight(disk->linnos)) {
		fprintf(stderr, "shared_lines: pages stay pending\n");
		exit(1);
	}
	return (double)counted_from / (IOS_OF_CPU - IOS_BEFORE) / cpus;
}

/* Which lines, for one who wants to know: bytes from the start of an allocation. */
static void print_lines(long ios)
{
	size_t begin = 0, n;
	int i;

	for (i = 0; i < shim_n_ranges; i++) {
		for (n = 0; n < (shim_ranges[i].bytes + LINE_BYTES - 1) / LINE_BYTES; n++)
			if (lines[begin + n].moved > ios / 100)
				printf("      allocation %d, from byte %zu: %.2f\n", i,
				       n * LINE_BYTES, (double)lines[begin + n].moved / ios);
		begin += n;
	}
}

int main(int argc, char **argv)
{
	const char *json = NULL, *sep = "[";
	bool want_lines = false;
	size_t d, l, c, bytes, counts = ARRAY_SIZE(cpu_counts);
	FILE *out = NULL;
	int first = 1, most = SHIM_CPUS, m;

	while (first < argc && argv[first][0] == '-') {
		if (!strcmp(argv[first], "--lines"))
			want_lines = true;
		else if (!strcmp(argv[first], "--together"))
			together = true;
		else if (!strcmp(argv[first], "--most") && first + 1 < argc)
			most = atoi(argv[++first]);
		else if (!strcmp(argv[first], "--json") && first + 1 < argc)
			json = argv[++first];
		else
			break;
		first++;
	}
	if (first >= argc || argv[first][0] == '-') {
		fprintf(stderr, "usage: shared_lines [--json FILE] [--lines] [--together] [--most CPUS] "
				"MODEL...\n");
		return 2;
	}
	while (counts > 1 && cpu_counts[counts - 1] > most)
		counts--;
	if (json) {
		out = fopen(json, "w");
		if (!out) {
			fprintf(stderr, "shared_lines: %s: %s\n", json, strerror(errno));
			return 1;
		}
	}
	for (m = first; m < argc; m++) {
		static unsigned char file[LINNOS_NETWORK_BYTES + 1];

		bytes = read_model(argv[m], file, sizeof(file));
		printf("%s, transfers of a line for an I/O\n%-44s", argv[m], "CPUs:");
		for (c = 0; c < counts; c++)
			printf("%7d", cpu_counts[c]);
		printf("\n");
		for (d = 0; d < ARRAY_SIZE(drives); d++) {
			for (l = 0; l < ARRAY_SIZE(loads); l++) {
				printf("%5s, %-37s", drives[d].name, loads[l].name);
				for (c = 0; c < counts; c++) {
					double moved;

					shim_n_ranges = 0;
					memset(lines, 0, sizeof(lines));
					shim_cpu = 0;
					moved = measure(drive_of(file, bytes), cpu_counts[c],
							&loads[l], &drives[d]);
					printf("%7.2f", moved);
					fflush(stdout);
					if (out)
						fprintf(out,
							"%s{\"model\": \"%s\", \"drive\": \"%s\", "
							"\"load\": \"%s\", \"cpus\": %d, "
							"\"transfers_per_io\": %.3f}",
							sep, argv[m], drives[d].name, loads[l].name,
							cpu_counts[c], moved);
					sep = ",\n ";
				}
				printf("\n");
				if (want_lines)
					print_lines((long)(IOS_OF_CPU - IOS_BEFORE) *
						    cpu_counts[counts - 1]);
			}
		}
	}
	if (out) {
		fprintf(out, "]\n");
		if (fclose(out))
			return 1;
	}
	return 0;
}
