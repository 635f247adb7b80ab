/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * LinnOS: counting on many CPUs. A part of blk-linnos.c, apart for its length.
 *
 * A line of a drive's state that several CPUs write goes from one to the next,
 * some hundred nanoseconds a time and one at a time. While they come seldom, that
 * is little: every I/O is counted, and every read recorded in the history, where
 * all see it at once. A CPU that meets others there too often is *quiet* for a
 * while (@quiet_ns):
 *
 *	CPU 0: count, record ----------------+
 *	CPU 1: quiet, held - - now and then -+--> in_flight, history: one line
 *	CPU 2: quiet, held - - now and then -+
 *
 *  - what it counts it holds, on a line of its own, and adds to the drive's when
 *    that is much, or at the first count after it was quiet;
 *  - its reads are not recorded, unless they are probes.
 *
 * It meets others if the read recorded before its own was another CPU's, MET_NS
 * ago at most, or if it finds the history locked. That must be so in the balance
 * of MET_OFTEN reads, and then it remains quiet, but for a read every @quiet_ns,
 * as long as others have recorded one within APART_NS. A CPU that has a drive to
 * itself meets nobody, nothing is held, and all numbers are what they would be
 * without any of this.
 *
 * How wrong can the numbers be? With n CPUs:
 *
 *  - What is pending: a CPU knows its own. Each of the others holds less than
 *    @held_most pages and reads, counted in or out, so that what it is shown is
 *    at most (n - 1) (held_most - 1) too high or too low: 15 with 2 CPUs, 45 with
 *    4, 105 with 8, 63 with 64. And that for HELD_NS: who asks adds up what is
 *    held if nobody has for so long, so that a CPU that counted an I/O in and goes
 *    idle, or has it counted out by another, leaves nothing wrong behind.
 *  - The history: a read is left out only within @quiet_ns after one of the same
 *    CPU was recorded. So the last read of the history ended at most @quiet_ns
 *    before the last that ended, 8 us, or 2 for each CPU, 128 at most. Which are
 *    left out does not depend on how long they took. In a burst reads end too
 *    seldom for CPUs to meet, and all are recorded.
 *  - Whatever these numbers are, what is counted in is counted out: the sum of
 *    the drive's and all that is held is exact, always.
 *
 * The stall rule needs to know when the last read in flight has ended, and so
 * does a disk that is gone. For these linnos_count_exactly() ends all quiet.
 */
#ifndef _BLK_LINNOS_CPUS_H
#define _BLK_LINNOS_CPUS_H

#include <linux/bitops.h>
#include <linux/cpumask.h>
#include <linux/math.h>

#include "blk-linnos-policy.h"

/* Four transfers of a line and what is done with it take about as long. */
#define MET_NS (2 * NSEC_PER_USEC)
#define MET_OFTEN 4
/* Longer than few CPUs are quiet; of many another one records a read meanwhile. */
#define APART_NS (16 * NSEC_PER_USEC)

/* So that all CPUs together record a read in 500 ns, but sooner than a burst. */
#define QUIET_NS_OF_CPU (2 * NSEC_PER_USEC)
#define QUIET_NS_LEAST (8 * NSEC_PER_USEC)
#define QUIET_NS_MOST (128 * NSEC_PER_USEC)

/* Of all CPUs, as far as there is something left for each. */
#define HELD_PAGES 128
#define HELD_LEAST 2
#define HELD_MOST 16
#define HELD_NS NSEC_PER_MSEC

/*
 * linnos->in_flight counts three things at once, so that an I/O pays for one
 * atomic operation: pages in its lower half, 8 TiB of them at most, above them
 * 2^23 reads, more than a drive has tags for, and above those that the disk is
 * there. Once that is gone, whoever brings it to zero lets go of the disk; see
 * linnos_hold_disk(). What a CPU holds counts the first two alike, and may be
 * negative, each by itself.
 */
#define IN_FLIGHT_READ ((s64)BIT_ULL(32))
#define IN_FLIGHT_DISK ((s64)BIT_ULL(56))

