// SPDX-License-Identifier: MIT
/* Options from a caller that was built with any version of the header: see options.h. */
#include "options.h"
#include "chooser.h"
#include "messages.h"
#include "versioned_struct.h"

#include <errno.h>
#include <math.h>

/* Hedges after a fixed time have no cost model. Without this limit they would double the load when
 * all drives are slow. */
#define HEDGES_DEFAULT_PERCENT 5

#define KNOWN_FLAGS                                                                                \
	(LINNOS_BUFFERED | LINNOS_QUERY_KERNEL | LINNOS_UNGUARDED | LINNOS_DUPLICATES |            \
	 LINNOS_PREDICT_ALL)

unsigned int linnos_version(void)
{
	return LIBLINNOS_VERSION;
}

unsigned int linnos_replicas_max(void)
{
	return CHOOSER_DRIVES_MAX;
}

static int check(const struct linnos_options *o, unsigned int n)
{
	const char *percent = "options: %s is %g; it must be between 0 and 100";
	int error;

	if (!n || n > linnos_replicas_max())
		return format_error(-EINVAL, "n_replicas is %u; it must be between 1 and %u", n,
				    linnos_replicas_max());
	if (o->flags & ~KNOWN_FLAGS)
		return format_error(-EINVAL, "options: flags is 0x%x; the known flags are 0x%x",
				    o->flags, KNOWN_FLAGS);
	error = options_check_default_replica("options", o->home, n);
	if (error)
		return error;
	if (o->margin_percent > 100)
		return format_error(-EINVAL, percent, "margin_percent", (double)o->margin_percent);
	if (o->max_duplicates != LINNOS_MAX_DUPLICATES_DEFAULT && o->max_duplicates != INFINITY &&
	    !(o->max_duplicates >= 0 && o->max_duplicates <= 100))
		return format_error(-EINVAL, percent, "max_duplicates", o->max_duplicates);
	if (o->hedge_percentile > 0 && o->hedge_percentile < 1)
		return format_error(-EINVAL,
				    "options: hedge_percentile is %g; it is in percent, so it must "
				    "be at least 1; is %g meant?",
				    o->hedge_percentile, 100 * o->hedge_percentile);
	if (!(o->hedge_percentile >= 0 && o->hedge_percentile < 100))
		return format_error(-EINVAL,
				    "options: hedge_percentile is %g; it must be at least 1 and "
				    "less than 100, or 0 to disable hedging after a percentile",
				    o->hedge_percentile);
	if (!!o->hedge_us + (o->hedge_percentile > 0) + !!(o->flags & LINNOS_DUPLICATES) > 1)
		return format_error(-EINVAL,
				    "options: hedge_us, hedge_percentile and LINNOS_DUPLICATES "
				    "exclude each other; set one of them");
	return 0;
}

int options_check_default_replica(const char *what, int32_t replica, unsigned int n)
{
	if (replica >= LINNOS_DEFAULT_ROUND_ROBIN && replica < (int32_t)n)
		return 0;
	return format_error(
		-EINVAL,
		"%s: home is %d; it must be between 0 and %u, or LINNOS_DEFAULT_ROUND_ROBIN", what,
		replica, n - 1);
}

int options_copy_in(struct linnos_options *copy, const struct linnos_options *options,
		    unsigned int n_replicas)
{
	struct linnos_options defaults = LINNOS_OPTIONS_INIT;
	int error;

	*copy = defaults;
	error = versioned_struct_copy_in(copy, sizeof(*copy), options, LINNOS_OPTIONS_SIZE_VER0,
					 "struct linnos_options");
	if (!error)
		error = check(copy, n_replicas);
	if (copy->max_duplicates == LINNOS_MAX_DUPLICATES_DEFAULT)
		copy->max_duplicates =
			copy->flags & LINNOS_DUPLICATES ? INFINITY : HEDGES_DEFAULT_PERCENT;
	return error;
}
