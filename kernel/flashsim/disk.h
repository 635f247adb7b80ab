/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * flashsim: the block device.
 */
#ifndef FLASHSIM_DISK_H
#define FLASHSIM_DISK_H

struct flashsim_drive;

int flashsim_power_on(struct flashsim_drive *drive);
void flashsim_power_off(struct flashsim_drive *drive);
void flashsim_precondition(struct flashsim_drive *drive);

#endif /* FLASHSIM_DISK_H */
