#include "topology/lspci.h"

#include "topology/rules.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* ---- words of a line */

static bool contains(struct lspci_text t, const char *word)
{
    return lspci_find(&t, word);
}

static bool of_number(char c)
{
    return lspci_digit(c) >= 0 || c == ':' || c == '.';
}

/* Takes what stands before and within the next function in prose off t; false: none is left. */
static bool next_function(struct lspci_text *t, struct rig_bdf *out)
{
    while (t->left) {
        size_t n = 0;
        while (n < t->left && !of_number(t->at[n]))
            n++;
        bool inside = n > 0 && isalnum((unsigned char)t->at[n - 1]);
        t->at += n;
        t->left -= n;
        for (n = 0; n < t->left && of_number(t->at[n]);)
            n++;
        struct lspci_text word = {t->at, n};
        inside |= n < t->left && isalnum((unsigned char)t->at[n]);
        t->at += n;
        t->left -= n;
        while (word.left && (word.at[word.left - 1] == ':' || word.at[word.left - 1] == '.'))
            word.left--;
        if (!inside && lspci_function(&word, out))
            return true;
    }
    return false;
}

/* ---- functions that redirect */

void lspci_clue_redirecting(struct lspci_clues *c, struct rig_bdf bdf)
{
    for (unsigned i = 0; i < c->redirecting_count; i++)
        if (rig_bdf_compare(c->redirecting[i], bdf) == 0)
            return;
    c->more |= c->redirecting_count == LSPCI_CLUE_FUNCTIONS;
    if (c->redirecting_count < LSPCI_CLUE_FUNCTIONS)
        c->redirecting[c->redirecting_count++] = bdf;
}

/* A line that names functions and says of them that ACS redirects there: what checkers print, and
   Linux's proposal of a parameter. Linux's other line names the two ends, which are no such. */
static void redirecting_line(struct lspci_clues *c, struct lspci_text t)
{
    struct lspci_text list = t;
    struct rig_bdf bdf;
    bool proposed =
        contains(t, "to disable ACS redirect") && lspci_after(&list, "disable_acs_redir=");
    bool told = contains(t, "ACS redirect is enabled") || contains(t, "ACS redirect is set on") ||
                contains(t, "ACS redirect enabled") || contains(t, "ReqRedir+") ||
                contains(t, "CmpltRedir+");
    if ((!proposed && !told) || contains(t, "ACSCap"))
        return;
    while (next_function(&list, &bdf))
        lspci_clue_redirecting(c, bdf);
}

/* ---- Linux's answer */

/* "amdgpu 0000:02:00.0: cannot be used for peer-to-peer DMA as the client and provider
   (0000:06:00.0) do not share ..." (Linux: drivers/pci/p2pdma.c). */
static void log_line(struct lspci_clues *c, struct lspci_text t)
{
    static const char words[] = "peer-to-peer DMA as the client and provider";
    struct lspci_text provider = t;
    if (!lspci_find(&provider, words))
        return;
    struct lspci_text client = {t.at, t.left - provider.left};
    struct rig_bdf from, to;
    if (!next_function(&client, &from) || !next_function(&provider, &to))
        return;
    c->pair = true;
    c->client = from;
    c->provider = to;
}

/* ---- host bridges */

/* The ids in "host bridge 0000:00:00.0 (8086:4c43)" and in "Host bridge not in P2PDMA whitelist:
   8086:4c43". */
static void bridge_line(struct lspci_clues *c, struct lspci_text t)
{
    if (!lspci_after(&t, "ost bridge"))
        return;
    while (t.left) {
        struct lspci_text word = t;
        uint64_t vendor, device;
        bool start = !of_number(t.at[-1]);
        if (start && lspci_number(&word, 16, 4, 4, &vendor) && lspci_skip(&word, ":") &&
            lspci_number(&word, 16, 4, 4, &device) && (!word.left || !of_number(*word.at))) {
            c->has_bridge = true;
            c->bridge_vendor = (uint16_t)vendor;
            c->bridge_device = (uint16_t)device;
            return;
        }
        t.at++;
        t.left--;
    }
}

static bool listed(uint16_t vendor, uint16_t device)
{
    int rules = rig_rules_count();
    const struct rig_rules *newest = rig_rules_at(rules - 1);
    for (int i = 0; i < newest->entries; i++) {
        const struct listed_bridge *entry = rules_entry(i);
        if (entry->vendor == vendor && (entry->device == device || entry->device == ANY_DEVICE))
            return true;
    }
    return false;
}

/* ---- matrices of nvidia-smi topo */

static struct lspci_text next_cell(struct lspci_text *t)
{
    lspci_skip_space(t);
    struct lspci_text cell = {t->at, 0};
    while (t->left && *t->at != ' ' && *t->at != '\t') {
        t->at++;
        t->left--;
        cell.left++;
    }
    return cell;
}

static bool is_word(struct lspci_text cell, const char *word)
{
    return cell.left == strlen(word) && memcmp(cell.at, word, cell.left) == 0;
}

