/* SPDX-License-Identifier: MIT */
/* Slow drives for the run: programs flashsim's injection knobs (docs/flashsim.md) as --inject says
 * (inject_spec.h), arms them, disarms them. */
#ifndef REPLAYER_INJECT_H
#define REPLAYER_INJECT_H

#include "drive/device.h"

#include <stdbool.h>

struct inject;

struct storms;

/* Parses the specifications and programs the knobs, still disarmed. Write storms are
 * not flashsim's but the engine's: they go to *storms, at most one per drive. NULL when flashsim
 * has nothing to do. Dies on a bad specification or a drive that cannot do it. */
struct inject *inject_new(char *const *specs, unsigned int n_specs, struct device *devices,
			  unsigned int n_devices, struct storms *storms);
/* Whether a read's fate hangs on how many came before it, or on chance: then no policy that looks
 * ahead by one read is a bound. A null pointer injects nothing. */
bool inject_counts_reads(const struct inject *in);
void inject_arm(struct inject *in);
void inject_disarm(struct inject *in);

#endif
