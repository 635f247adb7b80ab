// SPDX-License-Identifier: MIT
/* Injection of slow drives: see inject.h. */
#include "inject.h"
#include "error.h"
#include "number.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CONFIGFS "/sys/kernel/config/flashsim"

/* Much longer than any run, and small enough that times in ns and sizes in bytes fit 64 bits. */
#define MS_MAX 1e9
#define LATENCY_US_MAX 60000000u
#define IOS_MAX UINT32_MAX
#define MB_MAX (1u << 30)
#define FOREVER_US ((uint64_t)MS_MAX * 1000)

struct inject {
	unsigned int n;
	char *dirs[MAX_DRIVES]; /* NULL if there is no injection on this drive */
	bool counts_reads;
};

/* ---- specifications ---- */

/* The patterns, as bits. */
enum { ALL = 1, CONTINUOUS = 2, RANDOM = 4, COUNTED = 8, ANY = 15 };

static const struct inject_pattern {
	const char *name;
	unsigned int bit;
	enum inject_key needs;
} patterns[] = {
	{"all", ALL, LATENCY_US},
	{"continuous", CONTINUOUS, RATIO},
	{"random", RANDOM, RATIO},
	{"interval", COUNTED, INTERVAL},
};
#define N_PATTERNS (sizeof(patterns) / sizeof(*patterns))

/*
 * Name; name of flashsim's setting, or NULL; patterns that have the key; type; initial value;
 * minimum and maximum of a number; choices of a word.
 */
static const struct key {
	const char *name, *setting;
	unsigned int patterns;
	enum { WHOLE, MIB, TIME_MS, SHARE, THOUSANDTHS, WORD, DRIVES, FLAG } kind;
	uint64_t initial;
	double min, max;
	const char *words;
} keys[N_KEYS] = {
	[LATENCY_US] = {"latency_us", "latency_us", ANY, WHOLE, 0, 0, LATENCY_US_MAX},
	[SHAPE] = {"shape", "shape", ANY, WORD, .words = "constant|ramp|queue|pareto"},
	[OCCUPY] = {"occupy", "occupy", ANY, FLAG},
	[AT_DEPTH] = {"at_depth", "at_depth", ANY, WHOLE, 1, 1, UINT16_MAX},
	[TAIL] = {"tail", "tail_milli", ANY, THOUSANDTHS, 1000, 0.5, 100},
	[OP] = {"op", "op", ANY, WORD, .initial = 2, .words = "read|write|both"},
	[RATIO] = {"ratio", "ratio_ppm", CONTINUOUS | RANDOM, SHARE, 0, 0, 1e6},
	[PERIOD_IOS] = {"period_ios", "period_ios", CONTINUOUS, WHOLE, 100000, 1, IOS_MAX},
	[INTERVAL] = {"interval", "interval", COUNTED, WHOLE, 1, 1, IOS_MAX},
	[REGION_START_MB] = {"region_start_mb", "region_sector", ANY, MIB, 0, 0, MB_MAX},
	[REGION_MB] = {"region_mb", "region_sectors", ANY, MIB, 0, 1, MB_MAX},
	[START_MS] = {"start_ms", "window_start_us", ANY, TIME_MS, 0, 0, MS_MAX},
	[SLOT_MS] = {"slot_ms", "window_us", ANY, TIME_MS, 0, 0, MS_MAX},
	[EVERY_MS] = {"every_ms", "window_every_us", ANY, TIME_MS, 0, 0, MS_MAX},
	[DRIVE] = {"drive", NULL, ANY, DRIVES, UINT64_MAX},
	[ROTATE] = {"rotate", NULL, ANY, FLAG},
	[AT_ONCE] = {"at_once", NULL, ANY, WHOLE, 1, 1, MAX_DRIVES},
};
_Static_assert(N_KEYS <= 32, "inject_spec.given has no bit for each key");

/* The words of SHAPE and OP. */
enum { SHAPE_CONSTANT, SHAPE_RAMP, SHAPE_QUEUE, SHAPE_PARETO };
enum { OP_READ, OP_WRITE };

