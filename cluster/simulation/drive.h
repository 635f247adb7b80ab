/* SPDX-License-Identifier: MIT */
/*
 * A node's drive, as far as its time goes: flashsim's way of taking it (docs/flashsim.md), with the
 * parameters of its profiles, but without mapping, data or a buffer that can be full. What is left
 * of writes is what a flush leaves to the chips: programs, and erases at the rate of the profile.
 * How many programs a page that is written costs, with collections, is the one number that is
 * fitted (docs/cluster.md#how-near-it-is).
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
	uint64_t begin_ns, end_ns; /* of its last booking */
};

/* What happens to drives from outside: what the lab injects. */
struct injected {
	uint64_t seed;
	uint64_t burst_ns, turn_ns; /* every read takes so much longer, for so long */
	uint32_t one_in;	    /* drives; of three all take turns */
	uint32_t n_drives;
	uint32_t slow_drive; /* UINT32_MAX: none */
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
	/* What an agent sees of it. */
	uint32_t pending;
	struct {
		uint64_t took_ns, end_ns;
	} recent[RECENT];
	uint32_t n_recent;
	float average_us; /* of what reads took */
};

void drive_init(struct drive *d, const struct profile *p, const struct injected *injected,
		uint32_t number);
void drive_free(struct drive *d);
/* So much was written since the last flush. */
void drive_flush(struct drive *d, uint64_t now_ns, double bytes);
/* When a read of 4 KiB that comes now ends; which page it is of is drawn from place. With commit it
 * does come. */
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
