/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note */
/*
 * The oracle: the latency that a read would have if it were submitted now.
 *
 * For evaluation only, as a bound: for a single read, no policy that sees the drive from outside
 * makes a better choice. It is not a bound if injection selects I/Os by count or at random. The
 * answer is then valid only until the next read, and reading elsewhere changes what the next read
 * gets. This file compiles in the kernel and in user space.
 */
#ifndef FLASHSIM_IOCTL_H
#define FLASHSIM_IOCTL_H

#include <linux/ioctl.h>
#include <linux/types.h>

#define FLASHSIM_ORACLE_READ	0

/**
 * struct flashsim_oracle - query and answer of FLASHSIM_IOC_ORACLE
 * @sector: first 512-byte sector of the read
 * @nr_sectors: its length, at most 64 MiB; a longer read than one request is
 *	split as by the block layer, and is complete when its last part is
 * @op: FLASHSIM_ORACLE_READ
 * @latency_ns: out: time from submission to completion, injection included, if
 *	the read were submitted now and no other I/O came in between
 */
struct flashsim_oracle {
	__u64 sector;
	__u32 nr_sectors;
	__u32 op;
	__u64 latency_ns;
};

#define FLASHSIM_IOC_ORACLE	_IOWR(0xF5, 1, struct flashsim_oracle)

#endif /* FLASHSIM_IOCTL_H */