/* Exit with a message that says what is wrong with `what`, and what is allowed. */
__attribute__((noreturn)) static void bad_spec(const struct inject_spec *s, const char *why,
					       const char *what)
{
	char *known = xstrdup("");

	for (unsigned int i = 0; i < (s->pattern ? N_KEYS : N_PATTERNS); i++)
		if (!s->pattern || keys[i].patterns & s->pattern->bit)
			known = xasprintf("%s%s%s", known, *known ? ", " : "",
					  s->pattern ? keys[i].name : patterns[i].name);
	die("--inject %s: %s \"%s\"; the form is PATTERN:key=value,...; %s%s: %s", s->text, why,
	    what, s->pattern ? "the keys of " : "the patterns", s->pattern ? s->pattern->name : "",
	    known);
}

__attribute__((noreturn)) static void bad_value(const struct inject_spec *s, const struct key *key,
						const char *value, const char *expected)
{
	die("--inject %s: %s=%s: expected %s", s->text, key->name, value, expected);
}

static bool is_given(const struct inject_spec *s, enum inject_key key)
{
	return s->given & 1u << key;
}

/* Parse a number; one with a fraction is returned in thousandths. */
static uint64_t number(const struct inject_spec *s, const struct key *key, const char *value)
{
	bool is_whole = key->kind == WHOLE || key->kind == MIB;
	uint64_t n = 0;
	double v = 0;

	if (is_whole ? !parse_whole(value, &n) : !parse_number(value, &v))
		v = -1;
	if (v + n < key->min || v + n > key->max)
		bad_value(s, key, value,
			  xasprintf("%s from %.10g to %.10g",
				    is_whole		   ? "a whole number, in decimal,"
				    : key->kind == TIME_MS ? "a time (ms)"
							   : "a number",
				    key->min, key->max));
	return is_whole ? n : v * 1000 + 0.5;
}

/* Parse "1%", "10000ppm" or a fraction of 1, in parts per million. */
static uint64_t ratio_ppm(const struct inject_spec *s, const struct key *key, const char *value)
{
	double v = -1, per_unit = 0;
	const char *unit;

	if (parse_number_unit(value, &v, &unit))
		per_unit = !strcmp(unit, "%") ? 1e4 : !*unit ? 1e6 : !strcmp(unit, "ppm");
	if (!per_unit || v < 0 || v * per_unit > key->max)
		bad_value(s, key, value, "a share such as 1%, 10000ppm or 0.01, of at most 100 %");
	return v * per_unit + 0.5;
}

/* Parse "all", "1" or "0+2" to a bitmap. */
static uint64_t drive_set(const struct inject_spec *s, const struct key *key, const char *value,
			  unsigned int n_drives)
{
	char *rest = xstrdup(value), *item;
	uint64_t drives = 0, k;

	if (!strcmp(value, "all"))
		return key->initial;
	while ((item = strsep(&rest, "+"))) {
		if (!parse_whole(item, &k) || k >= n_drives || drives & 1u << k)
			bad_value(s, key, value,
				  xasprintf("all, or drives from 0 to %u, each once, as in drive=1 "
					    "or drive=0+2",
					    n_drives - 1));
		drives |= 1u << k;
	}
	return drives;
}

static uint64_t word(const struct inject_spec *s, const struct key *key, const char *value)
{
	int place = word_place(key->words, value);

	if (place < 0)
		bad_value(s, key, value, key->words);
	return place;
}

static uint64_t parse_value(const struct inject_spec *s, const struct key *key, const char *value,
			    unsigned int n_drives)
{
	switch (key->kind) {
	case MIB: /* in sectors */
		return number(s, key, value) << 11;
	case WHOLE:
	case TIME_MS: /* in microseconds */
	case THOUSANDTHS:
		return number(s, key, value);
	case SHARE:
		return ratio_ppm(s, key, value);
	case WORD:
		return word(s, key, value);
	case DRIVES:
		return drive_set(s, key, value, n_drives);
	case FLAG:
		break;
	}
	return true;
}

/* Parse one "key=value" or "key". */
static void take_key(struct inject_spec *s, char *item, unsigned int n_drives)
{
	const char *name = strsep(&item, "=");
	unsigned int k = 0;

	while (k < N_KEYS && strcmp(keys[k].name, name))
		k++;
	if (k == N_KEYS)
		bad_spec(s, "unknown key", name);
	if (!(keys[k].patterns & s->pattern->bit))
		bad_spec(s, "no key of this pattern:", name);
	if (!item != (keys[k].kind == FLAG))
		bad_spec(s, item ? "takes no value:" : "without value:", name);
	if (is_given(s, k))
		bad_spec(s, k == DRIVE ? "given twice (two drives are drive=0+2):" : "given twice:",
			 name);
	s->values[k] = parse_value(s, &keys[k], item, n_drives);
	s->given |= 1u << k;
}

