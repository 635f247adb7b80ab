#!/bin/sh
# SPDX-License-Identifier: MIT
# Records pgbench.blk.xz: PostgreSQL 15 under pgbench, its files on an ext4 on one enterprise drive.
# Needs the packages of packaging/apt/traces.txt. To be run as root in the lab:
#
#   linnapp lab run --drives 1 --mem-mb 704 --out DIR -- traces/recorded/pgbench.sh DIR
#
# The database (scale 20, 300 MB) is larger than the cache for which the guest has memory, so
# that reads reach the drive. Three in four transactions read one row, the others are TPC-B's: three
# updates, an insert and a commit. They arrive at a rate (Poisson), because the guest's processor takes
# no virtual time: clients that run as fast as they can would never let the clock move on.
set -e
out=$1
seconds=${2:-8}
bin=/usr/lib/postgresql/15/bin
data=/run/mnt/data
export PGHOST=/run/postgres PGUSER=postgres PGDATABASE=postgres

postgres() { # as its user: PostgreSQL refuses to run as root
	setpriv --reuid postgres --regid postgres --clear-groups \
		env HOME=/run/postgres LC_ALL=C PATH="$bin:$PATH" "$@"
}

mkfs.ext4 -q -b 4096 -E lazy_itable_init=0,lazy_journal_init=0 /dev/flash0
mount /dev/flash0 /run/mnt
mkdir /run/postgres $data
chown postgres:postgres /run/postgres $data
chmod 700 $data
cd /run/postgres

postgres initdb -D $data -A trust --no-locale --wal-segsize=1 >/run/postgres/initdb.log
cat >>$data/postgresql.conf <<-END
	listen_addresses = ''
	unix_socket_directories = '/run/postgres'
	shared_buffers = 16MB
	min_wal_size = 8MB
	max_wal_size = 32MB
	autovacuum = off
	logging_collector = off
END
postgres pg_ctl -D $data -w -t 600 -l /run/postgres/log start >/dev/null
postgres pgbench -i -q -s 20 2>/dev/null
postgres psql -q -c checkpoint
sync
echo 3 >/proc/sys/vm/drop_caches

linnapp trace /dev/flash0 -o "$out/record" -- \
	setpriv --reuid postgres --regid postgres --clear-groups \
	$bin/pgbench -n -c 16 -b select-only@3 -b tpcb-like@1 -R 1800 -T "$seconds" \
	--random-seed=1 >"$out/pgbench.txt" 2>&1
postgres pg_ctl -D $data -w -t 600 -m fast stop >/dev/null
umount /run/mnt
xz -c "$out/record/flash0.blk" >"$out/pgbench.blk.xz"
