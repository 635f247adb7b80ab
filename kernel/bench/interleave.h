/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What others do while the policy (policy.h) looks: each of their acts before one or
 * another of the words that it reads or swaps, in all ways that keep their order.
 */
#ifndef _BENCH_INTERLEAVE_H
#define _BENCH_INTERLEAVE_H

#include "kernel_shim.h"
#include "linnos_shim.h"

static void others_act(void);

#undef READ_ONCE
#define READ_ONCE(x) (others_act(), *(const volatile typeof(x) *)&(x))
#undef cmpxchg
#define cmpxchg(p, old, new) (others_act(), shim_cmpxchg(p, old, new))

#include "policy.h"

/* Who looks reads words, and no more of them. */
#define WORDS 16
#define ACTS_MAX 8

static void (*const *acts)(void);
static int n_acts, acted = ACTS_MAX, word;
/* The words before which they act, in the order of acts. */
static int before[ACTS_MAX];

static void others_act(void)
{
	static bool acting;

	/* they read, too */
	if (acting)
		return;
	acting = true;
	for (; acted < n_acts && before[acted] <= word; acted++)
		acts[acted]();
	acting = false;
	word++;
}

static void look_begins(void)
{
	acted = 0;
	word = 0;
}

/* What was to come later still happens now. */
static void look_ends(void)
{
	if (!word || word > WORDS)
		abort();
	word = WORDS;
	others_act();
}

/* All ways for this act and those after it. Return: in how many @is_wrong says so. */
static int try_all(bool (*is_wrong)(void), int act, int from)
{
	int wrong = 0, i;

	if (act < n_acts) {
		for (before[act] = from; before[act] <= WORDS; before[act]++)
			wrong += try_all(is_wrong, act + 1, before[act]);
		return wrong;
	}
	if (!is_wrong())
		return 0;
	fprintf(stderr, "wrong, by acts before words");
	for (i = 0; i < n_acts; i++)
		fprintf(stderr, " %d", before[i]);
	fprintf(stderr, "\n");
	return 1;
}

#endif
