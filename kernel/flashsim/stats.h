/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * flashsim: debugfs.
 */
#ifndef FLASHSIM_STATS_H
#define FLASHSIM_STATS_H

struct flashsim_drive;

void flashsim_stats_init(void);
void flashsim_stats_exit(void);
void flashsim_stats_add(struct flashsim_drive *drive);
void flashsim_stats_remove(struct flashsim_drive *drive);

#endif /* FLASHSIM_STATS_H */
