#include "handlers.h"

#include <string.h>

#define COUNT(a) ((int)(sizeof(a) / sizeof((a)[0])))
#define EXITS(a) (1u << (a))

static const struct option_row global_rows[] = {
    {.id = OPT_MACHINE,
     .name = "machine",
     .letter = 'm',
     .value = "SOURCE",
     .fallback = "live",
     .help = "live, live:ROOTDIR, a file or directory (capture, lspci text or hex, /sys), or -",
     .completer = COMPLETE_SOURCE},
    {.id = OPT_JSON, .name = "json", .letter = 'j', .help = "print one JSON document"},
    {.id = OPT_QUIET,
     .name = "quiet",
     .letter = 'q',
     .help = "print no result and no warnings; the exit code answers"},
    {.id = OPT_VERBOSE,
     .name = "verbose",
     .letter = 'v',
     .help = "say on standard error what was read"},
    {.id = OPT_COLOR,
     .name = "color",
     .value = "WHEN",
     .fallback = "auto",
     .help = "colour verdicts: auto, always or never",
     .completer = COMPLETE_CHOICE,
     .choices = "auto|always|never"},
    {.id = OPT_HELP, .name = "help", .letter = 'h', .help = "help for the command"},
    {.id = OPT_VERSION, .name = "version", .letter = 'V', .help = "the version"},
    {.id = OPT_CPU,
     .name = "cpu",
     .value = "VENDOR:FAMILY",
     .help = "the processor, as AMD:25 or GenuineIntel:6",
     .completer = COMPLETE_CPU,
     .fact = true},
    {.id = OPT_KERNEL,
     .name = "kernel",
     .value = "VERSION",
     .help = "the kernel's release, as uname -r prints it",
     .fact = true},
    {.id = OPT_IOMMU,
     .name = "iommu",
     .value = "FUNCTION|all=none|identity|translate",
     .help = "what the IOMMU does with a function's requests",
     .completer = COMPLETE_IOMMU,
     .repeats = true,
     .fact = true},
    {.id = OPT_GPU,
     .name = "gpu",
     .value = "FUNCTION",
     .help = "this function is a GPU",
     .completer = COMPLETE_FUNCTION,
     .repeats = true,
     .fact = true},
    {.id = OPT_GPU_MEMORY,
     .name = "gpu-memory",
     .value = "FUNCTION=SIZE",
     .help = "how much memory the GPU has",
     .completer = COMPLETE_MEMORY,
     .repeats = true,
     .fact = true},
    {.id = OPT_ASSUME,
     .name = "assume",
     .value = "FACT",
     .help = "what if: acs=FUNCTION:WORD, bar=FUNCTION:SIZE, parent=FUNCTION:PORT, p2pdma=on|off",
     .completer = COMPLETE_ASSUME,
     .repeats = true,
     .fact = true},
};

#define OUTPUT_PICTURE                                                                             \
    {.id = OPT_DOT, .name = "dot", .help = "print the picture in graphviz's language"},            \
    {                                                                                              \
        .id = OPT_OUTPUT, .name = "output", .letter = 'o', .value = "FILE",                        \
        .help = "write the picture: FILE.svg, .png, .pdf (by graphviz) or .dot",                   \
        .completer = COMPLETE_FILE                                                                 \
    }

static const struct option_row reach_rows[] = {
    {.id = OPT_ALL,
     .name = "all",
     .help = "every function that is no bridge, as client and as target"},
    {.id = OPT_WHY, .name = "why", .help = "every gate of each pair, open or closed"},
    {.id = OPT_DIFF,
     .name = "diff",
     .help = "only the pairs that --assume changes, before and after"},
    {.id = OPT_RULES,
     .name = "rules",
     .value = "VERSION",
     .help = "decide as this kernel does, whatever the machine runs",
     .completer = COMPLETE_RULES},
    OUTPUT_PICTURE,
};

static const struct option_row topo_rows[] = {OUTPUT_PICTURE};

static const struct option_row capture_rows[] = {
    {.id = OPT_OUTPUT,
     .name = "output",
     .letter = 'o',
     .value = "FILE",
     .help = "write FILE instead of standard output",
     .completer = COMPLETE_FILE},
    {.id = OPT_REDACT, .name = "redact", .help = "leave out what identifies the owner"},
};

