# SPDX-License-Identifier: MIT
# Rules that build, test and install liblinnos, liblinnos-cluster and liblinnos-ceph. Before the makefile of
# a library includes this file, it sets NAME, ABI (the number in the soname), TOP (the root of the project),
# MODULES, TESTS, THREADED (tests that use threads), HEADERS, SHARED_HEADERS (headers of another library,
# which `make uninstall` does not remove) and PAGES (man pages).
#
# `make OUT=dir` builds the static and the shared library and the tests in dir; `make check` runs the tests;
# `make check-sanitized` runs them under ASan and UBSan, and those with threads under TSan; `make
# install` copies the library, headers, pkg-config file and man pages to $(DESTDIR)$(PREFIX), `make
# uninstall` removes them; `make clean` removes the build.

# Dependency files name their targets as $(OUT)/obj/..., which make expands when it reads them, so that they
# are valid after the folder was copied or moved.
override OUT := $(abspath $(OUT))
PREFIX ?= /usr/local
CC ?= gcc
OBJCOPY ?= objcopy
CFLAGS ?= -O2 -g
override CFLAGS += -std=gnu11 -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -fPIC -pthread
override CFLAGS += $(SANITIZE)
# The core is written for the kernel, which is compiled without the strict aliasing rules.
override CFLAGS += -fno-strict-aliasing
# Link-time optimization saves a tenth of the instructions of a read. Tests are linked from the same objects
# without it, because they replace functions with --wrap.
LTO := -flto=auto -ffat-lto-objects -fno-semantic-interposition
LTO := $(if $(SANITIZE),,$(shell $(CC) $(LTO) -flinker-output=nolto-rel -r -x c /dev/null -o /dev/null 2>/dev/null && echo "$(LTO)"))
# The core uses the kernel's prototypes.
CORE := $(TOP)/core
CPPFLAGS += -D_GNU_SOURCE -I. -I$(CORE) -I$(TOP)/core/uapi
# The version of the project, which differs from that of the ABI.
VERSION := $(shell sed -n 's/^version = "\(.*\)"$$/\1/p' $(TOP)/pyproject.toml)
SHARED := $(NAME).so.$(VERSION)
SONAME := $(NAME).so.$(ABI)
PUBLIC := $(shell sed -n 's/^\t\(linnos_[a-z_]*\);$$/\1/p' $(NAME).map)
OBJS := $(MODULES:%=$(OUT)/obj/%.o)
TEST_PROGRAMS := $(TESTS:%=$(OUT)/tests/test_%)

all: $(OUT)/$(NAME).a $(OUT)/$(SHARED) tests

# Link the modules to one object in which only the public symbols are global.
$(OUT)/$(NAME).a: $(OBJS) $(NAME).map
	$(CC) $(CFLAGS) $(if $(LTO),$(LTO) -flinker-output=nolto-rel) -r -o $(OUT)/obj/whole.o $(OBJS)
	$(OBJCOPY) $(PUBLIC:%=--keep-global-symbol=%) $(OUT)/obj/whole.o
	rm -f $@.new && $(AR) rcs $@.new $(OUT)/obj/whole.o && mv $@.new $@

$(OUT)/$(SHARED): $(OBJS) $(NAME).map
	$(CC) $(CFLAGS) $(LTO) $(LDFLAGS) -shared -Wl,-soname,$(SONAME) -Wl,--version-script=$(NAME).map \
	  -Wl,--no-undefined -o $@.new $(OBJS) $(LDLIBS) && mv $@.new $@
	ln -sf $(SHARED) $(OUT)/$(SONAME)
	ln -sf $(SONAME) $(OUT)/$(NAME).so

vpath linnos_%.c $(CORE)
$(OUT)/obj/linnos_%.o: override CFLAGS += -Wno-missing-prototypes

$(OUT)/obj/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(CFLAGS) $(LTO) -MMD -MP -MT '$$(OUT)/obj/$*.o' -c -o $@ $<

tests: $(TEST_PROGRAMS)

# The makefile of the library adds the modules that a test needs.
$(OUT)/tests/%: $(OUT)/obj/tests/%.o
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) -fno-lto $(LDFLAGS) -o $@ $^ $(LDLIBS)

check: tests
	set -e; for program in $(TEST_PROGRAMS); do $(RUN) $$program; done

# Run every test under ASan and UBSan, and those with threads under TSan.
check-sanitized:
	@$(MAKE) --no-print-directory OUT=$(OUT)/asan CFLAGS="-O1 -g" \
	  SANITIZE="-fsanitize=address,undefined -fno-sanitize-recover=all" check
	@# The TSan of Debian 12 does not work with the address randomization of newer kernels.
	@$(MAKE) --no-print-directory OUT=$(OUT)/tsan CFLAGS="-O1 -g" SANITIZE=-fsanitize=thread \
	  RUN="$$(setarch -R true 2>/dev/null && echo setarch -R)" TESTS="$(THREADED)" check

# Make must not try to build a source that was moved since the last build, whose old path is still in a
# dependency file, nor a dependency file that does not exist yet.
%.c %.d: ;
-include $(OBJS:.o=.d) $(TESTS:%=$(OUT)/obj/tests/test_%.d)

ROOT = $(DESTDIR)$(PREFIX)

install: $(OUT)/$(NAME).a $(OUT)/$(SHARED)
	install -D -m 644 -t $(ROOT)/include $(HEADERS) $(SHARED_HEADERS)
	install -D -m 644 -t $(ROOT)/lib $(OUT)/$(NAME).a
	install -m 755 -t $(ROOT)/lib $(OUT)/$(SHARED)
	ln -sf $(SHARED) $(ROOT)/lib/$(SONAME)
	ln -sf $(SONAME) $(ROOT)/lib/$(NAME).so
	install -d $(ROOT)/lib/pkgconfig
	sed 's|@PREFIX@|$(PREFIX)|; s|@VERSION@|$(VERSION)|' $(NAME).pc.in >$(ROOT)/lib/pkgconfig/$(NAME).pc
	install -D -m 644 -t $(ROOT)/share/man/man3 $(PAGES:%=$(TOP)/docs/%)

uninstall:
	rm -f $(addprefix $(ROOT)/include/,$(notdir $(HEADERS))) $(ROOT)/lib/pkgconfig/$(NAME).pc \
	  $(addprefix $(ROOT)/lib/,$(NAME).a $(NAME).so $(SONAME) $(SHARED)) \
	  $(PAGES:%=$(ROOT)/share/man/man3/%)

clean:
	rm -rf $(OUT)

.PHONY: all install uninstall tests check check-sanitized clean
