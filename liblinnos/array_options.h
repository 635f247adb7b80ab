/* SPDX-License-Identifier: MIT */
/* Options as a caller of any version gives them. */
#ifndef LINNOS_ARRAY_OPTIONS_H
#define LINNOS_ARRAY_OPTIONS_H

#include "linnos_choose.h"

/* Both return 0 or a negative errno, and say why. What the caller's structure does not have yet
 * keeps its default; what this library does not know yet must be zero. */
int options_take(struct linnos_options *taken, const struct linnos_options *given);
int options_check(const struct linnos_options *o, unsigned int n_replicas);
/* The same of any structure that begins with its size: `bytes` are this library's, least the first
 * version's; *taken has the defaults. */
int sized_take(void *taken, size_t bytes, const void *given, size_t least, const char *name);

#endif
