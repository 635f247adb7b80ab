# SPDX-License-Identifier: MIT
# LinnOS: everything there is to do, from a fresh clone.

SHELL := /bin/bash
BUILD := build
VENV := .venv
PYTHON := $(VENV)/bin/python
# Kept outside the clone, so that a second clone builds quickly.
export LINNOS_CACHE ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/linnos
export CCACHE_DIR ?= $(LINNOS_CACHE)/ccache
# Everything finds the project's own commands without being told where they are.
export PATH := $(CURDIR)/$(VENV)/bin:$(CURDIR)/$(BUILD)/replayer:$(PATH):/usr/sbin:/sbin

# Tests at a time, two at least: a guest takes a core and up to 3 GB.
TEST_JOBS ?= $(shell awk -v cores=$$(nproc) '/^MemTotal/ { jobs = int($$2 / 4e6); \
	if (jobs > cores) jobs = cores; print jobs < 2 ? 2 : jobs }' /proc/meminfo)
FUZZ_SECONDS ?= 600
# What `make kernel-debian` unpacks: the kernel as Debian builds it. Of -6.1: the one Debian 12 has.
ON_DEBIAN_12 := $(filter 12,$(shell . /etc/os-release && echo $$VERSION_ID))
DEBIAN_KERNEL := $(if $(ON_DEBIAN_12),linux-image-6.12-amd64,linux-image-amd64)
DEBIAN_KERNEL_6_1 := $(if $(ON_DEBIAN_12),linux-image-amd64)
# EVAL_OPTIONS of the command line are kept, and SEEDS adds to them.
override EVAL_OPTIONS += $(if $(SEEDS),--seeds $(SEEDS))
PYTEST := $(PYTHON) -m pytest tests
PYTEST_PARALLEL := $(PYTEST) -n $(TEST_JOBS) --dist worksteal
# Tests with these marks need more than `make build`, or take long, and have targets of their own.
APART := qemu debug elasticsearch machine series stock crashes release
TEST := $(PYTEST_PARALLEL) -m "$(APART:%=not % and) not nightly"
RUNS ?= 5

# One line for each component; V=1 shows the commands.
QUIET := $(if $(V),,@)
submake = $(QUIET)echo "compiling $(1)"; $(MAKE) --no-print-directory $(if $(V),,--silent) $(if $(filter -j%,$(MAKEFLAGS)),,-j$(shell nproc)) -C $(1)
# The lab with its commands, and no more.
LAB := $(BUILD)/.deps-lab $(VENV)/.installed-demo kernel native replayer

.DEFAULT_GOAL := help
# Packages are installed before anything is compiled; each component uses all cores.
.NOTPARALLEL:
.PHONY: always help series deps venv deps-gluster deps-ceph kernel kernel-debug kernel-cluster kernel-unpatched kernel-x86 kernel-deb kernel-debian kernel-debian-6.1 module module-debian module-debian-backports native replayer liblinnos ublk agent cluster ceph install-lib install-ublk install-cluster install-ceph build deb demo plan-demo demo-cluster tour test test-busy \
	kernel-x86-kasan kernel-x86-kcsan kernel-x86-functions kernel-um-module kernel-x86-kasan-module kernel-x86-kcsan-module test-elasticsearch test-machine test-machine-13 test-machine-patched test-versions machine-kernel test-unit test-lab test-nightly test-debug test-debug-smp test-debug-module test-qemu test-series test-stock test-crashes fuzz fuzz-agent bench eval prior report docs lint release test-release clean

help: ## this list
	@echo "LinnOS. On a fresh Debian 13 or 12: make demo, make test."
	@awk -F ':.*## ' '/^[a-z0-9%.-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# --- What the rest needs -----------------------------------------------------

