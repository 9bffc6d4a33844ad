/*
 * mtr_internal.h -- judging mini-transactions while they run; see mtr_verify_changes.
 */
#ifndef FIRN_MTR_MTR_INTERNAL_H
#define FIRN_MTR_MTR_INTERNAL_H

#include "mtr/mtr.h"

/** Decide whether a mini-transaction that begins is judged. */
void verify_begin(struct mtr *mtr);

/** Keep what a page is as it is taken; only when originals are kept. */
void verify_keep(struct mtr *mtr, const struct mtr_page *page);

/** Repeat the records on the originals and compare; only when originals are kept. */
void verify_commit(struct mtr *mtr);

/** A page that is given back unchanged must be its original. */
void verify_unchanged(const struct mtr *mtr, const struct mtr_page *page);

#endif
