/* SPDX-License-Identifier: MIT */
/*
 * Slow drives during the run: program flashsim's injection settings (docs/flashsim.md) according to
 * --inject (inject_spec.h), enable and disable them.
 */
#ifndef REPLAYER_INJECT_H
#define REPLAYER_INJECT_H

#include "drive/device.h"

#include <stdbool.h>

struct inject;

/*
 * Parse the specifications and program the settings, without enabling them. Return NULL without
 * specifications. Exit on an invalid one or a drive that does not support it.
 */
struct inject *inject_new(char *const *specs, unsigned int n_specs, struct device *devices,
			  unsigned int n_devices);
/*
 * Return true if the latency of a read depends on the number of earlier reads or on chance. Then a
 * policy that looks ahead by one read is not a bound. NULL injects nothing.
 */
bool inject_counts_reads(const struct inject *in);
void inject_arm(struct inject *in);
void inject_disarm(struct inject *in);

#endif