deps: $(BUILD)/.deps ## install the Debian packages (root, or sudo)
deps-gluster: $(BUILD)/.deps-gluster ## install the packages of `linnapp lab cluster`: GlusterFS; no service is started
deps-ceph: $(BUILD)/.deps-ceph $(BUILD)/.deps-librados ## install those of `linnapp lab cluster --engine ceph`; no service is started
list = $(1:%=packaging/apt/%.txt)
PACKAGE_LISTS := docs chroot qemu fuzz kernel-deb elasticsearch module gluster ceph
PACKAGES_INSTALLED := $(BUILD)/.deps $(patsubst %,$(BUILD)/.deps-%,libraries cluster librados programs lab machine release $(PACKAGE_LISTS))
$(BUILD)/.deps-libraries: $(call list,libraries)
$(BUILD)/.deps-cluster: $(call list,libraries cluster)
$(BUILD)/.deps-librados: $(call list,libraries cluster librados)
$(BUILD)/.deps-programs: $(call list,libraries programs)
$(BUILD)/.deps-lab: $(call list,libraries programs lab)
$(BUILD)/.deps-machine: $(call list,machine chroot)
$(BUILD)/.deps-release: $(call list,release chroot)
$(BUILD)/.deps: $(call list,libraries cluster programs lab build)
$(PACKAGE_LISTS:%=$(BUILD)/.deps-%): $(BUILD)/.deps-%: $(call list,%)
# Ceph's packages would start services.
$(BUILD)/.deps-ceph: export INSTALL := $(CURDIR)/packaging/without-services.sh
$(PACKAGES_INSTALLED):
	@packaging/apt/install.sh $^
	@mkdir -p $(BUILD)
	@touch $@

venv: $(VENV)/.installed ## the Python environment, .venv
# The scripts of a virtual environment and its editable installation name the clone that it was made for. The stamps
# hold that name: an environment that was copied or moved with its clone would run the other clone's code, so it
# is made again.
of_this_clone = $(if $(filter $(CURDIR),$(shell cat $(1) 2>/dev/null)),,always)
$(VENV)/.installed: requirements-tests.txt requirements.txt pyproject.toml $(call of_this_clone,$(VENV)/.installed)
$(VENV)/.installed-demo: requirements.txt pyproject.toml $(call of_this_clone,$(VENV)/.installed-demo)
$(VENV)/.installed $(VENV)/.installed-demo: | $(BUILD)/.deps-programs
	@! cat $(VENV)/.installed* 2>/dev/null | grep -qxvF '$(CURDIR)' || { echo "$(VENV) belongs to another folder; it is made again"; rm -rf $(VENV); }
	@echo "python: installing $< in $(VENV)"
	$(QUIET)python3 -m venv $(VENV)
	$(QUIET)$(PYTHON) -m pip install --disable-pip-version-check -q --upgrade pip
	$(QUIET)$(PYTHON) -m pip install --disable-pip-version-check $(if $(V),,-q) -r $<
	$(QUIET)$(PYTHON) -m pip install --disable-pip-version-check -q --no-deps -e .
	@echo '$(CURDIR)' | tee $(VENV)/.installed-demo >$@

kernel: $(BUILD)/.deps-lab ## the patched UML kernel (KSRC=DIR: from another 6.12 tree)
	$(QUIET)kernel/build.sh um $(if $(KSRC),--ksrc $(KSRC))

kernel-debug: $(BUILD)/.deps-lab ## the UML kernel with KASAN, lockdep and UBSAN
	$(QUIET)kernel/build.sh um-debug

kernel-cluster: $(BUILD)/.deps-lab ## the UML kernel with networks of several nodes, for `linnapp lab cluster`
	$(QUIET)kernel/build.sh um-cluster

kernel-unpatched: $(BUILD)/.deps-lab ## the UML kernel without LinnOS, for comparison
	$(QUIET)kernel/build.sh um-unpatched

kernel-um-module: $(BUILD)/.deps-lab ## the same with modules, and ours for it
	$(QUIET)kernel/build.sh um-module
	$(QUIET)kernel/module/build.sh --built $(BUILD)/linux-um-module --raid

kernel-x86: $(BUILD)/.deps $(BUILD)/.deps-qemu ## the patched x86-64 kernel for QEMU
	$(QUIET)kernel/build.sh x86

kernel-x86-functions: ## the same without what checks itself: its functions can be traced
kernel-x86-kasan kernel-x86-kcsan kernel-x86-functions kernel-x86-kasan-module kernel-x86-kcsan-module: kernel-%: $(BUILD)/.deps $(BUILD)/.deps-qemu
	$(QUIET)kernel/build.sh $*

# For kernels other than the one that runs: RELEASE=6.12.117+deb12-amd64.
module: ## the modules for a kernel that is not patched: linnos.ko (RELEASE=: not the one that runs)
	$(QUIET)kernel/module/build.sh $(if $(RELEASE),--kernel $(RELEASE))

