// SPDX-License-Identifier: MIT
/* Injection of slow drives: see inject.h. */
#include "inject.h"
#include "error.h"
#include "inject_spec.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CONFIGFS "/sys/kernel/config/flashsim"

struct inject {
	unsigned int n;
	char *dirs[MAX_DRIVES]; /* NULL if there is no injection on this drive */
	bool armed, counts_reads;
};

static struct inject *active; /* disarmed also if the program exits on an error */

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

/*
 * Return true unless a specification affects every read of a slot, in which case only the clock
 * decides.
 */
static bool counts_reads(const struct inject_spec *s)
{
	if (!strcmp(s->op, "write") || !s->latency_us)
		return false;
	if (!strcmp(s->pattern->name, "interval"))
		return s->interval > 1;
	return s->ratio_ppm > 0 && s->ratio_ppm < 1000000;
}

static void require_region(const struct inject_spec *s, const struct device *d)
{
	if ((s->region_start_mb + s->region_mb) << 20 > d->size_bytes)
		die("--inject %s: the region ends at %llu MiB, drive %s at %llu", s->text,
		    (unsigned long long)(s->region_start_mb + s->region_mb), d->path,
		    (unsigned long long)(d->size_bytes >> 20));
}

static void program(const char *dir, const struct inject_spec *s, unsigned int drive,
		    unsigned int n_drives)
{
	write_knob(dir, "arm", "0");
	write_number(dir, "latency_us", s->latency_us);
	write_knob(dir, "shape", s->shape);
	write_number(dir, "occupy", s->occupy);
	write_number(dir, "at_depth", s->at_depth);
	write_number(dir, "tail_milli", s->tail_milli);
	write_knob(dir, "op", s->op);
	write_number(dir, "ratio_ppm", s->ratio_ppm);
	write_number(dir, "period_ios", s->period_ios);
	if (s->interval)
		write_number(dir, "interval", s->interval);
	write_number(dir, "region_sector", s->region_start_mb << 11);
	write_number(dir, "region_sectors", s->region_mb << 11);
	write_number(dir, "window_start_us", s->start_us);
	write_number(dir, "window_us", s->window_us);
	write_number(dir, "window_every_us", s->every_us);
	write_number(dir, "window_turns", inject_spec_turns(s, n_drives));
	write_number(dir, "window_turn_mask", inject_spec_turns_of(s, drive, n_drives));
	write_knob(dir, "pattern", s->pattern->name);
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
		struct inject_spec s = inject_spec_parse(specs[i], n_devices);

		for (unsigned int k = 0; k < n_devices; k++) {
			if (!(s.drives & 1u << k))
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
			program(in->dirs[k], &s, k, n_devices);
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