static inline s32 linnos_pages_of(s64 in_flight)
{
	return lower_32_bits(in_flight);
}

static inline s32 linnos_reads_of(s64 in_flight)
{
	s64 above = in_flight - linnos_pages_of(in_flight);

	return sign_extend64((u64)above >> 32, 23);
}

/* CPUs may be quiet from now on. One alone never is. */
static inline void linnos_count_apart(struct blk_linnos *linnos)
{
	u32 quiet_ns = clamp_t(u32, num_online_cpus() * QUIET_NS_OF_CPU,
			       QUIET_NS_LEAST, QUIET_NS_MOST);

	WRITE_ONCE(linnos->quiet_ns, num_possible_cpus() == 1 ? 0 : quiet_ns);
}

/* Is this CPU quiet? An I/O that finds it so may go on as if, for itself. */
static inline bool linnos_is_quiet(const struct blk_linnos *linnos,
				   const struct linnos_cpu *cpu)
{
	return unlikely(READ_ONCE(cpu->quiet_until_ns)) &&
	       READ_ONCE(linnos->quiet_ns);
}

/* Whoever knows the time tells the CPU that it has been quiet for long enough. */
static inline void linnos_quiet_ends(struct linnos_cpu *cpu, u64 now_ns)
{
	u64 until_ns = READ_ONCE(cpu->quiet_until_ns);

	if (unlikely(until_ns) && (s64)(now_ns - until_ns) >= 0)
		WRITE_ONCE(cpu->quiet_until_ns, 0);
}

/*
 * A read of this CPU has been recorded, or could not be, for another was just
 * then. How long ago was the last one of another CPU? S64_MAX: not the last.
 */
static inline void linnos_meet(struct blk_linnos *linnos,
			       struct linnos_cpu *cpu, s64 ago_ns, u64 now_ns)
{
	u32 quiet_ns = READ_ONCE(linnos->quiet_ns);
	u8 met = READ_ONCE(cpu->met);

	if (!quiet_ns)
		return;
	if (ago_ns > (met < MET_OFTEN ? MET_NS : APART_NS)) {
		if (met)
			WRITE_ONCE(cpu->met, met - 1);
		return;
	}
	if (met < MET_OFTEN)
		WRITE_ONCE(cpu->met, ++met);
	if (met == MET_OFTEN)
		WRITE_ONCE(cpu->quiet_until_ns, now_ns + quiet_ns);
}

/* Hold these, unless there are too many by now. Of I/Os that this CPU counts. */
static inline bool linnos_hold(struct blk_linnos *linnos,
			       struct linnos_cpu *cpu, s64 what,
			       s64 write_pages)
{
	s64 held = atomic64_read(&cpu->in_flight), sum;
	s64 most = linnos->held_most;

	if (write_pages &&
	    abs(atomic64_read(&cpu->write_pages) + write_pages) >= most)
		return false;
	do {
		sum = held + what;
		if (abs(linnos_pages_of(sum)) >= most ||
		    abs(linnos_reads_of(sum)) >= most)
			return false;
	} while (!atomic64_try_cmpxchg(&cpu->in_flight, &held, sum));
	/*
	 * Pairs with linnos_collect(): either this sees its false, or it sees
	 * what was added. The cmpxchg is a full barrier, for it returns a value.
	 */
	if (write_pages) {
		atomic64_add(write_pages, &cpu->write_pages);
		/* this returns none; the same pair */
		smp_mb__after_atomic();
	}
	if (!READ_ONCE(linnos->held_back))
		WRITE_ONCE(linnos->held_back, true);
	return true;
}

/* Add these, and what this CPU holds, to the drive's. */
static inline s64 linnos_add(struct blk_linnos *linnos, struct linnos_cpu *cpu,
			     s64 what, s64 write_pages)
{
	if (unlikely(atomic64_read(&cpu->in_flight)))
		what += atomic64_xchg(&cpu->in_flight, 0);
	if (unlikely(atomic64_read(&cpu->write_pages)))
		write_pages += atomic64_xchg(&cpu->write_pages, 0);
	if (write_pages)
		atomic64_add(write_pages, &linnos->write_pages);
	return atomic64_add_return(what, &linnos->in_flight);
}

