// SPDX-License-Identifier: GPL-2.0-only
/*
 * Count the cache lines that move from one CPU to another per I/O, with up to
 * 64 CPUs.
 *
 *	shared_lines [-j JSON] [-m CPUS] MODEL...
 *
 * This needs neither a machine with that many CPUs nor an idle one. The
 * kernel's own blk-linnos.c and related files run in this program (policy.h) on
 * simulated CPUs, one step at a time in the order of a simulated clock. The
 * compiler reports each memory access (-fsanitize=thread, whose functions are
 * defined below). The program counts the transfers that coherent caches would
 * need: a line is read that another CPU has written since, or is written that
 * this CPU does not own exclusively. Delays by these transfers are not
 * modelled.
 *
 * Each CPU keeps reads or writes in flight, and sends the next one shortly
 * after one has completed. CPUs therefore alternate, and a line that all of
 * them write is always in another cache: this is the worst case.
 */
#define _GNU_SOURCE
#include <stdint.h>

static uint64_t sim_now_ns;
#define SHIM_CLOCK_NS sim_now_ns
#define SHIM_CPUS 64
#include "policy.h"

#include "measure.h"

#define QUIETLY __attribute__((no_sanitize("thread")))

/* Lines of the allocated memory; each is shared by some caches, or owned by one. */
#define LINE_BYTES 64

static struct line {
	uint64_t sharers;
	uint64_t moved;
} lines[SHIM_BYTES / LINE_BYTES];

QUIETLY static void touch_line(struct line *line, bool write)
{
	uint64_t me = 1ULL << shim_cpu;

	/* a line that no CPU has used comes from memory and not from another CPU */
	if (line->sharers && (write ? line->sharers != me : !(line->sharers & me)))
		line->moved++;
	line->sharers = write ? me : line->sharers | me;
}

QUIETLY static void touch(const volatile void *p, size_t bytes, bool write)
{
	size_t at = (const volatile char *)p - shim_memory, n;

	/* other memory, like the stack, is not counted */
	if (at < SHIM_BYTES)
		for (n = at / LINE_BYTES; n <= (at + bytes - 1) / LINE_BYTES; n++)
			touch_line(&lines[n], write);
}

/* Functions that the compiler calls. */
#define ACCESS(bytes)                                                             \
	QUIETLY void __tsan_read##bytes(void *p) { touch(p, bytes, false); }      \
	QUIETLY void __tsan_write##bytes(void *p) { touch(p, bytes, true); }
#define UNALIGNED(bytes)                                                          \
	QUIETLY void __tsan_unaligned_read##bytes(void *p) { touch(p, bytes, false); } \
	QUIETLY void __tsan_unaligned_write##bytes(void *p) { touch(p, bytes, true); }
ACCESS(1) ACCESS(2) ACCESS(4) ACCESS(8) ACCESS(16)
UNALIGNED(2) UNALIGNED(4) UNALIGNED(8) UNALIGNED(16)

