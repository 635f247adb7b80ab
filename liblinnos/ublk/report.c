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

#define IN_MIRROR(field) offsetof(struct mirror_stats, field)
#define IN_READS(field) offsetof(struct linnos_stats, field)

static const struct counter mirror_counters[] = {
	{"reads", IN_MIRROR(reads)},
	{"read_bytes", IN_MIRROR(read_bytes)},
	{"reads_failed", IN_MIRROR(reads_failed)},
	{"writes", IN_MIRROR(writes)},
	{"written_bytes", IN_MIRROR(written_bytes)},
	{"writes_failed", IN_MIRROR(writes_failed)},
	{"writes_waited", IN_MIRROR(waited)},
	{"flushes", IN_MIRROR(flushes)},
	{"zeroed", IN_MIRROR(zeroed)},
	{"zeroed_bytes", IN_MIRROR(zeroed_bytes)},
};
static const struct counter read_counters[] = {
	{"redirected", IN_READS(redirected)},
	{"probes", IN_READS(probes)},
	{"hedges", IN_READS(hedges)},
	{"hedges_won", IN_READS(hedges_won)},
	{"hedges_denied", IN_READS(hedges_denied)},
	{"failovers", IN_READS(failovers)},
	{"read_errors", IN_READS(errors)},
	{"hedges_saved_us", IN_READS(hedges_saved_us)},
	{"without_ring", IN_READS(without_ring)},
	{"not_choosing", IN_READS(not_choosing)},
	{"control", IN_READS(control)},
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

void report(const struct mirror *m, const char *state)
{
	const bool json = m->json;
	const uint32_t in = mirror_in(m);
	struct mirror_stats counts;
	struct linnos_stats reads;

	mirror_sum_stats(m, &counts);
	linnos_array_get_stats(m->array, &reads, sizeof(reads));
	printf(json ? "{\"device\":\"/dev/ublkb%" PRIu32 "\",\"state\":\"%s\",\"bytes\":%" PRIu64
		      ",\"degraded\":%d,\"queues\":["
		    : "/dev/ublkb%" PRIu32 " %s: %" PRIu64
		      " bytes, %d replicas dropped, requests of queues",
	       m->device.number, state, m->geometry.bytes, (int)m->n - __builtin_popcount(in));
	for (unsigned int i = 0; i < m->device.n_queues; i++)
		printf("%s%" PRIu64, !json ? " " : i ? "," : "", mirror_received(m, i));
	fputs(json ? "]" : "\n ", stdout);
	print_counters(mirror_counters, N_ELEMENTS(mirror_counters), &counts, json);
	fputs(json ? "" : "\n ", stdout);
	print_counters(read_counters, N_ELEMENTS(read_counters), &reads, json);
	printf(json ? ",\"saved_us_estimate\":%" PRId64 ",\"replicas\":["
		    : " saved_us_estimate %" PRId64 "\n",
	       reads.saved_us_estimate);
	for (unsigned int k = 0; k < m->n; k++) {
		const bool is_in = in & 1u << k;
		struct linnos_replica_stats stats;

		linnos_array_get_replica_stats(m->array, k, &stats, sizeof(stats));
		if (!json) {
			printf("  %s: reads_served %" PRIu64 " read_errors %" PRIu64 "%s%s\n",
			       m->replicas[k].path, stats.served, stats.errors,
			       is_in ? "" : ", DROPPED: ", is_in ? "" : m->why_dropped[k]);
			continue;
		}
		printf("%s{\"path\":", k ? "," : "");
		print_string(m->replicas[k].path);
		printf(",\"in\":%s,\"why_dropped\":", is_in ? "true" : "false");
		if (is_in)
			printf("null");
		else
			print_string(m->why_dropped[k]);
		printf(",\"reads_served\":%" PRIu64 ",\"read_errors\":%" PRIu64 "}", stats.served,
		       stats.errors);
	}
	fputs(json ? "]}\n" : "", stdout);
	fflush(stdout);
}
