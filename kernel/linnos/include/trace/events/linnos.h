/* SPDX-License-Identifier: GPL-2.0-only */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM linnos

#if !defined(_TRACE_LINNOS_H) || defined(TRACE_HEADER_MULTI_READ)
#define _TRACE_LINNOS_H

#include <linux/blk-linnos.h>
#include <linux/tracepoint.h>

#ifndef LINNOS_TRACE_HISTORY
#define LINNOS_TRACE_HISTORY	4

struct linnos_prediction;
#endif

TRACE_DEFINE_ENUM(LINNOS_PREDICTED_FAST);
TRACE_DEFINE_ENUM(LINNOS_PREDICTED_SLOW);
TRACE_DEFINE_ENUM(LINNOS_PROBE);
TRACE_DEFINE_ENUM(LINNOS_NO_MODEL);
TRACE_DEFINE_ENUM(BLK_LINNOS_PROBE);
TRACE_DEFINE_ENUM(BLK_LINNOS_FAST);
TRACE_DEFINE_ENUM(BLK_LINNOS_UNKNOWN);
TRACE_DEFINE_ENUM(BLK_LINNOS_SLOW);

#define show_linnos_reason(reason)				\
	__print_symbolic(reason,				\
		{ LINNOS_PREDICTED_FAST,	"fast" },	\
		{ LINNOS_PREDICTED_SLOW,	"slow" },	\
		{ LINNOS_PROBE,			"probe" },	\
		{ LINNOS_NO_MODEL,		"no-model" })

#define show_linnos_expected(expected)				\
	__print_symbolic(expected,				\
		{ BLK_LINNOS_PROBE,		"probe" },	\
		{ BLK_LINNOS_FAST,		"fast" },	\
		{ BLK_LINNOS_UNKNOWN,		"unknown" },	\
		{ BLK_LINNOS_SLOW,		"slow" })

#ifdef CONFIG_BLK_LATCRIT
/**
 * linnos_decision - a latency-critical read was admitted or refused
 * @dev: the disk
 * @sector: first sector on the disk
 * @nr_sector: number of sectors
 * @revoked: true if the read was refused; always false in observe mode
 * @reason: an enum linnos_reason
 * @found: the prediction: the pages in flight, including this read; for the last four reads,
 *	oldest first, the pages in flight when they arrived, and their latencies; both outputs
 *	of a network, or for a latency model the latency above which a read is refused and
 *	the predicted latency, in us, and its features, as in enum linnos_latency_feature
 */
TRACE_EVENT(linnos_decision,

	TP_PROTO(dev_t dev, u64 sector, u32 nr_sector, bool revoked, u8 reason,
		 const struct linnos_prediction *found),

	TP_ARGS(dev, sector, nr_sector, revoked, reason, found),

	TP_STRUCT__entry(
		__field(dev_t,	dev)
		__field(u64,	sector)
		__field(u32,	nr_sector)
		__field(u32,	pending)
		__array(u32,	hist_pending, LINNOS_TRACE_HISTORY)
		__array(u32,	hist_latency_us, LINNOS_TRACE_HISTORY)
		__field(s64,	out_fast)
		__field(s64,	out_slow)
		__field(u8,	revoked)
		__field(u8,	reason)
		__dynamic_array(u32, features, found->n_features)
	),

	TP_fast_assign(
		const struct linnos_completed_io *past = found->view.past;
		int i;

		__entry->dev = dev;
		__entry->sector = sector;
		__entry->nr_sector = nr_sector;
		__entry->pending = linnos_pending(&found->view);
		for (i = 0; i < LINNOS_TRACE_HISTORY; i++) {
			__entry->hist_pending[i] = past[i].pending;
			__entry->hist_latency_us[i] = past[i].latency_us;
		}
		__entry->out_fast = found->out[0];
		__entry->out_slow = found->out[1];
		__entry->revoked = revoked;
		__entry->reason = reason;
		memcpy(__get_dynamic_array(features), found->features,
		       found->n_features * sizeof(u32));
	),

	TP_printk("dev=%d:%d sector=%llu nr_sector=%u pending=%u hist_pending=%u,%u,%u,%u hist_latency_us=%u,%u,%u,%u out_fast=%lld out_slow=%lld revoked=%u reason=%s%s%s",
		  MAJOR(__entry->dev), MINOR(__entry->dev), __entry->sector,
		  __entry->nr_sector, __entry->pending,
		  __entry->hist_pending[0], __entry->hist_pending[1],
		  __entry->hist_pending[2], __entry->hist_pending[3],
		  __entry->hist_latency_us[0], __entry->hist_latency_us[1],
		  __entry->hist_latency_us[2], __entry->hist_latency_us[3],
		  __entry->out_fast, __entry->out_slow, __entry->revoked,
		  show_linnos_reason(__entry->reason),
		  __get_dynamic_array_len(features) ? " features=" : "",
		  __get_dynamic_array_len(features) ?
			__print_array(__get_dynamic_array(features),
				      __get_dynamic_array_len(features) / 4, 4)
			: "")
);

#endif /* CONFIG_BLK_LATCRIT */

/**
 * linnos_expected - a drive was queried for a read
 * @dev: the disk
 * @pending: pages in flight, including the read
 * @expected: the answer: probe, fast, unknown or slow
 * @latency_us: predicted latency; 0 if the model is a network
 */
TRACE_EVENT(linnos_expected,

	TP_PROTO(dev_t dev, u32 pending, u8 expected, u32 latency_us),

	TP_ARGS(dev, pending, expected, latency_us),

	TP_STRUCT__entry(
		__field(dev_t, dev)
		__field(u32, pending)
		__field(u8, expected)
		__field(u32, latency_us)
	),

	TP_fast_assign(
		__entry->dev = dev;
		__entry->pending = pending;
		__entry->expected = expected;
		__entry->latency_us = latency_us;
	),

	TP_printk("dev=%d:%d pending=%u expected=%s latency_us=%u",
		  MAJOR(__entry->dev), MINOR(__entry->dev), __entry->pending,
		  show_linnos_expected(__entry->expected), __entry->latency_us)
);

#endif /* _TRACE_LINNOS_H */

/* This part must be outside protection */
#include <trace/define_trace.h>
