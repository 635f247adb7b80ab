/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note */
/*
 * The oracle: what a read would cost if it were submitted now.
 *
 * For evaluation only, as the bound that no policy which sees the drive from
 * outside can beat. Builds in the kernel and in user space.
 */
#ifndef FLASHSIM_IOCTL_H
#define FLASHSIM_IOCTL_H

#include <linux/ioctl.h>
#include <linux/types.h>

#define FLASHSIM_ORACLE_READ	0

/**
 * struct flashsim_oracle - question and answer of FLASHSIM_IOC_ORACLE
 * @sector: first 512-byte sector of the read
 * @nr_sectors: its length, at most the disk's max_hw_sectors_kb
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
