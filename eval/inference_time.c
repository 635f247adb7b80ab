// SPDX-License-Identifier: MIT
/*
 * Time of one inference of an n_inputs -> n_hidden ReLU -> 2 network in plain integer C, for networks of shapes that
 * the kernel's engine does not have. Prints ns, the fastest of several repeats.
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

int main(int argc, char **argv)
{
	long n_inputs, n_hidden, inferences, repeats, slow = 0;
	double best = 1e18;

	if (argc != 5) {
		fputs("usage: inference_time N_INPUTS N_HIDDEN INFERENCES REPEATS\n", stderr);
		return 1;
	}
	n_inputs = atol(argv[1]);
	n_hidden = atol(argv[2]);
	inferences = atol(argv[3]);
	repeats = atol(argv[4]);
	if (n_inputs < 1 || n_hidden < 1 || inferences < 1 || repeats < 1) {
		fputs("inference_time: all four numbers must be positive\n", stderr);
		return 1;
	}

	int32_t *hidden_weights = allocate(n_inputs * n_hidden, sizeof(int32_t));
	int32_t *output_weights = allocate(n_hidden * 2, sizeof(int32_t));
	int32_t *hidden = allocate(n_hidden, sizeof(int32_t));
	uint8_t *digits = allocate(n_inputs * 64, 1);

	for (long i = 0; i < n_inputs * n_hidden; i++)
		hidden_weights[i] = (int32_t)(next() % 4001) - 2000;
	for (long i = 0; i < n_hidden * 2; i++)
		output_weights[i] = (int32_t)(next() % 4001) - 2000;
	for (long i = 0; i < n_inputs * 64; i++)
		digits[i] = next() % 10;

	for (long r = 0; r < repeats; r++) {
		double start = now_ns();

		for (long n = 0; n < inferences; n++) {
			const uint8_t *x = digits + n % 64 * n_inputs;
			int64_t out[2] = {0, 0};

			for (long j = 0; j < n_hidden; j++)
				hidden[j] = 0;
			for (long i = 0; i < n_inputs; i++) {
				int32_t digit = x[i];
				const int32_t *row = hidden_weights + i * n_hidden;

				if (!digit)
					continue;
				for (long j = 0; j < n_hidden; j++)
					hidden[j] += digit * row[j];
			}
			for (long j = 0; j < n_hidden; j++) {
				if (hidden[j] <= 0)
					continue;
				out[0] += (int64_t)hidden[j] * output_weights[2 * j];
				out[1] += (int64_t)hidden[j] * output_weights[2 * j + 1];
			}
			slow += out[1] > out[0];
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
