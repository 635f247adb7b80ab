/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * flashsim: configfs of the fault rules.
 */
#ifndef FLASHSIM_RULES_H
#define FLASHSIM_RULES_H

#include <linux/configfs.h>

extern const struct config_item_type flashsim_rules_type;

#endif /* FLASHSIM_RULES_H */
