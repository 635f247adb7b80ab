/* SPDX-License-Identifier: MIT */
/* Random numbers from the kernel, which differ between processes and after fork(2). */
#ifndef LINNOS_RANDOM_BYTES_H
#define LINNOS_RANDOM_BYTES_H

#include <errno.h>
#include <stdint.h>
#include <sys/random.h>

/* Return 0 or a negative errno. */
static inline int random_u64(uint64_t *value)
{
	ssize_t n;

	/* The kernel never returns fewer bytes for requests of up to 256 bytes. */
	do
		n = getrandom(value, sizeof(*value), 0);
	while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : 0;
}

#endif
