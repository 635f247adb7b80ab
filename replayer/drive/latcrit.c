// SPDX-License-Identifier: MIT
/* Support for the latency-critical hint: see latcrit.h. */
#include "latcrit.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/uio.h>

/* A multiple of every drive's block size, so that the read is aligned although it lies past the end
 * of the drive. */
#define BLOCK_BYTES 65536u

bool latcrit_is_known(int fd, uint64_t size_bytes)
{
	uint64_t end = (size_bytes + BLOCK_BYTES - 1) & ~(uint64_t)(BLOCK_BYTES - 1);
	struct iovec iov = {.iov_len = BLOCK_BYTES};
	ssize_t n;
	int error;

	if (posix_memalign(&iov.iov_base, BLOCK_BYTES, BLOCK_BYTES))
		return false;
	n = preadv2(fd, &iov, 1, (off_t)end, RWF_LATCRIT);
	error = errno;
	free(iov.iov_base);
	return n >= 0 || error == EBUSY;
}
