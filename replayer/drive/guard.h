/* SPDX-License-Identifier: MIT */
/*
 * What a replay must not destroy.
 *
 * A drive that carries something (a file system, RAID, LVM or partition signature, as libblkid
 * knows them) is refused unless --force names it. A drive in use is always refused: mounted or
 * claimed by the kernel, whole or in part (the kernel says so when the drive is opened
 * exclusively), open in another process, or the backing file of a loop device. What an earlier
 * replay wrote is no signature, whatever libblkid takes it for.
 *
 * Another process that has the drive open for control only (O_RDONLY with O_NONBLOCK on a block
 * device, as blktrace and smartctl do) neither reads nor writes it, and is no objection.
 */
#ifndef REPLAYER_GUARD_H
#define REPLAYER_GUARD_H

#include <stdbool.h>

struct options;

/* Before anything is opened. Dies unless drives, traces and the other files of the command line are
 * each its own, and --json and --log name what may be created or replaced: absent or regular files
 * that are neither a drive nor an input nor each other. */
void guard_names(const struct options *o);
/* Dies unless all drives may be overwritten. They are open by now, block devices exclusively, so
 * that no one mounts them meanwhile; nothing was written so far. */
void guard_drives(const struct options *o);

#endif
