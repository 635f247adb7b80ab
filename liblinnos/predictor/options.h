/* SPDX-License-Identifier: MIT */
/* Copy and check options from a caller that was built with any version of the header. */
#ifndef LINNOS_ARRAY_OPTIONS_H
#define LINNOS_ARRAY_OPTIONS_H

#include "linnos_choose.h"

/* Both functions return 0, or a negative errno after setting the error text. */
int options_copy_in(struct linnos_options *taken, const struct linnos_options *given);
int options_check(const struct linnos_options *o, unsigned int n_replicas);

#endif
