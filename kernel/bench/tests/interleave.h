/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Simulate concurrent actions while the policy (policy.h) runs: each action
 * happens before one of the words that the policy reads or swaps, in all
 * combinations that keep the order of the actions.
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

/* The maximum number of words that the code under test reads. */
#define WORDS 16
#define ACTS_MAX 8

static void (*const *acts)(void);
static int n_acts, acted = ACTS_MAX, word;
/*
 * The index of the word before which each action happens, in the order of
 * actions.
 */
static int before[ACTS_MAX];

static void others_act(void)
{
	static bool acting;

	/* actions read words, too */
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

/* Execute the actions that are still to come. */
static void look_ends(void)
{
	if (!word || word > WORDS)
		abort();
	word = WORDS;
	others_act();
}

/*
 * Try all combinations for this action and those after it. Return the number of
 * those for which @is_wrong returns true.
 */
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
