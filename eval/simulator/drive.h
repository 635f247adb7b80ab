/* SPDX-License-Identifier: MIT */
/*
 * The timing of a node's drive. It follows flashsim's model (docs/flashsim.md) with the parameters
 * of its profiles, but without a mapping, data, or a buffer that can fill up. Writes are modelled
 * by the operations that a flush sends to the chips: programs, and erases at the rate of the
 * profile. The number of programs per written page, including garbage collection, is the only
 * fitted parameter (docs/cluster.md#how-near-it-is).
 */
#ifndef SIMULATION_DRIVE_H
#define SIMULATION_DRIVE_H

#include <stdbool.h>
#include <stdint.h>

#define NS_PER_US 1000ull
#define NS_PER_MS 1000000ull
#define NS_PER_S 1000000000ull

#define RECENT 4

struct profile {
	const char *name;
	uint32_t channels, chips_per_channel, planes, page_kb;
	uint32_t read_ns, program_ns, erase_ns, spread_pct, erase_suspend_ns;
	uint32_t channel_ns, controller_ns, host_ns;
	uint32_t flush_interval_us, reads_ahead, rows_per_erase;
	double programs_per_row;
};

const struct profile *profile_named(const char *name);

struct chip {
	uint64_t busy_until_ns, backlog_since_ns;
	uint32_t programs, erase_steps, overtaken;
};

struct channel {
	uint64_t begin_ns, end_ns; /* the last booking */
};

/* External slow-downs of drives, as the lab injects them. */
struct injected {
	uint64_t seed;
	uint64_t burst_ns, turn_ns; /* additional latency of reads; length of a turn */
	uint32_t one_in;	    /* one in this many drives is slow; if these are all, in turn */
	uint32_t n_drives;
	uint32_t slow_drive; /* UINT32_MAX if there is none */
	uint64_t slow_ns, slow_from_ns, slow_to_ns;
};

struct drive {
	const struct profile *p;
	const struct injected *injected;
	struct chip *chips;
	struct channel *channels;
	uint64_t host_free_ns;
	uint32_t number, next_chip;
	double rows_owed, erases_owed;
	/* The state that an agent sees. */
	uint32_t pending;
	struct {
		uint64_t took_ns, end_ns;
	} recent[RECENT];
	uint32_t n_recent;
	float average_us; /* moving average of the service time */
};

void drive_init(struct drive *d, const struct profile *p, const struct injected *injected,
		uint32_t number);
void drive_free(struct drive *d);
/* Simulate a flush of @bytes, written since the previous one. */
void drive_flush(struct drive *d, uint64_t now_ns, double bytes);
/*
 * Return the completion time of a 4 KiB read that arrives at @now_ns; @place determines its page.
 * The read occupies the drive only if @commit is set.
 */
uint64_t drive_read(struct drive *d, uint64_t place, uint64_t now_ns, bool commit);
bool drive_is_slow(const struct drive *d, uint64_t now_ns);

/* splitmix64 of a number */
static inline uint64_t mixed(uint64_t z)
{
	z += 0x9e3779b97f4a7c15;
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

#endif
