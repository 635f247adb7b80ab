// SPDX-License-Identifier: MIT
/* Parse --inject: see inject_spec.h. */
#include "inject_spec.h"
#include "drive/device.h"
#include "error.h"
#include "number.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* Much longer than any run, and small enough that times in ns and sizes in bytes fit 64 bits. */
#define MS_MAX 1e9
#define LATENCY_US_MAX 60000000u
#define IOS_MAX UINT32_MAX
#define AT_DEPTH_MAX UINT16_MAX
#define TAIL_MIN 0.5
#define TAIL_MAX 100
#define MB_MAX (1u << 30)
#define FOREVER_US ((uint64_t)MS_MAX * 1000)

/* The patterns, as bits. */
enum { ALL = 1, CONTINUOUS = 2, RANDOM = 4, INTERVAL = 8 };
#define ANY (ALL | CONTINUOUS | RANDOM | INTERVAL)

static const struct inject_pattern patterns[] = {
	{.name = "all", .bit = ALL, .needs = "latency_us"},
	{.name = "continuous", .bit = CONTINUOUS, .needs = "ratio"},
	{.name = "random", .bit = RANDOM, .needs = "ratio"},
	{.name = "interval", .bit = INTERVAL, .needs = "interval"},
};
#define N_PATTERNS (sizeof(patterns) / sizeof(*patterns))

/*
 * Name, patterns that use it, type of its value, field; the minimum and maximum of a number, or the
 * choices of a word.
 */
static const struct key {
	const char *name;
	unsigned int patterns;
	enum { WHOLE, TIME_MS, RATIO, THOUSANDTHS, WORD, DRIVES, FLAG } kind;
	size_t at;
	double min, max;
	const char *words;
} keys[] = {
#define KEY(word, of, how, field, ...)                                                             \
	{                                                                                          \
		word, of, how, offsetof(struct inject_spec, field), __VA_ARGS__                    \
	}
	KEY("latency_us", ANY, WHOLE, latency_us, 0, LATENCY_US_MAX, NULL),
	KEY("ratio", CONTINUOUS | RANDOM, RATIO, ratio_ppm, 0, 1e6, NULL),
	KEY("interval", INTERVAL, WHOLE, interval, 1, IOS_MAX, NULL),
	KEY("period_ios", CONTINUOUS, WHOLE, period_ios, 1, IOS_MAX, NULL),
	KEY("op", ANY, WORD, op, 0, 0, "read|write|both"),
	KEY("shape", ANY, WORD, shape, 0, 0, "constant|ramp|queue|pareto"),
	KEY("occupy", ANY, FLAG, occupy, 0, 0, NULL),
	KEY("at_depth", ANY, WHOLE, at_depth, 1, AT_DEPTH_MAX, NULL),
	KEY("tail", ANY, THOUSANDTHS, tail_milli, TAIL_MIN, TAIL_MAX, NULL),
	KEY("region_start_mb", ANY, WHOLE, region_start_mb, 0, MB_MAX, NULL),
	KEY("region_mb", ANY, WHOLE, region_mb, 1, MB_MAX, NULL),
	KEY("slot_ms", ANY, TIME_MS, window_us, 0, MS_MAX, NULL),
	KEY("every_ms", ANY, TIME_MS, every_us, 0, MS_MAX, NULL),
	KEY("start_ms", ANY, TIME_MS, start_us, 0, MS_MAX, NULL),
	KEY("drive", ANY, DRIVES, drives, 0, 0, NULL),
	KEY("rotate", ANY, FLAG, rotate, 0, 0, NULL),
	KEY("at_once", ANY, WHOLE, at_once, 1, MAX_DRIVES, NULL),
};
#define N_KEYS (sizeof(keys) / sizeof(*keys))
_Static_assert(N_KEYS <= 32, "inject_spec.given has no bit for each key");

