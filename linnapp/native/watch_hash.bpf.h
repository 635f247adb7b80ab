/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Part of watch.bpf.c: hash the bytes that a call has read or written, with
 * XXH64 and seed 0.
 *
 * They are copied to a buffer of this CPU first, because the parts of a vector
 * need not be aligned to the hash's blocks. The hash is computed here, because
 * passing on 4 KiB costs more than hashing them, and would fill the record
 * buffer. Nothing else runs on this CPU meanwhile: preemption is disabled in
 * the programs of system calls.
 */
#define PRIME_1 0x9E3779B185EBCA87ULL
#define PRIME_2 0xC2B2AE3D27D4EB4FULL
#define PRIME_3 0x165667B19E3779F9ULL
#define PRIME_4 0x85EBCA77C2B2AE63ULL
#define PRIME_5 0x27D4EB2F165667C5ULL

#define STRIPE_BYTES 32
#define GROUP_STRIPES 8
#define MAX_HASHED_PARTS 1024 /* as many as the kernel permits */

/* The second half is never used: it is for the verifier, which adds the maxima
 * of two numbers. */
struct content {
	char bytes[2 * LW_HASHED_BYTES];
};

/* By CPU; the reader sets the number of places. */
MAP(contents, ARRAY, 1, __u32, struct content);

struct gathering {
	struct content *to;
	__u64 parts; /* address of the vector; 0 if there is only one part */
	struct vector_part only;
	__u32 length;
	__u32 wanted;
	bool has_failed;
};

static long gather_part(__u32 index, struct gathering *g)
{
	struct vector_part part = g->only;
	__u32 length = g->length;
	__u64 size = g->wanted - length;

	if (length >= g->wanted)
		return 1;
	if (g->parts &&
	    bpf_probe_read_user(&part, sizeof(part), (void *)(g->parts + index * sizeof(part)))) {
		g->has_failed = true;
		return 1;
	}
	if (size > part.length)
		size = part.length;
	barrier_var(size);
	if (size > LW_HASHED_BYTES)
		return 1;
	if (bpf_probe_read_user(g->to->bytes + (length & (LW_HASHED_BYTES - 1)), size,
				(void *)part.base)) {
		g->has_failed = true;
		return 1;
	}
	g->length = length + size;
	return 0;
}

struct hashing {
	const struct content *of;
	__u64 lanes[4];
	__u32 from;
};

static __always_inline __u64 rotated(__u64 value, int bits)
{
	return value << bits | value >> (64 - bits);
}

static __always_inline __u64 mixed_in(__u64 lane, __u64 input)
{
	return rotated(lane + input * PRIME_2, 31) * PRIME_1;
}

/* The position is computed from the loop's index: the verifier would follow each value of a sum. */
static __always_inline void hash_stripes(struct hashing *h, __u32 at, int n)
{
	const char *bytes = h->of->bytes + (at & (LW_HASHED_BYTES - 1));
	__u64 a = h->lanes[0], b = h->lanes[1], c = h->lanes[2], d = h->lanes[3];

#pragma unroll
	for (int i = 0; i < n; i++) {
		const __u64 *stripe = (const __u64 *)(bytes + i * STRIPE_BYTES);

		a = mixed_in(a, stripe[0]);
		b = mixed_in(b, stripe[1]);
		c = mixed_in(c, stripe[2]);
		d = mixed_in(d, stripe[3]);
	}
	h->lanes[0] = a;
	h->lanes[1] = b;
	h->lanes[2] = c;
	h->lanes[3] = d;
}

static long hash_group(__u32 index, struct hashing *h)
{
	hash_stripes(h, index * GROUP_STRIPES * STRIPE_BYTES, GROUP_STRIPES);
	return 0;
}

static long hash_stripe(__u32 index, struct hashing *h)
{
	hash_stripes(h, h->from + index * STRIPE_BYTES, 1);
	return 0;
}

static __always_inline __u64 hash_long(__u64 hash, const char *at, bool is_there)
{
	return is_there ? rotated(hash ^ mixed_in(0, *(const __u64 *)at), 27) * PRIME_1 + PRIME_4 :
			  hash;
}

static __always_inline __u64 hash_byte(__u64 hash, const char *at, bool is_there)
{
	return is_there ? rotated(hash ^ (__u8)*at * PRIME_5, 11) * PRIME_1 : hash;
}

static __always_inline __u64 hash_of(const struct content *content, __u32 length)
{
	struct hashing h = {
		.of = content,
		.lanes = {PRIME_1 + PRIME_2, PRIME_2, 0, -PRIME_1},
	};
	__u32 stripes = length / STRIPE_BYTES, rest = length % STRIPE_BYTES;
	const char *end;
	__u64 hash;

	if (stripes) {
		bpf_loop(stripes / GROUP_STRIPES, hash_group, &h, 0);
		h.from = stripes / GROUP_STRIPES * GROUP_STRIPES * STRIPE_BYTES;
		bpf_loop(stripes % GROUP_STRIPES, hash_stripe, &h, 0);
		hash = rotated(h.lanes[0], 1) + rotated(h.lanes[1], 7) + rotated(h.lanes[2], 12) +
		       rotated(h.lanes[3], 18);
#pragma unroll
		for (int i = 0; i < 4; i++)
			hash = (hash ^ mixed_in(0, h.lanes[i])) * PRIME_1 + PRIME_4;
	} else {
		hash = PRIME_5;
	}
	hash += length;
	/* The mask is for the verifier: this is at most LW_HASHED_BYTES. */
	end = content->bytes + (length & (2 * LW_HASHED_BYTES - STRIPE_BYTES));
	hash = hash_long(hash, end, rest > 7);
	hash = hash_long(hash, end + 8, rest > 15);
	hash = hash_long(hash, end + 16, rest > 23);
	end += rest & 24;
	if (rest & 4) {
		hash = rotated(hash ^ *(const __u32 *)end * PRIME_1, 23) * PRIME_2 + PRIME_3;
		end += 4;
	}
	hash = hash_byte(hash, end, (rest & 3) > 0);
	hash = hash_byte(hash, end + 1, (rest & 3) > 1);
	hash = hash_byte(hash, end + 2, (rest & 3) > 2);
	hash = (hash ^ hash >> 33) * PRIME_2;
	hash = (hash ^ hash >> 29) * PRIME_3;
	return hash ^ hash >> 32;
}

/*
 * Hash the first bytes of those that a call has moved. `buffer` and `length` are its arguments; a
 * vector's are the parts and their number.
 */
static __noinline int hash_content(__u64 buffer, __u64 length, bool is_vector,
				   struct lw_call_record *record)
{
	__u64 moved = record->result;
	__u32 cpu = bpf_get_smp_processor_id();
	struct gathering g = {
		.to = bpf_map_lookup_elem(&contents, &cpu),
		.parts = is_vector ? buffer : 0,
		.only = {.base = buffer, .length = length},
	};

	if (!g.to)
		return 0;
	if (moved > LW_HASHED_BYTES)
		moved = LW_HASHED_BYTES;
	barrier_var(moved);
	g.wanted = moved & (2 * LW_HASHED_BYTES - 1);
	bpf_loop(g.parts ? MAX_HASHED_PARTS : 1, gather_part, &g, 0);
	/* The program may have unmapped it, or the page is not present any more. */
	if (g.has_failed || g.length != g.wanted) {
		count(LW_UNHASHED_CALLS);
		return 0;
	}
	record->hash = hash_of(g.to, g.length & (2 * LW_HASHED_BYTES - 1));
	record->hashed_bytes = g.length;
	return 0;
}
