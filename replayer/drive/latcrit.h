/* SPDX-License-Identifier: MIT */
/* The latency-critical hint of a patched kernel (docs/formats.md), a flag of preadv2(2) and
 * io_uring. An unpatched kernel returns EOPNOTSUPP. */
#ifndef REPLAYER_LATCRIT_H
#define REPLAYER_LATCRIT_H

#include <stdbool.h>
#include <stdint.h>

#ifndef RWF_LATCRIT
#define RWF_LATCRIT 0x00008000
#endif

/*
 * Return true if the kernel supports the hint on this file or drive of size_bytes. The function
 * reads past the end, which transfers nothing, but the kernel checks the flags first.
 */
bool latcrit_is_known(int fd, uint64_t size_bytes);

#endif
