/* SPDX-License-Identifier: MIT */
/* Errors: every message names the thing and the remedy, and ends the program or the run. */
#ifndef REPLAYER_ERROR_H
#define REPLAYER_ERROR_H

#include <stdbool.h>

/* Prints "replayer: ..." and exits with status 1, after the clean-up registered with at_exit. */
void die(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));
void warn_user(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* False, with a warning, when something of what went to standard output is lost. */
bool all_printed(void);

/* They do not return NULL. */
void *xcalloc(unsigned long count, unsigned long bytes);
char *xstrdup(const char *s);
char *xasprintf(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
