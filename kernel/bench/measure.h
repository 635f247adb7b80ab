/* SPDX-License-Identifier: MIT */
/* For benchmarks: the same random numbers in every run, a clock, quantiles. */
#ifndef MEASURE_H
#define MEASURE_H

#include <stdint.h>
#include <stdlib.h>
#include <time.h>

static uint32_t random_state = 0x4c494e4e;

static inline uint32_t rnd(void) {
  random_state ^= random_state << 13;
  random_state ^= random_state >> 17;
  random_state ^= random_state << 5;
  return random_state;
}

static inline uint64_t clock_ns(void) {
  struct timespec t;

  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000000000ULL + t.tv_nsec;
}

static inline int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;

  return (x > y) - (x < y);
}

/* Sorts the values. */
static inline double quantile(double *values, long n, double q) {
  qsort(values, n, sizeof(*values), by_value);
  return values[(long)(q * (n - 1))];
}

#endif
