#include "stage.h"

#include "rigs.h"

#include "../../cmd/cli.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define WORDS_MAX 32
#define TEXT_MAX 65536
#define FILES_MAX 32
/* A command that takes longer hangs. */
#define SECONDS_MAX 60

struct shim *stage_shim;

static char directory[] = "/dev/shm/rigmem-crash-XXXXXX";
static int input;     /* standard input of commands */
static int output[2]; /* standard output and standard error of commands */
static char text[2][TEXT_MAX];

int stage_soak(void)
{
    const char *soak = getenv("RIGMEM_SOAK");
    int factor = soak ? atoi(soak) : 1;
    return factor > 1 ? factor : 1;
}

int stage_thin(void)
{
#if defined(__SANITIZE_ADDRESS__)
    return stage_soak() > 1 ? 1 : 5;
#else
    return 1;
#endif
}

/* ---- the directory */

void stage_empty(const char *path)
{
    DIR *dir = opendir(path);
    for (struct dirent *e = dir ? readdir(dir) : NULL; e; e = readdir(dir)) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        char below[512];
        snprintf(below, sizeof below, "%s/%s", path, e->d_name);
        if (unlink(below) != 0) {
            stage_empty(below);
            rmdir(below);
        }
    }
    if (dir)
        closedir(dir);
}

static void write_machine(const char *path, const char *functions)
{
    struct rig_topology *t = build_machine(functions, "GenuineIntel:6");
    char *capture;
    size_t bytes;
    assert_int_equal(rig_topology_capture(t, false, &capture, &bytes, NULL), RIG_OK);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_int_equal(fwrite(capture, 1, bytes, f), bytes);
    assert_int_equal(fclose(f), 0);
    free(capture);
    rig_topology_free(t);
}

void stage_machines(const char *ids)
{
    char list[2][1024];
    snprintf(list[0], sizeof list[0],
             RIG_SWITCH "03:00.0 ep id=%s gpu=64/64\n04:00.0 ep id=%s gpu=64/64\n"
                        "05:00.0 ep id=%s gpu=64/64\n",
             ids, ids, ids);
    snprintf(list[1], sizeof list[1],
             RIG_SWITCH "03:00.0 ep id=%s gpu=64/64 iommu=translate\n"
                        "04:00.0 ep id=%s gpu=64/64 iommu=translate\n",
             ids, ids);
    write_machine("machine.json", list[0]);
    write_machine("iommu.json", list[1]);
}

void stage_open(void)
{
    /* Large tables come from the kernel, as in a process that runs one command: as zeros. */
    mallopt(M_MMAP_THRESHOLD, 128 * 1024);
    if (!mkdtemp(directory)) {
        memcpy(directory, "/var/tmp/rigmem-cr-XXXXXX", sizeof "/var/tmp/rigmem-cr-XXXXXX");
        assert_non_null(mkdtemp(directory));
    }
    assert_int_equal(chdir(directory), 0);
    assert_int_equal(mkdir("s", 0700), 0);
    stage_machines("10de:20b5");
    int data = open("data", O_RDWR | O_CREAT, 0600);
    assert_true(data >= 0 && ftruncate(data, 65536) == 0);
    close(data);
    FILE *script = fopen("script", "w");
    assert_true(script && fputs(STAGE_SCRIPT, script) >= 0 && fclose(script) == 0);
    input = memfd_create("input", 0);
    assert_true(input >= 0);
    for (int i = 0; i < 2; i++) {
        output[i] = memfd_create("output", 0);
        assert_true(output[i] >= 0);
    }
    stage_shim = shim_new();
    assert_non_null(stage_shim);
    setenv("RIGMEM_STATE", STAGE_STATE, 1);
    unsetenv("NO_COLOR");
}

void stage_close(void)
{
    assert_int_equal(chdir("/"), 0);
    stage_empty(directory);
    rmdir(directory);
}

bool stage_has(const char *name)
{
    char path[512];
    struct stat st;
    snprintf(path, sizeof path, "s/%s", name);
    return lstat(path, &st) == 0;
}

