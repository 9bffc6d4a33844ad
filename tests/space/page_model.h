/*
 * page_model.h -- which pages of a tablespace are whose, as a plain array; held against the space.
 */
#ifndef FIRN_TESTS_SPACE_PAGE_MODEL_H
#define FIRN_TESTS_SPACE_PAGE_MODEL_H

#include "space/space_fixture.h"

#include "base/rng.h"

enum { MODEL_PAGES_MAX = 1 << 17 };

struct model {
    uint64_t owners[MODEL_PAGES_MAX]; /* 0: free, or the tablespace's own */
    uint32_t used;                    /* pages with an owner */
};

/** A page of the model; which one is drawn. @return PAGE_NONE if the owner has none */
static inline uint32_t model_draw(const struct model *model, uint64_t owner, struct rng *rng)
{
    uint32_t start = (uint32_t)rng_below(rng, MODEL_PAGES_MAX);
    for (uint32_t i = 0; i < MODEL_PAGES_MAX; i++) {
        uint32_t page_no = (start + i) % MODEL_PAGES_MAX;
        if (model->owners[page_no] != 0 && (owner == 0 || model->owners[page_no] == owner))
            return page_no;
    }
    return PAGE_NONE;
}

/** Make a page that was allocated an index's. */
static inline void model_init_page(struct world *world, uint32_t space, uint32_t page_no,
                                   uint64_t owner)
{
    struct mtr_page *page;
    struct slotted_bounds bounds = {
        .index_id = owner, .prev = PAGE_NONE, .next = PAGE_NONE, .upper_is_open = true};
    ASSERT_OK(mtr_fix_new(&world->mtr, page_id_of(space, page_no), &page));
    mtr_index_init(&world->mtr, page, &bounds);
}

struct model_walk {
    const struct model *model;
    uint32_t next; /* pages below have been seen */
    uint32_t seen;
    bool differs;
};

static inline firn_rc model_visit(uint32_t page_no, uint64_t owner, void *context)
{
    struct model_walk *walk = context;
    if (page_no >= MODEL_PAGES_MAX || (page_no < walk->next && walk->next != 0) ||
        walk->model->owners[page_no] != owner) {
        print_error("page %u is index %llu's, not %llu's\n", page_no, (unsigned long long)owner,
                    (unsigned long long)walk->model->owners[page_no]);
        walk->differs = true;
    }
    walk->next = page_no + 1;
    walk->seen += owner != 0;
    return FIRN_OK;
}

static inline void model_problem(const struct finding *finding, void *context)
{
    print_error("%s\n", finding->text);
    ++*(unsigned *)context;
}

/** Hold the tablespace against the model and let it be checked. */
static inline void model_compare(struct world *world, uint32_t space, const struct model *model)
{
    unsigned problems = 0;
    struct model_walk walk = {.model = model};
    ASSERT_OK(space_each_page(world->set, space, model_visit, &walk));
    assert_false(walk.differs);
    assert_int_equal(walk.seen, model->used);
    firn_rc rc = space_check(world->set, space, model_problem, &problems);
    assert_int_equal(problems, 0);
    ASSERT_OK(rc);
}

#endif
