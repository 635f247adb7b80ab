/* SPDX-License-Identifier: MIT */
/* Identify drives across reboots. */
#ifndef LINNOS_UBLK_IDENTITY_H
#define LINNOS_UBLK_IDENTITY_H

#include <stdbool.h>
#include <sys/stat.h>

#define IDENTITY_BYTES 192

/*
 * Write the identity of a drive or file: the first that the kernel knows of wwid, serial number, or
 * UUID or name of a device mapper or md device, with the first sector if it is a partition; path
 * and inode of a file. A drive that has none of these is identified by the kernel's name for it,
 * which may be another drive's after a reboot.
 */
void identity_get(char id[IDENTITY_BYTES], const char *path, const struct stat *st);
/* Write the identity that a drive without any of these would have, for two drives that report the
 * same one. */
void identity_get_name(char id[IDENTITY_BYTES], const struct stat *st);
/* Return true if the identity is valid until the next boot only. */
bool identity_is_name(const char *id);

#endif
