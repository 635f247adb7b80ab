/* SPDX-License-Identifier: MIT */
/*
 * Parse numbers in ordinary notation: decimal digits, the whole text, and no notation that is
 * specific to C (octal 010, 0x10, inf, leading blanks).
 */
#ifndef REPLAYER_NUMBER_H
#define REPLAYER_NUMBER_H

#include <stdbool.h>
#include <stdint.h>

/* Parse a whole number; *value is unchanged if it returns false. */
bool parse_whole(const char *text, uint64_t *value);
/* Parse a number that may have a sign, a fraction or an exponent. */
bool parse_number(const char *text, double *value);
/* Parse a number like parse_number(), and return what follows it in *unit. */
bool parse_number_unit(const char *text, double *value, const char **unit);
/* Return the index of a word in "this|that"; -1 if it is not in the list. */
int word_place(const char *words, const char *text);

#endif
