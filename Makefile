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
DEBIAN_KERNEL := linux-image-6.12-amd64
DEBIAN_KERNEL_6_1 := linux-image-amd64
EVAL_OPTIONS := $(if $(SEEDS),--seeds $(SEEDS))
PYTEST := $(PYTHON) -m pytest tests
PYTEST_PARALLEL := $(PYTEST) -n $(TEST_JOBS) --dist worksteal
TEST := $(PYTEST_PARALLEL) -m "not qemu and not debug and not elasticsearch and not machine and not stock and not crashes and not release"
RUNS ?= 5

.DEFAULT_GOAL := help
.PHONY: always help deps venv deps-gluster deps-ceph kernel kernel-debug kernel-cluster kernel-unpatched kernel-x86 kernel-deb kernel-debian kernel-debian-6.1 module module-debian native replayer liblinnos ublk agent cluster ceph install-lib install-ublk install-cluster install-ceph build deb demo demo-cluster tour test test-busy \
	kernel-x86-kasan kernel-x86-kcsan kernel-x86-functions kernel-um-module kernel-x86-kasan-module kernel-x86-kcsan-module test-elasticsearch test-machine test-machine-patched test-versions machine-kernel test-unit test-lab test-debug test-debug-smp test-debug-module test-qemu test-stock test-crashes fuzz fuzz-agent bench eval prior report docs lint release test-release clean

help: ## this list
	@echo "LinnOS. On a fresh Debian 13 or 12: make demo, make test."
	@awk -F ':.*## ' '/^[a-z0-9%.-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# --- What the rest needs -----------------------------------------------------

deps: $(BUILD)/.deps ## install the Debian packages (root, or sudo)
deps-gluster: $(BUILD)/.deps-gluster ## install the packages of `linnapp lab cluster`: GlusterFS; no service is started
deps-ceph: $(BUILD)/.deps-ceph $(BUILD)/.deps-librados ## install those of `linnapp lab cluster --engine ceph`; no service is started
PACKAGE_LISTS := libraries librados qemu fuzz kernel-deb elasticsearch machine module gluster ceph release
PACKAGES_INSTALLED := $(BUILD)/.deps $(PACKAGE_LISTS:%=$(BUILD)/.deps-%)
$(BUILD)/.deps: packaging/apt/build.txt | $(BUILD)/.deps-libraries
$(PACKAGE_LISTS:%=$(BUILD)/.deps-%): $(BUILD)/.deps-%: packaging/apt/%.txt
# Ceph's packages would start services.
$(BUILD)/.deps-ceph: INSTALL := $(CURDIR)/packaging/without-services.sh
$(PACKAGES_INSTALLED):
	@mkdir -p $(BUILD)
	@missing=; for package in $$(sed 's/#.*//' $<); do \
	  [ "$$(dpkg-query -W -f '$${db:Status-Status}' $$package 2>/dev/null)" = installed ] \
	    || missing="$$missing $$package"; done; \
	if [ -n "$$missing" ]; then \
	  echo "installing:$$missing"; \
	  if [ "$$(id -u)" = 0 ]; then sudo=; elif command -v sudo >/dev/null; then sudo=sudo; else \
	    echo "make deps: as root, run: apt-get install$$missing" >&2; exit 1; fi; \
	  $$sudo apt-get update -q && \
	  $$sudo env DEBIAN_FRONTEND=noninteractive $(INSTALL) apt-get install -q -y --no-install-recommends $$missing; \
	fi
	@touch $@

venv: $(VENV)/.installed ## the Python environment, .venv
# The scripts of a virtual environment and its editable installation name the clone that it was made for. The stamp
# holds that name: an environment that was copied or moved with its clone would run the other clone's code, so it
# is made again.
$(VENV)/.installed: requirements.txt pyproject.toml $(if $(filter $(CURDIR),$(shell cat $(VENV)/.installed 2>/dev/null)),,always) | $(BUILD)/.deps
	@! grep -qxvF '$(CURDIR)' $@ 2>/dev/null || { echo "$(VENV) belongs to another folder; it is made again"; rm -rf $(VENV); }
	python3 -m venv $(VENV)
	$(PYTHON) -m pip install --disable-pip-version-check -q --upgrade pip
	$(PYTHON) -m pip install --disable-pip-version-check -r requirements.txt
	$(PYTHON) -m pip install --disable-pip-version-check -q --no-deps -e .
	@echo '$(CURDIR)' >$@

kernel: $(BUILD)/.deps ## the patched UML kernel (KSRC=DIR: from another 6.12 tree)
	kernel/build.sh um $(if $(KSRC),--ksrc $(KSRC))

kernel-debug: $(BUILD)/.deps ## the UML kernel with KASAN, lockdep and UBSAN
	kernel/build.sh um-debug

