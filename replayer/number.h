/* SPDX-License-Identifier: MIT */
/* Numbers as people write them: decimal digits, the whole text, and nothing that only C reads as a
 * number (010 as eight, 0x10, inf, leading blanks). */
#ifndef REPLAYER_NUMBER_H
#define REPLAYER_NUMBER_H

#include <stdbool.h>
#include <stdint.h>

bool parse_whole(const char *text, uint64_t *value);
/* With a sign, a fraction or an exponent. */
bool parse_number(const char *text, double *value);
/* The same, and what follows it. */
bool parse_number_unit(const char *text, double *value, const char **unit);
/* Takes the digits off the front of a text, leading zeros and all; false, and nothing taken, when
 * there are none or too many for 64 bits. */
bool number_take(const char **text, uint64_t *value);

/* The place of a word among those of "this|that"; -1 when it is none of them. */
int word_place(const char *words, const char *text);

#endif