# root installs Debian 13's newest kernel's headers, source and compiler in $(DEBIAN_13).
module-debian-backports: $(BUILD)/kernel-debian-backports/.unpacked ## the same for the newest kernel of Debian 13's backports, 7.3 (root, network)
	release=$$(ls $(<D)/lib/modules) && \
	  kernel/module/build.sh --chroot $(DEBIAN_13) --kernel $$release --raid --stock $(CURDIR)/$(<D)/lib/modules/$$release
$(BUILD)/kernel-debian-backports/.unpacked: | $(BUILD)/.deps $(BUILD)/.deps-qemu $(BUILD)/.deps-release
	tests/machine/backports_kernel.sh $(@D)
	@touch $@

module-debian: kernel-debian $(if $(ON_DEBIAN_12),kernel-debian-6.1) $(BUILD)/.deps-module ## linnos.ko, raid1.ko and raid10.ko for Debian's own kernels, 6.12 and (on Debian 12) 6.1
	for unpacked in $(patsubst %,$(BUILD)/%,kernel-debian $(if $(ON_DEBIAN_12),kernel-debian-6.1)); do \
	  release=$$(ls $$unpacked/lib/modules) && \
	  kernel/module/build.sh --kernel $$release --raid --stock $$unpacked/lib/modules/$$release || exit; \
	done

kernel-deb: $(BUILD)/.deps $(BUILD)/.deps-kernel-deb ## Debian packages of a kernel for a real machine (CONFIG=FILE: not Debian's; long)
	$(QUIET)kernel/build.sh deb $(if $(CONFIG),--config $(CONFIG)) $(if $(KSRC),--ksrc $(KSRC))

kernel-debian: $(BUILD)/kernel-debian/.unpacked ## Debian's own kernel, unpacked for QEMU: its functions can be traced
kernel-debian-6.1: $(BUILD)/kernel-debian-6.1/.unpacked ## Debian 12's own kernel, 6.1, unpacked for QEMU: `linnapp watch` is tried on it
$(BUILD)/kernel-debian-6.1/.unpacked: DEBIAN_KERNEL := $(DEBIAN_KERNEL_6_1)
$(BUILD)/kernel-debian/.unpacked $(BUILD)/kernel-debian-6.1/.unpacked: | $(BUILD)/.deps $(BUILD)/.deps-qemu
	@[ -n "$(DEBIAN_KERNEL)" ] || { echo "make: Linux 6.1 is Debian 12's; this is another release" >&2; exit 1; }
	rm -rf $(@D) && mkdir -p $(@D)
	image=$$(apt-cache depends $(DEBIAN_KERNEL) | awk '/Depends: linux-image/ { print $$2; exit }') && \
	  cd $(@D) && apt-get -q -o APT::Sandbox::User=root download $$image busybox-static && \
	  for package in *.deb; do dpkg-deb -x $$package . && rm $$package || exit; done
	depmod -b $(@D) $$(ls $(@D)/lib/modules)
	@touch $@

native: $(BUILD)/.deps-programs ## the integer engine and the trace reader as shared libraries
	$(call submake,core) OUT=$(CURDIR)/$(BUILD)/lib
	$(call submake,linnapp/native) OUT=$(CURDIR)/$(BUILD)/lib

replayer: $(BUILD)/.deps-programs ## the trace replayer
	$(call submake,replayer) OUT=$(CURDIR)/$(BUILD)/replayer

liblinnos: $(BUILD)/.deps-libraries ## the library that reads from the best replica, on any kernel
	$(call submake,liblinnos) OUT=$(CURDIR)/$(BUILD)/liblinnos

ublk: $(BUILD)/.deps-libraries ## the mirror as a block device, on any kernel
	$(call submake,liblinnos/ublk) OUT=$(CURDIR)/$(BUILD)/ublk

agent: $(BUILD)/.deps-cluster ## the agent that serves latency predictions for this node's drives
	$(call submake,cluster/agent) OUT=$(CURDIR)/$(BUILD)/agent

cluster: $(BUILD)/.deps-cluster ## the library that chooses the node that is expected to answer first
	$(call submake,cluster/client) OUT=$(CURDIR)/$(BUILD)/cluster

ceph: cluster $(BUILD)/.deps-librados ## the library that reads Ceph with it
	$(call submake,cluster/ceph) OUT=$(CURDIR)/$(BUILD)/ceph CLUSTER=$(CURDIR)/$(BUILD)/cluster

build: $(BUILD)/.deps venv kernel native replayer liblinnos ublk agent cluster ## all of the above

