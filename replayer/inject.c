// SPDX-License-Identifier: MIT
/*
 * Slow bursts: see inject.h.
 *
 * A specification reads PATTERN:key=value,key,...; each drive takes at most one. `rotate` gives
 * every drive the same slot, but drive k's turn comes k periods later and returns after as many
 * periods as there are drives, so that one burst wanders through the array.
 */
#include "inject.h"
#include "error.h"
#include "number.h"
#include "storm.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CONFIGFS "/sys/kernel/config/flashsim"

/* Far beyond any run, and small enough that times in ns and sizes in bytes fit 64 bits. */
#define MS_MAX 1e9
#define LATENCY_US_MAX 60000000u
#define IOS_MAX UINT32_MAX
#define STORM_BLOCK_KB_MAX 1024u
#define STORM_DEPTH_MAX 256u
#define STORM_MB_MAX (1u << 30)

struct inject {
	unsigned int n;
	char *dirs[MAX_DRIVES]; /* NULL: no injection on this drive */
	bool armed, counts_reads;
};

struct spec {
	char pattern[16], op[8];
	uint64_t latency_us, ratio_ppm, period_ios, interval;
	uint64_t start_us, window_us, every_us;
	uint64_t storm_block_kb, storm_depth, storm_mb;
	bool rotate;
	uint64_t drives; /* as bits */
	uint32_t given;	 /* keys, as bits of their places in keys[] */
};

static struct inject *active; /* disarmed also when the program dies */

static bool try_write_knob(const char *dir, const char *knob, const char *value)
{
	char *path = xasprintf("%s/%s", dir, knob);
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	bool ok = fd >= 0 && write(fd, value, strlen(value)) == (ssize_t)strlen(value);
	int error = errno;

	if (fd >= 0)
		close(fd);
	free(path);
	errno = error;
	return ok;
}

static void write_knob(const char *dir, const char *knob, const char *value)
{
	if (!try_write_knob(dir, knob, value))
		die("injection: writing \"%s\" to %s/%s: %s", value, dir, knob, strerror(errno));
}

static void write_number(const char *dir, const char *knob, uint64_t value)
{
	char *text = xasprintf("%llu", (unsigned long long)value);

	write_knob(dir, knob, text);
	free(text);
}

__attribute__((noreturn)) static void bad_spec(const char *spec, const char *why, const char *what)
{
	die("--inject %s: %s \"%s\"; a specification reads PATTERN:key=value,... with PATTERN "
	    "continuous, random, "
	    "interval or storm; keys of the first three: latency_us, ratio (1%% or 10000ppm), "
	    "interval, period_ios, op "
	    "(read, write, both); of storm: block_kb, depth, size_mb; of all: slot_ms, every_ms, "
	    "start_ms, drive (0.. or "
	    "all), rotate",
	    spec, why, what);
}

static uint64_t whole(const char *spec, const char *value, const char *what, uint64_t max)
{
	uint64_t v;

	if (!parse_whole(value, &v) || v > max)
		bad_spec(spec, what, value);
	return v;
}

/* Milliseconds, with a fraction if need be, to microseconds. */
static uint64_t milliseconds(const char *spec, const char *value)
{
	double v;

	if (!parse_number(value, &v) || v < 0 || v > MS_MAX)
		bad_spec(spec, "not a time in range (ms):", value);
	return v * 1000 + 0.5;
}

/* "1%", "10000ppm" or a share of 1, to parts per million. */
static uint64_t ratio_ppm(const char *spec, const char *value)
{
	const char *unit;
	double v;

	if (!parse_number_unit(value, &v, &unit) || v < 0)
		bad_spec(spec, "not a ratio:", value);
	if (!strcmp(unit, "%"))
		v *= 10000;
	else if (!*unit)
		v *= 1e6;
	else if (strcmp(unit, "ppm"))
		bad_spec(spec, "ratio needs %, ppm or a share of 1:", value);
	if (v > 1e6)
		bad_spec(spec, "ratio above 100 %:", value);
	return v + 0.5;
}