static void require(const struct inject_spec *s, enum inject_key key)
{
	if (!is_given(s, key))
		bad_spec(s, "missing key", keys[key].name);
	/* Without a length there are no slots, and without a period they do not repeat. */
	if ((key == SLOT_MS || key == EVERY_MS) && !s->values[key])
		bad_spec(s, "must not be 0:", keys[key].name);
}

/* Check keys that need others. */
static void require_agreement(const struct inject_spec *s)
{
	static const enum inject_key pairs[][2] = {
		{REGION_START_MB, REGION_MB}, {ROTATE, EVERY_MS}, {AT_ONCE, ROTATE}};
	static const struct {
		unsigned int shape;
		enum inject_key key;
	} shapes[] = {{SHAPE_QUEUE, AT_DEPTH}, {SHAPE_PARETO, TAIL}, {SHAPE_RAMP, SLOT_MS}};
	const uint64_t *v = s->values;

	require(s, LATENCY_US);
	require(s, s->pattern->needs);
	for (unsigned int i = 0; i < sizeof(pairs) / sizeof(*pairs); i++)
		if (is_given(s, pairs[i][0]))
			require(s, pairs[i][1]);
	for (unsigned int i = 0; i < sizeof(shapes) / sizeof(*shapes); i++) {
		if (v[SHAPE] == shapes[i].shape)
			require(s, shapes[i].key);
		else if (shapes[i].key != SLOT_MS && is_given(s, shapes[i].key))
			bad_spec(s,
				 "at_depth needs shape=queue, tail needs shape=pareto; not allowed "
				 "here:",
				 keys[shapes[i].key].name);
	}
	if (v[EVERY_MS])
		require(s, SLOT_MS);
	if ((v[ROTATE] || v[SHAPE] == SHAPE_RAMP) && v[EVERY_MS] && v[SLOT_MS] > v[EVERY_MS])
		bad_spec(s, "a slot is longer than every_ms:", "slot_ms");
}

struct inject_spec inject_parse(const char *text, unsigned int n_drives)
{
	struct inject_spec s = {.text = text};
	char *copy = xstrdup(text), *rest = copy, *item = strsep(&rest, ":");

	for (unsigned int k = 0; k < N_KEYS; k++)
		s.values[k] = keys[k].initial;
	for (unsigned int i = 0; i < N_PATTERNS; i++)
		if (!strcmp(item, patterns[i].name))
			s.pattern = &patterns[i];
	if (!s.pattern)
		bad_spec(&s, "unknown pattern", item);
	while (rest && (item = strsep(&rest, ",")))
		take_key(&s, item, n_drives);
	require_agreement(&s);
	if (s.values[AT_ONCE] > n_drives)
		die("--inject %s: at_once=%u: there are only %u drives", text,
		    (unsigned int)s.values[AT_ONCE], n_drives);
	/* Without slots a drive is slow from the start of the run, or from the given time on. */
	if (s.values[START_MS] && !s.values[SLOT_MS])
		s.values[SLOT_MS] = FOREVER_US;
	free(copy);
	return s;
}

/* ---- flashsim's settings ---- */

static void write_number(inject_write *write, const char *dir, const char *setting, uint64_t value)
{
	char *text = xasprintf("%llu", (unsigned long long)value);

	write(dir, setting, text);
	free(text);
}

static void write_word(inject_write *write, const char *dir, const struct key *key, uint64_t place)
{
	const char *words = key->words;
	char *text;

	while (place--)
		words = strchr(words, '|') + 1;
	text = xasprintf("%.*s", (int)strcspn(words, "|"), words);
	write(dir, key->setting, text);
	free(text);
}

