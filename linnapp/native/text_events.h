/* SPDX-License-Identifier: MIT */
/*
 * Text of block layer events, as printed by blkparse, perf script and ftrace.
 *
 * It is translated to blktrace's binary events, so that all readers can use it as a recording.
 */
#ifndef LINNAPP_TEXT_EVENTS_H
#define LINNAPP_TEXT_EVENTS_H

#include <stdbool.h>
#include <stddef.h>

/* Number of bytes of a file that lt_events_are_text() needs. */
#define LT_EVENTS_HEAD_BYTES (256 << 10)

/** lt_events_are_text() - return true if a file that begins with @n bytes at @head is such text */
bool lt_events_are_text(const char *head, size_t n);

/**
 * lt_events_translate() - translate such text
 * @from: descriptor of the text; it is read from its start
 * @to: descriptor of an empty file
 * @path: path of the text, for messages
 * @why: room for LT_PACKED_WHY bytes
 *
 * Return: true on success; otherwise @why is the reason.
 */
bool lt_events_translate(int from, int to, const char *path, char *why);

#endif
