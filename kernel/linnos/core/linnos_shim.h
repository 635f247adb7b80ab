/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* LinnOS: all that the core wants of a kernel. Programs have it from elsewhere. */
#ifndef _LINNOS_SHIM_H
#define _LINNOS_SHIM_H

#ifdef __KERNEL__
#include <linux/atomic.h>
#include <linux/bitops.h>
#include <linux/cache.h>
#include <linux/compiler.h>
#include <linux/crc32.h>
#include <linux/limits.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/string.h>
#include <linux/time64.h>
#include <linux/types.h>
#include <linux/unaligned.h>
#else
#include "../userspace/linnos_programs.h"
#endif

/* Where all of a variable is written anyway; old kernels and programs lack it. */
#ifndef __uninitialized
#define __uninitialized
#endif

#endif /* _LINNOS_SHIM_H */
