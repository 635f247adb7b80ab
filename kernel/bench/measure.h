/* SPDX-License-Identifier: MIT */
/*
 * For benchmarks: reproducible random numbers, a clock, quantiles, and the cost
 * of a function: its time with warm caches, and its number of instructions,
 * which does not depend on the load of the machine.
 */
#ifndef MEASURE_H
#define MEASURE_H

#include <err.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static uint32_t random_state = 0x4c494e4e;

static inline uint32_t rnd(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 17;
	random_state ^= random_state << 5;
	return random_state;
}

static inline uint64_t clock_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ULL + t.tv_nsec;
}

static inline int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Sort the values and return the median. */
static inline double median(double *values, long n)
{
	qsort(values, n, sizeof(*values), by_value);
	return values[n / 2];
}

/* Open a file for the results. Without a path, they are discarded. Exit after an error. */
static inline FILE *open_json(const char *path)
{
	FILE *f = fopen(path ? path : "/dev/null", "w");

	if (!f)
		err(1, "%s", path);
	return f;
}

static inline void close_json(FILE *f)
{
	if (ferror(f) || fclose(f))
		err(1, "JSON");
}

/* A function to measure. All functions are compared with the first one. */
struct way {
	const char *name;
	void (*run)(void);
};

#define BATCH 256
#define BATCHES 101

/* Return the time of a call in ns: the median of the means of all batches. */
static inline double warm_ns(void (*run)(void))
{
	double times[BATCHES];

	for (int batch = 0; batch < BATCHES; batch++) {
		uint64_t start = clock_ns();

		for (int i = 0; i < BATCH; i++)
			run();
		times[batch] = (double)(clock_ns() - start) / BATCH;
	}
	return median(times, BATCHES);
}

/* The policy measures the time of one call in this many, so that one of these calls is measured. */
#define COUNTED 64

/* valgrind finds this function by its name */
__attribute__((noipa)) void run_counted(void (*run)(void));
void run_counted(void (*run)(void))
{
	for (int i = 0; i < COUNTED; i++)
		run();
}

/*
 * Return the mean number of instructions of a call, counted by valgrind in a
 * separate run, or -1 if valgrind is not installed.
 */
static inline double instructions(const char *program, const char *arguments, int way)
{
	char command[4096], line[256];
	double counted = -1;
	FILE *pipe;

	snprintf(command, sizeof(command),
		 "ONLY_WAY=%d valgrind --tool=callgrind --callgrind-out-file=/dev/null "
		 "--toggle-collect=run_counted '%s' %s 2>&1",
		 way, program, arguments);
	pipe = popen(command, "r");
	while (pipe && fgets(line, sizeof(line), pipe))
		if (strstr(line, "Collected : "))
			counted = strtod(strstr(line, " : ") + 3, NULL) / COUNTED;
	if (pipe)
		pclose(pipe);
	return counted;
}

/*
 * Print a table, and write an object to the JSON file. valgrind runs the program
 * again with @arguments.
 */
static inline void measure(const struct way *ways, int n, FILE *json, const char *program,
			   const char *arguments)
{
	const char *only = getenv("ONLY_WAY");
	double first = 0;

	if (only) {
		/* once first, for one-time initialisation */
		ways[atoi(only)].run();
		run_counted(ways[atoi(only)].run);
		exit(0);
	}
	printf("  %-24s %8s %6s %14s\n", "", "ns", "x", "instructions");
	for (int k = 0; k < n; k++) {
		double warm = warm_ns(ways[k].run);
		double count = instructions(program, arguments, k);

		if (!k)
			first = warm;
		printf("  %-24s %8.1f %6.2f %14.1f\n", ways[k].name, warm, warm / first, count);
		fprintf(json, "%s\n  \"%s\": {\"warm_ns\": %.1f, \"instructions\": %.1f}",
			k ? "," : "{", ways[k].name, warm, count);
	}
	fputs("}", json);
}

#endif
