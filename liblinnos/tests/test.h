/* SPDX-License-Identifier: MIT */
/*
 * Tests of single modules: TEST(name) { ... } with plain asserts. A test program is linked with the
 * modules that its file tests and those that they need, and with nothing else. It runs the tests
 * that are named on its command line, or all of them.
 */
#ifndef LINNOS_TEST_H
#define LINNOS_TEST_H

#undef NDEBUG
#include <assert.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static struct {
	const char *name;
	void (*run)(void);
} tests[64];
static unsigned int n_tests;
static void (*after_each)(void);

/* Call a function after each test, which closes everything that the test has opened. */
#define AFTER_EACH(function)                                                                       \
	__attribute__((constructor)) static void set_after_each(void)                              \
	{                                                                                          \
		after_each = function;                                                             \
	}

#define TEST(test)                                                                                 \
	static void test(void);                                                                    \
	__attribute__((constructor)) static void add_##test(void)                                  \
	{                                                                                          \
		assert(n_tests < sizeof(tests) / sizeof(*tests));                                  \
		tests[n_tests].name = #test;                                                       \
		tests[n_tests++].run = test;                                                       \
	}                                                                                          \
	static void test(void)

/* Return the next of a sequence of random numbers that a seed has started (SplitMix64). */
static inline uint64_t chance(uint64_t *state)
{
	uint64_t x = *state += 0x9e3779b97f4a7c15;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
	x = (x ^ x >> 27) * 0x94d049bb133111eb;
	return x ^ x >> 31;
}

int main(int argc, char **argv)
{
	unsigned int n_run = 0;

	for (unsigned int i = 0; i < n_tests; i++)
		for (int k = argc > 1 ? 1 : 0; k < argc; k++)
			if (argc == 1 || !strcmp(argv[k], tests[i].name)) {
				tests[i].run();
				if (after_each)
					after_each();
				n_run++;
			}
	printf("%u tests passed\n", n_run);
	return n_run ? 0 : 1;
}

#endif
