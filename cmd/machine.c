/* The machine a command is about: its source, and the facts that options give. */
#include "session.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME_MAX_BYTES 64

const char *source_name(const struct request *request)
{
    return request->settings.machine ? request->settings.machine : "live";
}

/* Reads a decimal number up to `most` from the whole of text. */
static bool parse_decimal(const char *text, unsigned long most, unsigned long *out_value)
{
    if (!*text || strspn(text, "0123456789") != strlen(text))
        return false;
    errno = 0;
    *out_value = strtoul(text, NULL, 10);
    return errno == 0 && *out_value <= most;
}

/* Reads a 16-bit word as lspci and setpci write it: hex digits, 0x before them or not. */
static bool parse_word(const char *text, uint16_t *out_word)
{
    if (text[0] == '0' && (text[1] == 'x' || text[1] == 'X'))
        text += 2;
    size_t digits = strspn(text, "0123456789abcdefABCDEF");
    if (digits == 0 || digits > 4 || text[digits])
        return false;
    *out_word = (uint16_t)strtoul(text, NULL, 16);
    return true;
}

static bool copy_name(const char *text, size_t bytes, char name[NAME_MAX_BYTES])
{
    if (bytes == 0 || bytes >= NAME_MAX_BYTES)
        return false;
    memcpy(name, text, bytes);
    name[bytes] = '\0';
    return true;
}

/* A function's address, or what may be an alias: aliases have a letter that is no hex digit. */
static bool looks_like_function(const char *name)
{
    struct rig_bdf bdf;
    return rig_bdf_parse(name, &bdf) || strspn(name, "0123456789abcdefABCDEF:.") < strlen(name);
}

/* Splits FUNCTION<separator>REST where FUNCTION ends: at the first separator after which what
   stands before is an address or an alias. */
static bool split(const char *text, char separator, char name[NAME_MAX_BYTES],
                  const char **out_rest)
{
    for (const char *p = strchr(text, separator); p; p = strchr(p + 1, separator)) {
        if (copy_name(text, (size_t)(p - text), name) && looks_like_function(name)) {
            *out_rest = p + 1;
            return true;
        }
    }
    return false;
}

/* A value that does not read: the option, and its form. */
static enum rig_status malformed(struct reply *reply, const struct given *given)
{
    char what[32], hint[160];
    snprintf(what, sizeof what, "--%s", given->option->name);
    snprintf(hint, sizeof hint, "the form is --%s %s", given->option->name,
             given->id == OPT_ASSUME
                 ? "acs=FUNCTION:WORD, bar=FUNCTION:SIZE, parent=FUNCTION:PORT or p2pdma=on|off"
                 : given->option->value);
    reply_fail(reply, RIG_INVALID, what, hint, "'%s' does not read", given->value);
    return RIG_INVALID;
}

static const char *vendor_name(const char *vendor)
{
    static const char *const names[][2] = {{"AMD", "AuthenticAMD"},
                                           {"Intel", "GenuineIntel"},
                                           {"Hygon", "HygonGenuine"},
                                           {"Zhaoxin", "  Shanghai  "},
                                           {"Centaur", "CentaurHauls"}};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcasecmp(names[i][0], vendor) == 0)
            return names[i][1];
    return vendor;
}

static enum rig_status give_cpu(struct reply *reply, const struct given *given,
                                struct rig_topology *t)
{
    const char *colon = strrchr(given->value, ':');
    char vendor[NAME_MAX_BYTES];
    unsigned long family;
    if (!colon || !copy_name(given->value, (size_t)(colon - given->value), vendor) ||
        !parse_decimal(colon + 1, 0xfff, &family))
        return malformed(reply, given);
    return rig_topology_set_cpu(t, vendor_name(vendor), (unsigned)family, NULL, &reply->err);
}

static enum rig_status give_iommu(struct reply *reply, const struct given *given,
                                  struct rig_topology *t)
{
    static const char *const word[] = {"none", "identity", "translate"};
    static const enum rig_iommu meaning[] = {RIG_IOMMU_NONE, RIG_IOMMU_IDENTITY,
                                             RIG_IOMMU_TRANSLATE};
    char name[NAME_MAX_BYTES];
    const char *rest;
    if (!split(given->value, '=', name, &rest))
        return malformed(reply, given);
    for (size_t i = 0; i < 3; i++)
        if (strcmp(rest, word[i]) == 0)
            return rig_topology_set_iommu(t, name, meaning[i], NULL, &reply->err);
    return malformed(reply, given);
}

