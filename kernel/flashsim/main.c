// SPDX-License-Identifier: GPL-2.0-only
/*
 * flashsim: the module.
 */
#include <linux/module.h>

#include "config.h"
#include "stats.h"

static int __init flashsim_module_init(void)
{
	int err;

	flashsim_stats_init();
	err = flashsim_config_init();
	if (err)
		flashsim_stats_exit();
	return err;
}

static void __exit flashsim_module_exit(void)
{
	flashsim_config_exit();
	flashsim_stats_exit();
}

module_init(flashsim_module_init);
module_exit(flashsim_module_exit);
MODULE_DESCRIPTION("Flash drive emulator");
MODULE_LICENSE("GPL");
