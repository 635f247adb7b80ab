// SPDX-License-Identifier: MIT
/* Tests of the number parser. */
#include "number.h"

#include "test.h"

TEST(whole_numbers_have_only_decimal_digits)
{
	static const char *const bad[] = {"",	 "010", "0x10", "1 ", " 1",
					  "1.0", "-1",	"+1",	"a",  "99999999999999999999"};
	uint64_t v = 1;

	assert(parse_whole("0", &v) && v == 0);
	assert(parse_whole("9223372036854775807", &v) && v == INT64_MAX);
	for (unsigned int i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		assert(!parse_whole(bad[i], &v));
}

TEST(numbers_have_sign_fraction_and_exponent)
{
	static const char *const bad[] = {"", "inf", "nan", "0x1", "1e", "1e999", "1 ", "1%", "."};
	double v;

	assert(parse_number("-2.5e-1", &v) && v == -0.25);
	assert(parse_number("+.5", &v) && v == 0.5);
	for (unsigned int i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		assert(!parse_number(bad[i], &v));
}

TEST(number_is_followed_by_its_unit)
{
	const char *unit;
	double v;

	assert(parse_number_unit("5%", &v, &unit) && v == 5 && !strcmp(unit, "%"));
	assert(parse_number_unit("100ppm", &v, &unit) && v == 100 && !strcmp(unit, "ppm"));
	assert(parse_number_unit("0.05", &v, &unit) && v == 0.05 && !*unit);
	assert(!parse_number_unit("%", &v, &unit));
	assert(!parse_number_unit("0x5%", &v, &unit));
}

TEST(number_take_removes_the_leading_digits)
{
	const char *text = "0042 x", *none = "x", *many = "99999999999999999999";
	uint64_t v;

	assert(number_take(&text, &v) && v == 42 && !strcmp(text, " x"));
	assert(!number_take(&none, &v) && *none == 'x');
	assert(!number_take(&many, &v) && *many == '9');
}

TEST(word_place_finds_a_whole_word)
{
	assert(word_place("zero|any", "zero") == 0 && word_place("zero|any", "any") == 1);
	assert(word_place("any", "any") == 0);
	assert(word_place("zero|any", "an") < 0 && word_place("zero|any", "zero|any") < 0);
	assert(word_place("zero|any", "") < 0);
}
