/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note */
/*
 * The oracle: what a read would cost if it were submitted now.
 *
 * For evaluation only, as a bound: no policy that sees the drive from outside
 * chooses better for one read. Not so where injection hits by count or by chance:
 * there the answer holds until the next read only, and to go elsewhere changes
 * what that will get. Builds in the kernel and in user space.
 */
#ifndef FLASHSIM_IOCTL_H
#define FLASHSIM_IOCTL_H

#include <linux/ioctl.h>
#include <linux/types.h>

#define FLASHSIM_ORACLE_READ	0

/**
 * struct flashsim_oracle - question and answer of FLASHSIM_IOC_ORACLE
 * @sector: first 512-byte sector of the read
 * @nr_sectors: its length, at most 64 MiB; what is longer than a request may be
 *	is split as the block layer does, and done when its last part is
 * @op: FLASHSIM_ORACLE_READ
 * @latency_ns: out: time from submission to completion, injection included,
 *	if the read were submitted now and nothing else came in between
 */
struct flashsim_oracle {
	__u64 sector;
	__u32 nr_sectors;
	__u32 op;
	__u64 latency_ns;
};

#define FLASHSIM_IOC_ORACLE	_IOWR(0xF5, 1, struct flashsim_oracle)

#endif /* FLASHSIM_IOCTL_H */
