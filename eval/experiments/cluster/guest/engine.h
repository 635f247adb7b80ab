/* SPDX-License-Identifier: MIT */
/* What the client's reads are served by: GlusterFS (gluster.c) or Ceph (ceph.c). */
#ifndef ENGINE_H
#define ENGINE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Nodes that have the same block are REPLICAS, or all if there are fewer. */
enum { BLOCK = 4096, NODES_MAX = 16, REPLICAS = 3 };

/* Is there such a rule of the engine's own? */
bool engine_has(const char *rule);

/* Write blocks, each as fill() has it, on all nodes; and return when any of them serves each. */
void engine_write(uint64_t bytes, unsigned int n_nodes);

/* Once, before reads: by a rule of its own, or NULL: from whom each is told. Returns how many
 * blocks. */
uint64_t engine_open(unsigned int n_nodes, const char *rule, uint64_t seed);

/* Read a block from a node; by a rule of the engine's own, from any that has what that node has. It
 * ends, on any thread, with on_end(). */
void engine_read(unsigned int node, uint64_t block, char *buffer, void *of);

/* Write a block to all nodes that have what this one has; it ends with on_written(). */
void engine_write_block(unsigned int node, uint64_t block, const char *buffer);

/* Where on its drive a node has a block, for the oracle. */
uint64_t engine_sector(unsigned int node, uint64_t block);

/* Questions to agents that the engine's own rule has asked, and reads that went where nobody sent
 * them. */
uint64_t engine_asked(void);
uint64_t engine_strayed(void);

/* The client's. */
void on_end(void *of, ssize_t bytes);
void on_written(ssize_t bytes);
void fill(char *block, uint64_t number);
void die(const char *what) __attribute__((noreturn));

#endif
