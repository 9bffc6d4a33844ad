#include "base/inject.h"

#include <stddef.h>

static inject_function *reached;
static void *reached_context;

void inject_set(inject_function *function, void *context)
{
    reached_context = context;
    reached = function;
}

void inject_reach(const char *point)
{
    if (reached != NULL)
        reached(point, reached_context);
}
