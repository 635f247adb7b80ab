// SPDX-License-Identifier: MIT
/*
 * Preloaded into fio by replayer.py: notes when each I/O is submitted, since fio reports no lag behind
 * a trace. fio's libaio engine calls io_submit() through the dynamic linker, which leads here
 * first. The times are written to $SUBMIT_TIMES as u64 nanoseconds when the process ends.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define TIMES_MAX (64u << 20)

struct iocb;
typedef int (*submit_fn)(void *context, long n, struct iocb **list);

static uint64_t *times;
static uint64_t n_times;
static submit_fn real;

int io_submit(void *context, long n, struct iocb **list)
{
	struct timespec t;
	int done;

	if (!real) {
		real = (submit_fn)dlsym(RTLD_NEXT, "io_submit");
		times = malloc(TIMES_MAX * sizeof(*times)); /* untouched pages cost nothing */
		if (!real || !times)
			abort();
	}
	clock_gettime(CLOCK_MONOTONIC, &t);
	done = real(context, n, list);
	for (int i = 0; i < done && n_times < TIMES_MAX; i++)
		times[n_times++] = (uint64_t)t.tv_sec * 1000000000 + t.tv_nsec;
	return done;
}

/* fio's job process leaves through _exit(), which runs no destructors. */
void _exit(int status)
{
	const char *path = getenv("SUBMIT_TIMES");
	FILE *f = path && n_times ? fopen(path, "wb") : NULL;

	if (f) {
		fwrite(times, sizeof(*times), n_times, f);
		fclose(f);
	}
	_Exit(status);
}

__attribute__((destructor)) static void at_exit(void)
{
	if (n_times)
		_exit(0);
}
