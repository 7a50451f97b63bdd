# rigmem: build, test, install. `make help` lists the targets and the variables.
#
# VARIANT chooses how things are built: release (default), asan, tsan, coverage, clang, fuzz. Each has
# its own directory under build/. Every list of files is found by wildcard: a new source, test, fuzz
# target, benchmark, man page or completion needs no line here.

SHELL := /bin/bash
.DELETE_ON_ERROR:
.SECONDARY:
.SUFFIXES:
MAKEFLAGS += --no-print-directory --no-builtin-rules

VERSION := $(shell sed -n 's/^.define RIG_VERSION "\(.*\)"/\1/p' lib/rigmem.h)
PREFIX ?= /usr/local
DESTDIR ?=
BINDIR ?= $(PREFIX)/bin
LIBDIR ?= $(PREFIX)/lib
INCLUDEDIR ?= $(PREFIX)/include
DATADIR ?= $(PREFIX)/share
MANDIR ?= $(DATADIR)/man

VARIANT ?= release
B := build/$(VARIANT)
JOBS ?= $(shell nproc)
FUZZ_SECONDS ?= 30
# 0: another one each time.
FUZZ_SEED ?= 0
SOAK ?= 100

ifeq ($(origin CC),default)
CC := gcc
endif
AR := ar
OBJCOPY ?= objcopy
# Not where gcc warns of what its own sanitizers or counters put there.
ifneq ($(filter release clang,$(VARIANT)),)
WERROR ?= -Werror
endif
WARNINGS := -Wall -Wextra $(WERROR) -Wconversion -Wshadow -Wvla -Wundef -Wstrict-prototypes \
	-Wmissing-prototypes -Wformat=2 -Wpointer-arith -Wcast-qual -Wwrite-strings
CPPFLAGS += -Ilib -D_GNU_SOURCE
CFLAGS ?= -O2 -g
SANITIZE := -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
CFLAGS_asan := -O1 $(SANITIZE)
CFLAGS_tsan := -O1 -fsanitize=thread
# Threads count, too. A fork writes no counts: tests kill processes at each of their system calls.
CFLAGS_coverage := -O0 --coverage -fprofile-update=atomic -fno-builtin-fork
CFLAGS_fuzz := -O1 $(SANITIZE) -fsanitize=fuzzer-no-link
ifneq ($(filter clang fuzz,$(VARIANT)),)
CC := clang
endif
ALL_CFLAGS = -std=c17 $(WARNINGS) $(CFLAGS) $(CFLAGS_$(VARIANT))
# jansson and zlib are linked in where their static libraries are at hand: a command starts sooner
# so. libpci and readline are loaded when they are used.
archive_or = $(if $(filter /%,$(shell $(CC) -print-file-name=lib$(1).a)),-l:lib$(1).a,-l$(1))
LIBS := -Wl,--as-needed $(call archive_or,jansson) $(call archive_or,z) -ldl -lpthread

