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
    {.id = OPT_STATE,
     .name = "state",
     .letter = 's',
     .value = "FILE",
     .help = "the session's state file; else $RIGMEM_STATE, else one of the user's own",
     .completer = COMPLETE_FILE},
    {.id = OPT_JSON, .name = "json", .letter = 'j', .help = "print one JSON document"},
    {.id = OPT_QUIET,
     .name = "quiet",
     .letter = 'q',
     .help = "print no result and no warnings; the exit code answers"},
    {.id = OPT_VERBOSE,
     .name = "verbose",
     .letter = 'v',
     .help = "say on standard error what was read"},
    {.id = OPT_DRY_RUN,
     .name = "dry-run",
     .letter = 'n',
     .help = "change nothing: say what would come of it"},
    {.id = OPT_SCRIPT,
     .name = "script",
     .letter = 'f',
     .value = "FILE",
     .help = "run the commands of FILE, or of standard input (-)",
     .completer = COMPLETE_FILE},
    {.id = OPT_COMMANDS,
     .name = "commands",
     .letter = 'c',
     .value = "TEXT",
     .help = "run the commands of TEXT: 'CMD; CMD'"},
    {.id = OPT_KEEP_GOING,
     .name = "keep-going",
     .letter = 'k',
     .help = "go on after a command of a script failed; exit as the first that did"},
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
     .help = "only the pairs that what is tried changes, before and after"},
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

#define NAME_ROW                                                                                   \
    {                                                                                              \
        .id = OPT_NAME, .name = "name", .value = "NAME", .help = "a name for the region"           \
    }
#define BY_ROW                                                                                     \
    {                                                                                              \
        .id = OPT_BY, .name = "by", .value = "FUNCTION",                                           \
        .help = "as this function reaches it: a GPU by its tables, another by DMA",                \
        .completer = COMPLETE_FUNCTION                                                             \
    }

static const struct option_row open_rows[] = {
    {.id = OPT_FORMAT,
     .name = "format",
     .value = "FORMAT",
     .help = "of the page tables, where the GPU's ids do not tell, or another",
     .completer = COMPLETE_FORMAT},
    {.id = OPT_LINK,
     .name = "link",
     .value = "N:GPU,GPU",
     .help = "direct links join these GPUs: fabric number N",
     .completer = COMPLETE_LINK,
     .repeats = true},
    {.id = OPT_COMBINE, .name = "combine", .help = "windows on the memory BAR combine writes"},
    {.id = OPT_MASTER, .name = "master", .help = "turn bus mastering on"},
};

static const struct option_row close_rows[] = {
    {.id = OPT_FORCE,
     .name = "force",
     .help = "end the session though a function may still reach its memory"},
};

static const struct option_row alloc_rows[] = {
    {.id = OPT_UNCACHED, .name = "uncached", .help = "the GPU bypasses its caches for it"},
    NAME_ROW,
};

static const struct option_row map_host_rows[] = {
    {.id = OPT_FILE,
     .name = "file",
     .value = "PATH",
     .help = "borrow bytes of this file",
     .completer = COMPLETE_FILE},
    {.id = OPT_OFFSET,
     .name = "offset",
     .value = "N",
     .fallback = "0",
     .help = "from this byte of the file on"},
    NAME_ROW,
};

static const struct option_row map_peer_rows[] = {NAME_ROW};

static const struct option_row peek_rows[] = {BY_ROW};

static const struct option_row poke_rows[] = {
    {.id = OPT_DATA, .name = "data", .value = "HEX", .help = "these bytes: 00ff1234"},
    {.id = OPT_FILL, .name = "fill", .value = "BYTE", .help = "this byte, --length times"},
    {.id = OPT_LENGTH, .name = "length", .value = "N", .help = "how many bytes --fill writes"},
    BY_ROW,
};

#define GPU_ARGUMENT                                                                               \
    {                                                                                              \
        .name = "GPU", .help = "a GPU of the session", .completer = COMPLETE_FUNCTION              \
    }