/* Exit with a message that says what is wrong with `what`, and what is allowed. */
__attribute__((noreturn)) static void bad_spec(const struct inject_spec *s, const char *why,
					       const char *what)
{
	char *known = xstrdup("");

	for (unsigned int i = 0; i < (s->pattern ? N_KEYS : N_PATTERNS); i++) {
		const char *name = s->pattern ? keys[i].name : patterns[i].name;
		char *longer;

		if (s->pattern && !(keys[i].patterns & s->pattern->bit))
			continue;
		longer = xasprintf("%s%s%s", known, *known ? ", " : "", name);
		free(known);
		known = longer;
	}
	die("--inject %s: %s \"%s\"; a specification reads PATTERN:key=value,...; %s%s: %s",
	    s->text, why, what, s->pattern ? "the keys of " : "the patterns",
	    s->pattern ? s->pattern->name : "", known);
}

__attribute__((noreturn)) static void bad_value(const struct inject_spec *s, const struct key *key,
						const char *value, const char *expected)
{
	die("--inject %s: %s=%s: expected %s", s->text, key->name, value, expected);
}

static bool is_given(const struct inject_spec *s, const char *name)
{
	for (unsigned int i = 0; i < N_KEYS; i++)
		if (!strcmp(keys[i].name, name))
			return s->given & 1u << i;
	return false;
}

static uint64_t whole(const struct inject_spec *s, const struct key *key, const char *value)
{
	uint64_t v;

	if (!parse_whole(value, &v) || v < key->min || v > key->max)
		bad_value(s, key, value,
			  xasprintf("a whole number from %.0f to %.0f, in decimal", key->min,
				    key->max));
	return v;
}

/* Parse a number with an optional fraction, in thousandths. */
static uint64_t thousandths(const struct inject_spec *s, const struct key *key, const char *value)
{
	double v;

	if (!parse_number(value, &v) || v < key->min || v > key->max)
		bad_value(s, key, value,
			  xasprintf("%s from %g to %g",
				    key->kind == TIME_MS ? "a time (ms)" : "a number", key->min,
				    key->max));
	return v * 1000 + 0.5;
}

/* Parse "1%", "10000ppm" or a fraction of 1, in parts per million. */
static uint64_t ratio_ppm(const struct inject_spec *s, const struct key *key, const char *value)
{
	double v = -1, per_unit = 0;
	const char *unit;

	if (parse_number_unit(value, &v, &unit))
		per_unit = !strcmp(unit, "%") ? 1e4 : !*unit ? 1e6 : !strcmp(unit, "ppm");
	if (!per_unit || v < 0 || v * per_unit > key->max)
		bad_value(s, key, value, "a share as 1%, 10000ppm or 0.01, and not above 100 %");
	return v * per_unit + 0.5;
}

/* Parse "all", "1" or "0+2" to a bitmap. */
static uint64_t drive_set(const struct inject_spec *s, const struct key *key, const char *value,
			  unsigned int n_drives)
{
	char *copy = xstrdup(value), *rest = copy, *item;
	uint64_t drives = 0, k;

	if (!strcmp(value, "all"))
		drives = (1u << n_drives) - 1;
	else
		while ((item = strsep(&rest, "+"))) {
			if (!parse_whole(item, &k) || k >= n_drives || drives & 1u << k)
				bad_value(s, key, value,
					  xasprintf("all, or drives from 0 to %u, each once, as in "
						    "drive=1 or drive=0+2",
						    n_drives - 1));
			drives |= 1u << k;
		}
	free(copy);
	return drives;
}

static void set(struct inject_spec *s, const struct key *key, const char *value,
		unsigned int n_drives)
{
	void *at = (char *)s + key->at;

	if (s->given & 1u << (key - keys))
		bad_spec(s,
			 strcmp(key->name, "drive") ? "given twice:"
						    : "given twice (several are drive=0+2):",
			 key->name);
	switch (key->kind) {
	case WHOLE:
		*(uint64_t *)at = whole(s, key, value);
		break;
	case TIME_MS: /* in microseconds */
	case THOUSANDTHS:
		*(uint64_t *)at = thousandths(s, key, value);
		break;
	case RATIO:
		*(uint64_t *)at = ratio_ppm(s, key, value);
		break;
	case WORD:
		if (word_place(key->words, value) < 0)
			bad_value(s, key, value, key->words);
		strcpy(at, value);
		break;
	case DRIVES:
		*(uint64_t *)at = drive_set(s, key, value, n_drives);
		break;
	case FLAG:
		*(bool *)at = true;
		break;
	}
	s->given |= 1u << (key - keys);
}

