/*
 * history_cycles.c -- cycles of dependencies: finding one, naming it, telling it in words.
 *
 * Strongly connected components tell in linear time whether there is a cycle (Tarjan, 1972); a
 * short one is then looked for breadth first. That there must not be two rw edges in a row is a
 * matter of where one came from: each node is there twice, as reached by an rw edge and as reached
 * by another, and from the first no rw edge leads on. A cycle of these is a closed walk without two
 * rw in a row, and every such walk is a cycle of these.
 */
#include "txn/history_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STARTS_TRIED = 64, WALK_MAX = 64 };

/* The graph as it is searched: states, and edges by where they begin. */
struct graph {
    const struct judge *judge;
    bool is_twofold; /* nodes are there twice: state = 2 * node + reached by rw */
    bool with_rw;
    bool with_time;
    uint32_t state_count;
    uint32_t *first;     /* of a node, in `order`; one more at the end */
    uint32_t *order;     /* numbers of edges */
    uint32_t *component; /* of a state */
    uint32_t *size;      /* of a component */
};

static uint32_t node_of(const struct graph *graph, uint32_t state)
{
    return graph->is_twofold ? state / 2 : state;
}

/* @return the state that an edge leads to from a state; UINT32_MAX: none */
static uint32_t follow(const struct graph *graph, uint32_t state, const struct edge *edge)
{
    bool is_rw = edge->kind == EDGE_RW;
    if ((edge->kind == EDGE_RT && !graph->with_time) || (is_rw && !graph->with_rw))
        return UINT32_MAX;
    if (!graph->is_twofold)
        return edge->to;
    if (is_rw && state % 2 == 1)
        return UINT32_MAX;
    return 2 * edge->to + is_rw;
}

/* `graph` says which edges count. */
static void open_graph(struct graph *graph)
{
    const struct judge *judge = graph->judge;
    graph->state_count = judge->node_count * (graph->is_twofold ? 2 : 1);
    graph->first = calloc((size_t)judge->node_count + 2, sizeof *graph->first);
    graph->order = calloc(judge->edge_count + 1, sizeof *graph->order);
    graph->component = calloc((size_t)graph->state_count + 1, sizeof *graph->component);
    graph->size = calloc((size_t)graph->state_count + 1, sizeof *graph->size);
    for (size_t i = 0; i < judge->edge_count; i++)
        graph->first[judge->edges[i].from + 2]++;
    for (uint32_t i = 2; i < judge->node_count + 2; i++)
        graph->first[i] += graph->first[i - 1];
    for (size_t i = 0; i < judge->edge_count; i++)
        graph->order[graph->first[judge->edges[i].from + 1]++] = (uint32_t)i;
}

static void close_graph(struct graph *graph)
{
    free(graph->first);
    free(graph->order);
    free(graph->component);
    free(graph->size);
}

/* ---- Components ---- */

struct search {
    uint32_t *index; /* 0: not met */
    uint32_t *low;
    uint32_t *next; /* the edge to be followed next */
    uint32_t *path; /* of calls that would be, without recursion */
    uint32_t *stack;
    uint32_t path_size, stack_size, met, components;
};

static void enter(struct graph *graph, struct search *search, uint32_t state)
{
    search->index[state] = search->low[state] = ++search->met;
    search->next[state] = graph->first[node_of(graph, state)];
    search->path[search->path_size++] = state;
    search->stack[search->stack_size++] = state;
}

/* All edges of the path's last state have been followed. */
static void leave(struct graph *graph, struct search *search)
{
    uint32_t state = search->path[--search->path_size], member;
    if (search->path_size > 0) {
        uint32_t before = search->path[search->path_size - 1];
        if (search->low[state] < search->low[before])
            search->low[before] = search->low[state];
    }
    if (search->low[state] != search->index[state])
        return;
    search->components++;
    do {
        member = search->stack[--search->stack_size];
        graph->component[member] = search->components;
        graph->size[search->components]++;
    } while (member != state);
}

