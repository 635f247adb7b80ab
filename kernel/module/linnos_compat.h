/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * LinnOS as a module: differences between kernels since 6.1. build.sh finds by compile tests which
 * interfaces a kernel has, and writes the result to linnos_interfaces.h.
 */
#ifndef _LINNOS_COMPAT_H
#define _LINNOS_COMPAT_H

#include <linux/file.h>
#include <linux/hrtimer.h>

#include "linnos_interfaces.h"

/* Available since 6.12. */
#ifndef fd_file
#define fd_file(f) ((f).file)
#endif

/* The parameters of &class_interface.remove_dev. */
#if LINNOS_HAS_CLASS_INTERFACE_OF_DEVICE
#define LINNOS_CLASS_ARGS(dev) struct device *dev
#else
#define LINNOS_CLASS_ARGS(dev) \
	struct device *dev, struct class_interface *interface
#endif

#if !LINNOS_HAS_HRTIMER_SETUP
static inline void
hrtimer_setup(struct hrtimer *timer,
	      enum hrtimer_restart (*function)(struct hrtimer *),
	      clockid_t clock, enum hrtimer_mode mode)
{
	hrtimer_init(timer, clock, mode);
	timer->function = function;
}
#endif

#endif /* _LINNOS_COMPAT_H */
