/* SPDX-License-Identifier: MIT */
/* The latency-critical hint of a patched kernel (docs/formats.md), a flag of preadv2(2) and
 * io_uring; an unpatched one answers EOPNOTSUPP. */
#ifndef LINNOS_LATCRIT_H
#define LINNOS_LATCRIT_H

#include <stdbool.h>
#include <stdint.h>

#ifndef RWF_LATCRIT
#define RWF_LATCRIT 0x00008000
#endif

/* Does the kernel know it, on this file or drive of so many bytes? A hinted read behind its end
 * touches nothing, but the kernel looks at its flags first. */
bool latcrit_is_known(int fd, uint64_t size_bytes);

#endif
