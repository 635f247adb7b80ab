/* SPDX-License-Identifier: GPL-2.0-only */
/* flashsim: the parameters of a drive, and its counters. */
#ifndef FLASHSIM_PROFILE_H
#define FLASHSIM_PROFILE_H

#include <linux/types.h>

/**
 * struct flashsim_params - the parameters of a drive, see settings.h
 */
struct flashsim_params {
#define PARAM(_name, ...) u32 _name;
#include "settings.h"
};

/**
 * struct flashsim_counters - its operations, see settings.h
 */
struct flashsim_counters {
#define COUNTER(_name) u64 _name;
#include "settings.h"
};

#define FLASHSIM_PROFILE_NAME	16

int flashsim_set_profile(struct flashsim_params *params, const char *name);

#endif /* FLASHSIM_PROFILE_H */