kernel-cluster: $(BUILD)/.deps ## the UML kernel with networks of several nodes, for `linnapp lab cluster`
	kernel/build.sh um-cluster

kernel-unpatched: $(BUILD)/.deps ## the UML kernel without LinnOS, for comparison
	kernel/build.sh um-unpatched

kernel-um-module: $(BUILD)/.deps ## the same with modules, and ours for it
	kernel/build.sh um-module
	kernel/module/build.sh --built $(BUILD)/linux-um-module --raid

kernel-x86: $(BUILD)/.deps $(BUILD)/.deps-qemu ## the patched x86-64 kernel for QEMU
	kernel/build.sh x86

kernel-x86-functions: ## the same without what checks itself: its functions can be traced
kernel-x86-kasan kernel-x86-kcsan kernel-x86-functions kernel-x86-kasan-module kernel-x86-kcsan-module: kernel-%: $(BUILD)/.deps $(BUILD)/.deps-qemu
	kernel/build.sh $*

# For kernels other than the one that runs: RELEASE=6.12.117+deb12-amd64.
module: ## the modules for a kernel that is not patched: linnos.ko (RELEASE=: not the one that runs)
	kernel/module/build.sh $(if $(RELEASE),--kernel $(RELEASE))

module-debian: kernel-debian kernel-debian-6.1 $(BUILD)/.deps-module ## linnos.ko, raid1.ko and raid10.ko for Debian's own kernels, 6.1 and 6.12
	for unpacked in $(BUILD)/kernel-debian $(BUILD)/kernel-debian-6.1; do \
	  release=$$(ls $$unpacked/lib/modules) && \
	  kernel/module/build.sh --kernel $$release --raid --stock $$unpacked/lib/modules/$$release || exit; \
	done

kernel-deb: $(BUILD)/.deps $(BUILD)/.deps-kernel-deb ## Debian packages of a kernel for a real machine (CONFIG=FILE: not Debian's; long)
	kernel/build.sh deb $(if $(CONFIG),--config $(CONFIG)) $(if $(KSRC),--ksrc $(KSRC))

kernel-debian: $(BUILD)/kernel-debian/.unpacked ## Debian's own kernel, unpacked for QEMU: its functions can be traced
kernel-debian-6.1: $(BUILD)/kernel-debian-6.1/.unpacked ## Debian 12's own 6.1, likewise: `linnapp watch` is tried on it
$(BUILD)/kernel-debian-6.1/.unpacked: DEBIAN_KERNEL := $(DEBIAN_KERNEL_6_1)
$(BUILD)/kernel-debian/.unpacked $(BUILD)/kernel-debian-6.1/.unpacked: | $(BUILD)/.deps $(BUILD)/.deps-qemu
	rm -rf $(@D) && mkdir -p $(@D)
	image=$$(apt-cache depends $(DEBIAN_KERNEL) | awk '/Depends: linux-image/ { print $$2; exit }') && \
	  cd $(@D) && apt-get -q -o APT::Sandbox::User=root download $$image busybox-static && \
	  for package in *.deb; do dpkg-deb -x $$package . && rm $$package || exit; done
	depmod -b $(@D) $$(ls $(@D)/lib/modules)
	@touch $@

native: $(BUILD)/.deps ## the integer engine and the trace reader as shared libraries
	@$(MAKE) --no-print-directory -C core OUT=$(CURDIR)/$(BUILD)/lib
	@$(MAKE) --no-print-directory -C linnapp/native OUT=$(CURDIR)/$(BUILD)/lib

replayer: $(BUILD)/.deps ## the trace replayer
	@$(MAKE) --no-print-directory -C replayer OUT=$(CURDIR)/$(BUILD)/replayer

liblinnos: $(BUILD)/.deps-libraries ## the library that reads from the best replica, on any kernel
	@$(MAKE) --no-print-directory -C liblinnos OUT=$(CURDIR)/$(BUILD)/liblinnos

ublk: $(BUILD)/.deps ## the mirror as a block device, on any kernel
	@$(MAKE) --no-print-directory -C liblinnos/ublk OUT=$(CURDIR)/$(BUILD)/ublk

agent: $(BUILD)/.deps-libraries ## the agent that serves latency predictions for this node's drives
	@$(MAKE) --no-print-directory -C cluster/agent OUT=$(CURDIR)/$(BUILD)/agent

cluster: $(BUILD)/.deps-libraries ## the library that chooses the node that is expected to answer first
	@$(MAKE) --no-print-directory -C cluster/client OUT=$(CURDIR)/$(BUILD)/cluster

