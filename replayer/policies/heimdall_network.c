// SPDX-License-Identifier: MIT
/* Heimdall's network: see heimdall_network.h. */
#include "heimdall_network.h"
#include "error.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_LINE "linnos heimdall network 1\n"
#define REMEDY "`python -m eval.heimdall` writes one"

#define WEIGHT_BITS 10
#define VALUE_BITS 20
/*
 * A weight of 1024, scaled: with the limit on hidden values below, no sum of products exceeds 64
 * bits.
 */
#define WEIGHT_MAX (1ll << 20)
#define HIDDEN_MAX (1ll << 34)

struct source {
	FILE *file;
	const char *option, *path;
	unsigned int n; /* count of numbers read */
};

static int64_t number(struct source *s, int64_t min, int64_t max)
{
	char word[32], *end;
	long long v;

	if (fscanf(s->file, "%31s", word) != 1)
		die("--%s %s: ends after %u numbers; " REMEDY, s->option, s->path, s->n);
	s->n++;
	errno = 0;
	v = strtoll(word, &end, 10);
	if (*end || errno || v < min || v > max)
		die("--%s %s: number %u is %s, expected a whole number from %lld to %lld; " REMEDY,
		    s->option, s->path, s->n, word, (long long)min, (long long)max);
	return v;
}

static void numbers(struct source *s, int64_t *into, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++)
		into[i] = number(s, -WEIGHT_MAX, WEIGHT_MAX);
}

/* For each feature its range, and for each neuron its bias and its weights. */
static void read_all(struct source *s, struct heimdall_network *n)
{
	for (unsigned int i = 0; i < HEIMDALL_INPUTS; i++) {
		n->low[i] = number(s, 0, UINT32_MAX);
		n->high[i] = number(s, n->low[i], UINT32_MAX);
	}
	for (unsigned int k = 0; k < HEIMDALL_FIRST; k++) {
		numbers(s, &n->first_bias[k], 1);
		numbers(s, n->first[k], HEIMDALL_INPUTS);
	}
	for (unsigned int k = 0; k < HEIMDALL_SECOND; k++) {
		numbers(s, &n->second_bias[k], 1);
		numbers(s, n->second[k], HEIMDALL_FIRST);
	}
	numbers(s, &n->output_bias, 1);
	numbers(s, n->output, HEIMDALL_SECOND);
}

struct heimdall_network *heimdall_network_read(const char *option, const char *path)
{
	struct heimdall_network *n = xcalloc(1, sizeof(*n));
	struct source s = {fopen(path, "re"), option, path, 0};
	char line[sizeof(FIRST_LINE)], more[2];

	if (!s.file || !fgets(line, sizeof(line), s.file)) {
		const char *why = !s.file || ferror(s.file) ? strerror(errno) : "empty";

		die("--%s %s: %s; " REMEDY, option, path, why);
	}
	if (strcmp(line, FIRST_LINE))
		die("--%s %s: not a network of a known version; " REMEDY, option, path);
	read_all(&s, n);
	if (fscanf(s.file, "%1s", more) == 1)
		die("--%s %s: more than the %u numbers of a network; " REMEDY, option, path, s.n);
	fclose(s.file);
	return n;
}

static int64_t scaled(int64_t value, int64_t low, int64_t high)
{
	if (value <= low)
		return 0;
	if (value >= high)
		return 1ll << VALUE_BITS;
	return ((value - low) << VALUE_BITS) / (high - low);
}

static int64_t sum(const int64_t *weights, const int64_t *values, unsigned int n, int64_t bias)
{
	int64_t total = bias * (1ll << VALUE_BITS);

	for (unsigned int i = 0; i < n; i++)
		total += weights[i] * values[i];
	return total;
}

/* ReLU, limited to a value that no trained network comes near. */
static int64_t hidden(int64_t total)
{
	total = total < 0 ? 0 : total >> WEIGHT_BITS;
	return total < HIDDEN_MAX ? total : HIDDEN_MAX;
}

int64_t heimdall_network_logit(const struct heimdall_network *n,
			       const uint32_t features[HEIMDALL_INPUTS])
{
	int64_t in[HEIMDALL_INPUTS], first[HEIMDALL_FIRST], second[HEIMDALL_SECOND];

	for (unsigned int i = 0; i < HEIMDALL_INPUTS; i++)
		in[i] = scaled(features[i], n->low[i], n->high[i]);
	for (unsigned int k = 0; k < HEIMDALL_FIRST; k++)
		first[k] = hidden(sum(n->first[k], in, HEIMDALL_INPUTS, n->first_bias[k]));
	for (unsigned int k = 0; k < HEIMDALL_SECOND; k++)
		second[k] = hidden(sum(n->second[k], first, HEIMDALL_FIRST, n->second_bias[k]));
	return sum(n->output, second, HEIMDALL_SECOND, n->output_bias);
}
