/* SPDX-License-Identifier: MIT */
/* The latency-critical hint of a patched kernel (docs/formats.md), a flag of preadv2(2) and
 * io_uring; an unpatched one answers EOPNOTSUPP. */
#ifndef LINNOS_LATCRIT_H
#define LINNOS_LATCRIT_H

#ifndef RWF_LATCRIT
#define RWF_LATCRIT 0x00008000
#endif

#endif
