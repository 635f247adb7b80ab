// SPDX-License-Identifier: GPL-2.0-only
/* Since 6.4, the callbacks of struct class_interface have no parameter for the interface. */
#include <linux/device.h>

static void linnos_test(struct device *dev)
{
}

static struct class_interface linnos_tested __maybe_unused = {
	.remove_dev = linnos_test,
};