LIB_SRC := $(sort $(wildcard lib/*/*.c lib/*/*/*.c))
CMD_SRC := $(sort $(wildcard cmd/*.c))
UNIT_SRC := $(sort $(wildcard tests/unit/test_*.c))
UNIT_HELP := $(sort $(filter-out $(UNIT_SRC),$(wildcard tests/unit/*.c)))
CRASH_SRC := $(sort $(wildcard tests/crash/test_*.c))
CRASH_HELP := $(sort $(filter-out $(CRASH_SRC),$(wildcard tests/crash/*.c)))
FUZZ_SRC := $(sort $(wildcard tests/fuzz/fuzz_*.c))
BENCH_SRC := $(sort $(wildcard tests/bench/bench_*.c))
BENCH_TOOL_SRC := $(sort $(wildcard tests/bench/tools/*.c))
BATS := $(sort $(wildcard tests/*.bats))
HOUSE_BATS := $(sort $(wildcard tests/house/*.bats))
MAN := $(sort $(wildcard man/*.[1-8]))
HEADERS := $(sort $(wildcard lib/*.h lib/*/*.h lib/*/*/*.h cmd/*.h tests/*/*.h tests/*/*/*.h))
C_FILES := $(sort $(LIB_SRC) $(CMD_SRC) $(wildcard tests/*/*.c tests/*/*/*.c))

LIB_OBJ := $(LIB_SRC:%.c=$(B)/%.o)
CMD_OBJ := $(CMD_SRC:%.c=$(B)/%.o)
UNIT_HELP_OBJ := $(UNIT_HELP:%.c=$(B)/%.o)
UNIT_BIN := $(UNIT_SRC:tests/unit/%.c=$(B)/unit/%)
CRASH_HELP_OBJ := $(CRASH_HELP:%.c=$(B)/%.o)
CRASH_BIN := $(CRASH_SRC:tests/crash/%.c=$(B)/crash/%)
FUZZ_BIN := $(FUZZ_SRC:tests/fuzz/%.c=$(B)/fuzz/%)
BENCH_BIN := $(BENCH_SRC:tests/bench/%.c=$(B)/bench/%)
BENCH_TOOLS := $(BENCH_TOOL_SRC:tests/bench/tools/%.c=$(B)/bench/%)
PROGRAM := $(if $(CMD_SRC),$(B)/rigmem)

# Short lines; V=1 shows the commands themselves.
ifeq ($(V),1)
Q :=
say = @:
else
Q := @
say = @printf '  %-7s %s\n' $(1) $(2)
endif

.PHONY: all
all: $(PROGRAM) $(B)/librigmem.a

# ---- build

# Holds what the objects were made with and of: a change of either makes them anew.
FLAGS_NOW = $(CC) $(CPPFLAGS) $(ALL_CFLAGS) $(LDFLAGS) $(LIBS) : $(LIB_SRC) $(CMD_SRC) $(UNIT_HELP) \
	$(CRASH_HELP)
$(B)/flags: FORCE
	@mkdir -p $(@D)
	@echo '$(FLAGS_NOW)' | cmp -s - $@ || echo '$(FLAGS_NOW)' > $@
.PHONY: FORCE
FORCE:

$(B)/%.o: %.c $(B)/flags
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(CPPFLAGS) $(ALL_CFLAGS) -MMD -MP -c -o $@ $<

# Loops that the compiler is to make of whole registers, which gcc 12 leaves to -O3.
$(B)/lib/gpu/page_ranges.o: private CFLAGS += -O3

# The static library defines the names of rigmem.h and no others.
$(B)/librigmem.symbols: lib/rigmem.h
	@mkdir -p $(@D)
	$(Q)grep -oE '\brig_[a-z0-9_]+\(' $< | tr -d '(' | sort -u > $@

$(B)/librigmem.a: $(LIB_OBJ) $(B)/librigmem.symbols
	$(call say,AR,$@)
	$(Q)ld -r -o $(B)/librigmem.o $(LIB_OBJ)
	$(Q)$(OBJCOPY) --keep-global-symbols=$(B)/librigmem.symbols $(B)/librigmem.o
	$(Q)rm -f $@ && $(AR) rcs $@ $(B)/librigmem.o

$(B)/rigmem: $(CMD_OBJ) $(B)/librigmem.a
	$(call say,LINK,$@)
	$(Q)$(CC) $(ALL_CFLAGS) $(LDFLAGS) -o $@ $^ $(LIBS)

# Unit tests see the library's own headers and objects.
$(B)/unit/%: tests/unit/%.c $(UNIT_HELP_OBJ) $(LIB_OBJ) $(B)/flags
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) $(CPPFLAGS) -Itests/unit $(ALL_CFLAGS) $(LDFLAGS) -MMD -MP -MF $@.d -o $@ $< \
		$(UNIT_HELP_OBJ) $(LIB_OBJ) -lcmocka -lm $(LIBS)
$(UNIT_HELP_OBJ): CPPFLAGS += -Itests/unit

# Programs in which commands go wrong: the library's and the commands' code, with the calls that
# tests/crash/shim.c names in its hands.
CRASH_WRAPS := $(shell sed -n 's/^SHIMMED.[^,]*, \([a-z_]*\), .*/-Wl,--wrap=\1/p' tests/crash/shim.c)
$(B)/crash/%: tests/crash/%.c $(CRASH_HELP_OBJ) $(UNIT_HELP_OBJ) $(LIB_OBJ) \
		$(filter-out $(B)/cmd/main.o,$(CMD_OBJ)) $(B)/flags
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) $(CPPFLAGS) -Itests/unit $(ALL_CFLAGS) $(LDFLAGS) $(CRASH_WRAPS) -MMD -MP -MF $@.d \
		-o $@ $(filter %.c %.o,$^) -lcmocka -lm $(LIBS)
$(CRASH_HELP_OBJ): CPPFLAGS += -Itests/unit

# Fuzz targets see the library and the commands' parsers; VARIANT is fuzz then.
$(B)/fuzz/%: tests/fuzz/%.c $(LIB_OBJ) $(filter-out $(B)/cmd/main.o,$(CMD_OBJ)) $(B)/flags
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) $(CPPFLAGS) $(ALL_CFLAGS) -fsanitize=fuzzer $(LDFLAGS) -MMD -MP -MF $@.d -o $@ \
		$(filter %.c %.o,$^) $(LIBS)