static const struct command_row rows[] = {
    {.name = "list",
     .group = "look",
     .summary = "the machine's functions",
     .about = "Lists PCI functions with alias, class, driver, BARs, memory, NUMA node and IOMMU. "
              "FILTER is gpu, nic, nvme or bridge, a bus address or an alias, or any text that "
              "stands in a function's line.",
     .run = list_run,
     .text = list_text,
     .argument = {{.name = "FILTER",
                   .help = "which functions",
                   .completer = COMPLETE_FUNCTION,
                   .choices = "gpu|nic|nvme|bridge",
                   .optional = true}},
     .flags = COMMAND_MACHINE,
     .exits = EXITS(0) | EXITS(3) | EXITS(5)},
    {.name = "reach",
     .group = "look",
     .summary = "which function reaches which GPU's memory, and why not",
     .about = "Answers whether requests of A reach the memory of B over PCIe. Without arguments: "
              "a matrix of GPUs, NICs and NVMe drives by GPUs; with A, A's row; with both, one "
              "pair, with the answer as exit code.",
     .run = reach_run,
     .text = reach_picture_text,
     .argument = {{.name = "A",
                   .help = "who issues the requests",
                   .completer = COMPLETE_FUNCTION,
                   .optional = true},
                  {.name = "B",
                   .help = "whose memory it is",
                   .completer = COMPLETE_FUNCTION,
                   .optional = true}},
     .options = reach_rows,
     .option_count = COUNT(reach_rows),
     .flags = COMMAND_MACHINE,
     .exits = EXITS(0) | EXITS(1) | EXITS(3) | EXITS(5) | EXITS(6)},
    {.name = "topo",
     .group = "look",
     .summary = "the tree of bridges, links and ACS",
     .about = "Draws the machine's tree: host bridges with the function that represents them to "
              "Linux's list, ports with their ACS control, links, GPUs. What is unknown is ?.",
     .run = topo_run,
     .text = topo_text,
     .options = topo_rows,
     .option_count = COUNT(topo_rows),
     .flags = COMMAND_MACHINE,
     .exits = EXITS(0) | EXITS(3) | EXITS(5)},
    {.name = "capture",
     .group = "look",
     .summary = "write the machine's facts as one JSON file",
     .about = "Writes every fact of the machine, from any source and with the facts given by "
              "options, in the format of rigmem-machine(5).",
     .run = capture_run,
     .text = capture_text,
     .options = capture_rows,
     .option_count = COUNT(capture_rows),
     .flags = COMMAND_MACHINE,
     .exits = EXITS(0) | EXITS(3) | EXITS(5)},
    {.name = "diff",
     .group = "look",
     .summary = "compare two machines, or one at two times",
     .about = "Compares two sources by meaning and lists what changed, function by function. A "
              "fact that only one of them shows is no change.",
     .run = diff_run,
     .text = diff_text,
     .argument = {{.name = "A", .help = "a source", .completer = COMPLETE_SOURCE},
                  {.name = "B", .help = "another", .completer = COMPLETE_SOURCE}},
     .flags = COMMAND_MACHINE,
     .exits = EXITS(0) | EXITS(1) | EXITS(3) | EXITS(5)},
    {.name = "completion",
     .group = "other",
     .summary = "the completion script of a shell",
     .about = "Prints the script that completes rigmem's command lines in bash, zsh or fish.",
     .run = completion_run,
     .text = script_text,
     .argument = {{.name = "SHELL",
                   .help = "which shell",
                   .completer = COMPLETE_CHOICE,
                   .choices = "bash|zsh|fish"}},
     .exits = EXITS(0)},
    {.name = "help",
     .group = "other",
     .summary = "help for a command or a topic",
     .about = "Without arguments: the commands. With a command: what it takes. The topics are "
              "named at the end of the list of commands.",
     .run = help_run,
     .text = help_text,
     .argument = {{.name = "COMMAND|TOPIC",
                   .help = "what about",
                   .completer = COMPLETE_COMMAND,
                   .optional = true}},
     .exits = EXITS(0)},
    {.name = "version",
     .group = "other",
     .summary = "the version",
     .about = "Prints rigmem's version and the rule sets it knows.",
     .run = version_run,
     .text = version_text,
     .exits = EXITS(0)},
    {.name = "complete",
     .group = "other",
     .summary = "complete a command line, for the shells' scripts",
     .about = "Prints what the last of WORDS may become, one a line, with a tab and what it is.",
     .run = complete_run,
     .text = complete_text,
     .argument = {{.name = "WORDS",
                   .help = "the words so far, the last one being completed",
                   .completer = COMPLETE_WORDS,
                   .optional = true,
                   .repeats = true}},
     .flags = COMMAND_HIDDEN,
     .exits = EXITS(0)},
};

const struct command_row *commands(int *out_count)
{
    *out_count = COUNT(rows);
    return rows;
}

const struct option_row *global_options(int *out_count)
{
    *out_count = COUNT(global_rows);
    return global_rows;
}

const struct command_row *command_find(const char *name)
{
    for (int i = 0; i < COUNT(rows); i++)
        if (strcmp(rows[i].name, name) == 0)
            return &rows[i];
    return NULL;
}

const struct option_row *command_option(const struct command_row *command, int i)
{
    int own = command ? command->option_count : 0;
    if (command && i < own)
        return &command->options[i];
    return i - own < COUNT(global_rows) ? &global_rows[i - own] : NULL;
}

int command_arguments(const struct command_row *command)
{
    int count = 0;
    while (count < ARGUMENTS_MAX && command->argument[count].name)
        count++;
    return count;
}

static void synopsis_option(struct out *o, const struct option_row *row)
{
    out_text(o, " [");
    if (row->letter)
        out_format(o, "-%c", row->letter);
    else
        out_format(o, "--%s", row->name);
    if (row->value)
        out_format(o, " %s", row->value);
    out_text(o, row->repeats ? "]..." : "]");
}

void command_synopsis(struct out *o, const struct command_row *command)
{
    out_text(o, command->name);
    int open = 0;
    for (int i = 0; i < command_arguments(command); i++) {
        const struct argument_row *argument = &command->argument[i];
        out_format(o, argument->optional ? " [%s" : " %s", argument->name);
        if (argument->repeats)
            out_text(o, "...");
        open += argument->optional;
    }
    for (; open > 0; open--)
        out_text(o, "]");
    for (int i = 0; i < command->option_count; i++)
        synopsis_option(o, &command->options[i]);
}