static const struct key *find_key(const struct inject_spec *s, const char *name, bool has_value)
{
	const struct key *key = keys;

	while (key < keys + N_KEYS && strcmp(key->name, name))
		key++;
	if (key == keys + N_KEYS)
		bad_spec(s, "unknown key", name);
	if (!(key->patterns & s->pattern->bit))
		bad_spec(s, "no key of this pattern:", name);
	if (has_value != (key->kind != FLAG))
		bad_spec(s, has_value ? "takes no value:" : "without value:", name);
	return key;
}

static void require(const struct inject_spec *s, const char *name)
{
	if (!is_given(s, name))
		bad_spec(s, "missing key", name);
}

/* Check keys that belong to one shape only, and are required there. */
static void require_shape(const struct inject_spec *s)
{
	static const struct {
		const char *shape, *key;
	} pairs[] = {{"queue", "at_depth"}, {"pareto", "tail"}};

	for (unsigned int i = 0; i < sizeof(pairs) / sizeof(*pairs); i++) {
		if (!strcmp(s->shape, pairs[i].shape))
			require(s, pairs[i].key);
		else if (is_given(s, pairs[i].key))
			bad_spec(s,
				 xasprintf("%s is for shape=%s, not", pairs[i].key, pairs[i].shape),
				 s->shape);
	}
	if (!strcmp(s->shape, "ramp") &&
	    (!s->window_us || (s->every_us && s->window_us > s->every_us)))
		bad_spec(s, "needs slot_ms, in which it rises and falls, no longer than every_ms:",
			 "shape=ramp");
}

static void require_pattern(const struct inject_spec *s)
{
	require(s, "latency_us");
	require(s, s->pattern->needs);
	require_shape(s);
	if (is_given(s, "region_start_mb"))
		require(s, "region_mb");
	if (s->rotate && (!s->window_us || !s->every_us || s->window_us > s->every_us))
		bad_spec(s,
			 "rotate needs slot_ms and every_ms, the slot no longer than the period:",
			 "rotate");
	if (s->every_us && !s->window_us)
		bad_spec(s, "every_ms needs", "slot_ms");
}

struct inject_spec inject_spec_parse(const char *text, unsigned int n_drives)
{
	struct inject_spec s = {.text = text,
				.op = "both",
				.shape = "constant",
				.drives = (1u << n_drives) - 1,
				.at_once = 1,
				.period_ios = 100000,
				.at_depth = 1,
				.tail_milli = 1000};
	char *copy = xstrdup(text), *rest = copy, *item = strsep(&rest, ":");

	for (unsigned int i = 0; i < N_PATTERNS; i++)
		if (!strcmp(item, patterns[i].name))
			s.pattern = &patterns[i];
	if (!s.pattern)
		bad_spec(&s, "unknown pattern", item);
	while (rest && (item = strsep(&rest, ","))) {
		char *name = strsep(&item, "="), *value = item;

		set(&s, find_key(&s, name, value != NULL), value, n_drives);
	}
	require_pattern(&s);
	if (is_given(&s, "at_once") && !s.rotate)
		bad_spec(&s, "at_once needs", "rotate");
	if (s.at_once > n_drives)
		die("--inject %s: at_once=%u: there are only %u drives to be slow", text,
		    (unsigned int)s.at_once, n_drives);
	/* Without slots a drive is slow from the start of the run, or from the given time on. */
	if (s.start_us && !s.window_us)
		s.window_us = FOREVER_US;
	free(copy);
	return s;
}

unsigned int inject_spec_turns(const struct inject_spec *s, unsigned int n_drives)
{
	return s->rotate ? n_drives : 1;
}

uint64_t inject_spec_turns_of(const struct inject_spec *s, unsigned int drive,
			      unsigned int n_drives)
{
	uint64_t turns = 0;

	if (!s->rotate)
		return 1;
	for (unsigned int i = 0; i < s->at_once; i++)
		turns |= 1u << (drive + n_drives - i) % n_drives;
	return turns;
}