int stage_count(void)
{
    DIR *dir = opendir("s");
    int count = 0;
    assert_non_null(dir);
    for (struct dirent *e = readdir(dir); e; e = readdir(dir))
        count += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
    closedir(dir);
    return count;
}

char *stage_state(void)
{
    FILE *f = fopen(STAGE_STATE, "r");
    if (!f)
        return strdup("");
    char *state = NULL;
    size_t room = 0;
    ssize_t got = getdelim(&state, &room, EOF, f);
    fclose(f);
    if (got >= 0)
        return state;
    free(state);
    return strdup("");
}

/* ---- what is in s/, sparse files with what they hold */

struct piece {
    off_t at;
    size_t bytes, place; /* in `held` */
};

static struct file {
    char path[96];
    off_t bytes;
    int pieces;
    struct piece piece[64];
} saved[FILES_MAX];
static int saved_count;
static uint8_t held[8 << 20];
static size_t held_used;

static void save_file(const char *path)
{
    struct file *f = &saved[saved_count++];
    assert_true(saved_count <= FILES_MAX);
    int fd = open(path, O_RDONLY);
    assert_true(fd >= 0);
    *f = (struct file){.bytes = lseek(fd, 0, SEEK_END)};
    snprintf(f->path, sizeof f->path, "%.90s", path);
    off_t end = 0;
    for (off_t at; (at = lseek(fd, end, SEEK_DATA)) >= 0;) {
        struct piece *p = &f->piece[f->pieces++];
        assert_true(f->pieces <= 64);
        end = lseek(fd, at, SEEK_HOLE);
        *p = (struct piece){at, (size_t)(end - at), held_used};
        assert_true(sizeof held - held_used >= p->bytes);
        assert_int_equal(pread(fd, held + held_used, p->bytes, at), p->bytes);
        held_used += p->bytes;
    }
    close(fd);
}

static void save_directory(const char *path)
{
    DIR *dir = opendir(path);
    assert_non_null(dir);
    for (struct dirent *e = readdir(dir); e; e = readdir(dir)) {
        char below[512];
        struct stat st;
        snprintf(below, sizeof below, "%s/%s", path, e->d_name);
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        assert_int_equal(lstat(below, &st), 0);
        if (S_ISDIR(st.st_mode)) {
            struct file *f = &saved[saved_count++];
            *f = (struct file){.bytes = -1};
            snprintf(f->path, sizeof f->path, "%.90s", below);
            save_directory(below);
        } else {
            save_file(below);
        }
    }
    closedir(dir);
}

void stage_save(void)
{
    saved_count = 0;
    held_used = 0;
    save_directory("s");
}

void stage_restore(void)
{
    stage_empty("s");
    for (int i = 0; i < saved_count; i++) {
        const struct file *f = &saved[i];
        if (f->bytes < 0) {
            assert_int_equal(mkdir(f->path, 0700), 0);
            continue;
        }
        int fd = open(f->path, O_WRONLY | O_CREAT | O_EXCL, 0600);
        assert_true(fd >= 0 && ftruncate(fd, f->bytes) == 0);
        for (int k = 0; k < f->pieces; k++)
            assert_int_equal(
                pwrite(fd, held + f->piece[k].place, f->piece[k].bytes, f->piece[k].at),
                f->piece[k].bytes);
        close(fd);
    }
}

/* ---- a command */