static void go_on(struct graph *graph, struct search *search)
{
    uint32_t state = search->path[search->path_size - 1];
    if (search->next[state] == graph->first[node_of(graph, state) + 1]) {
        leave(graph, search);
        return;
    }
    const struct edge *edge = &graph->judge->edges[graph->order[search->next[state]++]];
    uint32_t to = follow(graph, state, edge);
    if (to == UINT32_MAX)
        return;
    if (search->index[to] == 0)
        enter(graph, search, to);
    else if (graph->component[to] == 0 && search->index[to] < search->low[state])
        search->low[state] = search->index[to];
}

static void find_components(struct graph *graph)
{
    size_t count = (size_t)graph->state_count + 1;
    uint32_t *memory = calloc(5 * count, sizeof *memory);
    struct search search = {.index = memory,
                            .low = memory + count,
                            .next = memory + 2 * count,
                            .path = memory + 3 * count,
                            .stack = memory + 4 * count};
    for (uint32_t state = 0; state < graph->state_count; state++) {
        if (search.index[state] != 0)
            continue;
        enter(graph, &search, state);
        while (search.path_size > 0)
            go_on(graph, &search);
    }
    free(memory);
}

/* ---- A short cycle ---- */

struct walk {
    const struct edge *edges[WALK_MAX];
    size_t length;
};

/* From a state back to it, by as few edges as can be, into `walk` if that is shorter. */
static void find_cycle(const struct graph *graph, uint32_t start, struct walk *walk)
{
    uint32_t *from = malloc(graph->state_count * sizeof *from);
    uint32_t *by = malloc(graph->state_count * sizeof *by);
    uint32_t *queue = malloc(((size_t)graph->state_count + 1) * sizeof *queue);
    size_t head = 0, tail = 0;
    bool is_closed = false;
    memset(by, 0xff, graph->state_count * sizeof *by);
    queue[tail++] = start;
    while (head < tail && !is_closed) {
        uint32_t state = queue[head++];
        uint32_t node = node_of(graph, state);
        for (uint32_t i = graph->first[node]; i < graph->first[node + 1] && !is_closed; i++) {
            uint32_t to = follow(graph, state, &graph->judge->edges[graph->order[i]]);
            if (to == UINT32_MAX || graph->component[to] != graph->component[start] ||
                by[to] != UINT32_MAX)
                continue;
            from[to] = state;
            by[to] = graph->order[i];
            queue[tail++] = to;
            is_closed = to == start;
        }
    }
    size_t length = 0;
    uint32_t state = start;
    for (; is_closed && (length == 0 || state != start); length++)
        state = from[state];
    if (is_closed && length <= WALK_MAX && (walk->length == 0 || length < walk->length)) {
        walk->length = length;
        for (state = start; length > 0; state = from[state])
            walk->edges[--length] = &graph->judge->edges[by[state]];
    }
    free(from);
    free(by);
    free(queue);
}

static void find_shortest(const struct graph *graph, struct walk *walk)
{
    unsigned tried = 0;
    for (uint32_t state = 0; state < graph->state_count && tried < STARTS_TRIED; state++) {
        if (graph->size[graph->component[state]] < 2)
            continue;
        find_cycle(graph, state, walk);
        tried++;
    }
}

/* ---- In words ---- */

static size_t count_kind(const struct walk *walk, enum edge_kind kind)
{
    size_t count = 0;
    for (size_t i = 0; i < walk->length; i++)
        count += walk->edges[i]->kind == kind;
    return count;
}

static bool is_about_one_key(const struct walk *walk)
{
    for (size_t i = 1; i < walk->length; i++)
        if (walk->edges[i]->key != walk->edges[0]->key)
            return false;
    return true;
}

/* A read that found nothing, where there is something now. */
static bool has_phantom(const struct walk *walk)
{
    for (size_t i = 0; i < walk->length; i++)
        if (walk->edges[i]->kind == EDGE_RW && walk->edges[i]->value == 0)
            return true;
    return false;
}

static bool has_two_rw_in_a_row(const struct walk *walk)
{
    for (size_t i = 0; i < walk->length; i++)
        if (walk->edges[i]->kind == EDGE_RW && walk->edges[(i + 1) % walk->length]->kind == EDGE_RW)
            return true;
    return false;
}

