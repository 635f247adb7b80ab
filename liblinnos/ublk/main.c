// SPDX-License-Identifier: MIT
/*
 * linnos-ublk: a mirror that reads from the replica predicted to answer first, as a block device
 * for any kernel that has ublk. docs/ublk.md describes its guarantees, mirror.h how they are kept.
 */
#include "program/program.h"
#include "mirror.h"
#include "record.h"
#include "report.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#define EXIT_DEGRADED 3 /* orderly stop, but a replica was dropped */

#ifndef PR_SET_IO_FLUSHER
#define PR_SET_IO_FLUSHER 57
#endif

/*
 * Memory may be short because writes to this device are still pending, so allocating memory must
 * not wait for them. Threads inherit PR_SET_IO_FLUSHER, so it is set before liblinnos creates the
 * first one. A program without the privilege runs without this protection.
 */
static void avoid_reclaim_deadlock(void)
{
	prctl(PR_SET_IO_FLUSHER, 1, 0, 0, 0);
	mlockall(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT);
}

static void open_array(struct mirror *m, const struct options *o)
{
	int fds[REPLICAS_MAX];
	struct linnos_stats stats;

	for (unsigned int k = 0; k < m->n; k++)
		fds[k] = m->in & 1u << k ? m->replicas[k].fd : -1;
	if (linnos_array_open_fds(&m->array, m->n, fds, o->models, &o->reads))
		die("%s", linnos_error());
	m->hedges = o->reads.hedge_us || o->reads.hedge_percentile > 0 ||
		    o->reads.flags & LINNOS_DUPLICATES;
	linnos_array_get_stats(m->array, &stats, sizeof(stats));
	if (stats.not_choosing)
		warn("%llu of %u replicas have no model; reads are not redirected from or to them, "
		     "except after failures and by hedges; train one with `linnapp train --kind "
		     "latency`",
		     (unsigned long long)stats.not_choosing, m->n);
}

/* Write the record before the device is served, so that a server that takes it over does not find
 * an older one. */
static void write_record(struct mirror *m)
{
	int error = record_write(m->device.number, m->recorded, m->n, m->in);

	if (!error)
		return;
	ublk_release(&m->device);
	die("--recover: /run/linnos-ublk/%u cannot be written: %s", m->device.number,
	    strerror(-error));
}

/* Make all replicas in the mirror equal on their media. */
static void make_equal(struct mirror *m, const struct options *o, uint32_t current)
{
	if (!o->compare || m->device.is_taken_over)
		m->in = replicas_resync(m->replicas, &m->state, m->geometry.bytes, m->in, current,
					m->why_dropped);
	else
		replicas_compare(m->replicas, m->n, m->geometry.bytes);
	m->in = replicas_flush(m->replicas, m->in, m->why_dropped);
}

static void begin_state(struct mirror *m)
{
	int error = state_begin(&m->state, m->in);

	if (!error)
		return;
	ublk_release(&m->device);
	die("%s cannot be written: %s; a mirror is not served without a record of the regions that "
	    "may differ after a crash; free some space, or make the file writable",
	    m->state.path, strerror(-error));
}

static void end_state(struct mirror *m)
{
	const uint32_t in = replicas_flush(m->replicas, m->in, m->why_dropped);
	int error = state_end(&m->state, in);

	m->in = in;
	if (error)
		warn("%s cannot be written: %s; the next start needs --resync", m->state.path,
		     strerror(-error));
}

/* Return true if the device of a killed server is recovered. The replicas that this server had
 * dropped are left out. */
static bool is_recovered(struct mirror *m, const struct options *o)
{
	if (o->device == NO_DEVICE || !ublk_needs_recovery(&m->device, o->device, o->recover))
		return false;
	m->in = record_read(o->device, o->paths, o->n);
	for (unsigned int k = 0; k < m->n; k++)
		if (!(m->in & 1u << k)) {
			snprintf(m->why_dropped[k], sizeof(m->why_dropped[k]),
				 "before the device was recovered");
			warn("/dev/ublkb%u: %s was DROPPED before the device was recovered; it is "
			     "out of date",
			     o->device, o->paths[k]);
		}
	return true;
}

int main(int argc, char **argv)
{
	static struct mirror m;
	struct options o;
	uint32_t current;
	bool recovered;
	int error;

	options_parse(&o, argc, argv);
	if (o.remove != NO_DEVICE) {
		record_remove(o.remove);
		ublk_remove(o.remove);
		return 0;
	}
	m.n = o.n;
	m.in = (1u << m.n) - 1;
	ublk_open_control(&m.device);
	recovered = is_recovered(&m, &o);
	replicas_open(m.replicas, &m.geometry, &o, m.in, recovered);
	/* Another server may have recovered the device in the meantime, and dropped a replica. */
	if (recovered && record_read(o.device, o.paths, o.n) != m.in)
		die("/dev/ublkb%u was served by another process in the meantime; try again",
		    o.device);
	avoid_reclaim_deadlock();
	current = state_open(&m.state, &o, m.geometry.bytes, m.in, recovered);
	make_equal(&m, &o, current);
	open_array(&m, &o);
	if (!recovered)
		ublk_add(&m.device, &o, &m.geometry);
	m.json = o.json;
	m.recorded = o.recover ? o.paths : NULL;
	mirror_prepare(&m);
	begin_state(&m);
	if (o.recover)
		write_record(&m);
	if (recovered)
		ublk_take_over(&m.device, &m.geometry);
	error = mirror_serve(&m);
	end_state(&m);
	if (o.recover)
		record_remove(m.device.number);
	if (ublk_delete(&m.device))
		warn("/dev/ublkb%u was not deleted; delete it with %s --remove %u", m.device.number,
		     PROGRAM, m.device.number);
	if (error)
		die("/dev/ublkb%u cannot be started: %s", m.device.number, strerror(-error));
	report(&m, "stopped");
	mirror_close(&m);
	linnos_array_close(m.array);
	return __builtin_popcount(m.in) == (int)m.n ? 0 : EXIT_DEGRADED;
}
