// SPDX-License-Identifier: MIT
/*
 * Time of one inference of an n_inputs -> hidden layers with ReLU -> 2 network in plain integer C, for networks of
 * shapes that the kernel's engine does not have. Prints ns, the fastest of several repeats.
 */
#define _POSIX_C_SOURCE 200809L
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static uint32_t state = 0x4C494E4E;

static uint32_t next(void)
{
	state ^= state << 13;
	state ^= state >> 17;
	state ^= state << 5;
	return state;
}

static double now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e9 + t.tv_nsec;
}

static void *allocate(size_t n, size_t size)
{
	void *p = calloc(n, size);

	if (!p) {
		fputs("inference_time: out of memory\n", stderr);
		exit(1);
	}
	return p;
}

/*
 * One layer: out = in * weights, in the order of the inputs; inputs of 0 cost nothing. Sums may wrap: what they are
 * does not matter here, only what they cost.
 */
static void layer(const int32_t *in, long n_in, const uint32_t *weights, int32_t *out, long n_out)
{
	uint32_t *sums = (uint32_t *)out;

	for (long j = 0; j < n_out; j++)
		sums[j] = 0;
	for (long i = 0; i < n_in; i++) {
		uint32_t value = in[i];
		const uint32_t *row = weights + i * n_out;

		if (in[i] <= 0)
			continue;
		for (long j = 0; j < n_out; j++)
			sums[j] += value * row[j];
	}
}

int main(int argc, char **argv)
{
	long inferences, repeats, slow = 0, n_layers = argc - 3;
	double best = 1e18;

	if (argc < 5) {
		fputs("usage: inference_time INFERENCES REPEATS N_INPUTS N_HIDDEN...\n", stderr);
		return 1;
	}
	inferences = atol(argv[1]);
	repeats = atol(argv[2]);

	/* The last layer has two outputs, fast and slow. */
	long *size = allocate(n_layers + 1, sizeof(long));
	uint32_t **weights = allocate(n_layers, sizeof(*weights));
	int32_t **values = allocate(n_layers + 1, sizeof(*values));

	for (long k = 0; k < n_layers; k++)
		size[k] = atol(argv[k + 3]);
	size[n_layers] = 2;
	for (long k = 0; k <= n_layers; k++) {
		if (size[k] < 1 || inferences < 1 || repeats < 1) {
			fputs("inference_time: all numbers must be positive\n", stderr);
			return 1;
		}
		values[k] = allocate(size[k], sizeof(int32_t));
	}
	for (long k = 0; k < n_layers; k++) {
		weights[k] = allocate(size[k] * size[k + 1], sizeof(int32_t));
		for (long i = 0; i < size[k] * size[k + 1]; i++)
			weights[k][i] = next() % 4001 - 2000;
	}

	uint8_t *digits = allocate(size[0] * 64, 1);

	for (long i = 0; i < size[0] * 64; i++)
		digits[i] = next() % 10;

	for (long r = 0; r < repeats; r++) {
		double start = now_ns();

		for (long n = 0; n < inferences; n++) {
			const uint8_t *x = digits + n % 64 * size[0];

			for (long i = 0; i < size[0]; i++)
				values[0][i] = x[i];
			for (long k = 0; k < n_layers; k++) {
				layer(values[k], size[k], weights[k], values[k + 1], size[k + 1]);
				/* As many digits as the next layer's sums have room for. */
				for (long j = 0; k + 1 < n_layers && j < size[k + 1]; j++)
					values[k + 1][j] >>= 10;
			}
			slow += values[n_layers][1] > values[n_layers][0];
		}
		double each = (now_ns() - start) / inferences;

		if (each < best)
			best = each;
	}
	/* The answers must be used, or the compiler would leave the work out. */
	fprintf(stderr, "%ld\n", slow);
	printf("%.1f\n", best);
	return 0;
}
