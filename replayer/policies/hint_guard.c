// SPDX-License-Identifier: MIT
/* Decides which reads carry the latency-critical hint: see hint_guard.h. */
#include "hint_guard.h"

#include "spin.h"

#include <string.h>

#define ALL 1024

/* A drive is slow when its last answer took longer than this many times the mean. */
#define SLOW_MEANS 2
/* A xorshift generator starts with similar numbers for similar seeds, and never leaves 0. An odd
 * factor spreads the seeds and keeps an odd seed from becoming 0. */
#define SPREAD 0x9e3779b97f4a7c15ULL

void hints_init(struct hints *h, uint64_t random)
{
	memset(h, 0, sizeof(*h));
	h->guard.cautious = true;
	h->random = (2 * random + 1) * SPREAD;
}

static uint32_t draw(struct hints *h)
{
	return linnos_random(&h->random) % ALL;
}

/* Return how many of 1024 refused reads should be redirected. */
static uint32_t share_of(const struct hints *h, enum linnos_slowness slowness)
{
	struct linnos_redirect_benefit benefit;

	linnos_guard_get_benefit(&h->guard, slowness, &benefit);
	return benefit.share;
}

struct hint hints_begin(struct hints *h, unsigned int home, uint64_t now_ns)
{
	/* There is no prediction of the latency at the default drive. */
	struct hint hint = {.since_ns = now_ns, .assignment.default_us = UINT32_MAX};
	uint32_t last_us = READ_ONCE(h->last_us[home]);

	spin_take(&h->lock);
	hint.assignment.slowness =
		linnos_classify_slowness(last_us, SLOW_MEANS * linnos_guard_mean_us(&h->guard));
	hint.is_carried = draw(h) < 2 * share_of(h, hint.assignment.slowness);
	spin_leave(&h->lock);
	return hint;
}

bool hints_refused(struct hints *h, struct hint *hint)
{
	uint32_t share;

	spin_take(&h->lock);
	share = share_of(h, hint->assignment.slowness);
	hint->is_refused = true;
	hint->assignment.redirected = draw(h) < (share > ALL / 2 ? share : ALL / 2);
	h->guard.eligible[hint->assignment.slowness]++;
	h->guard.redirected[hint->assignment.slowness] += hint->assignment.redirected;
	spin_leave(&h->lock);
	return hint->assignment.redirected;
}

void hints_heard(struct hints *h, unsigned int drive, uint64_t took_ns)
{
	WRITE_ONCE(h->last_us[drive], took_ns / 1000);
}

void hints_answered(struct hints *h, const struct hint *hint, uint64_t now_ns)
{
	struct linnos_assignment assignment = {.slowness = LINNOS_SLOWNESS_NONE};

	if (hint->is_refused)
		assignment = hint->assignment;
	spin_take(&h->lock);
	linnos_guard_record_latency(&h->guard, assignment, (now_ns - hint->since_ns) / 1000);
	spin_leave(&h->lock);
}
