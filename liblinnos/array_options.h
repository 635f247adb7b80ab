/* SPDX-License-Identifier: MIT */
/* Options as a caller of any version gives them. */
#ifndef LINNOS_ARRAY_OPTIONS_H
#define LINNOS_ARRAY_OPTIONS_H

#include "linnos_choose.h"

/* Both return 0 or a negative errno, and set the error text. */
int options_copy_in(struct linnos_options *taken, const struct linnos_options *given);
int options_check(const struct linnos_options *o, unsigned int n_replicas);

#endif
