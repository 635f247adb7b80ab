/* SPDX-License-Identifier: MIT */
/* The latency-critical hint of a patched kernel (docs/formats.md); an unpatched one answers
 * EOPNOTSUPP. */
#ifndef REPLAYER_HINT_H
#define REPLAYER_HINT_H

#ifndef RWF_LATCRIT
#define RWF_LATCRIT 0x00008000
#endif

#endif
