/* SPDX-License-Identifier: MIT */
/*
 * What is known about a mirror's replicas after a crash: which hold the current data, and in which
 * regions they may differ. It is kept in a file of the mirror's own, /var/lib/linnos-ublk/NAME:
 *
 *   offset 0		struct state_head, 512 bytes
 *   512		the identities of the members: all drives that the mirror has had
 *   8192		a bit for each region of 64 MiB, in sectors of 512 bytes
 *
 * A bit is on the file before the first write to its region is sent, and stays until a flush of all
 * replicas has covered the region's last write and no member is out. So:
 *
 *   - Members that are in hold every write that was acknowledged. They are equal where no bit is
 *     set, and everywhere if the file says "clean", which an orderly stop writes.
 *   - A member that is out lacks writes only where a bit is set, unless it is gone: --compare or a
 *     new size begins without it, and bits need not be kept for it any more. It leaves `in` on the
 * file before the write that it lacks is acknowledged.
 *
 * Whoever starts the mirror makes the regions with a bit equal, copying from a member that is in,
 * and flushes all of them, before anything can be read. The file then gets its new content as a
 * whole (written to another file, synced, renamed), and changes in place from then on, by writes of
 * whole sectors, so that a full file system cannot prevent that. Each sector has a checksum; a
 * power cut leaves it old or new.
 *
 * A lock on the file belongs to the process that serves the mirror. The functions from
 * state_drop() on are called with the mirror's lock held.
 */
#ifndef LINNOS_UBLK_STATE_H
#define LINNOS_UBLK_STATE_H

#include "identity.h"
#include "options.h"

#define STATE_MEMBERS_MAX 32
#define STATE_BITS_OFFSET 8192
/* How long a region has had no write, at least, when its bit is cleared. */
#define STATE_KEEP_S 5

struct state_head {
	char magic[8];
	uint32_t version;
	uint32_t n_members;
	uint64_t bytes; /* of the mirror */
	uint32_t in;	/* members that hold the current data, by bit */
	uint32_t is_clean;
	uint32_t gone; /* members that are out, and may lack writes anywhere */
	uint32_t members_crc;
	char boot[40]; /* the kernel's boot_id */
	uint8_t unused[428];
	uint32_t crc;
};

#define STATE_SECTOR_BYTES 508
struct state_sector {
	uint8_t bits[STATE_SECTOR_BYTES];
	uint32_t crc;
};

struct mirror_state {
	int fd;		 /* of the file; < 0 if there is none yet */
	char path[96];	 /* likewise, or of the file to come */
	bool are_equal;	 /* nothing is to be copied before the start */
	bool forgets;	 /* members that are not given are gone */
	bool is_lost;	 /* a replica was dropped, and that is not on the file */
	bool is_writing; /* a write of the bits is under way */
	bool is_sweeping, has_failed;
	int64_t next_sweep_s;
	struct state_head head;
	char members[STATE_MEMBERS_MAX][IDENTITY_BYTES];
	unsigned int member_of[REPLICAS_MAX]; /* by replica */
	size_t n_regions, n_sectors;
	uint8_t *wanted;     /* as the file is to become */
	uint8_t *recorded;   /* as it is at least */
	uint8_t *touched;    /* regions written to since the last sweep began */
	uint8_t *candidates; /* regions whose bits this sweep may clear */
	struct state_sector *staged;
};

/*
 * Find the record of the mirror that the opened replicas belong to. Return those that hold the
 * current data, by bit: the regions that state_may_differ() names are to be made equal to these.
 * Dies if the record forbids what the options ask for; has_died: the last server was killed, and
 * its requests will be given to us again.
 */
uint32_t state_open(struct mirror_state *s, const struct options *o, uint64_t bytes,
		    uint32_t opened, bool has_died);
/* Return the end of the region at *at if it may differ, and move *at to it; 0 if none does. */
uint64_t state_may_differ(const struct mirror_state *s, uint64_t *at);
/* Replicas are equal: record that a mirror of them is about to be served. 0 or a negative errno. */
int state_begin(struct mirror_state *s, uint32_t in);
/* All that was written is flushed on the replicas that are in: they are equal. */
int state_end(struct mirror_state *s, uint32_t in);

/* A replica is out of date from now on. */
int state_drop(struct mirror_state *s, unsigned int replica);
/* A write is about to be sent. Return true if it may be, false if its bits are not on the file. */
bool state_touch(struct mirror_state *s, uint64_t start, uint64_t bytes);
/* Return true if the bits of this range are on the file. */
bool state_is_recorded(const struct mirror_state *s, uint64_t start, uint64_t bytes);
/* Prepare the bits for a write to the file at STATE_BITS_OFFSET. Return its length. */
size_t state_stage(struct mirror_state *s);
/* That write has ended. 0 or a negative errno. */
int state_staged(struct mirror_state *s, int result);
/* A flush of all replicas begins. Return true if bits may be cleared when it has succeeded; what is
 * being written is touched after that. */
bool state_sweep_begin(struct mirror_state *s, int64_t now_s);
/* The flush has ended. Return true if the bits are to be written. */
bool state_sweep_end(struct mirror_state *s, bool has_succeeded, int64_t now_s);

#endif
