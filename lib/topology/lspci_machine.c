#include "topology/lspci.h"

#include <stdio.h>
#include <string.h>

static enum rig_status refuse(const char *name, const struct lspci_line *line,
                              struct rig_error *err, const char *what)
{
    rig_fail_at(err, name, line->number, line->column, "the text tells two %s that differ", what);
    rig_hint(err, "one file holds one machine at one time; split the file");
    return RIG_BAD_INPUT;
}

static enum rig_status set_text(struct rig_topology *t, struct rig_text *text,
                                struct lspci_text value, const char *name,
                                const struct lspci_line *line, const char *what,
                                struct rig_error *err)
{
    lspci_skip_space(&value);
    if (value.left == 0)
        return RIG_OK;
    const char *kept = topology_intern(t, value.at, value.left);
    if (!kept)
        return rig_fail_memory(err);
    if (text->know == RIG_FACT_KNOWN && strcmp(text->value, kept) != 0)
        return refuse(name, line, err, what);
    *text = (struct rig_text){.value = kept, .know = RIG_FACT_KNOWN};
    return RIG_OK;
}

/* What follows `label`, blanks and a colon at the front, as /proc/cpuinfo has it. */
static bool labelled(const struct lspci_line *line, const char *label, struct lspci_text *out)
{
    *out = lspci_text_of(line);
    if (!lspci_skip(out, label))
        return false;
    lspci_skip_space(out);
    if (!lspci_skip(out, ":"))
        return false;
    lspci_skip_space(out);
    return true;
}

static enum rig_status cpuinfo_line(struct rig_topology *t, const char *name,
                                    const struct lspci_line *line, struct rig_error *err)
{
    struct rig_machine_facts *m = &t->machine;
    struct lspci_text value;
    uint64_t family;
    if (labelled(line, "vendor_id", &value))
        return set_text(t, &m->cpu_vendor, value, name, line, "vendors of the CPU", err);
    if (labelled(line, "model name", &value))
        return set_text(t, &m->cpu_name, value, name, line, "names of the CPU", err);
    if (labelled(line, "cpu family", &value) && lspci_number(&value, 10, 1, 4, &family) &&
        value.left == 0) {
        if (m->cpu_family.know == RIG_FACT_KNOWN && m->cpu_family.value != family)
            return refuse(name, line, err, "families of the CPU");
        m->cpu_family = fact_known(family);
    }
    return RIG_OK;
}

static struct lspci_text word(struct lspci_text *t)
{
    lspci_skip_space(t);
    struct lspci_text w = {t->at, 0};
    while (t->left && *t->at != ' ' && *t->at != '\t') {
        t->at++;
        t->left--;
        w.left++;
    }
    return w;
}

static bool release(struct lspci_text w)
{
    uint64_t number;
    return lspci_number(&w, 10, 1, 3, &number) && lspci_skip(&w, ".") &&
           lspci_number(&w, 10, 1, 3, &number);
}

/* `Linux HOST RELEASE #BUILD ...` of uname -a. */
static enum rig_status uname_line(struct rig_topology *t, const char *name,
                                  const struct lspci_line *line, struct rig_error *err)
{
    struct lspci_text p = lspci_text_of(line);
    if (!lspci_skip(&p, "Linux "))
        return RIG_OK;
    struct lspci_text host = word(&p), kernel = word(&p);
    lspci_skip_space(&p);
    if (!release(kernel) || p.left == 0 || *p.at != '#')
        return RIG_OK;
    enum rig_status status =
        set_text(t, &t->machine.host, host, name, line, "names of the host", err);
    if (status == RIG_OK)
        status = set_text(t, &t->machine.kernel, kernel, name, line, "kernels", err);
    return status;
}

/* `Linux version RELEASE (...)` of /proc/version and of the kernel's log. */
static enum rig_status version_line(struct rig_topology *t, const char *name,
                                    const struct lspci_line *line, struct rig_error *err)
{
    struct lspci_text p = lspci_text_of(line);
    if (!lspci_after(&p, "Linux version "))
        return RIG_OK;
    struct lspci_text kernel = word(&p);
    lspci_skip_space(&p);
    if (!release(kernel) || p.left == 0 || *p.at != '(')
        return RIG_OK;
    return set_text(t, &t->machine.kernel, kernel, name, line, "kernels", err);
}

/* `Command line: ...` of the log, `BOOT_IMAGE=...` of /proc/cmdline. */
static enum rig_status command_line(struct rig_topology *t, const char *name,
                                    const struct lspci_line *line, struct rig_error *err)
{
    struct lspci_text p = lspci_text_of(line);
    bool kernels = lspci_skip(&p, "BOOT_IMAGE=");
    if (kernels) {
        p = lspci_text_of(line);
    } else {
        kernels = (lspci_after(&p, "Kernel command line: ")) || (lspci_after(&p, "Command line: "));
    }
    if (!kernels)
        return RIG_OK;
    return set_text(t, &t->machine.command_line, p, name, line, "command lines of the kernel", err);
}

enum rig_status lspci_machine_line(struct rig_topology *t, const char *name,
                                   const struct lspci_line *line, struct rig_error *err)
{
    static enum rig_status (*const kinds[])(struct rig_topology *, const char *,
                                            const struct lspci_line *, struct rig_error *) = {
        cpuinfo_line, uname_line, version_line, command_line};
    enum rig_status status = RIG_OK;
    for (size_t i = 0; status == RIG_OK && i < RIG_ARRAY_LENGTH(kinds); i++)
        status = kinds[i](t, name, line, err);
    return status;
}