# Benchmarks see the library's own headers and objects; each may include what lies beside it.
$(B)/bench/%: tests/bench/%.c $(LIB_OBJ) $(B)/flags
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) $(CPPFLAGS) -Itests/bench $(ALL_CFLAGS) $(LDFLAGS) -MMD -MP -MF $@.d -o $@ $< \
		$(LIB_OBJ) -lm $(LIBS)
# What a loop costs at best is that of the best code for this processor.
$(B)/bench/bench_page_table: private CFLAGS += -O3 -march=native
$(B)/bench/%: tests/bench/tools/%.c $(B)/flags
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) $(CPPFLAGS) $(ALL_CFLAGS) $(LDFLAGS) -MMD -MP -MF $@.d -o $@ $<

-include $(wildcard $(LIB_OBJ:.o=.d) $(CMD_OBJ:.o=.d) $(UNIT_HELP_OBJ:.o=.d) $(UNIT_BIN:=.d) \
	$(CRASH_HELP_OBJ:.o=.d) $(CRASH_BIN:=.d) \
	$(FUZZ_BIN:=.d) $(BENCH_BIN:=.d) $(BENCH_TOOLS:=.d))

# ---- show

.PHONY: demo
demo:
	@tests/packages build
	@$(MAKE) -s $(PARALLEL) all
	@tests/demo $(B)/rigmem

# ---- test
#
# Each suite is one run of tests/suite, which counts it into build/results; tests/total adds up. -k
# lets the other suites run when one cannot be built.

PARALLEL = $(if $(findstring -j,$(MAKEFLAGS)),,-j$(JOBS))
RESULTS := build/results
SUITE = RESULTS=$(RESULTS) tests/suite
export ASAN_OPTIONS ?= detect_leaks=1:allocator_may_return_null=1
export UBSAN_OPTIONS ?= print_stacktrace=1
export TSAN_OPTIONS ?= halt_on_error=1

# The suites of one variant, and the names of their results.
UNIT_SUITES := $(UNIT_SRC:tests/unit/%.c=unit/%)
CRASH_SUITES := $(CRASH_SRC:tests/crash/%.c=crash/%)
BATS_SUITES := $(BATS:tests/%.bats=bats/%)
THREAD_SUITES := $(filter unit/%threads,$(UNIT_SUITES)) $(filter unit/%thread,$(UNIT_SUITES))
HOUSE_SUITES := $(HOUSE_BATS:tests/house/%.bats=house/%) house/examples
FUZZ_SUITES := $(FUZZ_SRC:tests/fuzz/%.c=fuzz/%)
BENCH_SUITES := $(BENCH_SRC:tests/bench/%.c=bench/%)
CHECKED := $(foreach v,release asan,$(addprefix $(v)/,$(UNIT_SUITES) $(CRASH_SUITES) $(BATS_SUITES))) \
	$(addprefix tsan/,$(THREAD_SUITES)) $(HOUSE_SUITES) house/specified $(FUZZ_SUITES) \
	$(BENCH_SUITES)

.PHONY: check check-suites
check:
	@tests/packages build check
	@rm -rf $(RESULTS)/check
	+@$(MAKE) -k $(PARALLEL) VARIANT=release RESULTS=$(RESULTS)/check check-suites; \
		tests/total $(RESULTS)/check $(CHECKED)

check-suites: check-release check-specified check-asan check-tsan check-fuzz check-bench

# Each variant is built by one make only.
.PHONY: check-release check-specified check-asan check-tsan check-fuzz check-bench
check-release: unit-suites crash-suites bats-suites house-suites
# The tests that the specification of GPU memory names are among those that passed.
check-specified: check-release
	@$(SUITE) -1 house/specified tests/specified $(RESULTS)
check-asan:
	+@$(MAKE) VARIANT=asan unit-suites crash-suites bats-suites
check-tsan:
	+@$(MAKE) VARIANT=tsan thread-suites
check-fuzz:
	+@$(MAKE) VARIANT=fuzz FUZZ_SEED=1 FUZZ_SECONDS=10 fuzz-suites
