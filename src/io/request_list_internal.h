/*
 * request_list_internal.h -- requests in order, linked by their own `next`: whoever has a request
 * may have it on one list.
 */
#ifndef FIRN_IO_REQUEST_LIST_INTERNAL_H
#define FIRN_IO_REQUEST_LIST_INTERNAL_H

#include "io/io.h"

/** Empty when zeroed. `last` means nothing then. */
struct request_list {
    struct io_request *first;
    struct io_request *last;
    unsigned count;
};

/** Put a request behind the others. */
static inline void request_list_append(struct request_list *list, struct io_request *request)
{
    request->next = NULL;
    if (list->first == NULL)
        list->first = request;
    else
        list->last->next = request;
    list->last = request;
    list->count++;
}

/** Put a request before the others. */
static inline void request_list_prepend(struct request_list *list, struct io_request *request)
{
    request->next = list->first;
    if (list->first == NULL)
        list->last = request;
    list->first = request;
    list->count++;
}

/** Take the first request of a list that is not empty. */
static inline struct io_request *request_list_take(struct request_list *list)
{
    struct io_request *request = list->first;
    list->first = request->next;
    list->count--;
    return request;
}

/** Take up to max_count requests. @return how many were stored */
static inline unsigned request_list_take_many(struct request_list *list, unsigned max_count,
                                              struct io_request **requests)
{
    unsigned count = 0;
    while (count < max_count && list->first != NULL)
        requests[count++] = request_list_take(list);
    return count;
}

/** Put all of `more` behind the others; `more` is then theirs. */
static inline void request_list_join(struct request_list *list, const struct request_list *more)
{
    if (more->first == NULL)
        return;
    if (list->first == NULL)
        list->first = more->first;
    else
        list->last->next = more->first;
    list->last = more->last;
    list->count += more->count;
}

#endif
