// SPDX-License-Identifier: MIT
/* Numbers as people write them: see number.h. */
#include "number.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

bool parse_whole(const char *text, uint64_t *value)
{
	size_t digits = strspn(text, "0123456789");

	if (!digits || text[digits] || (*text == '0' && digits > 1))
		return false;
	errno = 0;
	*value = strtoull(text, NULL, 10);
	return !errno;
}

bool parse_number(const char *text, double *value)
{
	char *end;

	if (!*text || text[strspn(text, "0123456789.eE+-")])
		return false;
	errno = 0;
	*value = strtod(text, &end);
	return end != text && !*end && !errno && isfinite(*value);
}