static enum rig_status give_gpu_memory(struct reply *reply, const struct given *given,
                                       struct rig_topology *t)
{
    char name[NAME_MAX_BYTES];
    const char *rest;
    uint64_t bytes;
    if (!split(given->value, '=', name, &rest))
        return malformed(reply, given);
    enum rig_status status = rig_size_parse(rest, &bytes, &reply->err);
    if (status != RIG_OK)
        return status;
    return rig_topology_set_gpu_memory(t, name, bytes, &reply->err);
}

static enum rig_status assume_acs(struct reply *reply, const struct given *given, const char *value,
                                  struct rig_topology *t)
{
    char name[NAME_MAX_BYTES];
    const char *rest;
    uint16_t word;
    if (!split(value, ':', name, &rest) || !parse_word(rest, &word))
        return malformed(reply, given);
    return rig_topology_set_acs(t, name, word, "--assume", &reply->err);
}

static enum rig_status assume_bar(struct reply *reply, const struct given *given, const char *value,
                                  struct rig_topology *t)
{
    char name[NAME_MAX_BYTES];
    const char *rest;
    uint64_t bytes;
    if (!split(value, ':', name, &rest))
        return malformed(reply, given);
    enum rig_status status = rig_size_parse(rest, &bytes, &reply->err);
    if (status != RIG_OK)
        return status;
    return rig_topology_set_bar(t, name, bytes, "--assume", &reply->err);
}

static enum rig_status assume_parent(struct reply *reply, const struct given *given,
                                     const char *value, struct rig_topology *t)
{
    char name[NAME_MAX_BYTES];
    const char *port;
    if (!split(value, ':', name, &port) || !looks_like_function(port))
        return malformed(reply, given);
    return rig_topology_set_parent(t, name, port, "--assume", &reply->err);
}

static enum rig_status assume(struct reply *reply, const struct given *given,
                              struct rig_topology *t)
{
    const char *value = given->value;
    if (strncmp(value, "acs=", 4) == 0)
        return assume_acs(reply, given, value + 4, t);
    if (strncmp(value, "bar=", 4) == 0)
        return assume_bar(reply, given, value + 4, t);
    if (strncmp(value, "parent=", 7) == 0)
        return assume_parent(reply, given, value + 7, t);
    if (strcmp(value, "p2pdma=off") == 0 || strcmp(value, "p2pdma=on") == 0)
        return rig_topology_set_p2pdma(t, strcmp(value, "p2pdma=on") == 0, "--assume", &reply->err);
    return malformed(reply, given);
}

static enum rig_status give(struct reply *reply, const struct given *given, struct rig_topology *t)
{
    switch (given->id) {
    case OPT_CPU:
        return give_cpu(reply, given, t);
    case OPT_KERNEL:
        return rig_topology_set_kernel(t, given->value, &reply->err);
    case OPT_IOMMU:
        return give_iommu(reply, given, t);
    case OPT_GPU:
        return rig_topology_set_gpu(t, given->value, &reply->err);
    case OPT_GPU_MEMORY:
        return give_gpu_memory(reply, given, t);
    default:
        return RIG_OK;
    }
}

/* Gives the facts of options: those of --assume, or all others. */
static bool give_facts(const struct request *request, struct reply *reply, bool assumed,
                       struct rig_topology *t)
{
    for (int i = 0; i < request->givens; i++) {
        const struct given *given = &request->given[i];
        if ((given->id == OPT_ASSUME) != assumed)
            continue;
        if ((assumed ? assume(reply, given, t) : give(reply, given, t)) != RIG_OK)
            return false;
    }
    return true;
}

static void note_source(struct reply *reply, const struct rig_topology *t, const char *source)
{
    static const char *const kind[] = {
        [RIG_SOURCE_LIVE] = "a live machine",        [RIG_SOURCE_CAPTURE] = "a capture",
        [RIG_SOURCE_LSPCI_HEX] = "lspci's hex dump", [RIG_SOURCE_LSPCI_TEXT] = "lspci's text",
        [RIG_SOURCE_LSPCI_TREE] = "lspci's tree",    [RIG_SOURCE_SYSFS] = "a directory of /sys"};
    char text[512];
    const char *from = NULL;
    const struct rig_rules *rules = rig_rules_default(t, &from);
    snprintf(text, sizeof text, "%.200s is %s of %d functions; its rules are those of Linux %s: %s",
             source, kind[rig_topology_machine(t)->source], rig_topology_count(t),
             rig_rules_name(rules), from ? from : "");
    add(reply, reply->notes, text_json(text));
}

