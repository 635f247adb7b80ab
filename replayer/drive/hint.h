/* SPDX-License-Identifier: MIT */
/* What an I/O can carry to the kernel beside its address. */
#ifndef REPLAYER_HINT_H
#define REPLAYER_HINT_H

#include "latcrit.h"

#include <stdint.h>

/* The I/O tag that flashsim's fault rules match is the hint field of the I/O priority, which
 * Linux 6.5 brought. The kernel gives meanings to values below 8. */
#define TAG_MIN 8
#define TAG_MAX 1023

/* The priority otherwise is the usual one, best effort in the middle: without a class of its own
 * the kernel would put the process's priority in the tag's place. */
static inline uint16_t ioprio_with_tag(uint16_t tag)
{
	return tag ? 2 << 13 | tag << 3 | 4 : 0;
}

#endif
