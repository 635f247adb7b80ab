// SPDX-License-Identifier: MIT
/*
 * Preloaded into linnos-ublk, this lets the program start where there is no ublk, and reports
 * whether PR_SET_IO_FLUSHER is set when it creates its first thread.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static int is_flusher;
int prctl(int option, ...)
{
	is_flusher |= option == 57;
	return 0;
}
int open(const char *path, int flags, ...)
{
	int (*next)(const char *, int, ...) =
		(int (*)(const char *, int, ...))dlsym(RTLD_NEXT, "open");

	return next(strcmp(path, "/dev/ublk-control") ? path : "/dev/null", flags, 0600);
}
int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
		   void *argument)
{
	printf("PR_SET_IO_FLUSHER %s\n", is_flusher ? "is set" : "is not set");
	fflush(stdout);
	_exit(0);
}
