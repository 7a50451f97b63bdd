/* Standard output: one buffer, written with write(2); a failed write is kept and told at the end.
 */
#ifndef CMD_OUT_H
#define CMD_OUT_H

#include <stdbool.h>
#include <stddef.h>

/* `used` bytes of `buffer` wait to be written to fd. fd -1: nothing is written, the buffer grows
   and holds everything (text made for something else than standard output). error: the errno of
   the first write or allocation that failed; nothing is written after it. Where there is no memory
   for a buffer, what goes to an fd goes through `reserve`. written: bytes that were. */
struct out {
    char *buffer;
    size_t used, capacity;
    int fd;
    int error;
    unsigned long long written;
    char reserve[512];
};

/* out_start makes o write to fd, or keep its text when fd is -1. */
void out_start(struct out *o, int fd);

/* out_end writes what waits and frees the buffer. It returns the first error's errno, or 0. */
int out_end(struct out *o);

/* out_flush writes what waits. */
void out_flush(struct out *o);

/* out_room makes `bytes` bytes of room behind the text and returns where they begin; the caller
   fills some of them and adds their number to o->used. NULL after an error. */
char *out_room(struct out *o, size_t bytes);

void out_bytes(struct out *o, const char *data, size_t bytes);
void out_text(struct out *o, const char *text);
void out_spaces(struct out *o, size_t count);
void out_format(struct out *o, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* out_escaped writes text that came from input: control characters, marks that turn the direction
   of writing, and bytes that are no UTF-8 stand as \xNN or \u{N}. */
void out_escaped(struct out *o, const char *text);

/* text_next is the number of bytes of the character at s (NUL-terminated, not at its end), and
   *out_plain whether it may be printed as it stands. A byte that begins no UTF-8 character counts
   as one that may not. */
size_t text_next(const char *s, bool *out_plain);

/* text_width is how many columns out_escaped takes for text, one a character. */
size_t text_width(const char *text);

#endif