# After the others, so that times are not taken beside them.
check-bench: check-release check-asan check-tsan check-fuzz
	+@$(MAKE) BENCH_SHORT=1 bench-suites

.PHONY: unit-suites crash-suites bats-suites house-suites thread-suites fuzz-suites bench-suites
unit-suites: $(UNIT_SUITES) ; @:
crash-suites: $(CRASH_SUITES) ; @:
bats-suites: $(BATS_SUITES) ; @:
house-suites: $(HOUSE_SUITES) ; @:
thread-suites: $(THREAD_SUITES) ; @:
fuzz-suites: $(FUZZ_SUITES) ; @:
bench-suites: $(BENCH_SUITES) ; @:

.PHONY: $(UNIT_SUITES) $(CRASH_SUITES) $(BATS_SUITES) $(HOUSE_SUITES) $(FUZZ_SUITES) $(BENCH_SUITES)
$(UNIT_SUITES): unit/%: $(B)/unit/%
	@CMOCKA_MESSAGE_OUTPUT=TAP $(SUITE) $(VARIANT)/$@ $(TSAN_RUN) $<
$(CRASH_SUITES): crash/%: $(B)/crash/%
	@CMOCKA_MESSAGE_OUTPUT=TAP $(SUITE) $(VARIANT)/$@ $<
$(BATS_SUITES): bats/%: tests/%.bats $(PROGRAM)
	@RIGMEM=$(CURDIR)/$(B)/rigmem $(SUITE) $(VARIANT)/$@ bats --tap $<
$(filter-out house/examples,$(HOUSE_SUITES)): house/%: tests/house/%.bats all
	@RIGMEM=$(CURDIR)/$(B)/rigmem $(SUITE) $@ bats --tap $<
house/examples: all
	@RIGMEM=$(CURDIR)/$(B)/rigmem $(SUITE) $@ tests/examples README.md $(MAN)
$(FUZZ_SUITES): fuzz/%: $(B)/fuzz/%
	@$(SUITE) -1 $@ tests/fuzz/run $< $(FUZZ_SECONDS) $(FUZZ_SEED)
# One at a time: they measure.
$(BENCH_SUITES): bench/%: $(B)/bench/% $(BENCH_TOOLS) all | $(BENCH_BIN)
	@export RIGMEM=$(CURDIR)/$(B)/rigmem BENCH_TOOLS=$(CURDIR)/$(B)/bench RESULTS=$(RESULTS); \
		flock build/bench.lock tests/suite -1 $@ $<
export BENCH_SHORT

# gcc's thread sanitizer knows where a process without address randomisation lies.
TSAN_RUN = $(if $(filter tsan,$(VARIANT)),setarch -R)

.PHONY: unit unit-quick crash bats tsan fuzz soak bench coverage
unit:
	@rm -rf $(RESULTS)/$@
	+@$(MAKE) -k $(PARALLEL) RESULTS=$(RESULTS)/$@ unit-suites; \
		tests/total $(RESULTS)/$@ $(addprefix $(VARIANT)/,$(UNIT_SUITES))
# Without the long ones: what a change is tried with before it is handed on.
QUICK := $(foreach s,$(UNIT_SUITES),$(if $(strip $(foreach w,model soak lives thread,\
	$(findstring $(w),$(s)))),,$(s)))
unit-quick:
	@rm -rf $(RESULTS)/$@
	+@$(MAKE) -k $(PARALLEL) RESULTS=$(RESULTS)/$@ $(QUICK); \
		tests/total $(RESULTS)/$@ $(addprefix $(VARIANT)/,$(QUICK))
crash:
	@rm -rf $(RESULTS)/$@
	+@$(MAKE) -k $(PARALLEL) RESULTS=$(RESULTS)/$@ crash-suites; \
		tests/total $(RESULTS)/$@ $(addprefix $(VARIANT)/,$(CRASH_SUITES))
bats:
	@rm -rf $(RESULTS)/$@
	+@$(MAKE) -k $(PARALLEL) RESULTS=$(RESULTS)/$@ bats-suites; \
		tests/total $(RESULTS)/$@ $(addprefix $(VARIANT)/,$(BATS_SUITES))
tsan:
	@rm -rf $(RESULTS)/$@
	+@$(MAKE) -k $(PARALLEL) VARIANT=tsan RESULTS=$(RESULTS)/$@ thread-suites; \
		tests/total $(RESULTS)/$@ $(addprefix tsan/,$(THREAD_SUITES))
