#include "topology/lspci.h"

#include <string.h>

#define ROW_BYTES 16u
#define ROW_TEXT (3u * ROW_BYTES - 1u) /* "hh hh ... hh" */

/* The value of each hex digit; other characters have bits above the low four. */
#define X 0x100
static const uint16_t digit[256] = {
    X, X, X, X, X, X, X, X,  X,  X,  X,  X,  X,  X,  X,  X,  X, X, X, X, X, X, X, X, X, X, X, X, X,
    X, X, X, X, X, X, X, X,  X,  X,  X,  X,  X,  X,  X,  X,  X, X, X, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9,
    X, X, X, X, X, X, X, 10, 11, 12, 13, 14, 15, X,  X,  X,  X, X, X, X, X, X, X, X, X, X, X, X, X,
    X, X, X, X, X, X, X, X,  X,  X,  10, 11, 12, 13, 14, 15, X, X, X, X, X, X, X, X, X, X, X, X, X,
    X, X, X, X, X, X, X, X,  X,  X,  X,  X,  X,  X,  X,  X,  X, X, X, X, X, X, X, X, X, X, X, X, X,
    X, X, X, X, X, X, X, X,  X,  X,  X,  X,  X,  X,  X,  X,  X, X, X, X, X, X, X, X, X, X, X, X, X,
    X, X, X, X, X, X, X, X,  X,  X,  X,  X,  X,  X,  X,  X,  X, X, X, X, X, X, X, X, X, X, X, X, X,
    X, X, X, X, X, X, X, X,  X,  X,  X,  X,  X,  X,  X,  X,  X, X, X, X, X, X, X, X, X, X, X, X, X,
    X, X, X, X, X, X, X, X,  X,  X,  X,  X,  X,  X,  X,  X,  X, X, X, X, X, X, X, X};
#undef X

/* Most rows of a machine's extended space are these. */
static const char zeros[] = "00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00";

static uint64_t eight(const char *p)
{
    uint64_t x;
    memcpy(&x, p, sizeof x);
    return x;
}

/* In place of memcmp: a call costs more than the whole row. */
static bool all_zeros(const char *text)
{
    uint64_t differs = 0;
    for (size_t i = 0; i + 8 <= ROW_TEXT; i += 8)
        differs |= eight(text + i) ^ eight(zeros + i);
    return (differs | (eight(text + ROW_TEXT - 8) ^ eight(zeros + ROW_TEXT - 8))) == 0;
}

static bool decode_row(const char *text, uint8_t *out)
{
    if (all_zeros(text)) {
        memset(out, 0, ROW_BYTES);
        return true;
    }
    const unsigned char *p = (const unsigned char *)text;
    unsigned wrong = 0;
    for (size_t i = 0; i < ROW_BYTES; i++, p += 3) {
        unsigned value = (unsigned)digit[p[0]] << 4 | digit[p[1]];
        wrong |= value >> 8;
        if (i + 1 < ROW_BYTES)
            wrong |= p[2] ^ (unsigned)' ';
        out[i] = (uint8_t)value;
    }
    return wrong == 0;
}

/* The row at hex->next is decoded. */
static void add_row(struct lspci_hex *hex, size_t line)
{
    if (hex->first_line == 0)
        hex->first_line = line;
    if (hex->bytes == hex->next)
        hex->bytes += ROW_BYTES;
    hex->next += ROW_BYTES;
}

void lspci_hex_run(struct lspci_hex *hex, const char **at, const char *end, size_t *number)
{
    const char *p = *at;
    static const char hexits[] = "0123456789abcdef";
    while (hex->next < sizeof hex->at) {
        size_t digits = hex->next >= 0x100 ? 3 : 2;
        if ((size_t)(end - p) < digits + 2 + ROW_TEXT + 1)
            break;
        const char *d = p;
        if (digits == 3 && *d++ != hexits[hex->next >> 8])
            break;
        if (d[0] != hexits[hex->next >> 4 & 15] || d[1] != '0' || d[2] != ':' || d[3] != ' ')
            break;
        const char *stop = d + 4 + ROW_TEXT;
        if (*stop == '\r' && stop + 1 < end)
            stop++;
        if (*stop != '\n' || !decode_row(d + 4, hex->at + hex->next))
            break;
        add_row(hex, *number);
        ++*number;
        p = stop + 1;
    }
    *at = p;
}

static bool pair_at(const char *p, size_t left)
{
    return left >= 2 && lspci_digit(p[0]) >= 0 && lspci_digit(p[1]) >= 0 &&
           (left == 2 || p[2] == ' ' || p[2] == '\t');
}

bool lspci_row_at(const char *at, const char *end)
{
    return end - at > 6 && memcmp(at, "00: ", 4) == 0 && pair_at(at + 4, (size_t)(end - at - 4));
}

bool lspci_is_row(const struct lspci_line *line)
{
    size_t i = 0;
    while (i < line->length && lspci_digit(line->text[i]) >= 0)
        i++;
    if (i < 2 || i + 1 >= line->length || line->text[i] != ':' || line->text[i + 1] != ' ')
        return false;
    return pair_at(line->text + i + 2, line->length - i - 2);
}

static enum rig_status refuse(const char *name, const struct lspci_line *line, size_t at,
                              struct rig_error *err, const char *why)
{
    rig_fail_at(err, name, line->number, line->column + at, "%s", why);
    rig_hint(err, "dump again with: " LSPCI_COMMAND);
    return RIG_BAD_INPUT;
}

/* Checks the offset at the front of a row, makes it the next one, and moves *at past the colon. */
static enum rig_status read_offset(struct lspci_hex *hex, const char *name,
                                   const struct lspci_line *line, size_t *at, struct rig_error *err)
{
    uint64_t offset = 0;
    size_t i = 0;
    for (; line->text[i] != ':'; i++)
        if (offset < 0x10000)
            offset = offset << 4 | (unsigned)lspci_digit(line->text[i]);
    if (i > 4 || offset > 0xfff)
        return refuse(name, line, 0, err,
                      "configuration space has offsets 0 to fff, and this row's is above");
    if (offset % ROW_BYTES != 0)
        return refuse(name, line, 0, err, "rows begin at multiples of 10");
    if (offset < hex->next || (hex->next == 0 && offset != 0)) {
        rig_fail_at(err, name, line->number, line->column,
                    "the row at offset %02zx was expected here", hex->next);
        rig_hint(err, "a dump has one row for every 16 bytes, in order");
        return RIG_BAD_INPUT;
    }
    hex->next = offset;
    *at = i + 1;
    return RIG_OK;
}

enum rig_status lspci_hex_row(struct lspci_hex *hex, const char *name,
                              const struct lspci_line *line, struct rig_error *err)
{
    size_t at = 0;
    enum rig_status status = read_offset(hex, name, line, &at, err);
    if (status != RIG_OK)
        return status;
    for (size_t i = 0; i < ROW_BYTES; i++) {
        while (at < line->length && (line->text[at] == ' ' || line->text[at] == '\t'))
            at++;
        if (at == line->length)
            return refuse(name, line, at, err, "the row ends before its 16 bytes do");
        if (!pair_at(line->text + at, line->length - at))
            return refuse(name, line, at, err, "two hex digits were expected here");
        int high = lspci_digit(line->text[at]), low = lspci_digit(line->text[at + 1]);
        hex->at[hex->next + i] = (uint8_t)(high << 4 | low);
        at += 2;
    }
    if (at != line->length)
        return refuse(name, line, at, err, "the row goes on after its 16 bytes");
    add_row(hex, line->number);
    return RIG_OK;
}
