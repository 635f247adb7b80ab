/* SPDX-License-Identifier: MIT */
/* Copy and check options from a caller that was built with any version of the header. */
#ifndef LINNOS_OPTIONS_H
#define LINNOS_OPTIONS_H

#include "linnos_choose.h"

/* These functions return 0, or a negative errno after setting the error text. */
int options_copy_in(struct linnos_options *copy, const struct linnos_options *options,
		    unsigned int n_replicas);
int options_check_default_replica(const char *what, int32_t replica, unsigned int n_replicas);

#endif
