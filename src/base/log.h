/*
 * log.h -- warnings and notes for people, to one sink.
 */
#ifndef FIRN_BASE_LOG_H
#define FIRN_BASE_LOG_H

enum log_level {
    LOG_WARNING, /* something works otherwise than asked for */
    LOG_NOTE,    /* something worth knowing */
};

/**
 * Where messages go; the default sink writes "warning: ..." or "note: ..." lines to standard error.
 *
 * @param level    how serious it is
 * @param text     one sentence, no newline; lives for the call only
 * @param context  what was given to log_set_sink
 */
typedef void log_sink(enum log_level level, const char *text, void *context);

/** Send messages elsewhere; NULL restores the default sink. Call it before threads are started. */
void log_set_sink(log_sink *sink, void *context);

/** Say something that works otherwise than asked for: one sentence, no newline. Any thread. */
void log_warning(const char *format, ...) __attribute__((format(printf, 1, 2)));

/** Say something worth knowing: one sentence, no newline. Any thread. */
void log_note(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