static bool load(const struct request *request, struct reply *reply, const char *source,
                 struct rig_topology **out_topology)
{
    struct rig_topology *t = NULL;
    bool of_session = (request->command->flags & COMMAND_EITHER) &&
                      session_topology(request, reply, RIG_SESSION_LOOK, &t);
    if (reply->err.status != RIG_OK ||
        (!of_session && rig_topology_load(source, &t, &reply->err) != RIG_OK))
        return false;
    for (int i = 0; i < rig_topology_warnings(t); i++)
        add(reply, reply->warnings, text_json(rig_topology_warning(t, i)));
    /* The machine of the script's or shell's own session has had the facts of the program's own
       command line since it was opened. */
    const struct request *outer =
        of_session && session_in_memory(request) ? NULL : request->settings.outer;
    if (outer && !(give_facts(outer, reply, false, t) && give_facts(outer, reply, true, t))) {
        rig_topology_free(t);
        return false;
    }
    *out_topology = t;
    return true;
}

bool machine_load(const struct request *request, struct reply *reply, const char *source,
                  struct rig_topology **out_topology)
{
    struct rig_topology *t;
    if (!load(request, reply, source, &t))
        return false;
    if (!give_facts(request, reply, false, t) || !give_facts(request, reply, true, t)) {
        rig_topology_free(t);
        return false;
    }
    note_source(reply, t, source);
    *out_topology = t;
    return true;
}

bool machine_load_both(const struct request *request, struct reply *reply, const char *source,
                       struct rig_topology **out_before, struct rig_topology **out_topology)
{
    struct rig_topology *t, *before = NULL;
    if (!load(request, reply, source, &t))
        return false;
    bool assumed = request_has(request, OPT_ASSUME);
    bool done = (assumed || rig_topology_copy(t, &before, &reply->err) == RIG_OK) &&
                give_facts(request, reply, false, t) &&
                (!assumed || rig_topology_copy(t, &before, &reply->err) == RIG_OK) &&
                give_facts(request, reply, true, t);
    if (!done) {
        rig_topology_free(before);
        rig_topology_free(t);
        return false;
    }
    note_source(reply, t, source);
    *out_before = before;
    *out_topology = t;
    return true;
}

/* The oldest rules decide for kernels before them, which is not their own answer: Linux's p2pdma
   came with 4.20 and asked for a common bridge until 5.2 (drivers/pci/p2pdma.c). */
static void warn_of_age(struct reply *reply, const struct rig_topology *t,
                        const struct rig_rules *rules)
{
    struct rig_text kernel = rig_topology_machine(t)->kernel;
    if (rules != rig_rules_at(0) || !rig_text_has(kernel) || rig_rules_for(kernel.value))
        return;
    char text[256];
    snprintf(text, sizeof text,
             "Linux %.80s is older than the oldest rules, those of %s, which answer for it: Linux "
             "has p2pdma since 4.20, and until 5.2 only below a common bridge without redirects",
             kernel.value, rig_rules_name(rules));
    add(reply, reply->warnings, text_json(text));
}

const struct rig_rules *machine_rules(const struct request *request, struct reply *reply,
                                      const struct rig_topology *t, const char **out_from)
{
    const char *version = request_value(request, OPT_RULES);
    if (!version) {
        const struct rig_rules *own = rig_rules_default(t, out_from);
        warn_of_age(reply, t, own);
        return own;
    }
    const struct rig_rules *rules = rig_rules_for(version);
    *out_from = "given by --rules";
    if (!rules)
        reply_fail(reply, RIG_INVALID, version, "rigmem version -v lists the rule sets",
                   "no rules for this kernel version");
    return rules;
}

int machine_function(struct reply *reply, const struct rig_topology *t, const char *name)
{
    int i = rig_topology_find(t, name);
    if (i < 0)
        reply_fail(reply, RIG_INVALID, name, "rigmem list shows the functions and their aliases",
                   "no such function");
    return i;
}
