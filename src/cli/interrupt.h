/*
 * interrupt.h -- Ctrl-C ends long work in order.
 */
#ifndef FIRN_CLI_INTERRUPT_H
#define FIRN_CLI_INTERRUPT_H

#include <stdatomic.h>

/**
 * Let the first SIGINT, SIGTERM or SIGHUP set a flag rather than end the process. The work that
 * looks at it ends early, cleans up and reports what it has; a second signal ends the process as
 * usual, for whoever will not wait. A SIGHUP that is ignored (nohup) stays ignored.
 *
 * @return the flag; static
 */
const atomic_bool *interrupt_watch(void);

#endif