/* Name, what its value is, field, largest value. */
static const struct key {
	const char *name;
	enum { WHOLE, TIME_MS, RATIO, OP, DRIVE, FLAG } kind;
	size_t at;
	uint64_t max;
} keys[] = {
	{"latency_us", WHOLE, offsetof(struct spec, latency_us), LATENCY_US_MAX},
	{"ratio", RATIO, offsetof(struct spec, ratio_ppm), 0},
	{"interval", WHOLE, offsetof(struct spec, interval), IOS_MAX},
	{"period_ios", WHOLE, offsetof(struct spec, period_ios), IOS_MAX},
	{"op", OP, offsetof(struct spec, op), 0},
	{"block_kb", WHOLE, offsetof(struct spec, storm_block_kb), STORM_BLOCK_KB_MAX},
	{"depth", WHOLE, offsetof(struct spec, storm_depth), STORM_DEPTH_MAX},
	{"size_mb", WHOLE, offsetof(struct spec, storm_mb), STORM_MB_MAX},
	{"slot_ms", TIME_MS, offsetof(struct spec, window_us), 0},
	{"every_ms", TIME_MS, offsetof(struct spec, every_us), 0},
	{"start_ms", TIME_MS, offsetof(struct spec, start_us), 0},
	{"drive", DRIVE, offsetof(struct spec, drives), 0},
	{"rotate", FLAG, offsetof(struct spec, rotate), 0},
};
#define N_KEYS (sizeof(keys) / sizeof(*keys))

static bool is_given(const struct spec *s, const char *name)
{
	for (unsigned int i = 0; i < N_KEYS; i++)
		if (!strcmp(keys[i].name, name))
			return s->given & 1u << i;
	return false;
}

static void set(struct spec *s, const struct key *key, const char *spec, const char *value,
		unsigned int n_drives)
{
	void *at = (char *)s + key->at;

	switch (key->kind) {
	case WHOLE:
		*(uint64_t *)at = whole(spec, value, "not a whole number in range:", key->max);
		break;
	case TIME_MS:
		*(uint64_t *)at = milliseconds(spec, value);
		break;
	case RATIO:
		*(uint64_t *)at = ratio_ppm(spec, value);
		break;
	case OP:
		if (strcmp(value, "read") && strcmp(value, "write") && strcmp(value, "both"))
			bad_spec(spec, "unknown op", value);
		strcpy(at, value);
		break;
	case DRIVE:
		if (strcmp(value, "all"))
			*(uint64_t *)at = 1u << whole(spec, value, "no such drive:", n_drives - 1);
		break;
	case FLAG:
		*(bool *)at = true;
		break;
	}
	s->given |= 1u << (key - keys);
}

static const struct key *find_key(const char *spec, const char *name, bool has_value)
{
	for (const struct key *key = keys; key < keys + N_KEYS; key++)
		if (!strcmp(key->name, name) && has_value == (key->kind != FLAG))
			return key;
	bad_spec(spec, has_value ? "unknown key" : "unknown or without value:", name);
}

static void require_storm(const struct spec *s, const char *text)
{
	if (is_given(s, "latency_us") || is_given(s, "ratio") || s->interval)
		bad_spec(text, "no key of a storm:",
			 is_given(s, "latency_us") ? "latency_us"
			 : is_given(s, "ratio")	   ? "ratio"
						   : "interval");
	if (!s->storm_mb && !s->window_us)
		bad_spec(text, "a storm needs slot_ms or", "size_mb");
	if (!s->storm_block_kb || s->storm_block_kb % 4)
		bad_spec(text, "block_kb must be a multiple of 4 up to 1024:", "block_kb");
	if (!s->storm_depth)
		bad_spec(text, "depth must be from 1 to 256:", "depth");
	if (s->rotate && !s->every_us)
		bad_spec(text, "rotate needs", "every_ms");
}

static void require_pattern(const struct spec *s, const char *text)
{
	bool by_interval = !strcmp(s->pattern, "interval");

	if (!is_given(s, "latency_us"))
		bad_spec(text, "missing key", "latency_us");
	if (by_interval ? !s->interval : !is_given(s, "ratio"))
		bad_spec(text, "missing key", by_interval ? "interval" : "ratio");
	if (s->rotate && (!s->window_us || !s->every_us || s->window_us > s->every_us))
		bad_spec(text,
			 "rotate needs slot_ms and every_ms, the slot no longer than the period:",
			 "rotate");
	if (s->every_us && !s->window_us)
		bad_spec(text, "every_ms needs", "slot_ms");
}

static struct spec parse(const char *text, unsigned int n_drives)
{
	static const char *const patterns[] = {"continuous", "random", "interval", "storm"};
	struct spec s = {.op = "both",
			 .drives = (1u << n_drives) - 1,
			 .period_ios = 100000,
			 .storm_block_kb = 256,
			 .storm_depth = 8};
	char *copy = xstrdup(text), *rest = copy, *item = strsep(&rest, ":");

