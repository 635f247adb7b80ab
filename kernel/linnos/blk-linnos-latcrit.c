// SPDX-License-Identifier: GPL-2.0-only
/*
 * LinnOS: refuse a read that the drive would serve slowly.
 *
 * An application that stores its data on several drives marks a read as latency-critical
 * (RWF_LATCRIT). If the model of the drive predicts that the read would be slow right now, the
 * read fails with -EBUSY before it is throttled or charged to a cgroup, and before it gets a
 * request or a tag. The application then reads another replica.
 *
 *	submit_bio
 *	    │
 *	    ▼    fast
 *	  decide ──► cgroup limits, tag ──► request: track ──► issue
 *	    │                                   │                │
 *	    │ slow                              ▼                ▼
 *	    └► -EBUSY                     pending pages        drive
 *	                                        ▲                │
 *	                             history ◄──┴──── done ◄─────┘
 *
 * A read is admitted or refused once, before the block layer splits it. Each part is then counted
 * as a request of its own. Reads without the hint and writes are counted, but never refused. Probes
 * are admitted although they are predicted slow.
 */
#include <linux/blkdev.h>
#include <linux/ktime.h>

#include "blk-linnos-latcrit.h"
#include "blk-linnos-policy.h"

#include <trace/events/linnos.h>

static_assert(LINNOS_TRACE_HISTORY == LINNOS_HISTORY);

/* Return true if a latency-critical read is admitted. */
bool linnos_decide_read(struct blk_linnos *linnos, struct bio *bio, u64 now_ns)
{
	struct linnos_drive *drive = &linnos->drive;
	struct linnos_prediction found __uninitialized;
	enum linnos_reason reason;
	struct linnos_probe_state *probe;
	bool admit;

	/*
	 * Predict without the address. Otherwise a process that reads a file could infer from
	 * refusals which addresses other processes read. Only md and BLKEXPECT pass an address.
	 */
	linnos_predict_read(linnos, LINNOS_REGION_UNKNOWN, bio->bi_iter.bi_size,
			    now_ns, &found);
	probe = &drive->probes[found.size];
	reason = found.reason;
	if (reason == LINNOS_PREDICTED_FAST)
		linnos_probe_close_window(probe);

	admit = !linnos_is_slow(&found);
	if (admit) {
		linnos_probe_note_fast_read(drive, found.size, now_ns);
	} else if (READ_ONCE(linnos->mode) != LINNOS_ENFORCE) {
		/* observe, or off if the mode has been changed meanwhile */
		admit = true;
	} else if (linnos_probe_window_allows(drive, found.size, now_ns) ||
		   linnos_probe_claim(drive, found.size, false, now_ns)) {
		admit = true;
		reason = LINNOS_PROBE;
	} else {
		atomic_inc(&probe->refused);
	}
	linnos_count(linnos, LINNOS_STAT_LATENCY_CRITICAL);
	linnos_count(linnos,
		     admit ? LINNOS_STAT_ADMITTED : LINNOS_STAT_REVOKED);
	/* an admitted read is counted when it gets a request */
	if (!admit)
		linnos_count(linnos, LINNOS_STAT_READS);
	if (reason == LINNOS_PROBE)
		linnos_count(linnos, LINNOS_STAT_PROBES);
	trace_linnos_decision(disk_devt(linnos->disk), bio->bi_iter.bi_sector,
			      bio_sectors(bio), !admit, reason, &found);

	/* tell blk_linnos_track() that there is a prediction; if the hint is kept, it is fast */
	if (found.reason != LINNOS_NO_MODEL)
		bio_set_flag(bio, BIO_LATCRIT_DECIDED);
	if (found.reason != LINNOS_PREDICTED_FAST)
		bio->bi_opf &= ~REQ_LATCRIT;
	return admit;
}

/*
 * Decide whether to admit a bio with the hint, before it is throttled or accounted. This is decided
 * once per bio, however often it is submitted. The submitter holds a reference to the disk, and the
 * disk holds one to the policy. Return: BLK_STS_OK or BLK_STS_REVOKED.
 */
blk_status_t blk_linnos_decide(struct bio *bio)
{
	struct blk_linnos *linnos = bio->bi_bdev->bd_disk->linnos;

	/* a stacked driver has no policy: the drives below it decide */
	if (!linnos || bio_flagged(bio, BIO_LATCRIT_DECIDED))
		return BLK_STS_OK;
	if (bio_op(bio) != REQ_OP_READ || !linnos_is_load(bio) ||
	    !linnos_is_on(linnos)) {
		bio->bi_opf &= ~REQ_LATCRIT;
		return BLK_STS_OK;
	}
	/* not blk_time_get_ns(), which returns the time of the first I/O of a plug */
	return linnos_decide_read(linnos, bio, ktime_get_ns()) ?
		       BLK_STS_OK :
		       BLK_STS_REVOKED;
}
