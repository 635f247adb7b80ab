// SPDX-License-Identifier: MIT
/* What the mirror has done: see report.h. */
#include "report.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>

/* Both outputs are made of these. */
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
	{"refused", OF_READS(refused)},
	{"read_errors", OF_READS(errors)},
	{"hedges_saved_us", OF_READS(hedges_saved_us)},
	{"without_ring", OF_READS(without_ring)},
	{"not_choosing", OF_READS(not_choosing)},
	{"stayed", OF_READS(stayed)},
};

#define N(table) (sizeof(table) / sizeof(*(table)))

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

	linnos_get_replica_stats(m->array, k, &s, sizeof(s));
	return s;
}

static void report_json(const struct mirror *m, const char *state, const struct linnos_stats *s)
{
	printf("{\"device\":\"/dev/ublkb%" PRIu32 "\",\"state\":\"%s\",\"bytes\":%" PRIu64
	       ",\"degraded\":%d",
	       m->device.number, state, m->geometry.bytes, (int)m->n - __builtin_popcount(m->in));
	print_counters(of_mirror, N(of_mirror), &m->stats, true);
	print_counters(of_reads, N(of_reads), s, true);
	printf(",\"saved_us_estimate\":%" PRId64 ",\"replicas\":[", s->saved_us_estimate);
	for (unsigned int k = 0; k < m->n; k++) {
		const struct linnos_replica_stats of = replica_stats(m, k);

		printf("%s{\"path\":", k ? "," : "");
		print_string(m->replicas[k].path);
		printf(",\"in\":%s,\"why_dropped\":", m->in & 1u << k ? "true" : "false");
		if (m->in & 1u << k)
			printf("null");
		else
			print_string(m->why_dropped[k]);
		printf(",\"reads_served\":%" PRIu64 ",\"read_errors\":%" PRIu64 "}", of.served,
		       of.errors);
	}
	printf("]}\n");
}

static void report_text(const struct mirror *m, const char *state, const struct linnos_stats *s)
{
	printf("/dev/ublkb%" PRIu32 " %s: %" PRIu64 " bytes, %d of %u replicas\n ",
	       m->device.number, state, m->geometry.bytes, __builtin_popcount(m->in), m->n);
	print_counters(of_mirror, N(of_mirror), &m->stats, false);
	printf("\n ");
	print_counters(of_reads, N(of_reads), s, false);
	printf(" saved_us_estimate %" PRId64 "\n", s->saved_us_estimate);
	for (unsigned int k = 0; k < m->n; k++) {
		const struct linnos_replica_stats of = replica_stats(m, k);

		printf("  %s: reads_served %" PRIu64 " read_errors %" PRIu64 "%s%s\n",
		       m->replicas[k].path, of.served, of.errors,
		       m->in & 1u << k ? "" : ", DROPPED: ", m->why_dropped[k]);
	}
}

void report(const struct mirror *m, const char *state, void *context)
{
	const bool *json = context;
	struct linnos_stats s;

	linnos_get_stats(m->array, &s, sizeof(s));
	if (*json)
		report_json(m, state, &s);
	else
		report_text(m, state, &s);
	fflush(stdout);
}