	for (unsigned int i = 0; i < sizeof(patterns) / sizeof(*patterns); i++)
		if (!strcmp(item, patterns[i]))
			strcpy(s.pattern, item);
	if (!*s.pattern)
		bad_spec(text, "unknown pattern", item);
	while (rest && (item = strsep(&rest, ","))) {
		char *name = strsep(&item, "="), *value = item;

		set(&s, find_key(text, name, value != NULL), text, value, n_drives);
	}
	if (!strcmp(s.pattern, "storm"))
		require_storm(&s, text);
	else
		require_pattern(&s, text);
	free(copy);
	return s;
}

static void add_storm(struct storm *storm, const struct spec *s, unsigned int drive,
		      unsigned int n_drives)
{
	*storm = (struct storm){
		.drive = drive,
		.block_bytes = s->storm_block_kb << 10,
		.depth = s->storm_depth,
		.bytes_per_slot = s->storm_mb << 20,
		.start_ns = (s->start_us + (s->rotate ? drive * s->every_us : 0)) * 1000,
		.slot_ns = s->window_us * 1000,
		.every_ns = s->every_us * (s->rotate ? n_drives : 1) * 1000,
	};
}

/* Every read of a slot, or none: then only the clock decides. */
static bool counts_reads(const struct spec *s)
{
	if (!strcmp(s->op, "write") || !s->latency_us)
		return false;
	if (!strcmp(s->pattern, "interval"))
		return s->interval > 1;
	return s->ratio_ppm > 0 && s->ratio_ppm < 1000000;
}

static void program(const char *dir, const struct spec *s, unsigned int drive,
		    unsigned int n_drives)
{
	uint64_t start = s->start_us, every = s->every_us;

	if (s->rotate) {
		start += drive * s->every_us;
		every *= n_drives;
	}
	write_knob(dir, "arm", "0");
	write_number(dir, "latency_us", s->latency_us);
	write_knob(dir, "op", s->op);
	write_number(dir, "ratio_ppm", s->ratio_ppm);
	write_number(dir, "period_ios", s->period_ios);
	if (s->interval)
		write_number(dir, "interval", s->interval);
	write_number(dir, "window_start_us", start);
	write_number(dir, "window_us", s->window_us);
	write_number(dir, "window_every_us", every);
	write_knob(dir, "pattern", s->pattern);
}

static void disarm_at_exit(void)
{
	if (active)
		inject_disarm(active);
}

struct inject *inject_new(char *const *specs, unsigned int n_specs, struct device *devices,
			  unsigned int n_devices, struct storms *storms)
{
	struct inject *in;
	bool stormy[MAX_DRIVES] = {false}, flashsim = false;

	storms->n = 0;
	if (!n_specs)
		return NULL;
	in = xcalloc(1, sizeof(*in));
	in->n = n_devices;
	for (unsigned int i = 0; i < n_specs; i++) {
		struct spec s = parse(specs[i], n_devices);

		for (unsigned int k = 0; k < n_devices; k++) {
			if (!(s.drives & 1u << k))
				continue;
			if (stormy[k] && !strcmp(s.pattern, "storm"))
				die("--inject %s: drive %u already has a storm", specs[i], k);
			if (!strcmp(s.pattern, "storm")) {
				if (devices[k].size_bytes < s.storm_block_kb << 10)
					die("--inject %s: drive %s is smaller than one block of "
					    "the storm",
					    specs[i], devices[k].path);
				add_storm(&storms->each[storms->n++], &s, k, n_devices);
				stormy[k] = true;
				continue;
			}
			flashsim = true;
			in->counts_reads |= counts_reads(&s);
			if (in->dirs[k])
				die("--inject %s: drive %u already has an injection; use drive= to "
				    "give each its own",
				    specs[i], k);
			in->dirs[k] = xasprintf(CONFIGFS "/%s/inject",
						devices[k].disk ? devices[k].disk : "-");
			if (access(in->dirs[k], F_OK))
				die("--inject %s: drive %s is not a flashsim drive, and only such "
				    "a "
				    "drive can be slowed by a pattern; "
				    "--inject storm:slot_ms=50,every_ms=500 slows any drive by "
				    "writing to it",
				    specs[i], devices[k].path);
			program(in->dirs[k], &s, k, n_devices);
		}
	}
	if (!flashsim) {
		free(in);
		return NULL;
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
			write_knob(in->dirs[k], "arm", "1");
	in->armed = true;
}

void inject_disarm(struct inject *in)
{
	if (!in)
		return;
	for (unsigned int k = 0; k < in->n; k++)
		if (in->dirs[k] && !(try_write_knob(in->dirs[k], "arm", "0") &&
				     try_write_knob(in->dirs[k], "pattern", "none")))
			warn_user("could not disarm %s: %s", in->dirs[k], strerror(errno));
	in->armed = false;
	active = NULL;
}