fuzz:
	@rm -rf $(RESULTS)/$@
	+@$(MAKE) -k $(PARALLEL) VARIANT=fuzz RESULTS=$(RESULTS)/$@ fuzz-suites; \
		tests/total $(RESULTS)/$@ $(FUZZ_SUITES)
soak:
	@rm -rf $(RESULTS)/$@
	+@RIGMEM_SOAK=$(SOAK) SUITE_SECONDS=86400 $(MAKE) -k $(PARALLEL) RESULTS=$(RESULTS)/$@ \
		unit-suites crash-suites bats-suites; \
		RIGMEM_SOAK=$(SOAK) SUITE_SECONDS=86400 $(MAKE) -k $(PARALLEL) VARIANT=tsan \
		RESULTS=$(RESULTS)/$@ thread-suites; \
		tests/total $(RESULTS)/$@ \
		$(addprefix release/,$(UNIT_SUITES) $(CRASH_SUITES) $(BATS_SUITES)) \
		$(addprefix tsan/,$(THREAD_SUITES))
bench: all $(BENCH_BIN) $(BENCH_TOOLS)
	@missed=0; for b in $(BENCH_BIN); do echo "== $${b##*/}"; \
		RIGMEM=$(CURDIR)/$(B)/rigmem BENCH_TOOLS=$(CURDIR)/$(B)/bench $$b || missed=1; done; \
		exit $$missed
coverage:
	@tests/packages build check coverage
	@rm -rf $(RESULTS)/$@ && find build -name '*.gcda' -delete 2>/dev/null || :
	+@$(MAKE) -k $(PARALLEL) VARIANT=coverage RESULTS=$(RESULTS)/$@ unit-suites crash-suites \
		bats-suites; \
		tests/total $(RESULTS)/$@ \
		$(addprefix coverage/,$(UNIT_SUITES) $(CRASH_SUITES) $(BATS_SUITES))
	@gcovr --root . --object-directory build/coverage --filter lib/gpu/ \
		--branches --exclude-unreachable-branches --sort-uncovered
	@gcovr --root . --object-directory build/coverage --filter lib/ --filter cmd/ \
		--print-summary --output build/coverage/files.txt
	@tests/coverage build/coverage lib/topology/

ifneq ($(wildcard tests/vm/run),)
.PHONY: check-vm
check-vm: all
	@tests/packages build check vm
	@RIGMEM=$(CURDIR)/$(B)/rigmem tests/vm/run
endif

# ---- lint

