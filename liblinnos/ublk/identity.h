/* SPDX-License-Identifier: MIT */
/* Identify drives across reboots. */
#ifndef LINNOS_UBLK_IDENTITY_H
#define LINNOS_UBLK_IDENTITY_H

#include <stdbool.h>
#include <sys/stat.h>

#define IDENTITY_BYTES 192

/*
 * Write the identity of a drive or file. That of a drive is the first of these that the kernel
 * knows: its wwid, its serial number, the UUID or name of a device mapper device, the UUID of an md
 * device. That of a partition also contains its first sector. That of a file consists of its path
 * and inode. A drive without any of these is identified by the kernel's name for it, which another
 * drive may have after a reboot.
 */
void identity_get(char id[IDENTITY_BYTES], const char *path, const struct stat *st);
/* Write the kernel's name of a drive as its identity, for drives that report equal identities. */
void identity_get_name(char id[IDENTITY_BYTES], const struct stat *st);
/* Return true if the identity is the name that the kernel gave the drive; it is valid until the
 * next boot only. */
bool identity_is_name(const char *id);

#endif
