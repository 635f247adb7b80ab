/* SPDX-License-Identifier: MIT */
/*
 * Protection against overwriting data.
 *
 * A drive with a signature known to libblkid (file system, RAID, LVM or partition table) is refused
 * unless --force names it. A drive in use is always refused: mounted or claimed by the kernel, as a
 * whole or in part (the exclusive open fails), open in another process, or the backing file of a
 * loop device. The contents written by an earlier replay are not a signature, whatever libblkid
 * reports.
 *
 * Another process that has the drive open only for control (O_RDONLY with O_NONBLOCK on a block
 * device, such as blktrace and smartctl) neither reads nor writes it, and is allowed.
 */
#ifndef REPLAYER_GUARD_H
#define REPLAYER_GUARD_H

#include <stdbool.h>

struct options;

/*
 * Check the file names before anything is opened. Exit unless drives, traces and the other files of
 * the command line are distinct, and --json and --log may be created or replaced: they are missing
 * or regular files, and neither a drive nor an input nor the same file.
 */
void guard_names(const struct options *o);
/*
 * Exit unless all drives may be overwritten. They are already open, block devices exclusively, so
 * that they cannot be mounted meanwhile. Nothing has been written yet.
 */
void guard_drives(const struct options *o);

#endif
