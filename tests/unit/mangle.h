/* What happens to lspci's text between a terminal and the file that a maintainer gets: by mailers,
   forums, browsers, scripts and people who shorten it. Each takes a whole text and returns a new
   one, which the caller frees. */
#ifndef MANGLE_H
#define MANGLE_H

#include <stdbool.h>
#include <stddef.h>

struct mangled; /* a text that grows */

/* One of `line`, which appends what becomes of a line of n bytes, and `text` is there. */
struct mangling {
    const char *name;
    void (*line)(struct mangled *o, const char *line, size_t n);
    char *(*text)(const char *text);
    bool loses; /* facts are gone: an answer may become unknown, and no other one */
};

char *mangle(const struct mangling *m, const char *text);

/* mangle_list is the manglings that any of lspci's outputs may go through; *out_count how many. */
const struct mangling *mangle_list(size_t *out_count);

/* mangle_text_list is those that blocks of text (lspci -v) alone may go through. */
const struct mangling *mangle_text_list(size_t *out_count);

/* mangle_is_header is true iff the line starts a function; *out_place is the length of its place.
 */
bool mangle_is_header(const char *line, size_t *out_place);

/* mangle_without_block is the text without the blocks of the functions first to first + count - 1,
   `instead` in their place; NULL where it has no function `first`. */
char *mangle_without_blocks(const char *text, unsigned first, unsigned count, const char *instead);

/* mangle_elided is the text with an elision in place of the block of function number `n` from its
   line `from` on, all but the last `keep` lines of it; NULL where there is no such line. */
char *mangle_elided(const char *text, unsigned n, unsigned from, unsigned keep);

/* mangle_cut is the first n lines of text, without the last line's end if so asked; NULL where it
   has no more than that. */
char *mangle_cut(const char *text, unsigned n, bool within_line);

#endif
