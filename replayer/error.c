// SPDX-License-Identifier: MIT
/* Messages, and allocations that exit on failure: see error.h. */
#include "error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void print_message(const char *prefix, const char *format, va_list args)
{
	fflush(stdout);
	fprintf(stderr, "replayer: %s", prefix);
	vfprintf(stderr, format, args);
	fputc('\n', stderr);
}

void die(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	print_message("", format, args);
	va_end(args);
	exit(1);
}

void warn_user(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	print_message("warning: ", format, args);
	va_end(args);
}

bool all_printed(void)
{
	errno = 0;
	if (!fflush(stdout) && !ferror(stdout))
		return true;
	/* The reason of an earlier failed write is no longer known. */
	warn_user("standard output: %s", strerror(errno ? errno : EIO));
	return false;
}

void *xcalloc(unsigned long count, unsigned long bytes)
{
	void *p = calloc(count, bytes);

	if (!p)
		die("out of memory (%lu x %lu bytes)", count, bytes);
	return p;
}

char *xstrdup(const char *s)
{
	char *p = strdup(s);

	if (!p)
		die("out of memory");
	return p;
}

char *xasprintf(const char *format, ...)
{
	va_list args;
	char *p;

	va_start(args, format);
	if (vasprintf(&p, format, args) < 0)
		die("out of memory");
	va_end(args);
	return p;
}