QUIETLY void __tsan_read_range(void *p, size_t bytes) { touch(p, bytes, false); }
QUIETLY void __tsan_write_range(void *p, size_t bytes) { touch(p, bytes, true); }
QUIETLY void __tsan_func_entry(void *from) {}
QUIETLY void __tsan_func_exit(void *from) {}
QUIETLY void __tsan_init(void) {}
QUIETLY void __tsan_atomic_thread_fence(int order) {}

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
	FETCH(bits, or, |)                                                             \
	FETCH(bits, and, &)                                                            \
	QUIETLY bool __tsan_atomic##bits##_compare_exchange_strong(                    \
		volatile void *p, void *old, u##bits n, int order, int otherwise)      \
	{                                                                              \
		u##bits is = *(volatile u##bits *)p;                                   \
		bool same = is == *(u##bits *)old;                                     \
		touch(p, sizeof(u##bits), true);                                       \
		*(same ? (volatile u##bits *)p : (u##bits *)old) = same ? n : is;      \
		return same;                                                           \
	}
#define FETCH(bits, name, operator)                                                    \
	QUIETLY u##bits __tsan_atomic##bits##_fetch_##name(volatile void *p, u##bits n, int order) \
	{                                                                              \
		return __tsan_atomic##bits##_exchange(p, *(volatile u##bits *)p operator n, order); \
	}
ATOMICS(32)
ATOMICS(64)

/* The I/Os that are sent, and how they complete. */
static const struct load {
	const char *name;
	bool hinted;
	u32 writes_of_10;
	int completed_by; /* number of the completing CPU, relative to the submitting one */
} loads[] = {
	{ "plain reads", false, 0, 0 },
	{ "hinted reads", true, 0, 0 },
	{ "hinted reads, 3 of 10 I/Os are writes", true, 3, 0 },
	{ "writes", false, 10, 0 },
	{ "hinted reads, completed elsewhere", true, 0, 1 },
};

/* Mean latency of a drive; actual ones differ by up to a quarter. */
static const int drives_us[] = { 80, 8 };
static const int cpu_counts[] = { 1, 2, 4, 8, 16, 64 };

#define DEPTH 4
#define IOS_OF_CPU 3000
#define IOS_BEFORE 500
/* The time from the completion of an I/O to the submission of the next one. */
#define PAUSE_NS 1000

static struct cpu_io {
	struct io io;
	u64 due_ns;
	bool in_flight;
} ios[SHIM_CPUS * DEPTH];

static struct cpu_io *first_due(int n)
{
	struct cpu_io *first = ios, *io;

	for (io = ios; io < ios + n; io++)
		if (io->due_ns < first->due_ns)
			first = io;
	return first;
}

/* Return the number of transfers per I/O. */
static double measure_load(struct gendisk *disk, int cpus, const struct load *load, int drive_us)
{
	u32 drive_ns = drive_us * 1000;
	long ended = 0, n = cpus * DEPTH;
	u64 moved = 0;
	struct cpu_io *io;

	memset(ios, 0, sizeof(ios));
	for (io = ios; io < ios + n; io++)
		io->due_ns = sim_now_ns + rnd() % drive_ns;
	while (ended < (long)IOS_OF_CPU * cpus) {
		bool write = rnd() % 10 < load->writes_of_10;

		io = first_due(n);
		sim_now_ns = io->due_ns;
		shim_cpu = (io - ios) / DEPTH;
		if (!io->in_flight) {
			/* no read is refused */
			io_begin(&io->io, disk, write ? REQ_OP_WRITE : REQ_OP_READ,
				 load->hinted && !write, 4096);
			io->due_ns += drive_ns * 3 / 4 + rnd() % (drive_ns / 2);
		} else {
			shim_cpu = (shim_cpu + load->completed_by) % cpus;
			io_end(&io->io);
			io->due_ns += PAUSE_NS;
			if (++ended == (long)IOS_BEFORE * cpus)
				for (size_t i = 0; i < ARRAY_SIZE(lines); i++)
					lines[i].moved = 0;
		}
		io->in_flight = !io->in_flight;
	}
	for (size_t i = 0; i < ARRAY_SIZE(lines); i++)
		moved += lines[i].moved;
	for (io = ios; io < ios + n; io++)
		if (io->in_flight)
			io_end(&io->io);
	check_idle(disk);
	return (double)moved / (IOS_OF_CPU - IOS_BEFORE) / cpus;
}

static void measure_model(const char *model, int most, FILE *json)
{
	static const char *sep = "[";
	size_t d, l, c;

	printf("%s, transfers of a line for an I/O\n%-44s", model, "CPUs:");
	for (c = 0; c < ARRAY_SIZE(cpu_counts) && cpu_counts[c] <= most; c++)
		printf("%7d", cpu_counts[c]);
	printf("\n");
	for (d = 0; d < ARRAY_SIZE(drives_us); d++) {
		for (l = 0; l < ARRAY_SIZE(loads); l++) {
			printf("%2d us, %-37s", drives_us[d], loads[l].name);
			for (c = 0; c < ARRAY_SIZE(cpu_counts) && cpu_counts[c] <= most; c++) {
				double moved;

				shim_used = 0;
				memset(lines, 0, sizeof(lines));
				shim_cpu = 0;
				moved = measure_load(make_drive(model), cpu_counts[c], &loads[l],
						     drives_us[d]);
				printf("%7.2f", moved);
				fflush(stdout);
				fprintf(json,
					"%s{\"model\": \"%s\", \"drive\": \"%d us\", \"load\": \"%s\", "
					"\"cpus\": %d, \"transfers_per_io\": %.3f}",
					sep, model, drives_us[d], loads[l].name, cpu_counts[c], moved);
				sep = ",\n ";
			}
			printf("\n");
		}
	}
}

int main(int argc, char **argv)
{
	int most = SHIM_CPUS, option;
	const char *path = NULL;
	FILE *json;

	while ((option = getopt(argc, argv, "j:m:")) != -1) {
		if (option == 'j')
			path = optarg;
		else if (option == 'm')
			most = atoi(optarg);
		else
			return 2;
	}
	if (optind == argc) {
		fputs("usage: shared_lines [-j JSON] [-m CPUS] MODEL...\n", stderr);
		return 2;
	}
	json = open_json(path);
	for (; optind < argc; optind++)
		measure_model(argv[optind], most, json);
	fputs("]\n", json);
	close_json(json);
	return 0;
}
