// SPDX-License-Identifier: MIT
/*
 * inference_time INFERENCES REPEATS N_INPUTS N_HIDDEN...: measure the time of one inference of a
 * network with hidden layers of ReLU and two outputs, in plain integer C. Prints ns, the fastest of
 * the repeats. The sums may wrap, because only their cost matters.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define LAYERS_MAX 16
#define SAMPLES 64

static double now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e9 + t.tv_nsec;
}

static int32_t *random_values(long n, int32_t lowest, int32_t highest)
{
	int32_t *values = malloc(n * sizeof(*values));

	for (long i = 0; i < n; i++)
		values[i] = lowest + rand() % (highest - lowest + 1);
	return values;
}

/* Inputs of 0 cost nothing. */
static void layer(const int32_t *in, long n_in, const int32_t *weights, int32_t *out, long n_out)
{
	uint32_t *sums = (uint32_t *)out;

	for (long j = 0; j < n_out; j++)
		sums[j] = 0;
	for (long i = 0; i < n_in; i++) {
		if (in[i] <= 0)
			continue;
		for (long j = 0; j < n_out; j++)
			sums[j] += (uint32_t)in[i] * (uint32_t)weights[i * n_out + j];
	}
}

int main(int argc, char **argv)
{
	int32_t *weights[LAYERS_MAX], *values[LAYERS_MAX + 1], *digits;
	long size[LAYERS_MAX + 1], n_layers = argc - 3, slow = 0;
	double best = 1e18;

	if (n_layers < 1 || n_layers > LAYERS_MAX)
		return 2;
	for (long k = 0; k <= n_layers; k++) {
		size[k] = k < n_layers ? atol(argv[k + 3]) : 2;
		values[k] = random_values(size[k], 0, 0);
		if (k)
			weights[k - 1] = random_values(size[k - 1] * size[k], -2000, 2000);
	}
	digits = random_values(size[0] * SAMPLES, 0, 9);
	for (long r = 0; r < atol(argv[2]); r++) {
		double start_ns = now_ns(), each_ns;

		for (long n = 0; n < atol(argv[1]); n++) {
			const int32_t *in = digits + n % SAMPLES * size[0];

			for (long k = 0; k < n_layers; in = values[++k]) {
				layer(in, size[k], weights[k], values[k + 1], size[k + 1]);
				/* as many digits as the next layer's sums have room for */
				for (long j = 0; k + 1 < n_layers && j < size[k + 1]; j++)
					values[k + 1][j] >>= 10;
			}
			slow += in[1] > in[0];
		}
		each_ns = (now_ns() - start_ns) / atol(argv[1]);
		best = each_ns < best ? each_ns : best;
	}
	/* The results must be used, or the compiler would leave the work out. */
	fprintf(stderr, "%ld\n", slow);
	printf("%.1f\n", best);
	return 0;
}
