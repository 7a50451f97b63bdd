#include "base/base.h"

/* Writes the last `digits` hex digits of value, and returns what is behind them. */
static char *put_hex(char *text, uint32_t value, int digits)
{
    for (int i = digits; i-- > 0; value >>= 4)
        text[i] = "0123456789abcdef"[value & 15u];
    return text + digits;
}

/* Tables and answers hold thousands of these, which is why it is no printf. */
char *rig_bdf_format(struct rig_bdf bdf, char text[RIG_BDF_MAX])
{
    int digits = 4;
    while (digits < 8 && bdf.domain >> (4 * digits))
        digits++;
    char *p = put_hex(text, bdf.domain, digits);
    *p++ = ':';
    p = put_hex(p, bdf.bus, 2);
    *p++ = ':';
    p = put_hex(p, bdf.device & 0x1fu, 2);
    *p++ = '.';
    p = put_hex(p, bdf.function & 7u, 1);
    *p = '\0';
    return text;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

/* Reads hex digits from *text: at least `least`, at most `most`; moves *text past them. */
static bool hex_field(const char **text, int least, int most, uint32_t *out)
{
    uint32_t value = 0;
    int digits = 0;
    while (digits < most && hex_digit(**text) >= 0) {
        value = value << 4 | (uint32_t)hex_digit(**text);
        (*text)++;
        digits++;
    }
    *out = value;
    return digits >= least && hex_digit(**text) < 0;
}

bool rig_bdf_parse(const char *text, struct rig_bdf *out_bdf)
{
    uint32_t first, bus, device, function;
    const char *p = text;
    bool short_form = text[0] && text[1] && text[2] == ':' && text[3] && text[4] && text[5] == '.';
    if (short_form) {
        first = 0;
    } else {
        if (!hex_field(&p, 4, 8, &first) || *p++ != ':')
            return false;
    }
    if (!hex_field(&p, 2, 2, &bus) || *p++ != ':' || !hex_field(&p, 2, 2, &device) || *p++ != '.' ||
        !hex_field(&p, 1, 1, &function) || *p != '\0')
        return false;
    if (device > 31 || function > 7)
        return false;
    *out_bdf = (struct rig_bdf){first, (uint8_t)bus, (uint8_t)device, (uint8_t)function};
    return true;
}

int rig_bdf_compare(struct rig_bdf a, struct rig_bdf b)
{
    if (a.domain != b.domain)
        return a.domain < b.domain ? -1 : 1;
    uint32_t x = (uint32_t)a.bus << 8 | (uint32_t)a.device << 3 | a.function;
    uint32_t y = (uint32_t)b.bus << 8 | (uint32_t)b.device << 3 | b.function;
    return x < y ? -1 : x > y;
}
