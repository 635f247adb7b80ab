// SPDX-License-Identifier: MIT
/* Statistics of the mirror: see report.h. */
#include "report.h"
#include "program/program.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>

/* A counter that both output formats print. */
struct counter {
	const char *name;
	size_t at;
};

#define OF_MIRROR(field) offsetof(struct mirror_stats, field)
#define OF_READS(field) offsetof(struct linnos_stats, field)

static const struct counter of_mirror[] = {
	{"reads", OF_MIRROR(reads)},
	{"read_bytes", OF_MIRROR(read_bytes)},
	{"reads_failed", OF_MIRROR(reads_failed)},
	{"writes", OF_MIRROR(writes)},
	{"written_bytes", OF_MIRROR(written_bytes)},
	{"writes_failed", OF_MIRROR(writes_failed)},
	{"writes_waited", OF_MIRROR(waited)},
	{"flushes", OF_MIRROR(flushes)},
	{"zeroed", OF_MIRROR(zeroed)},
	{"zeroed_bytes", OF_MIRROR(zeroed_bytes)},
};
static const struct counter of_reads[] = {
	{"moved", OF_READS(moved)},
	{"explored", OF_READS(explored)},
	{"hedges", OF_READS(hedges)},
	{"hedges_won", OF_READS(hedges_won)},
	{"hedges_denied", OF_READS(hedges_denied)},
	{"failovers", OF_READS(failovers)},
	{"read_errors", OF_READS(errors)},
	{"hedges_saved_us", OF_READS(hedges_saved_us)},
	{"without_ring", OF_READS(without_ring)},
	{"not_choosing", OF_READS(not_choosing)},
	{"stayed", OF_READS(stayed)},
};

static void print_counters(const struct counter *table, size_t n, const void *stats, bool json)
{
	for (size_t i = 0; i < n; i++) {
		uint64_t value = *(const uint64_t *)((const char *)stats + table[i].at);

		printf(json ? ",\"%s\":%" PRIu64 : " %s %" PRIu64, table[i].name, value);
	}
}

static void print_string(const char *text)
{
	putchar('"');
	for (; *text; text++)
		if (*text == '"' || *text == '\\')
			printf("\\%c", *text);
		else if ((unsigned char)*text < ' ')
			printf("\\u%04x", (unsigned char)*text);
		else
			putchar(*text);
	putchar('"');
}

static struct linnos_replica_stats replica_stats(const struct mirror *m, unsigned int k)
{
	struct linnos_replica_stats s;

	linnos_array_get_replica_stats(m->array, k, &s, sizeof(s));
	return s;
}

/* A snapshot of the statistics. */
struct state {
	const char *name;
	uint32_t in;
	struct mirror_stats counts;
	struct linnos_stats reads;
};

static void report_json(const struct mirror *m, const struct state *s)
{
	printf("{\"device\":\"/dev/ublkb%" PRIu32 "\",\"state\":\"%s\",\"bytes\":%" PRIu64
	       ",\"degraded\":%d,\"queues\":[",
	       m->device.number, s->name, m->geometry.bytes, (int)m->n - __builtin_popcount(s->in));
	for (unsigned int i = 0; i < m->device.n_queues; i++)
		printf("%s%" PRIu64, i ? "," : "", mirror_given(m, i));
	putchar(']');
	print_counters(of_mirror, N_ELEMENTS(of_mirror), &s->counts, true);
	print_counters(of_reads, N_ELEMENTS(of_reads), &s->reads, true);
	printf(",\"saved_us_estimate\":%" PRId64 ",\"replicas\":[", s->reads.saved_us_estimate);
	for (unsigned int k = 0; k < m->n; k++) {
		const struct linnos_replica_stats of = replica_stats(m, k);
		const bool is_in = s->in & 1u << k;

		printf("%s{\"path\":", k ? "," : "");
		print_string(m->replicas[k].path);
		printf(",\"in\":%s,\"why_dropped\":", is_in ? "true" : "false");
		if (is_in)
			printf("null");
		else
			print_string(m->why_dropped[k]);
		printf(",\"reads_served\":%" PRIu64 ",\"read_errors\":%" PRIu64 "}", of.served,
		       of.errors);
	}
	printf("]}\n");
}

static void report_text(const struct mirror *m, const struct state *s)
{
	printf("/dev/ublkb%" PRIu32 " %s: %" PRIu64 " bytes, %d of %u replicas, requests of queues",
	       m->device.number, s->name, m->geometry.bytes, __builtin_popcount(s->in), m->n);
	for (unsigned int i = 0; i < m->device.n_queues; i++)
		printf(" %" PRIu64, mirror_given(m, i));
	printf("\n ");
	print_counters(of_mirror, N_ELEMENTS(of_mirror), &s->counts, false);
	printf("\n ");
	print_counters(of_reads, N_ELEMENTS(of_reads), &s->reads, false);
	printf(" saved_us_estimate %" PRId64 "\n", s->reads.saved_us_estimate);
	for (unsigned int k = 0; k < m->n; k++) {
		const struct linnos_replica_stats of = replica_stats(m, k);
		const bool is_in = s->in & 1u << k;

		printf("  %s: reads_served %" PRIu64 " read_errors %" PRIu64 "%s%s\n",
		       m->replicas[k].path, of.served, of.errors,
		       is_in ? "" : ", DROPPED: ", is_in ? "" : m->why_dropped[k]);
	}
}

void report(const struct mirror *m, const char *state)
{
	struct state s = {.name = state, .in = mirror_in(m)};

	mirror_sum_stats(m, &s.counts);
	linnos_array_get_stats(m->array, &s.reads, sizeof(s.reads));
	if (m->json)
		report_json(m, &s);
	else
		report_text(m, &s);
	fflush(stdout);
}
