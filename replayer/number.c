// SPDX-License-Identifier: MIT
/* Parse numbers: see number.h. */
#include "number.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

bool parse_whole(const char *text, uint64_t *value)
{
	size_t n = strspn(text, "0123456789");
	uint64_t v;

	errno = 0;
	v = strtoull(text, NULL, 10);
	if (!n || text[n] || errno || (*text == '0' && n > 1))
		return false;
	*value = v;
	return true;
}

bool parse_number_unit(const char *text, double *value, const char **unit)
{
	size_t n = strspn(text, "0123456789.eE+-");
	char *end;

	errno = 0;
	*value = strtod(text, &end);
	*unit = end;
	return n && end == text + n && !errno && isfinite(*value);
}

bool parse_number(const char *text, double *value)
{
	const char *unit;

	return parse_number_unit(text, value, &unit) && !*unit;
}

int word_place(const char *words, const char *text)
{
	size_t length;

	for (int n = 0;; n++, words += length + 1) {
		length = strcspn(words, "|");
		if (strlen(text) == length && !memcmp(words, text, length))
			return n;
		if (!words[length])
			return -1;
	}
}