SCRIPTS := $(shell grep -rlE '^\#!.*\b(ba)?(sh|bats)\b' .ci tests 2>/dev/null | sort)
SHELL_PARTS := $(sort $(wildcard tests/*.bash tests/*/*.bash completions/*.bash))
LINTS := lint/gcc lint/clang lint/clang-tidy lint/cppcheck lint/shellcheck lint/mandoc \
	lint/clang-format

.PHONY: lint lint-steps $(LINTS)
lint:
	@tests/packages build check lint
	@rm -rf $(RESULTS)/lint
	+@$(MAKE) -k $(PARALLEL) RESULTS=$(RESULTS) lint-steps; tests/total $(RESULTS) $(LINTS)

lint-steps: $(LINTS)
lint/gcc:
	+@$(SUITE) -1 $@ $(MAKE) VARIANT=release WERROR=-Werror compile
lint/clang:
	+@$(SUITE) -1 $@ $(MAKE) VARIANT=clang WERROR=-Werror compile
# One file a process: clang-tidy 14 takes va_list for uninitialised in a second one.
lint/clang-tidy:
	@printf '%s\n' $(C_FILES) | $(SUITE) -1 $@ \
		xargs -P $(JOBS) -I {} clang-tidy --quiet {} -- $(CPPFLAGS) -Itests/unit -Itests/bench -std=c17
lint/cppcheck:
	@$(SUITE) -1 $@ cppcheck --quiet --error-exitcode=1 -j $(JOBS) --std=c11 --inline-suppr \
		--enable=warning,performance,portability --library=posix \
		--suppressions-list=.cppcheck --include=tests/cppcheck.h -Ilib -D_GNU_SOURCE $(C_FILES)
lint/shellcheck:
	@$(SUITE) -1 $@ shellcheck -x -s bash $(SHELL_PARTS) $(SCRIPTS)
lint/mandoc:
	@$(if $(MAN),$(SUITE) -1 $@ mandoc -Tlint -W warning $(MAN),$(SUITE) -1 $@ true)
lint/clang-format:
	@$(SUITE) -1 $@ clang-format --dry-run -Werror $(C_FILES) $(HEADERS)

# Everything that is compiled, tests too, nothing run.
.PHONY: compile
compile: all $(UNIT_BIN) $(CRASH_BIN) $(BENCH_BIN) $(BENCH_TOOLS)

.PHONY: format
format:
	clang-format -i $(C_FILES) $(HEADERS)

# ---- install

DOCDIR = $(DATADIR)/doc/rigmem
INSTALL_DATA = install -D -m 644
BASH_COMPLETIONS = $(DATADIR)/bash-completion/completions
ZSH_COMPLETIONS = $(DATADIR)/zsh/site-functions
FISH_COMPLETIONS = $(DATADIR)/fish/vendor_completions.d
MACHINES := $(sort $(wildcard tests/machines/*.json tests/machines/*.txt tests/machines/*.hex))

# What goes where: SOURCE:DESTINATION.
INSTALLED = $(B)/librigmem.a:$(LIBDIR)/librigmem.a lib/rigmem.h:$(INCLUDEDIR)/rigmem.h \
	$(B)/rigmem.pc:$(LIBDIR)/pkgconfig/rigmem.pc \
	$(foreach m,$(MAN),$(m):$(MANDIR)/man$(subst .,,$(suffix $(m)))/$(notdir $(m))) \
	$(patsubst %,%:$(BASH_COMPLETIONS)/rigmem,$(wildcard completions/rigmem.bash)) \
	$(patsubst %,%:$(ZSH_COMPLETIONS)/_rigmem,$(wildcard completions/_rigmem)) \
	$(patsubst %,%:$(FISH_COMPLETIONS)/rigmem.fish,$(wildcard completions/rigmem.fish)) \
	README.md:$(DOCDIR)/README.md LICENSE:$(DOCDIR)/LICENSE \
	$(foreach m,$(MACHINES),$(m):$(DOCDIR)/machines/$(notdir $(m)))

$(B)/rigmem.pc: rigmem.pc.in lib/rigmem.h FORCE
	$(Q)sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@LIBDIR@|$(LIBDIR:$(PREFIX)/%=$${prefix}/%)|' \
		-e 's|@INCLUDEDIR@|$(INCLUDEDIR:$(PREFIX)/%=$${prefix}/%)|' -e 's|@VERSION@|$(VERSION)|' $< > $@

.PHONY: install uninstall
install: all $(B)/rigmem.pc
	$(Q)install -D -m 755 $(B)/rigmem $(DESTDIR)$(BINDIR)/rigmem
	$(Q)set -e; for f in $(INSTALLED); do $(INSTALL_DATA) "$${f%%:*}" "$(DESTDIR)$${f#*:}"; done
	$(call say,INSTALL,$(DESTDIR)$(PREFIX))

uninstall:
	$(Q)rm -f $(DESTDIR)$(BINDIR)/rigmem
	$(Q)for f in $(INSTALLED); do rm -f "$(DESTDIR)$${f#*:}"; done
	$(Q)rmdir $(DESTDIR)$(DOCDIR)/machines $(DESTDIR)$(DOCDIR) 2>/dev/null || :

.PHONY: clean help
clean:
	$(Q)rm -rf build

help:
	@sed -n 's/^#| \{0,1\}//p' Makefile
#| make              build build/release/rigmem and build/release/librigmem.a
#| make demo         install what is missing, build, and show what it is for
#| make check        all tests: unit and command-line tests as release and under ASan and UBSan,
#|                   threads under TSan, examples, fuzz targets, benchmarks in short
#| make lint         gcc, clang, clang-tidy, cppcheck, shellcheck, mandoc, clang-format
#| make unit crash bats   the unit tests; commands that are killed and fail; the command-line tests
#|                   (VARIANT=asan for the sanitizers)
#| make fuzz         each fuzz target for FUZZ_SECONDS (30) from FUZZ_SEED (0: by chance)
#| make soak         the tests SOAK (100) times as long where they can be made longer
#| make bench        ratios against limits measured in the same run
#| make coverage     branches and lines that the tests reach; fails where a branch of lib/topology is
#|                   reached by none and tests/coverage.txt gives no reason
#| make install      under DESTDIR and PREFIX (/usr/local); make uninstall takes it away
#| make format       clang-format over all C files
#| make clean        remove build/
#|
#| V=1 shows commands; VARIANT=release|asan|tsan|coverage|clang|fuzz; CC, CFLAGS, LDFLAGS, JOBS;
#| WERROR= for compilers that warn of more.