static const char *name_walk(const struct walk *walk)
{
    size_t rw = count_kind(walk, EDGE_RW);
    if (rw == 0)
        return count_kind(walk, EDGE_WR) == 0 ? "write cycle (G0)"
                                              : "circular information flow (G1c)";
    if (rw == 1 && count_kind(walk, EDGE_RT) > 0)
        return "stale read";
    if (rw == 1 && count_kind(walk, EDGE_WW) == walk->length - 1 && is_about_one_key(walk))
        return "lost update (P4)";
    if (rw == 1 && walk->length == 2 && count_kind(walk, EDGE_WR) == 1)
        return "fractured read (G-single)";
    if (rw == 1)
        return "read skew (G-single)";
    if (!has_two_rw_in_a_row(walk))
        return "long fork (G-nonadjacent)";
    return has_phantom(walk) ? "write skew over what is not there (G2)" : "write skew (G2-item)";
}

static size_t tell_edge(const struct judge *judge, const struct edge *edge, char *text, size_t size)
{
    char from[64], to[64], name[32];
    const char *what = edge->is_list ? "list" : "register";
    bool is_statement = edge->from >= judge->txn_count;
    snprintf(from, sizeof from, "%s%s", is_statement ? "a statement of " : "",
             judge_name(judge, judge->node_txns[edge->from], name));
    is_statement = edge->to >= judge->txn_count;
    snprintf(to, sizeof to, "%s%s", is_statement ? "a statement of " : "",
             judge_name(judge, judge->node_txns[edge->to], name));
    switch (edge->kind) {
    case EDGE_WW:
        return (size_t)snprintf(text, size, "%s wrote %lld to %s %u, and %s behind it %lld", from,
                                (long long)edge->value, what, edge->key, to, (long long)edge->next);
    case EDGE_WR:
        return (size_t)snprintf(text, size, "%s wrote %lld to %s %u, and %s read it", from,
                                (long long)edge->value, what, edge->key, to);
    case EDGE_RW:
        return (size_t)snprintf(text, size,
                                "%s read %s %u as of %lld, before %s wrote %lld behind that", from,
                                what, edge->key, (long long)edge->value, to, (long long)edge->next);
    case EDGE_RT:
        break;
    }
    return (size_t)snprintf(text, size, "%s was over before %s began", from, to);
}

static const char *tell(struct judge *judge, const struct walk *walk)
{
    char *text = judge->text;
    size_t used = (size_t)snprintf(text, HISTORY_TEXT_BYTES, "%s:", name_walk(walk));
    for (size_t i = 0; i < walk->length && used < HISTORY_TEXT_BYTES - 256; i++) {
        used += (size_t)snprintf(text + used, HISTORY_TEXT_BYTES - used, "\n    ");
        used += tell_edge(judge, walk->edges[i], text + used, HISTORY_TEXT_BYTES - used);
    }
    return text;
}

static const char *judge_graph(struct judge *judge, struct graph graph)
{
    struct walk walk = {.length = 0};
    bool has_cycle = false;
    graph.judge = judge;
    open_graph(&graph);
    find_components(&graph);
    for (uint32_t state = 0; state < graph.state_count; state++)
        has_cycle = has_cycle || graph.size[graph.component[state]] > 1;
    if (has_cycle)
        find_shortest(&graph, &walk);
    close_graph(&graph);
    if (!has_cycle)
        return NULL;
    return walk.length > 0 ? tell(judge, &walk) : judge_say(judge, "a cycle too long to be told");
}

/* First without the order of time: what needs it is the weaker reproach. */
static const char *judge_with_and_without_time(struct judge *judge, bool is_twofold, bool with_rw)
{
    const char *wrong =
        judge_graph(judge, (struct graph){.is_twofold = is_twofold, .with_rw = with_rw});
    return wrong != NULL ? wrong
                         : judge_graph(judge, (struct graph){.is_twofold = is_twofold,
                                                             .with_rw = with_rw,
                                                             .with_time = true});
}

/* Under read committed transactions must not depend on each other by what they wrote and read of
 * it; and their statements see one moment each. */
const char *judge_cycles(struct judge *judge)
{
    judge_edges(judge, false);
    const char *wrong = judge_with_and_without_time(judge, judge->level == HISTORY_SNAPSHOT,
                                                    judge->level != HISTORY_READ_COMMITTED);
    if (wrong != NULL || judge->level != HISTORY_READ_COMMITTED)
        return wrong;
    judge_edges(judge, true);
    return judge_with_and_without_time(judge, true, true);
}