#define PLACE_ARGUMENTS                                                                            \
    {.name = "REGION|GPU", .help = "what is looked at", .completer = COMPLETE_PLACE},              \
        {.name = "ADDRESS",                                                                        \
         .help = "after a GPU: the address in its space; after a region there is none",            \
         .optional = true},                                                                        \
    {                                                                                              \
        .name = "OFFSET", .help = "so many bytes further on", .optional = true                     \
    }

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
     .flags = COMMAND_MACHINE | COMMAND_EITHER,
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
     .flags = COMMAND_MACHINE | COMMAND_EITHER,
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
     .flags = COMMAND_MACHINE | COMMAND_EITHER,
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
     .flags = COMMAND_MACHINE | COMMAND_EITHER,
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
    {.name = "open",
     .group = "session",
     .summary = "start a session on a twin of a machine, and take GPUs",
     .about = "Starts a session on a twin of the machine that -m names, a simulated machine that "
              "behaves as its facts say, and takes its GPUs, or those named. In an open session it "
              "takes more GPUs, or one again.",
     .run = open_run,
     .text = session_text,
     .argument = {{.name = "GPU",
                   .help = "which GPUs",
                   .completer = COMPLETE_FUNCTION,
                   .optional = true,
                   .repeats = true}},
     .options = open_rows,
     .option_count = COUNT(open_rows),
     .flags = COMMAND_MACHINE | COMMAND_SESSION,
     .exits = EXITS(0) | EXITS(3) | EXITS(4) | EXITS(5) | EXITS(6)},
    {.name = "close",
     .group = "session",
     .summary = "release GPUs, or end the session",
     .about = "Releases the GPUs named: bus mastering goes off, and all they hold goes back. "
              "Without arguments it releases every GPU, gives all back, and removes the session's "
              "files.",
     .run = close_run,
     .text = close_text,
     .argument = {{.name = "GPU",
                   .help = "which GPUs",
                   .completer = COMPLETE_FUNCTION,
                   .optional = true,
                   .repeats = true}},
     .options = close_rows,
     .option_count = COUNT(close_rows),
     .flags = COMMAND_MACHINE | COMMAND_SESSION,
     .exits = EXITS(0) | EXITS(3) | EXITS(5)},
    {.name = "show",
     .group = "session",
     .summary = "the session: GPUs, regions, who keeps what",
     .about = "Lists the session's GPUs and regions, what is kept after its free and why, and what "
              "is reserved for other functions. NAME is a GPU or a region.",
     .run = show_run,
     .text = session_text,
     .argument = {{.name = "NAME",
                   .help = "one GPU or region",
                   .completer = COMPLETE_PLACE,
                   .optional = true}},
     .flags = COMMAND_MACHINE | COMMAND_SESSION,
     .exits = EXITS(0) | EXITS(3) | EXITS(5)},
    {.name = "recover",
     .group = "session",
     .summary = "take up what a killed command left",
     .about = "Tells what commands that were killed had begun, and keeps what they took until its "
              "GPU is closed, as every command does that changes the session.",
     .run = recover_run,
     .text = recover_text,
     .flags = COMMAND_MACHINE | COMMAND_SESSION,
     .exits = EXITS(0) | EXITS(3) | EXITS(5)},
    {.name = "alloc",
     .group = "memory",
     .summary = "allocate memory that a GPU addresses",
     .about = "Allocates SIZE bytes: gpu, the GPU's own memory; bar, one block of it that the "
              "process reaches by the memory BAR; host, system memory at one address for the "
              "process and the GPU.",
     .run = alloc_run,
     .text = region_text,
     .argument = {GPU_ARGUMENT,
                  {.name = "KIND",
                   .help = "where the memory is",
                   .completer = COMPLETE_CHOICE,
                   .choices = "gpu|bar|host"},
                  {.name = "SIZE", .help = "how many bytes: 4096, 64K, 2MiB"}},
     .options = alloc_rows,
     .option_count = COUNT(alloc_rows),
     .flags = COMMAND_MACHINE | COMMAND_SESSION,
     .exits = EXITS(0) | EXITS(3) | EXITS(4) | EXITS(5)},
    {.name = "map-host",
     .group = "memory",
     .summary = "map memory of the process for a GPU",
     .about = "Pins SIZE bytes at ADDRESS, of a host region or a mapped file, or bytes of a file, "
              "and maps them for the GPU at addresses of its space.",
     .run = map_host_run,
     .text = region_text,
     .argument = {GPU_ARGUMENT,
                  {.name = "ADDRESS",
                   .help = "of the process; with --file there is none",
                   .optional = true},
                  {.name = "SIZE",
                   .help = "how many bytes; with --file else up to its end",
                   .optional = true}},
     .options = map_host_rows,
     .option_count = COUNT(map_host_rows),
     .flags = COMMAND_MACHINE | COMMAND_SESSION,
     .exits = EXITS(0) | EXITS(3) | EXITS(4) | EXITS(5)},
    {.name = "map-peer",
     .group = "memory",
     .summary = "map a region of one GPU for another",
     .about = "Maps the memory of REGION for GPU at the address it has there. The memory stays "
              "until no GPU reaches it, whichever frees first.",
     .run = map_peer_run,
     .text = region_text,
     .argument = {GPU_ARGUMENT,
                  {.name = "REGION", .help = "whose memory", .completer = COMPLETE_REGION}},
     .options = map_peer_rows,
     .option_count = COUNT(map_peer_rows),
     .flags = COMMAND_MACHINE | COMMAND_SESSION,
     .exits = EXITS(0) | EXITS(3) | EXITS(4) | EXITS(5)},
    {.name = "bus",
     .group = "memory",
     .summary = "where another function reaches a region by DMA",
     .about = "Prints the bus addresses at which CLIENT, a network adapter or a drive, reaches the "
              "memory of REGION, and reserves the memory and its GPU for it until the session "
              "ends.",
     .run = bus_run,
     .text = bus_text,
     .argument = {{.name = "REGION", .help = "whose memory", .completer = COMPLETE_REGION},
                  {.name = "CLIENT", .help = "who reaches it", .completer = COMPLETE_FUNCTION}},
     .flags = COMMAND_MACHINE | COMMAND_SESSION,
     .exits = EXITS(0) | EXITS(3) | EXITS(5)},
    {.name = "free",
     .group = "memory",
     .summary = "give regions back",
     .about = "Ends the regions. Memory that a GPU or another function may still reach is kept, "
              "and the reason is told.",
     .run = free_run,
     .text = free_text,
     .argument = {{.name = "REGION",
                   .help = "an id, a name, or @last",
                   .completer = COMPLETE_REGION,
                   .repeats = true}},
     .flags = COMMAND_MACHINE | COMMAND_SESSION,
     .exits = EXITS(0) | EXITS(3) | EXITS(5)},
    {.name = "peek",
     .group = "check",
     .summary = "read memory, as the process or a device reaches it",
     .about = "Reads LENGTH bytes (else 64) of a region, or at an address of a GPU's space. With "
              "--by a GPU reads through its translation cache and tables, another function by DMA; "
              "without, the tables alone lead to the memory.",
     .run = peek_run,
     .text = peek_text,
     .argument = {PLACE_ARGUMENTS, {.name = "LENGTH", .help = "how many bytes", .optional = true}},
     .options = peek_rows,
     .option_count = COUNT(peek_rows),
     .flags = COMMAND_MACHINE | COMMAND_SESSION,
     .exits = EXITS(0) | EXITS(3) | EXITS(5)},
    {.name = "poke",
     .group = "check",
     .summary = "write memory, as the process or a device reaches it",
     .about = "Writes bytes where peek would read them.",
     .run = poke_run,
     .text = poke_text,
     .argument = {PLACE_ARGUMENTS},
     .options = poke_rows,
     .option_count = COUNT(poke_rows),
     .flags = COMMAND_MACHINE | COMMAND_SESSION,
     .exits = EXITS(0) | EXITS(3) | EXITS(5)},
    {.name = "walk",
     .group = "check",
     .summary = "each level's entry of a GPU's page tables for an address",
     .about = "Walks the tables that stand in the GPU's memory, decodes each entry, and says where "
              "the address ends. An address that nothing maps is a no.",
     .run = walk_run,
     .text = walk_text,
     .argument = {GPU_ARGUMENT, {.name = "ADDRESS", .help = "in the GPU's space"}},
     .flags = COMMAND_MACHINE | COMMAND_SESSION,
     .exits = EXITS(0) | EXITS(1) | EXITS(3) | EXITS(5)},
    {.name = "fault",
     .group = "check",
     .summary = "have the twin behave badly",
     .about = "[GPU:]flush=late|never|ok, gone=FUNCTION, failed; or for the next alloc, map-host, "
              "map-peer, bus or free: refuse=N, noroom=N, cut=N at its N-th step.",
     .run = fault_run,
     .text = fault_text,
     .argument = {{.name = "SPEC", .help = "which fault", .completer = COMPLETE_FAULT}},
     .flags = COMMAND_MACHINE | COMMAND_SESSION,
     .exits = EXITS(0) | EXITS(3) | EXITS(5)},
    {.name = "shell",
     .group = "other",
     .summary = "an interactive shell",
     .about =
         "Reads commands with history and completion. The session lives in the shell, or in "
         "the file of -s. `source FILE` runs a script there; `exit`, `quit` or the end of "
         "input ends it, an interrupt cancels the line. Where standard input is no terminal it "
         "answers line by line.",
     .run = shell_run,
     .flags = COMMAND_SHELL,
     .exits = EXITS(0)},
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
