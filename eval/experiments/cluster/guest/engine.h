/* SPDX-License-Identifier: MIT */
/* The engine that serves the client's reads: GlusterFS (gluster.c) or Ceph (ceph.c). */
#ifndef ENGINE_H
#define ENGINE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* A block is on REPLICAS nodes, or on all if there are fewer. */
enum { BLOCK = 4096, NODES_MAX = 16, REPLICAS = 3 };

/* Return true if the engine has a rule of this name. */
bool engine_has(const char *rule);

/* Write the blocks of fill() to all nodes; return when each node serves them. */
void engine_write(uint64_t bytes, unsigned int n_nodes);

/* Open once, before reads. @rule names a rule of the engine, or is NULL if each read names its
 * node. Return the number of blocks. */
uint64_t engine_open(unsigned int n_nodes, const char *rule, uint64_t seed);

/* Read a block from a node, or with an own rule from any node with the same blocks. At its end,
 * on_end() is called on any thread. */
void engine_read(unsigned int node, uint64_t block, char *buffer, void *of);

/* Write a block to all nodes with the blocks of this one; at its end on_written() is called. */
void engine_write_block(unsigned int node, uint64_t block, const char *buffer);

/* Return the sector of a block on the drive of a node, for the oracle. */
uint64_t engine_sector(unsigned int node, uint64_t block);

/* Return the number of queries of the engine's own rule, and of reads that were sent on. */
uint64_t engine_queries(void);
uint64_t engine_redirects(void);

/* Functions of the client. */
void on_end(void *of, ssize_t bytes);
void on_written(ssize_t bytes);
void fill(char *block, uint64_t number);
void die(const char *what) __attribute__((noreturn));

#endif
