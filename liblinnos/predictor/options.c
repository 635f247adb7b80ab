// SPDX-License-Identifier: MIT
/* Options from a caller that was built with any version of the header: see array_options.h. */
#include "options.h"
#include "messages.h"
#include "versioned_struct.h"

#include <errno.h>
#include <stdbool.h>

#define KNOWN_FLAGS                                                                                \
	(LINNOS_BUFFERED | LINNOS_QUERY_KERNEL | LINNOS_UNGUARDED | LINNOS_HEDGE_BY_GAIN |         \
	 LINNOS_PREDICT_ALL)

int options_copy_in(struct linnos_options *taken, const struct linnos_options *given)
{
	struct linnos_options defaults = LINNOS_OPTIONS_INIT;

	*taken = defaults;
	return versioned_struct_copy_in(taken, sizeof(*taken), given, LINNOS_OPTIONS_SIZE_VER0,
					"options, of LINNOS_OPTIONS_INIT");
}

int options_check(const struct linnos_options *o, unsigned int n)
{
	if (!n || n > linnos_replicas_max())
		return error_say(-EINVAL, "an array of %u replicas; 1 to %u can be", n,
				 linnos_replicas_max());
	if (o->flags & ~KNOWN_FLAGS)
		return error_say(-EINVAL, "options: flags 0x%x; known are 0x%x", o->flags,
				 KNOWN_FLAGS);
	if (o->home != LINNOS_DEFAULT_ROUND_ROBIN && (o->home < 0 || (unsigned int)o->home >= n))
		return error_say(-EINVAL,
				 "options: home %d of %u replicas; give 0 to %u, or "
				 "LINNOS_DEFAULT_ROUND_ROBIN",
				 o->home, n, n - 1);
	if (o->home_margin_percent > 100)
		return error_say(-EINVAL, "options: home_margin_percent %u; 0 to 100 can be",
				 o->home_margin_percent);
	if (!(o->extra_io_percent >= 0 && o->extra_io_percent <= 100))
		return error_say(-EINVAL, "options: extra_io_percent %g; 0 to 100 can be",
				 o->extra_io_percent);
	if (!(o->hedge_percentile >= 0 && o->hedge_percentile < 100))
		return error_say(-EINVAL,
				 "options: hedge_percentile %g; above 0 and below 100 can be, 0 is "
				 "none",
				 o->hedge_percentile);
	if (o->hedge_percentile > 0 && o->hedge_percentile < 1)
		return error_say(-EINVAL, "options: hedge_percentile %g; it is in percent: %g?",
				 o->hedge_percentile, 100 * o->hedge_percentile);
	if (!!o->hedge_us + (o->hedge_percentile > 0) + !!o->hedge_tables +
		    !!(o->flags & LINNOS_HEDGE_BY_GAIN) >
	    1)
		return error_say(-EINVAL,
				 "options: more than one of hedge_us, hedge_percentile, "
				 "hedge_tables and LINNOS_HEDGE_BY_GAIN; give one of them");
	return 0;
}
