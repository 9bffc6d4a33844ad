/*
 * terminal.h -- text that fits where it is read.
 */
#ifndef FIRN_CLI_TERMINAL_H
#define FIRN_CLI_TERMINAL_H

#include <stdio.h>

/** @return the columns of the terminal behind a stream; 80 for what is none. */
int terminal_width(FILE *out);

/** @return terminal_width(), held to what reads well: 60 to 100 columns. */
int terminal_text_width(FILE *out);

/**
 * Write a text in lines of at most `width` columns, broken at blanks; ends the last line. A newline
 * in the text begins a line.
 *
 * @param column  where the cursor stands
 * @param indent  where each line begins, at least `column`
 */
void terminal_wrap(FILE *out, const char *text, int column, int indent, int width);

#endif
