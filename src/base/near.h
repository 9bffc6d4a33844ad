/*
 * near.h -- which name a mistyped word may have meant.
 */
#ifndef FIRN_BASE_NEAR_H
#define FIRN_BASE_NEAR_H

#include <stddef.h>

enum { NEAR_MAX = 3, NEAR_TEXT_BYTES = 256 };

/**
 * Find the names nearest to a word, by the number of letters to insert, drop, change or swap
 * (optimal string alignment), at most a third of the word's letters. Names that the word begins
 * count as near.
 *
 * @param word   what was typed
 * @param names  count names
 * @param found  filled with the nearest, nearest first, each once
 * @return how many were found, at most NEAR_MAX
 */
size_t near_find(const char *word, const char *const *names, size_t count,
                 const char *found[NEAR_MAX]);

/**
 * The same as the end of a sentence: "; did you mean --threads or --trace?", or "" when nothing is
 * near.
 *
 * @param prefix  put before each name, such as "--"
 * @return text
 */
char *near_text(const char *word, const char *const *names, size_t count, const char *prefix,
                char text[NEAR_TEXT_BYTES]);

#endif
