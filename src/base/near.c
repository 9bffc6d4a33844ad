#include "base/near.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

enum { NEAR_WORD_MAX = 63 };

static unsigned least(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

/* Row by row; a swap looks back two rows. Words longer than NEAR_WORD_MAX are near to nothing. */
static unsigned distance(const char *a, const char *b)
{
    size_t a_length = strlen(a);
    size_t b_length = strlen(b);
    if (a_length > NEAR_WORD_MAX || b_length > NEAR_WORD_MAX)
        return UINT_MAX;
    unsigned rows[3][NEAR_WORD_MAX + 1];
    for (size_t j = 0; j <= b_length; j++)
        rows[0][j] = (unsigned)j;
    for (size_t i = 1; i <= a_length; i++) {
        unsigned *row = rows[i % 3];
        const unsigned *above = rows[(i - 1) % 3];
        const unsigned *above_two = rows[(i + 1) % 3];
        row[0] = (unsigned)i;
        for (size_t j = 1; j <= b_length; j++) {
            row[j] = above[j - 1] + (a[i - 1] != b[j - 1]);
            row[j] = least(row[j], least(above[j], row[j - 1]) + 1);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                row[j] = least(row[j], above_two[j - 2] + 1);
        }
    }
    return rows[a_length % 3][b_length];
}

size_t near_find(const char *word, const char *const *names, size_t count,
                 const char *found[NEAR_MAX])
{
    size_t length = strlen(word);
    unsigned limit = (unsigned)(length + 1) / 3;
    unsigned distances[NEAR_MAX];
    size_t found_count = 0;
    for (size_t i = 0; i < count && length != 0; i++) {
        unsigned d = distance(word, names[i]);
        if (length >= 2 && d > 1 && strncmp(names[i], word, length) == 0)
            d = 1;
        size_t place = found_count;
        while (place > 0 && distances[place - 1] > d)
            place--;
        if (d > limit || place == NEAR_MAX)
            continue;
        if (found_count < NEAR_MAX)
            found_count++;
        for (size_t k = found_count - 1; k > place; k--) {
            found[k] = found[k - 1];
            distances[k] = distances[k - 1];
        }
        found[place] = names[i];
        distances[place] = d;
    }
    return found_count;
}

char *near_text(const char *word, const char *const *names, size_t count, const char *prefix,
                char text[NEAR_TEXT_BYTES])
{
    const char *found[NEAR_MAX];
    size_t found_count = near_find(word, names, count, found);
    size_t length = 0;
    text[0] = '\0';
    for (size_t i = 0; i < found_count && length < NEAR_TEXT_BYTES; i++) {
        const char *before = i == 0 ? "; did you mean " : i + 1 < found_count ? ", " : " or ";
        length += (size_t)snprintf(text + length, NEAR_TEXT_BYTES - length, "%s%s%s%s", before,
                                   prefix, found[i], i + 1 == found_count ? "?" : "");
    }
    return text;
}
