# rigmem: build, test, install. `make help` lists the targets.
#
# VARIANT chooses how things are built: release (default), asan, tsan, coverage. Each has its own
# directory under build/.

SHELL := /bin/bash
.DELETE_ON_ERROR:
.SECONDARY:

VERSION := $(shell sed -n 's/^.define RIG_VERSION "\(.*\)"/\1/p' lib/rigmem.h)
PREFIX ?= /usr/local
DESTDIR ?=
BINDIR = $(PREFIX)/bin
LIBDIR = $(PREFIX)/lib
INCLUDEDIR = $(PREFIX)/include
MANDIR = $(PREFIX)/share/man

VARIANT ?= release
B := build/$(VARIANT)

CC ?= gcc
WARNINGS := -Wall -Wextra -Werror -Wconversion -Wshadow -Wvla -Wundef -Wstrict-prototypes \
	-Wmissing-prototypes -Wformat=2 -Wpointer-arith -Wcast-qual -Wwrite-strings
CPPFLAGS += -Ilib -D_GNU_SOURCE
CFLAGS ?= -O2 -g
CFLAGS_release :=
CFLAGS_asan := -O1 -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
CFLAGS_tsan := -O1 -fsanitize=thread
CFLAGS_coverage := -O0 --coverage
ALL_CFLAGS = -std=c17 $(WARNINGS) $(CFLAGS) $(CFLAGS_$(VARIANT))
LIBS := -lpci -ljansson -ldl -lpthread

LIB_SRC := $(sort $(wildcard lib/*/*.c lib/*/*/*.c))
CMD_SRC := $(sort $(wildcard cmd/*.c))
UNIT_SRC := $(sort $(wildcard tests/unit/test_*.c))
UNIT_HELP := $(sort $(filter-out $(UNIT_SRC),$(wildcard tests/unit/*.c)))
LIB_OBJ := $(LIB_SRC:%.c=$(B)/%.o)
CMD_OBJ := $(CMD_SRC:%.c=$(B)/%.o)
UNIT_BIN := $(UNIT_SRC:tests/unit/%.c=$(B)/unit/%)

.PHONY: all
all: $(B)/rigmem $(B)/librigmem.a

$(B)/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(ALL_CFLAGS) -MMD -MP -c -o $@ $<

# The static library defines the names of rigmem.h and no others.
$(B)/librigmem.symbols: lib/rigmem.h
	@mkdir -p $(@D)
	grep -oE '\brig_[a-z0-9_]+\(' $< | tr -d '(' | sort -u > $@

$(B)/librigmem.a: $(LIB_OBJ) $(B)/librigmem.symbols
	ld -r -o $(B)/librigmem.o $(LIB_OBJ)
	objcopy --keep-global-symbols=$(B)/librigmem.symbols $(B)/librigmem.o
	rm -f $@
	ar rcs $@ $(B)/librigmem.o

$(B)/rigmem: $(CMD_OBJ) $(B)/librigmem.a
	$(CC) $(ALL_CFLAGS) $(LDFLAGS) -o $@ $^ $(LIBS)

# Unit tests see the library's own headers and objects.
$(B)/unit/%: tests/unit/%.c $(UNIT_HELP) $(LIB_OBJ)
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) -Itests/unit $(ALL_CFLAGS) $(LDFLAGS) -MMD -MP -MF $@.d -o $@ $< $(UNIT_HELP) \
		$(LIB_OBJ) -lcmocka -lm $(LIBS)

.PHONY: unit
unit: $(UNIT_BIN)
	@for t in $(UNIT_BIN); do echo "== $$t"; $$t || exit 1; done

.PHONY: clean
clean:
	rm -rf build

-include $(LIB_OBJ:.o=.d) $(CMD_OBJ:.o=.d) $(UNIT_BIN:=.d)