ceph: cluster $(BUILD)/.deps-librados ## the library that reads Ceph with it
	@$(MAKE) --no-print-directory -C cluster/ceph OUT=$(CURDIR)/$(BUILD)/ceph CLUSTER=$(CURDIR)/$(BUILD)/cluster

build: venv kernel native replayer liblinnos ublk agent cluster ## all of the above

install-lib: liblinnos ## library, header, pkg-config file, man pages; PREFIX=/usr/local
	@$(MAKE) --no-print-directory -C liblinnos OUT=$(CURDIR)/$(BUILD)/liblinnos install

install-ublk: ublk ## linnos-ublk and its man page; PREFIX=/usr/local
	@$(MAKE) --no-print-directory -C liblinnos/ublk OUT=$(CURDIR)/$(BUILD)/ublk install

install-cluster: cluster ## the same for liblinnos-cluster; PREFIX=/usr/local
	@$(MAKE) --no-print-directory -C cluster/client OUT=$(CURDIR)/$(BUILD)/cluster install

install-ceph: ceph install-cluster ## the same for liblinnos-ceph, with liblinnos-cluster; PREFIX=/usr/local
	@$(MAKE) --no-print-directory -C cluster/ceph OUT=$(CURDIR)/$(BUILD)/ceph CLUSTER=$(CURDIR)/$(BUILD)/cluster install

deb: venv liblinnos replayer ublk agent cluster ## Debian packages of the commands, the libraries, the modules and the agent, in build/deb
	PYTHON=$(PYTHON) packaging/build.sh $(BUILD)/deb

# --- What it is for ------------------------------------------------------------

demo: build ## the whole loop; TRACE=FILE: on your own trace
	$(PYTHON) -m eval.demo $(if $(TRACE),--trace $(TRACE))

demo-cluster: venv native agent cluster kernel-cluster $(BUILD)/.deps-gluster ## a client of three GlusterFS nodes reads from the fastest one: a table and a picture, in minutes
	@$(PYTHON) -m eval.demo_cluster

tour: build ## a minute in a terminal: bursts, linnapp top, and why reads were refused
	@linnapp tour

test: build $(BUILD)/.deps-fuzz ## every test: Python, KUnit, and in the booted kernel
	$(TEST)

test-busy: build $(BUILD)/.deps-fuzz ## the same RUNS=5 times on a busy machine: do the same tests pass each time?
	tests/busy.sh $(RUNS) $(TEST)

test-unit: venv native replayer liblinnos ublk agent cluster $(BUILD)/.deps-fuzz ## the tests that boot no kernel
	$(PYTEST_PARALLEL) -m "not lab and not qemu and not debug and not elasticsearch and not machine and not stock and not crashes and not release"

test-lab: build ## the tests that boot the kernel
	$(PYTEST_PARALLEL) -m "lab and not crashes"

test-debug: build kernel-debug ## the block layer's tests again, under KASAN, lockdep and UBSAN
	$(PYTEST_PARALLEL) -m "debug and not qemu"

test-qemu: venv native $(BUILD)/.deps-qemu kernel-x86 ## x86-64 under QEMU: two CPUs, the nvme driver
	$(PYTEST_PARALLEL) -m "qemu and not debug and not crashes"

test-debug-smp: venv native $(BUILD)/.deps-qemu kernel-x86-kasan kernel-x86-kcsan ## two CPUs under KASAN, then under KCSAN (long)
	for kernel in kasan kcsan; do \
	  LINNOS_X86_KERNEL=$(CURDIR)/$(BUILD)/linux-x86-$$kernel/bzImage LINNOS_QEMU_PATIENCE=6 \
	    $(PYTEST) -m "qemu and not debug and not crashes" || exit 1; \
	done

test-debug-module: venv native $(BUILD)/.deps-qemu kernel-x86-kasan-module kernel-x86-kcsan-module ## the modules likewise, on kernels without LinnOS (long)
	LINNOS_QEMU_PATIENCE=6 $(PYTEST) -m "qemu and debug"

# The server that its makers publish for the tests of plugins: the real one, without some modules.
# Only tests use it, and none of it is in what is built here; its licence is that of Elasticsearch 8:
# AGPL 3, SSPL or Elastic's own, as one likes.
ELASTICSEARCH := 8.19.4
ELASTICSEARCH_SHA256 := 553088b4c0f60f04d7c63da609aaeae372c483159f4fb8013599e91233aab0de
ELASTICSEARCH_FETCHED := $(BUILD)/elasticsearch/.fetched-$(ELASTICSEARCH)

test-elasticsearch: venv native $(ELASTICSEARCH_FETCHED) ## what `linnapp watch` sends, in a real Elasticsearch
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

