#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Check all kernel code with clang-format (settings of the kernel), checkpatch --strict
# and, if a kernel has been built, sparse. Print nothing and exit with 0 if there are no
# findings.

set -uo pipefail

kernel_dir=$(cd "$(dirname "$0")" && pwd)
core_dir=$(cd "$kernel_dir/../core" && pwd)
build_dir=${BUILD:-$kernel_dir/../build}
tarball=/usr/src/linux-source-6.12.tar.xz
failed=0

die() { echo "kernel/check.sh: $*" >&2; exit 1; }
warn() { echo "kernel/check.sh: $*" >&2; failed=1; }

for tool in perl clang-format sparse; do
	command -v $tool >/dev/null ||
		die "missing Debian package; as root: apt-get install $tool"
done

# The kernel's scripts, from the tree that build.sh unpacked or the package.
tree=$build_dir/linux-source
if [ ! -x "$tree/scripts/checkpatch.pl" ]; then
	tree=$build_dir/kernel-scripts
	if [ ! -x "$tree/scripts/checkpatch.pl" ]; then
		[ -e $tarball ] ||
			die "no kernel source; as root: apt-get install linux-source-6.12"
		mkdir -p "$tree"
		tar -C "$tree" --strip-components=1 -xJf $tarball \
			linux-source-6.12/.clang-format \
			linux-source-6.12/scripts/{checkpatch.pl,spelling.txt,const_structs.checkpatch} ||
			die "$tarball holds no scripts/checkpatch.pl"
	fi
fi

ours=("$kernel_dir"/linnos/*.[ch] "$kernel_dir"/linnos/include/linux/*.h)
ours+=("$core_dir"/*.[ch] "$core_dir"/uapi/linux/*.h)
ours+=("$kernel_dir"/module/{,interfaces/}*.[ch] "$kernel_dir"/bench/bypass/*.c)
sources=("${ours[@]}" "$kernel_dir"/flashsim/*.[ch])

for f in "${ours[@]}"; do
	clang-format --style="file:$tree/.clang-format" --dry-run -Werror "$f" ||
		warn "${f#"$kernel_dir"/}: not formatted; run clang-format -i with the kernel's .clang-format"
done

# --strict warns about the reuse of macro arguments that are constants, and about
# style that trace events and KUnit require.
ignore=MACRO_ARG_REUSE,MACRO_ARG_PRECEDENCE,FILE_PATH_CHANGES,UNCOMMENTED_DEFINITION
# The module names a type whose definition differs between kernels.
ignore=$ignore,CONSTANT_COMPARISON,NEW_TYPEDEFS
# The macros for settings.h define members, files and values, one per line.
tables=COMPLEX_MACRO,MULTISTATEMENT_MACRO_USE_DO_WHILE,MACRO_ARG_UNUSED,TRAILING_SEMICOLON
for f in "${sources[@]}"; do
	extra=
	[[ $f != */flashsim/* ]] || extra=,$tables
	perl "$tree/scripts/checkpatch.pl" --no-tree --strict --quiet --terse \
		--show-types --no-summary --ignore $ignore$extra -f "$f" ||
		warn "${f#"$kernel_dir"/}: checkpatch"
done
perl "$tree/scripts/checkpatch.pl" --no-tree --strict --quiet --terse \
	--show-types --no-summary \
	--ignore $ignore,OPEN_ENDED_LINE,PARENTHESIS_ALIGNMENT \
	-f "$kernel_dir/linnos/include/trace/events/linnos.h" ||
	warn "the trace event: checkpatch"
# The flags of md are in CamelCase. series.sh adds the sign-off, and the messages for 7.3.
for f in "$kernel_dir"/patches/{,lab/}*/*.patch; do
	[ -e "$f" ] || continue
	# checkpatch does not accept a file known to git as a patch, so use stdin
	perl "$tree/scripts/checkpatch.pl" --no-tree --strict --quiet --terse \
		--show-types --no-summary --no-signoff --ignore $ignore,CAMELCASE,COMMIT_MESSAGE - <"$f" ||
		warn "${f#"$kernel_dir"/}: checkpatch"
done

# sparse needs the headers that a build generates.
out=$build_dir/linux-um
if [ -e "$out/include/generated/autoconf.h" ]; then
	objects=()
	stale=
	# sparse reads the copies that kernel/build.sh has made
	use_copy() {
		cmp -s "$1" "$build_dir/linux-source/$2" || stale=$2
		objects+=("${2%.c}.o")
	}
	for f in "$kernel_dir"/linnos/*.c; do
		use_copy "$f" "block/linnos/${f##*/}"
	done
	for f in "$core_dir"/*.c; do
		use_copy "$f" "block/linnos/core/${f##*/}"
	done
	for f in "$kernel_dir"/flashsim/*.c; do
		use_copy "$f" "drivers/block/flashsim/${f##*/}"
	done
fi
if [ ! -e "$out/include/generated/autoconf.h" ]; then
	echo "kernel/check.sh: no kernel built, sparse not run" >&2
elif [ -n "$stale" ]; then
	warn "sparse not run: $stale in build/linux-source differs from this tree; run \`make kernel\`"
else
	scratch=$(mktemp -d)
	trap 'rm -rf "$scratch"' EXIT
	(
		# no other build may run in the tree at the same time
		flock 9

		make -C "$out" ARCH=um SUBARCH=x86_64 C=2 CHECK="sparse" \
			"${objects[@]}"
	) 9>"$build_dir/.kernel.lock" >"$scratch/log" 2>&1 ||
		warn "sparse could not run: $(tail -n 3 "$scratch/log")"
	if grep -E '(linnos|flashsim).*(warning|error):' "$scratch/log"; then
		warn "sparse"
	fi
fi
exit $failed
