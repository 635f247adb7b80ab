/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * flashsim: configfs.
 */
#ifndef FLASHSIM_CONFIG_H
#define FLASHSIM_CONFIG_H

int flashsim_config_init(void);
void flashsim_config_exit(void);

#endif /* FLASHSIM_CONFIG_H */