test-machine-patched: deb machine-kernel $(MACHINE)/debian.img ## the rest of it: the patched kernel (root; long)
	LINNOS_MACHINE_KERNEL=$(MACHINE_KERNEL) $(PYTEST)/machine/test_patched_kernel.py -s -m machine

test-versions: $(BUILD)/.deps-machine ## the modules for three point releases each of Debian's 6.1 and 6.12, built in a bare Debian 12 (root; 1.5 GB are fetched)
	tests/machine/module_versions.sh $(BUILD)/versions $(VERSIONS)

$(MACHINE)/debian.img: tests/machine/make_image.sh | $(BUILD)/.deps-qemu $(BUILD)/.deps-machine
	tests/machine/make_image.sh $(@D)

test-crashes: build kernel-debian ## linnos-ublk after 200 crashes, and after 20 of QEMU by SIGKILL (long)
	$(PYTEST) -m crashes

test-stock: build kernel-unpatched ## liblinnos on a kernel without LinnOS, and replays that are the same there
	$(PYTEST) -m stock

fuzz: $(BUILD)/.deps $(BUILD)/.deps-fuzz ## the trace readers and the agent under ASan and UBSan; FUZZ_SECONDS=600
	@$(MAKE) --no-print-directory -C tests/fuzz OUT=$(CURDIR)/$(BUILD)/fuzz TOTAL_SECONDS=$(FUZZ_SECONDS) run

fuzz-agent: $(BUILD)/.deps $(BUILD)/.deps-fuzz ## the agent alone, its code and then its sockets; FUZZ_SECONDS=600 for each
	@$(MAKE) --no-print-directory -C tests/fuzz OUT=$(CURDIR)/$(BUILD)/fuzz TOTAL_SECONDS=$(FUZZ_SECONDS) run-agent run-sockets

bench: build ## speed of our own code compared with a reference (python -m eval.bench --list)
	$(PYTHON) -m eval.bench

eval: build ## every experiment but eval-replicated, eval-traces, eval-probing, eval-guarded, eval-apps, eval-filesystems, eval-functions, eval-stock, eval-cluster, eval-ceph, eval-simulation, eval-validate, eval-real and eval-clustering; eval-NAME: one of them; SEEDS=1: only so many seeds
	$(PYTHON) -m eval $(EVAL_OPTIONS)

eval-functions: kernel-debian

eval-stock: kernel-unpatched

eval-apps: kernel-um-module

eval-cluster: kernel-cluster $(BUILD)/.deps-gluster

eval-ceph: kernel-cluster ceph deps-ceph

# Logs are read, and no kernel runs.
eval-real: venv native
	$(PYTHON) -m eval $(EVAL_OPTIONS) real

eval-%: build
	$(PYTHON) -m eval $(EVAL_OPTIONS) $*

prior: build ## record the lab's drives anew, some ten minutes, and grow the trees of models/prior
	$(PYTHON) -m eval.prior

report: build ## one page with every figure and table
	$(PYTHON) -m eval.report

docs: $(BUILD)/venv-docs/.installed ## the docs as a site with a search, in build/site
	$(BUILD)/venv-docs/bin/python docs/build_site.py
$(BUILD)/venv-docs/.installed: docs/requirements.txt | $(BUILD)/.deps
	python3 -m venv $(BUILD)/venv-docs
	$(BUILD)/venv-docs/bin/pip install -q -r docs/requirements.txt
	@touch $@

lint: venv $(BUILD)/venv-docs/.installed ## formatting, types, imports, licences, kernel style, links of the docs, hard phrases
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(PYTHON) -m mypy
	clang-format --dry-run -Werror replayer/*.[ch] {replayer,liblinnos,cluster}/*/*.[ch] cluster/*/{tests,examples}/*.[ch] eval/simulator/*.[ch] eval/simulator/tests/*.c
	kernel/check.sh
	$(VENV)/bin/lint-imports
	$(VENV)/bin/reuse lint --lines
	$(BUILD)/venv-docs/bin/python docs/build_site.py
	docs/check_prose.py

# Chroots of the Debian that this machine is not; debootstrap creates them. DEBIAN_13=/srv/trixie: another folder.
export DEBIAN_12 ?= $(LINNOS_CACHE)/bookworm
export DEBIAN_13 ?= $(LINNOS_CACHE)/trixie

release: $(BUILD)/.deps $(BUILD)/.deps-librados ## all that a release consists of, in build/release (root, for the packages of the other Debian)
	packaging/release.sh $(BUILD)/release

test-release: release venv $(BUILD)/.deps-release ## each file of a release, installed in an empty place; is it the same when built elsewhere? (root, network; long)
	$(PYTEST) -m release

clean: ## remove what was built here; the cache outside the clone stays
	rm -rf $(BUILD) $(VENV) .mypy_cache .ruff_cache .pytest_cache