install-lib: liblinnos ## library, header, pkg-config file, man pages; PREFIX=/usr/local
	@$(MAKE) --no-print-directory -C liblinnos OUT=$(CURDIR)/$(BUILD)/liblinnos install

install-ublk: ublk ## linnos-ublk and its man page; PREFIX=/usr/local
	@$(MAKE) --no-print-directory -C liblinnos/ublk OUT=$(CURDIR)/$(BUILD)/ublk install

install-cluster: cluster ## the same for liblinnos-cluster; PREFIX=/usr/local
	@$(MAKE) --no-print-directory -C cluster/client OUT=$(CURDIR)/$(BUILD)/cluster install

install-ceph: ceph install-cluster ## the same for liblinnos-ceph, with liblinnos-cluster; PREFIX=/usr/local
	@$(MAKE) --no-print-directory -C cluster/ceph OUT=$(CURDIR)/$(BUILD)/ceph CLUSTER=$(CURDIR)/$(BUILD)/cluster install

deb: $(BUILD)/.deps ## Debian packages of the commands, the libraries, the modules and the agent, in build/deb
	packaging/build.sh $(BUILD)/deb

# --- What it is for ------------------------------------------------------------

demo: plan-demo $(LAB) ## the whole loop; TRACE=FILE: on your own trace
	@$(PYTHON) -m eval.demo $(if $(TRACE),--trace $(TRACE)) $(DEMO_OPTIONS)

# Printed before anything is installed.
plan-demo:
	@[ -e $(VENV)/.installed-demo ] && [ -e $(BUILD)/linux-um/linux ] || { \
	  missing=$$(packaging/apt/install.sh --missing $(call list,libraries programs lab)) && \
	  echo "make demo installs with apt (root or sudo): $${missing:-nothing, all packages are there}." && \
	  echo "It then makes a Python environment with TensorFlow in $(VENV) and compiles a kernel and programs in $(BUILD)." && \
	  echo "That takes about 10 minutes on two idle cores, the demo 2 more; 3 GB of disk. V=1 shows the commands."; }

demo-cluster: $(BUILD)/.deps venv native agent cluster kernel-cluster $(BUILD)/.deps-gluster ## a client of three GlusterFS nodes reads from the fastest one: a table and a picture, in minutes
	@$(PYTHON) -m eval.demo_cluster

tour: $(LAB) ## a minute in a terminal: bursts, linnapp top, and why reads were refused
	@linnapp tour

test: build $(BUILD)/.deps-fuzz ## Python, KUnit, and in the booted kernel
	$(TEST)

test-busy: build $(BUILD)/.deps-fuzz ## the same RUNS=5 times on a busy machine: do the same tests pass each time?
	tests/busy.sh $(RUNS) $(TEST)

test-unit: $(BUILD)/.deps venv native replayer liblinnos ublk agent cluster $(BUILD)/.deps-fuzz ## the tests that boot no kernel
	$(PYTEST_PARALLEL) -m "$(APART:%=not % and) not lab and not nightly"

test-lab: build ## the tests that boot the kernel
	$(PYTEST_PARALLEL) -m "lab and not crashes and not nightly"

test-nightly: build $(BUILD)/.deps-fuzz ## tests that take long and are not in `make test`: packages, sanitizers, 100,000 damaged models
	$(PYTEST_PARALLEL) -m "$(APART:%=not % and) nightly"

test-debug: build kernel-debug ## the block layer's tests again, under KASAN, lockdep and UBSAN
	$(PYTEST_PARALLEL) -m "debug and not qemu"

test-qemu: venv native $(BUILD)/.deps-qemu kernel-x86 ## x86-64 under QEMU: two CPUs, the nvme driver
	$(PYTEST_PARALLEL) -m "qemu and not debug and not crashes"

test-debug-smp: venv native $(BUILD)/.deps-qemu kernel-x86-kasan kernel-x86-kcsan ## two CPUs under KASAN, then under KCSAN (long)
	for kernel in kasan kcsan; do \
	  LINNOS_X86_KERNEL=$(CURDIR)/$(BUILD)/linux-x86-$$kernel/bzImage LINNOS_QEMU_PATIENCE=6 \
	    $(PYTEST) -m "qemu and not debug and not crashes" || exit 1; \
	done