/*
 * Count in or out: pages and reads, and how many of the pages are to be written.
 *
 * Who is counted out last frees the disk if that is gone, and then another may
 * already have, which was before it: nothing of @linnos is touched after it has
 * been added. What is held is of a disk that is there, for linnos_hold_disk()
 * waits for this read-side section before it drops the disk's own reference.
 */
static inline void linnos_count_io(struct blk_linnos *linnos, s64 what,
				   s64 write_pages)
{
	struct linnos_cpu *cpu;

	rcu_read_lock();
	cpu = raw_cpu_ptr(linnos->cpus);
	if (!(linnos_is_quiet(linnos, cpu) &&
	      linnos_hold(linnos, cpu, what, write_pages)) &&
	    unlikely(!linnos_add(linnos, cpu, what, write_pages)))
		queue_work(system_wq, &linnos->idle_work);
	rcu_read_unlock();
}

/* The same of a read, or a part of one, that wants to know what is in flight. */
static inline s64 linnos_count_in(struct blk_linnos *linnos, s64 what)
{
	struct linnos_cpu *cpu;
	s64 in_flight;

	rcu_read_lock();
	cpu = raw_cpu_ptr(linnos->cpus);
	if (linnos_is_quiet(linnos, cpu) && linnos_hold(linnos, cpu, what, 0))
		in_flight = atomic64_read(&linnos->in_flight) +
			    atomic64_read(&cpu->in_flight);
	else
		in_flight = linnos_add(linnos, cpu, what, 0);
	rcu_read_unlock();
	return in_flight;
}

/* Add what all CPUs hold to the drive's. Those that are quiet remain so. */
static inline void linnos_collect(struct blk_linnos *linnos)
{
	s64 in_flight = 0, write_pages = 0;
	int i;

	WRITE_ONCE(linnos->held_back, false);
	/* pairs with linnos_hold() */
	smp_mb();
	for_each_possible_cpu(i) {
		struct linnos_cpu *cpu = per_cpu_ptr(linnos->cpus, i);

		/* to look at is cheaper than to take away */
		if (atomic64_read(&cpu->in_flight))
			in_flight += atomic64_xchg(&cpu->in_flight, 0);
		if (atomic64_read(&cpu->write_pages))
			write_pages += atomic64_xchg(&cpu->write_pages, 0);
	}
	if (write_pages)
		atomic64_add(write_pages, &linnos->write_pages);
	if (in_flight)
		atomic64_add(in_flight, &linnos->in_flight);
}

/*
 * Somebody is about to ask what is pending. Two who come at once both collect,
 * and nothing is added twice.
 */
static inline void linnos_collect_late(struct blk_linnos *linnos, u64 now_ns)
{
	if (likely(!READ_ONCE(linnos->held_back)) ||
	    (s64)(now_ns - READ_ONCE(linnos->collected_ns)) < HELD_NS)
		return;
	WRITE_ONCE(linnos->collected_ns, now_ns);
	linnos_collect(linnos);
}

/*
 * No CPU is quiet from now on, and none holds anything: those that were about to
 * hold have done so when the grace period ends. Waits for one, unless this has
 * been done before.
 */
static inline void linnos_count_exactly(struct blk_linnos *linnos)
{
	if (!READ_ONCE(linnos->quiet_ns))
		return;
	WRITE_ONCE(linnos->quiet_ns, 0);
	/* never on: there is nobody to hold anything */
	if (!linnos->cpus)
		return;
	synchronize_rcu();
	linnos_collect(linnos);
}

/* All of it; exact if nothing changes meanwhile. */
static inline s64 linnos_in_flight_all(const struct blk_linnos *linnos)
{
	s64 sum = atomic64_read(&linnos->in_flight);
	int i;

	for_each_possible_cpu(i)
		sum += atomic64_read(&per_cpu_ptr(linnos->cpus, i)->in_flight);
	return sum;
}

#endif /* _BLK_LINNOS_CPUS_H */
