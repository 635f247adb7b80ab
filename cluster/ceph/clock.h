/* SPDX-License-Identifier: MIT */
/* The clock of all times, which is CLOCK_MONOTONIC in ns. */
#ifndef LINNOS_CEPH_CLOCK_H
#define LINNOS_CEPH_CLOCK_H

#include <stdint.h>

uint64_t clock_ns(void);

#endif