test-debug-module: venv native $(BUILD)/.deps-qemu kernel-x86-kasan-module kernel-x86-kcsan-module ## the modules under KASAN and KCSAN, on kernels without LinnOS (long)
	LINNOS_QEMU_PATIENCE=6 $(PYTEST) -m "qemu and debug"

# The server that its makers publish for the tests of plugins: the real one, without some modules.
# Only tests use it, and the project's own files contain none of it; its licence is that of Elasticsearch 8:
# AGPL 3, SSPL or Elastic's own, as one likes.
ELASTICSEARCH := 8.19.4
ELASTICSEARCH_SHA256 := 553088b4c0f60f04d7c63da609aaeae372c483159f4fb8013599e91233aab0de
ELASTICSEARCH_FETCHED := $(BUILD)/elasticsearch/.fetched-$(ELASTICSEARCH)

test-elasticsearch: $(BUILD)/.deps venv native $(ELASTICSEARCH_FETCHED) ## what `linnapp watch` sends, in a real Elasticsearch
	$(PYTEST) -m elasticsearch

$(ELASTICSEARCH_FETCHED): | $(BUILD)/.deps-elasticsearch
	@mkdir -p $(@D)
	mvn -q -B dependency:copy -DoutputDirectory=$(CURDIR)/$(@D) \
	  -Dartifact=org.elasticsearch.distribution.integ-test-zip:elasticsearch:$(ELASTICSEARCH):zip
	echo "$(ELASTICSEARCH_SHA256)  $(@D)/elasticsearch-$(ELASTICSEARCH).zip" | sha256sum --check --quiet
	unzip -q -o -d $(@D) $(@D)/elasticsearch-$(ELASTICSEARCH).zip
	rm $(@D)/elasticsearch-$(ELASTICSEARCH).zip
	@touch $@

# A folder of its own, so that packages of a whole kernel in build/kernel-deb stay. KERNEL=build/kernel-deb: those.
MACHINE := $(BUILD)/machine
ifdef KERNEL
MACHINE_KERNEL := $(abspath $(KERNEL))
else
MACHINE_KERNEL := $(CURDIR)/$(MACHINE)/kernel-deb
machine-kernel: $(BUILD)/.deps $(BUILD)/.deps-kernel-deb
	@mkdir -p $(MACHINE)
	BUILD=$(MACHINE) kernel/build.sh deb --config tests/machine/kernel.config
endif

test-machine: deb $(MACHINE)/debian.img ## docs/real-machine.md: modules for Debian's own kernel, on a Debian 12 under QEMU (root; long)
	$(PYTEST)/machine/test_own_kernel.py -s -m machine

test-machine-13: release $(MACHINE)-13/debian.img ## the same on a Debian 13
	LINNOS_MACHINE=$(CURDIR)/$(MACHINE)-13 LINNOS_PACKAGES=$(CURDIR)/$(BUILD)/release/debian-13 \
	  $(PYTEST)/machine/test_own_kernel.py -s -m machine

test-machine-patched: deb machine-kernel $(MACHINE)/debian.img ## the rest of it: the patched kernel (root; long)
	LINNOS_MACHINE_KERNEL=$(MACHINE_KERNEL) $(PYTEST)/machine/test_patched_kernel.py -s -m machine

test-versions: $(BUILD)/.deps-machine ## the modules for three point releases each of Debian's 6.1 and 6.12, built in a bare Debian 12 (root; 1.5 GB are fetched)
	tests/machine/module_versions.sh $(BUILD)/versions $(VERSIONS)

$(MACHINE)/debian.img: IMAGE_RELEASE := bookworm
$(MACHINE)-13/debian.img: IMAGE_RELEASE := trixie
$(MACHINE)/debian.img $(MACHINE)-13/debian.img: tests/machine/make_image.sh | $(BUILD)/.deps-qemu $(BUILD)/.deps-machine
	tests/machine/make_image.sh $(IMAGE_RELEASE) $(@D)

test-crashes: build kernel-debian ## linnos-ublk after 200 crashes, and after 20 of QEMU by SIGKILL (long)
	$(PYTEST) -m crashes

series: ## the patch series for Linux 6.12 and 7.3, in build/series (SOURCES: folder of linux-source-*; SIGN_OFF="NAME <ADDRESS>")
	for version in 6.12 7.3; do \
	  kernel/series.sh $$version $(if $(SOURCES),--sources $(SOURCES)) $(if $(SIGN_OFF),--sign-off "$(SIGN_OFF)") || exit; \
	done

