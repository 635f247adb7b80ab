/* SPDX-License-Identifier: MIT */
/*
 * The state of a mirror's replicas after a crash: which of them hold the current data, and in which
 * regions they may differ. Each mirror has its own file for it, /var/lib/linnos-ublk/NAME:
 *
 *   offset 0		struct state_head, 512 bytes
 *   512		the identities of the members: all drives that the mirror has had
 *   8192		a bit for each region of 64 MiB, in sectors of 512 bytes
 *
 * A member is "in" if it holds the current data, and "out" otherwise. A member that is out is
 * "gone" if the mirror was started without it by --compare or with a new size: no bits are kept for
 * it.
 *
 * A bit is set in the file before the first write to its region is sent. It is cleared only after a
 * flush of all replicas has covered the region's last write, and only while no member is out,
 * except for those that are gone. Therefore:
 *
 *   - Members that are in hold every write that was acknowledged. They are equal where no bit is
 *     set, and everywhere if the file says "clean", which an orderly stop writes.
 *   - A member that is out lacks writes only where a bit is set, unless it is gone. A member is
 *     removed from `in` in the file before the write that it lacks is acknowledged.
 *
 * When the mirror is started, the regions with a bit are made equal by copying from a member that
 * is in, and all members are flushed, before anything can be read. The file is then replaced as a
 * whole (written to another file, synced, renamed). From then on whole sectors are overwritten in
 * place, which works even if the file system is full. Each sector has a checksum.
 * After a power failure a sector has its old or its new content.
 *
 * The process that serves the mirror holds a lock on the file. The functions from state_drop() on
 * are called with the mirror's lock held.
 */
#ifndef LINNOS_UBLK_STATE_H
#define LINNOS_UBLK_STATE_H

#include "identity.h"
#include "options.h"

#define STATE_MEMBERS_MAX 32
#define STATE_BITS_OFFSET 8192
/* The bit of a region is cleared only after at least this time without a write to it. */
#define STATE_KEEP_S 5

struct state_head {
	char magic[8];
	uint32_t version;
	uint32_t n_members;
	uint64_t bytes; /* of the mirror */
	uint32_t in;	/* bitmap of members that hold the current data */
	uint32_t is_clean;
	uint32_t gone; /* bitmap of members that are out and may lack writes anywhere */
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
	int fd;		 /* < 0 if there is no file yet */
	char path[96];	 /* of the file, which may not exist yet */
	bool are_equal;	 /* nothing need be copied before the start */
	bool forgets;	 /* state_begin() marks all members that are out as gone */
	bool is_lost;	 /* a replica was dropped, but the file could not be changed */
	bool is_writing; /* a write of the bits is in flight */
	bool is_sweeping, has_failed;
	int64_t next_sweep_s;
	struct state_head head;
	char members[STATE_MEMBERS_MAX][IDENTITY_BYTES];
	unsigned int member_of[REPLICAS_MAX]; /* index of the member for each replica */
	size_t n_regions, n_sectors;
	uint8_t *wanted;     /* bits that the next write stores in the file */
	uint8_t *recorded;   /* bits that are certainly in the file */
	uint8_t *touched;    /* regions written to since the last sweep began */
	uint8_t *candidates; /* regions whose bits this sweep may clear */
	struct state_sector *staged;
};

/*
 * Find the record of the mirror to which the opened replicas belong. Return a bitmap of the
 * replicas that hold the current data. The others must be made equal to these in the regions that
 * state_may_differ() returns. Dies if the record does not allow a start with these options.
 * @has_died means that the last server was killed, and that its requests will be received again.
 */
uint32_t state_open(struct mirror_state *s, const struct options *o, uint64_t bytes,
		    uint32_t opened, bool has_died);
/* Get the next region that may differ, from *at on. Set *at to the start of the remaining part and
 * return its end; 0 if there is none. */
uint64_t state_may_differ(const struct mirror_state *s, uint64_t *at);
/* Record that a mirror of these replicas, which are equal now, is about to be served. Return 0 or a
 * negative errno. */
int state_begin(struct mirror_state *s, uint32_t in);
/* Record an orderly stop: all writes are flushed on the replicas that are in, which are equal.
 * Return 0 or a negative errno. */
int state_end(struct mirror_state *s, uint32_t in);

/* Record that a replica is out of date from now on. Return 0 or a negative errno. */
int state_drop(struct mirror_state *s, unsigned int replica);
/* Mark the regions of a write that is about to be sent. Return true if it may be sent, false if its
 * bits are not in the file yet. */
bool state_touch(struct mirror_state *s, uint64_t start, uint64_t bytes);
/* Return true if the bits of this range are in the file. */
bool state_is_recorded(const struct mirror_state *s, uint64_t start, uint64_t bytes);
/* Prepare the bits for a write to the file at STATE_BITS_OFFSET. Return the length of the write. */
size_t state_stage(struct mirror_state *s);
/* Process the result of that write. Return 0 or a negative errno. */
int state_staged(struct mirror_state *s, int result);
/* Record that a flush of all replicas begins. If this returns true, the caller must call
 * state_touch() for the writes in flight, which the flush may not cover, and state_sweep_end()
 * after the flush, which may clear bits. */
bool state_sweep_begin(struct mirror_state *s, int64_t now_s);
/* End the flush. Return true if the bits must be written. */
bool state_sweep_end(struct mirror_state *s, bool has_succeeded, int64_t now_s);

#endif
