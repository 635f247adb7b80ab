/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The kernel's own policy in a program: blk-linnos.c and its like, with
 * kernel_shim.h for the rest of the kernel. No sysfs, and no drive has peers.
 */
#ifndef _BENCH_POLICY_H
#define _BENCH_POLICY_H

#include "kernel_shim.h"
#include "blk-linnos-watch.c"
#include "blk-linnos-model.c"
#include "blk-linnos.c"

__thread int shim_cpu;
const struct kobj_type {
	int unused;
} linnos_ktype;

void linnos_join(struct blk_linnos *linnos)
{
}

void linnos_leave(struct blk_linnos *linnos)
{
}

#endif
