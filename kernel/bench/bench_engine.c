// SPDX-License-Identifier: MIT
/*
 * Measure how long a model takes to classify a read: the kernel's network, a
 * plain loop for comparison, and trees.
 *
 *	bench_engine [--json FILE] NETWORK TREES
 *
 * The measurement includes everything from the state of a drive to the output
 * of the model. The state is synthetic. Only the frequency of digits and zeros
 * matters, and it is that of real reads.
 */
#include "linnos_drive.h"
#include "measure.h"
#include "plain_network.h"

/*
 * Few enough for the first-level cache, which also holds a real read's
 * features.
 */
#define VIEWS 64

static struct linnos_drive_snapshot views[VIEWS];
static struct linnos_start_slots places;
static struct plain_network plain;
static struct linnos_net net;
static struct linnos_latency *trees;
static volatile s64 sink;

static const struct linnos_drive_snapshot *next_view(void)
{
	static unsigned int n;

	return &views[n++ % VIEWS];
}

static bool judge_plain(const struct linnos_drive_snapshot *view)
{
	u8 digits[LINNOS_N_INPUTS];

	linnos_encode_digits(view, digits);
	return plain_infer(&plain, digits);
}

static bool judge_network(const struct linnos_drive_snapshot *view)
{
	struct linnos_hidden hidden;
	u8 digits[LINNOS_N_INPUTS];

	linnos_encode_digits(view, digits);
	linnos_hidden_layer(&net, digits, &hidden);
	return linnos_margin(&net, &hidden) > 0;
}

static void run_plain(void)
{
	sink += judge_plain(next_view());
}

static void run_network(void)
{
	sink += judge_network(next_view());
}

static void run_features(void)
{
	u32 features[LINNOS_N_FEATURES];

	linnos_compute_features(&places, next_view(), trees->overdue_us, features);
	sink += features[LINNOS_OLDEST_US];
}

static void run_trees(void)
{
	u32 features[LINNOS_N_FEATURES];

	linnos_compute_features(&places, next_view(), trees->overdue_us, features);
	sink += linnos_latency_us(trees, features);
}

static const struct way ways[] = {
	{ "network_plain", run_plain },
	{ "network", run_network },
	{ "features_of_trees", run_features },
	{ "trees", run_trees },
};

/*
 * 90 us per read, 12 us more for each page before it, and some ms in bursts; 1
 * to 32 pages.
 */
static void make_views(void)
{
	u64 now_ns = 1000000000;

	for (struct linnos_drive_snapshot *view = views; view < views + VIEWS; view++) {
		u32 most = rnd() % 8 ? 6 : 32;
		bool burst = rnd() % 8 == 0;

		view->now_ns = now_ns;
		view->pages = 1;
		view->load.reads = rnd() % most;
		view->load.read_pages = view->load.reads * (1 + rnd() % 2);
		for (int i = 0; i < LINNOS_HISTORY; i++) {
			u32 pending = 1 + rnd() % most;

			view->past[i] = (struct linnos_completed_io){
				.end_ns = now_ns - (LINNOS_HISTORY - i) * (20000 + rnd() % 20000),
				.latency_us = 80 + rnd() % 30 + 12 * pending +
					      (burst ? 2000 + rnd() % 4000 : 0),
				.pages = 1,
				.pending = pending,
			};
		}
	}
	for (int i = 0; i < 4; i++) {
		places.taken[0] |= 1UL << i;
		places.start_ns[i] = now_ns - rnd() % 100000;
	}
}

static u8 *read_file(const char *path, size_t *bytes)
{
	u8 *data = malloc(LINNOS_NETWORK_BYTES + 1);
	FILE *f = fopen(path, "rb");

	if (!f || !data) {
		perror(path);
		exit(1);
	}
	*bytes = fread(data, 1, LINNOS_NETWORK_BYTES + 1, f);
	fclose(f);
	return data;
}

static void read_models(const char *network, const char *latency)
{
	enum linnos_model_error error;
	size_t bytes;
	u8 *file = read_file(network, &bytes);

	error = linnos_network_parse(&net, file, bytes);
	if (!error) {
		plain_read(&plain, file);
		network = latency;
		file = read_file(latency, &bytes);
		trees = malloc(linnos_latency_sizeof(bytes));
		error = linnos_latency_parse(trees, file, bytes);
	}
	if (error) {
		fprintf(stderr, "bench_engine: %s: %s\n", network,
			linnos_model_error_string(error));
		exit(1);
	}
}

int main(int argc, char **argv)
{
	const char *path = NULL, *program = argv[0];
	char models[1024];
	FILE *json;
	int slow = 0;

	if (argc == 5 && !strcmp(argv[1], "--json")) {
		path = argv[2];
		argv += 2;
		argc -= 2;
	}
	if (argc != 3) {
		fputs("usage: bench_engine [--json FILE] NETWORK TREES\n", stderr);
		return 2;
	}
	read_models(argv[1], argv[2]);
	make_views();
	for (int i = 0; i < VIEWS; i++) {
		slow += judge_network(&views[i]);
		if (judge_network(&views[i]) == judge_plain(&views[i]))
			continue;
		fputs("bench_engine: the network judges otherwise than a plain one\n", stderr);
		return 1;
	}
	printf("%d of %d reads slow by the network; %u trees\n", slow, VIEWS, trees->n_trees);
	json = open_json(path);
	snprintf(models, sizeof(models), "'%s' '%s'", argv[1], argv[2]);
	measure(ways, sizeof(ways) / sizeof(*ways), json, program, models);
	fputs("\n", json);
	close_json(json);
	return 0;
}