/* A row: the name of a GPU or NIC, and a cell for each function up to the first that is none. */
static void matrix_line(struct lspci_clues *c, struct lspci_text t)
{
    static const char *const inside[] = {"X", "PIX", "PXB", "OK", "U"};
    static const char *const host[] = {"PHB", "NODE", "SYS"};
    static const char *const driver[] = {"CNS", "GNS", "TNS", "NS", "DR"};
    struct lspci_text name = next_cell(&t);
    if (!lspci_skip(&name, "GPU") && !lspci_skip(&name, "NIC"))
        return;
    for (unsigned cells = 0;; cells++) {
        struct lspci_text cell = next_cell(&t);
        bool one = false;
        for (size_t i = 0; i < RIG_ARRAY_LENGTH(inside); i++)
            one |= is_word(cell, inside[i]);
        for (size_t i = 0; i < RIG_ARRAY_LENGTH(driver); i++) {
            one |= is_word(cell, driver[i]);
            c->driver_matrix |= is_word(cell, driver[i]);
        }
        for (unsigned i = 0; i < RIG_ARRAY_LENGTH(host); i++) {
            one |= is_word(cell, host[i]);
            if (is_word(cell, host[i]))
                c->host_path = host[i];
        }
        one |= cell.left > 2 && memcmp(cell.at, "NV", 2) == 0;
        c->matrix |= one && cells > 0;
        if (!one)
            return;
    }
}

/* ---- all of them */

void lspci_clue_line(struct lspci_clues *c, const struct lspci_line *line)
{
    struct lspci_text t = lspci_text_of(line), p = t;
    struct rig_bdf bdf;
    if (!c->commas)
        c->commas = acs_list_mistake(t.at, t.left, c->comma_text);
    c->loose |=
        lspci_skip(&p, "Capabilities: [") || (contains(t, "ACSCtl:") && !next_function(&p, &bdf));
    c->piece_of_tree |= strchr("|+\\-`", *t.at) && contains(t, "-[") && contains(t, "]--");
    redirecting_line(c, t);
    log_line(c, t);
    bridge_line(c, t);
    matrix_line(c, t);
    unsigned family = contains(t, "AMD") ? amd_family_named(t.at, t.left) : 0;
    if (family > c->amd_family)
        c->amd_family = family;
}

/* The hint as it grows: sentences that do not fit are left out. */
struct sentences {
    char text[448];
    size_t used;
};

static void say(struct sentences *s, const char *sentence)
{
    size_t n = strlen(sentence), gap = s->used ? 2 : 0;
    if (s->used + gap + n >= sizeof s->text)
        return;
    memcpy(s->text + s->used, "; ", gap);
    memcpy(s->text + s->used + gap, sentence, n + 1);
    s->used += gap + n;
}

static void say_pair(struct sentences *s, const struct lspci_clues *c)
{
    char from[RIG_BDF_MAX], to[RIG_BDF_MAX], text[256];
    snprintf(text, sizeof text,
             "Linux's log in it says no for %s -> %s: no bridge is above both with nothing that "
             "redirects, and neither an AMD CPU of family 23 or later nor Linux's list of host "
             "bridges makes up for it",
             rig_bdf_format(c->client, from), rig_bdf_format(c->provider, to));
    say(s, text);
}

static void say_redirecting(struct sentences *s, const struct lspci_clues *c)
{
    char text[352], bdf[RIG_BDF_MAX];
    int n = snprintf(text, sizeof text,
                     "ACS redirects at %s%u functions in it, cleared by pci=disable_acs_redir=",
                     c->more ? "more than " : "", c->redirecting_count);
    for (unsigned i = 0; i < c->redirecting_count; i++)
        n += snprintf(text + n, sizeof text - (size_t)n, "%s%s", i ? ";" : "",
                      rig_bdf_format(c->redirecting[i], bdf));
    say(s, text);
}

static void say_bridge(struct sentences *s, const struct lspci_clues *c)
{
    char text[128];
    bool on = listed(c->bridge_vendor, c->bridge_device);
    snprintf(text, sizeof text, "host bridge %04x:%04x is %s Linux's list%s",
             (unsigned)c->bridge_vendor, (unsigned)c->bridge_device, on ? "on" : "not on",
             !on && c->redirecting_count ? ", so what is redirected to it goes no further" : "");
    say(s, text);
}

static void say_matrix(struct sentences *s, const struct lspci_clues *c)
{
    char text[320], family[48] = "";
    if (c->amd_family)
        snprintf(family, sizeof family, " (it names one of family %u)", c->amd_family);
    snprintf(text, sizeof text,
             "%s leads through a host bridge, where Linux lets requests pass on AMD CPUs of family "
             "23 or later%s, redirected or not; this library's answer hangs on the IOMMU: check "
             "that",
             c->host_path, family);
    say(s, text);
}

void lspci_clue_hint(const struct lspci_clues *c, struct rig_error *err)
{
    struct sentences s = {.used = 0};
    if (c->pair)
        say_pair(&s, c);
    if (c->commas)
        say(&s, c->comma_text);
    if (c->redirecting_count)
        say_redirecting(&s, c);
    if (c->has_bridge)
        say_bridge(&s, c);
    if (c->host_path)
        say_matrix(&s, c);
    if (c->driver_matrix)
        say(&s, "CNS, GNS, TNS and DR are what a driver allows, no facts of PCIe");
    if (s.used)
        rig_hint(err, "%s", s.text);
}
