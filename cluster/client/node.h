/* SPDX-License-Identifier: MIT */
/*
 * What a client knows of a node, and what it makes of it: how long a read would take there, in
 * proportion to what is usual for its size.
 *
 * Nodes in order differ little, and for long: what counts is what reads of each took in the mean,
 * more or less as its agent tells more or less than usually (fit.h).
 *
 * That a node is out of order two things tell: what the client's own reads took, and what the
 * node's agent predicts. Each is weighed by how far it has been off lately, of this node, and own
 * reads count less with age. So who reads a node often goes by what it sees, who reads it seldom by
 * what it is told, and an agent that is wrong, or lies, by what it is worth. An agent that is off
 * by far more than own reads is not listened to.
 *
 * A read that was slow makes a node slow until another one is not: that is looked for after a
 * while, which doubles. A read in flight counts by what it has waited already, before it has an
 * end.
 *
 * Of whom nothing is known, or nothing any more, a read takes what is usual.
 */
#ifndef LINNOS_CLUSTER_NODE_H
#define LINNOS_CLUSTER_NODE_H

#include "fit.h"
#include "linnos_guard.h"

#include <stdbool.h>
#include <stdint.h>

/* Reads of up to 1, 2, 4 ... pages, and of more than the last but one. */
#define N_SIZE_CLASSES 10

#define NS_PER_US 1000ull
#define NS_PER_MS 1000000ull

/* Up to so many times what is usual a node is in order. */
#define IN_ORDER 1.5
/* From so many times what is usual on a node is slow: what a drive in order takes for one read in
 * some tens. */
#define SLOW 2.5
/* Of a node that fails, or whose agent says that its drive hangs. */
#define FAILED 1000.0

/* Nothing takes less of what is usual. */
#define RATIO_LEAST 0.01

/* How long reads of a client usually take: medians. */
struct usual {
	double us[N_SIZE_CLASSES];  /* 0: none was seen */
	uint32_t n[N_SIZE_CLASSES]; /* until they are not the first any more */
};

void usual_add(struct usual *u, unsigned int order, double us);
/* 0 as long as nothing is known. */
double usual_us(const struct usual *u, unsigned int order);

/* A read in flight, inside of struct linnos_attempt. */
struct sending {
	struct sending *next, *previous;
	uint64_t sent_ns;
	uint32_t node, expected_us;
	float own, told; /* what each alone would have expected; 0: nothing */
	uint8_t kind, order;
	struct linnos_assignment lot; /* of a copy, what the guard wants to know of it */
};

struct node {
	struct sending *oldest, *newest;
	uint32_t in_flight;
	uint32_t strikes; /* in a row it was slow so often */
	bool failing;
	float own; /* what own reads took, lately */
	float own_error, told_error;
	struct fit fit;
	uint64_t heard_ns; /* when the last one ended; 0: none has */
	uint64_t n_answered, n_errors;

	float told; /* by its agent; 0: nothing */
	uint32_t told_uses, sent_since_asked;
	uint64_t told_of_ns; /* it was asked then */
	uint64_t asked_ns;   /* for the last time */
	uint64_t cookie;     /* of that; 0: it is answered */
	uint32_t asked_bytes, unanswered;
};

/* How to know: what of a client's options concerns a node. */
struct knowing {
	struct usual usual;
	uint64_t news_for_ns;
	double wait_ns; /* before a node that was slow is looked at for the first time */
	uint32_t report_max_uses;
	double told_offset; /* what reads took beyond what agents predicted, of what is usual: a
			       median */
	uint32_t n_told;
};

struct expected {
	double own, told; /* as in struct sending */
	double ratio;
};

/* 0 of what another thread has seen a moment later. */
uint64_t since(uint64_t then_ns, uint64_t now_ns);

void node_init(struct node *n);
struct expected node_expect(const struct knowing *k, const struct node *n, uint64_t now_ns);
void node_sent(struct node *n, struct sending *s);
/* It is in flight no more. */
void node_forget(struct node *n, struct sending *s);
/* It took so many times what is usual. */
void node_learn(struct knowing *k, struct node *n, const struct sending *s, double ratio,
		uint64_t now_ns);
void node_fail(struct node *n, uint64_t now_ns);
bool node_has_report(const struct knowing *k, const struct node *n, uint64_t now_ns);
/* Was anything heard of it lately, by whomever? */
bool node_has_recent_data(const struct knowing *k, const struct node *n, uint64_t now_ns);
bool node_is_trusted(const struct node *n);
/* Should somebody look whether it is still slow? */
bool node_needs_probe(const struct knowing *k, const struct node *n, double ratio, uint64_t now_ns);

#endif
