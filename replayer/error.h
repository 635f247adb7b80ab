/* SPDX-License-Identifier: MIT */
/* Messages on stderr, each with its object and the remedy, and allocations that exit on failure. */
#ifndef REPLAYER_ERROR_H
#define REPLAYER_ERROR_H

#include <stdbool.h>

/*
 * Print "replayer: ..." and exit with status 1, after the clean-up functions registered with
 * atexit().
 */
void die(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));
/* Print "replayer: warning: ...". */
void warn_user(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Return false, with a warning, if some of the standard output was lost. */
bool all_printed(void);

/* These functions never return NULL. */
void *xcalloc(unsigned long count, unsigned long bytes);
char *xstrdup(const char *s);
char *xasprintf(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