static int split(char *line, const char *words[WORDS_MAX])
{
    int count = 0;
    for (char *save, *word = strtok_r(line, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
        assert_true(count < WORDS_MAX);
        words[count++] = word;
    }
    return count;
}

static int open_files(void)
{
    int count = 0;
    for (int fd = 0; fd < 64; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

/* What the program does with a command line. */
static int run(const char *line)
{
    char copy[1024];
    const char *words[WORDS_MAX];
    snprintf(copy, sizeof copy, "%s", line);
    int count = split(copy, words);
    struct cli cli = {0};
    out_start(&cli.out, STDOUT_FILENO);
    int code = cli_run(&cli, count, words);
    out_end(&cli.out);
    return code;
}

void stage_input(const char *lines)
{
    assert_int_equal(ftruncate(input, 0), 0);
    assert_int_equal(pwrite(input, lines, strlen(lines), 0), strlen(lines));
}

static void become_command(void)
{
    lseek(input, 0, SEEK_SET);
    dup2(input, STDIN_FILENO);
    dup2(output[0], STDOUT_FILENO);
    dup2(output[1], STDERR_FILENO);
    signal(SIGPIPE, SIG_IGN);
    alarm(SECONDS_MAX);
}

static void clear_output(void)
{
    for (int i = 0; i < 2; i++) {
        assert_int_equal(ftruncate(output[i], 0), 0);
        lseek(output[i], 0, SEEK_SET);
    }
}

static void read_output(struct stage_end *end)
{
    for (int i = 0; i < 2; i++) {
        ssize_t got = pread(output[i], text[i], TEXT_MAX - 1, 0);
        text[i][got > 0 ? got : 0] = '\0';
    }
    end->out = text[0];
    end->err = text[1];
}

static void watch(const char *line, struct stage_end *in_common)
{
    int files = open_files();
    shim_begin(stage_shim);
    in_common->code = run(line);
    shim_end();
    in_common->files = open_files() - files;
}

void stage_run(const char *line, const struct shim_plan *plan, struct stage_end *out_end)
{
    static struct stage_end *in_common;
    if (!in_common) {
        in_common = mmap(NULL, sizeof *in_common, PROT_READ | PROT_WRITE,
                         MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        assert_true(in_common != MAP_FAILED);
    }
    clear_output();
    memset(stage_shim, 0, offsetof(struct shim, op));
    if (plan)
        stage_shim->plan = *plan;
    pid_t child = fork();
    if (child == 0) {
        become_command();
        watch(line, in_common);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    *out_end = *in_common;
    out_end->killed = WIFSIGNALED(status);
    out_end->signal = out_end->killed ? WTERMSIG(status) : 0;
    out_end->held = stage_shim->held;
    out_end->fired = stage_shim->fired;
    read_output(out_end);
    if (!out_end->killed && WEXITSTATUS(status) != 0)
        fail_msg("%s: ended by itself with %d: %s", line, WEXITSTATUS(status), out_end->err);
}

void stage_do(const char *lines)
{
    while (*lines) {
        char line[1024];
        struct stage_end end;
        size_t bytes = strcspn(lines, "\n");
        snprintf(line, sizeof line, "%.*s", (int)bytes, lines);
        stage_run(line, NULL, &end);
        if (end.killed || end.code != 0)
            fail_msg("%s: %d: %s", line, end.code, end.err);
        lines += bytes + (lines[bytes] == '\n');
    }
}

pid_t stage_start(const char *line)
{
    pid_t child = fork();
    if (child == 0) {
        become_command();
        _exit(run(line));
    }
    return child;
}

static long call_number(pid_t child)
{
    struct __ptrace_syscall_info info = {0};
    long got = ptrace(PTRACE_GET_SYSCALL_INFO, child, sizeof info, &info);
    return got > 0 && info.op == PTRACE_SYSCALL_INFO_ENTRY ? (long)info.entry.nr : -1;
}

bool stage_kill(const char *line, int n, long *out_call)
{
    int status;
    clear_output();
    pid_t child = fork();
    if (child == 0) {
        become_command();
        ptrace(PTRACE_TRACEME, 0, NULL, NULL);
        raise(SIGSTOP);
        _exit(run(line));
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    ptrace(PTRACE_SETOPTIONS, child, NULL, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL);
    for (int seen = 0; seen < n;) {
        assert_int_equal(ptrace(PTRACE_SYSCALL, child, NULL, NULL), 0);
        assert_int_equal(waitpid(child, &status, 0), child);
        if (WIFEXITED(status))
            return false;
        if (!WIFSTOPPED(status) || WSTOPSIG(status) != (SIGTRAP | 0x80))
            continue;
        *out_call = call_number(child);
        seen += *out_call >= 0;
    }
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    return true;
}
