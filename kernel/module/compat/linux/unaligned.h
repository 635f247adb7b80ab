/* SPDX-License-Identifier: GPL-2.0-only */
/* Linux 6.1: what later became linux/unaligned.h. */
#ifndef _LINUX_UNALIGNED_H
#define _LINUX_UNALIGNED_H

#include <asm/unaligned.h>

#endif /* _LINUX_UNALIGNED_H */
