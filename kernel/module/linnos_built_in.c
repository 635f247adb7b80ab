// SPDX-License-Identifier: GPL-2.0-only
/* The LinnOS module of a kernel that has LinnOS built in: it only reports that it is not needed. */
#define pr_fmt(fmt) "linnos: " fmt

#include <linux/module.h>

static int __init linnos_init(void)
{
	pr_err("this kernel has LinnOS in its block layer, see /sys/block/<disk>/linnos: the module is for kernels without it\n");
	return -EEXIST;
}
module_init(linnos_init);

MODULE_LICENSE("GPL");
MODULE_AUTHOR("The LinnOS developers");
MODULE_DESCRIPTION("LinnOS placeholder: this kernel has LinnOS built in");
