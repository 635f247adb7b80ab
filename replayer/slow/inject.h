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

struct storms;

/*
 * Parse the specifications and program the settings, without enabling them. Write storms are done
 * by the engine and not by flashsim: they are added to *storms, at most one per drive. Return NULL
 * if flashsim has nothing to do. Exit on an invalid specification or a drive that does not support
 * it.
 */
struct inject *inject_new(char *const *specs, unsigned int n_specs, struct device *devices,
			  unsigned int n_devices, struct storms *storms);
/*
 * Return true if the latency of a read depends on the number of earlier reads or on chance. Then a
 * policy that looks ahead by one read is not a bound. NULL injects nothing.
 */
bool inject_counts_reads(const struct inject *in);
void inject_arm(struct inject *in);
void inject_disarm(struct inject *in);

#endif
