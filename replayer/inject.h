/* SPDX-License-Identifier: MIT */
/* Slow bursts for the run: programs flashsim's injection knobs (docs/formats.md), arms them, disarms them. */
#ifndef REPLAYER_INJECT_H
#define REPLAYER_INJECT_H

#include "device.h"

struct inject;

/* Parses the specifications and programs the knobs, still disarmed. NULL when there are none. Dies on a bad
 * specification or a drive that cannot do it. */
struct inject *inject_new(char *const *specs, unsigned int n_specs, struct device *devices,
			  unsigned int n_devices);
void inject_arm(struct inject *in);
void inject_disarm(struct inject *in);

#endif