test-series: venv native ## apply the series patch by patch, compile after each patch, boot (CHROOT: Debian 13, for 7.3; root; long)
	kernel/test_series.sh 6.12
	kernel/test_series.sh 7.3 $(if $(CHROOT),--sources $(CHROOT)/usr/src --chroot $(CHROOT))
	$(PYTEST) -m series

test-stock: build kernel-unpatched ## liblinnos on a kernel without LinnOS, and replays that are the same there
	$(PYTEST) -m stock

fuzz: $(BUILD)/.deps $(BUILD)/.deps-fuzz ## the trace readers and the agent under ASan and UBSan; FUZZ_SECONDS=600
	@$(MAKE) --no-print-directory -C tests/fuzz OUT=$(CURDIR)/$(BUILD)/fuzz TOTAL_SECONDS=$(FUZZ_SECONDS) run

fuzz-agent: $(BUILD)/.deps $(BUILD)/.deps-fuzz ## the agent alone, its code and then its sockets; FUZZ_SECONDS=600 for each
	@$(MAKE) --no-print-directory -C tests/fuzz OUT=$(CURDIR)/$(BUILD)/fuzz TOTAL_SECONDS=$(FUZZ_SECONDS) run-agent run-sockets

bench: build ## speed of our own code compared with a reference (python -m eval.bench --list)
	$(PYTHON) -m eval.bench

eval: build ## the experiments that docs/evaluation.md lists first; eval-NAME: one of all; SEEDS=1: with one seed
	$(PYTHON) -m eval $(EVAL_OPTIONS)

eval-functions eval-filesystems: kernel-debian

eval-filesystems: $(BUILD)/.deps-apps

eval-apps: kernel-um-module

eval-cluster: kernel-cluster $(BUILD)/.deps-gluster

eval-ceph: kernel-cluster ceph deps-ceph

# Logs are read, and no kernel runs.
eval-real: venv native
	$(PYTHON) -m eval $(EVAL_OPTIONS) real

eval-%: build
	$(PYTHON) -m eval $(EVAL_OPTIONS) $*

prior: build ## record the lab's drives again, some ten minutes, and grow the trees of models/prior
	$(PYTHON) -m eval.prior

report: build ## a page for each experiment, with its figure and its tables
	$(PYTHON) -m eval.report

docs: $(BUILD)/venv-docs/.installed ## the docs as a site with a search, in build/site
	$(BUILD)/venv-docs/bin/python docs/build_site.py
$(BUILD)/venv-docs/.installed: docs/requirements.txt | $(BUILD)/.deps-docs
	python3 -m venv $(BUILD)/venv-docs
	$(BUILD)/venv-docs/bin/pip install -q -r docs/requirements.txt
	@touch $@

lint: venv $(BUILD)/venv-docs/.installed ## formatting, types, imports, licences, kernel style, links of the docs, hard phrases
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(PYTHON) -m mypy
	clang-format --dry-run -Werror replayer/*.[ch] {replayer,liblinnos,cluster}/*/*.[ch] cluster/*/{tests,examples}/*.[ch]
	kernel/check.sh
	$(VENV)/bin/lint-imports
	$(VENV)/bin/reuse lint --lines
	$(BUILD)/venv-docs/bin/python docs/build_site.py
	docs/check_prose.py
	$(BUILD)/venv-docs/bin/check-jsonschema -q --builtin-schema vendor.github-workflows .github/workflows/*.yml
	$(BUILD)/venv-docs/bin/check-jsonschema -q --builtin-schema vendor.github-issue-forms .github/ISSUE_TEMPLATE/[!c]*.yml

# Chroots of the Debian that this machine is not; debootstrap creates them. DEBIAN_13=/srv/trixie: another folder.
export DEBIAN_12 ?= $(LINNOS_CACHE)/bookworm
export DEBIAN_13 ?= $(LINNOS_CACHE)/trixie

release: $(BUILD)/.deps $(BUILD)/.deps-librados $(BUILD)/.deps-chroot ## all that a release consists of, in build/release (root, for the packages of the other Debian)
	packaging/release.sh $(BUILD)/release

test-release: release venv $(BUILD)/.deps-release ## each file of a release, installed in an empty place; is it the same when built elsewhere? (root, network; long)
	$(PYTEST) -m release

clean: ## remove what was built here; the cache outside the clone stays
	rm -rf $(BUILD) $(VENV) .mypy_cache .ruff_cache .pytest_cache
