/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * What the core of LinnOS takes from the kernel, and what a program has instead.
 */
#ifndef _LINNOS_SHIM_H
#define _LINNOS_SHIM_H

#ifdef __KERNEL__
#include <linux/compiler.h>
#include <linux/limits.h>
#include <linux/string.h>
#include <linux/types.h>
#else
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

typedef __UINT8_TYPE__ u8;
typedef __UINT16_TYPE__ u16;
typedef __UINT32_TYPE__ u32;
typedef __UINT64_TYPE__ u64;
typedef __INT16_TYPE__ s16;
typedef __INT32_TYPE__ s32;
typedef __INT64_TYPE__ s64;

#define S16_MAX 32767
#define S16_MIN (-32768)
#define S32_MAX __INT32_MAX__
#endif

/* Where all of a variable is written anyway; old kernels and programs lack it. */
#ifndef __uninitialized
#define __uninitialized
#endif

#endif /* _LINNOS_SHIM_H */