void inject_write_settings(const struct inject_spec *s, unsigned int drive, unsigned int n_drives,
			   inject_write *write, const char *dir)
{
	uint64_t turns = s->values[ROTATE] ? 0 : 1;

	for (unsigned int i = 0; s->values[ROTATE] && i < s->values[AT_ONCE]; i++)
		turns |= 1u << (drive + n_drives - i) % n_drives;
	write(dir, "arm", "0");
	for (unsigned int k = 0; k < N_KEYS; k++)
		if (keys[k].kind == WORD)
			write_word(write, dir, &keys[k], s->values[k]);
		else if (keys[k].setting)
			write_number(write, dir, keys[k].setting, s->values[k]);
	write_number(write, dir, "window_turns", s->values[ROTATE] ? n_drives : 1);
	write_number(write, dir, "window_turn_mask", turns);
	write(dir, "pattern", s->pattern->name);
}

/* ---- the drives ---- */

static struct inject *active; /* disarmed also if the program exits on an error */

static bool try_write_setting(const char *dir, const char *setting, const char *value)
{
	char *path = xasprintf("%s/%s", dir, setting);
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	bool ok = fd >= 0 && write(fd, value, strlen(value)) == (ssize_t)strlen(value);
	int error = errno;

	if (fd >= 0)
		close(fd);
	free(path);
	errno = error;
	return ok;
}

static void write_setting(const char *dir, const char *setting, const char *value)
{
	if (!try_write_setting(dir, setting, value))
		die("injection: writing \"%s\" to %s/%s: %s", value, dir, setting, strerror(errno));
}

/*
 * Return true unless a specification affects every read of a slot, in which case only the clock
 * decides.
 */
static bool counts_reads(const struct inject_spec *s)
{
	const uint64_t *v = s->values;

	if (v[OP] == OP_WRITE || !v[LATENCY_US])
		return false;
	return v[INTERVAL] > 1 || (v[RATIO] > 0 && v[RATIO] < 1000000);
}

static void require_region(const struct inject_spec *s, const struct device *d)
{
	uint64_t end = s->values[REGION_START_MB] + s->values[REGION_MB];

	if (end << 9 > d->size_bytes)
		die("--inject %s: the region ends at %llu MiB, drive %s at %llu", s->text,
		    (unsigned long long)(end >> 11), d->path,
		    (unsigned long long)(d->size_bytes >> 20));
}

static void disarm_at_exit(void)
{
	if (active)
		inject_disarm(active);
}

struct inject *inject_new(char *const *specs, unsigned int n_specs, struct device *devices,
			  unsigned int n_devices)
{
	struct inject *in;

	if (!n_specs)
		return NULL;
	in = xcalloc(1, sizeof(*in));
	in->n = n_devices;
	for (unsigned int i = 0; i < n_specs; i++) {
		struct inject_spec s = inject_parse(specs[i], n_devices);

		for (unsigned int k = 0; k < n_devices; k++) {
			if (!(s.values[DRIVE] & 1u << k))
				continue;
			in->counts_reads |= counts_reads(&s);
			if (in->dirs[k])
				die("--inject %s: drive %u already has an injection; use drive= to "
				    "give each its own",
				    specs[i], k);
			in->dirs[k] = xasprintf(CONFIGFS "/%s/inject",
						devices[k].disk ? devices[k].disk : "-");
			if (access(in->dirs[k], F_OK))
				die("--inject %s: drive %s is not a flashsim drive, and only such "
				    "a drive can be slowed",
				    specs[i], devices[k].path);
			require_region(&s, &devices[k]);
			inject_write_settings(&s, k, n_devices, write_setting, in->dirs[k]);
		}
	}
	active = in;
	atexit(disarm_at_exit);
	return in;
}

bool inject_counts_reads(const struct inject *in)
{
	return in && in->counts_reads;
}

void inject_arm(struct inject *in)
{
	if (!in)
		return;
	for (unsigned int k = 0; k < in->n; k++)
		if (in->dirs[k])
			write_setting(in->dirs[k], "arm", "1");
}

void inject_disarm(struct inject *in)
{
	if (!in)
		return;
	for (unsigned int k = 0; k < in->n; k++)
		if (in->dirs[k] && !(try_write_setting(in->dirs[k], "arm", "0") &&
				     try_write_setting(in->dirs[k], "pattern", "none")))
			warn_user("could not disarm %s: %s", in->dirs[k], strerror(errno));
	active = NULL;
}
