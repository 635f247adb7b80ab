/* SPDX-License-Identifier: MIT */
/*
 * Which replicas are in a device's mirror, for who serves it when its server has been killed:
 *
 *   /run/linnos-ublk/N:	in /dev/nvme0n1
 *				dropped /dev/nvme1n1
 *
 * It lives as the device does, until the next boot at most, and is written before a write that
 * dropped a replica is committed: who reads it does not ask one that is out of date.
 */
#ifndef LINNOS_UBLK_RECORD_H
#define LINNOS_UBLK_RECORD_H

#include <stdint.h>

/* 0 or a negative errno, and then there is no record: what an older one says may be wrong. */
int record_write(uint32_t number, const char *const *paths, unsigned int n, uint32_t in);
/* Which replicas are in, by bit; dies if there is no record, or it is of others. */
uint32_t record_read(uint32_t number, const char *const *paths, unsigned int n);
void record_remove(uint32_t number);

#endif
