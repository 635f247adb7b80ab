/* SPDX-License-Identifier: MIT */
/*
 * Record which replicas are in a device's mirror, for a server that takes over after the previous
 * one was killed:
 *
 *   /run/linnos-ublk/N:	in /dev/nvme0n1
 *				dropped /dev/nvme1n1
 *
 * The record exists as long as the device, at most until the next boot. It is written before a
 * write that dropped a replica is committed, so that a server which reads it never uses a replica
 * that is out of date.
 */
#ifndef LINNOS_UBLK_RECORD_H
#define LINNOS_UBLK_RECORD_H

#include <stdint.h>

/* Return 0, or a negative errno after removing the record, because an old record might be wrong. */
int record_write(uint32_t number, const char *const *paths, unsigned int n, uint32_t in);
/* Return a bitmap of the replicas in the mirror. Dies if there is no record, or if it lists other
 * replicas. */
uint32_t record_read(uint32_t number, const char *const *paths, unsigned int n);
void record_remove(uint32_t number);

#endif
