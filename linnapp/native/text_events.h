/* SPDX-License-Identifier: MIT */
/*
 * Text of block layer events, as blkparse, perf script and ftrace print them.
 *
 * It is translated to blktrace's binary events, so that it is a recording to all that read one.
 */
#ifndef LINNAPP_TEXT_EVENTS_H
#define LINNAPP_TEXT_EVENTS_H

#include <stdbool.h>
#include <stddef.h>

/* lt_events_are_text() wants to see so much of a file. */
#define LT_EVENTS_HEAD_BYTES 16384

/** lt_events_are_text() - whether a file that begins with @n bytes at @head is such text */
bool lt_events_are_text(const char *head, size_t n);

/**
 * lt_events_translate() - translate such text
 * @from: descriptor of the text; it is read from its start
 * @to: descriptor of an empty file
 * @path: of the text, for messages
 * @why: room for LT_PACKED_WHY bytes
 *
 * Return: whether it worked; if not, @why is the reason.
 */
bool lt_events_translate(int from, int to, const char *path, char *why);

#endif
