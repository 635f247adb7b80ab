// SPDX-License-Identifier: MIT
/*
 * How long does a latency model take? Beside the network, in one run.
 *
 *	bench_latency LATENCY_MODEL NETWORK_MODEL [JSON]
 *
 * Times are medians of batches of predictions of random reads. Warm: one after
 * another. Cold: before each, a stretch of memory as large as a second-level
 * cache is written; what that and reading the clock cost is measured without
 * predictions, and taken off.
 */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "linnos_latency.h"
#include "measure.h"
#include "plain_network.h"

/* Few enough for a first-level cache, where a read's features are. */
#define VECTORS 128
#define BATCH_READS 1024
#define BATCHES 101
#define COLD_READS 501
#define COLD_BYTES (2 << 20)

static uint8_t *read_file(const char *path, size_t *bytes)
{
	uint8_t *data = malloc(1 << 20);
	FILE *f = fopen(path, "rb");

	if (!f || !data) {
		perror(path);
		exit(1);
	}
	*bytes = fread(data, 1, 1 << 20, f);
	fclose(f);
	return data;
}

static struct linnos_latency *trees;
static struct plain_network plain;
static struct linnos_net net;
static uint32_t features[VECTORS][LINNOS_N_FEATURES];
static uint8_t digits[VECTORS][LINNOS_N_INPUTS];
static volatile int64_t sink;

static void nothing(int i)
{
	sink += i;
}

static void with_trees(int i)
{
	sink += linnos_latency_us(trees, features[i]);
}

static void with_plain_network(int i)
{
	sink += plain_infer(&plain, digits[i]);
}

static void with_network(int i)
{
	struct linnos_hidden hidden;

	linnos_hidden_layer(&net, digits[i], &hidden);
	sink += linnos_margin(&net, &hidden);
}

static const struct {
	const char *name;
	void (*run)(int i);
} ways[] = {
	{ "network_plain", with_plain_network },
	{ "network", with_network },
	{ "latency_trees", with_trees },
};
#define N_WAYS (int)(sizeof(ways) / sizeof(ways[0]))

static double warm_ns(void (*run)(int i))
{
	double times[BATCHES];

	for (int batch = 0; batch < BATCHES; batch++) {
		double start = clock_ns();

		for (int i = 0; i < BATCH_READS; i++)
			run(i % VECTORS);
		times[batch] = (clock_ns() - start) / BATCH_READS;
	}
	return quantile(times, BATCHES, 0.5);
}

static double cold_ns(void (*run)(int i))
{
	static uint8_t elsewhere[COLD_BYTES];
	double times[COLD_READS];

	for (int i = 0; i < COLD_READS; i++) {
		memset(elsewhere, i, sizeof(elsewhere));
		double start = clock_ns();

		run(i % VECTORS);
		times[i] = clock_ns() - start;
	}
	return quantile(times, COLD_READS, 0.5);
}

int main(int argc, char **argv)
{
	double warm[N_WAYS], cold[N_WAYS], idle_cold;
	size_t bytes;
	uint8_t *file;

	if (argc < 3) {
		fputs("usage: bench_latency LATENCY_MODEL NETWORK_MODEL [JSON]\n", stderr);
		return 1;
	}
	file = read_file(argv[1], &bytes);
	trees = malloc(linnos_latency_sizeof(bytes));
	if (!trees || linnos_latency_parse(trees, file, bytes)) {
		fprintf(stderr, "bench_latency: %s: no latency model\n", argv[1]);
		return 1;
	}
	file = read_file(argv[2], &bytes);
	if (linnos_network_parse(&net, file, bytes)) {
		fprintf(stderr, "bench_latency: %s: no network\n", argv[2]);
		return 1;
	}
	plain_read(&plain, file);
	for (int i = 0; i < VECTORS; i++) {
		for (int k = 0; k < LINNOS_N_FEATURES; k++)
			features[i][k] = rnd() % (rnd() % 2 ? 64 : 5000);
		for (int k = 0; k < LINNOS_N_INPUTS; k++)
			digits[i][k] = rnd() % 10;
	}

	idle_cold = cold_ns(nothing);
	printf("%-28s %8s %8s\n", "ns a prediction", "warm", "cold");
	for (int k = 0; k < N_WAYS; k++) {
		warm[k] = warm_ns(ways[k].run);
		cold[k] = cold_ns(ways[k].run) - idle_cold;
		printf("%-28s %8.1f %8.0f   %.2f of network_plain\n", ways[k].name,
		       warm[k], cold[k], warm[k] / warm[0]);
	}
	printf("%u trees, %u steps, %zu bytes\n", trees->n_trees, trees->n_trees * LINNOS_TREE_DEPTH,
	       sizeof(*trees) + trees->n_trees * sizeof(trees->trees[0]));
	if (argc > 3) {
		FILE *f = fopen(argv[3], "w");

		if (!f) {
			perror(argv[3]);
			return 1;
		}
		fputs("{", f);
		for (int k = 0; k < N_WAYS; k++)
			fprintf(f, "%s\n \"%s\": {\"warm_ns\": %.1f, \"cold_ns\": %.0f}",
				k ? "," : "", ways[k].name, warm[k], cold[k]);
		fputs("\n}\n", f);
		if (fclose(f)) {
			perror(argv[3]);
			return 1;
		}
	}
	return 0;
}
