# SPDX-License-Identifier: MIT
# PostgreSQL under pgbench: first its read-only transaction, then its default, TPC-B's. Both arrive at
# a rate (Poisson): the guest's processor takes no virtual time, so clients without a rate would stop
# the clock as soon as all data are cached. Pages have checksums.

bin=$(dirname "$(ls /usr/lib/postgresql/*/bin/initdb | sort -V | tail -n 1)")
home=/run/postgres
export PGHOST=$home PGUSER=nobody PGDATABASE=postgres

postgres() # as an ordinary user: PostgreSQL refuses to run as root
{
	(cd $home && exec setpriv --reuid nobody --regid nogroup --clear-groups \
		env HOME=$home LC_ALL=C PATH="$bin:$PATH" "$@")
}

serve() { postgres pg_ctl -D "$1/data" -s -w -t 600 -l $home/log start; }
end() { postgres pg_ctl -D "$1/data" -s -w -t 600 -m fast stop; }

home_up() { mkdir $home && chown nobody:nogroup $home; }

make_data() # FOLDER SCALE
{
	home_up
	mkdir "$1/data" && chown nobody:nogroup "$1/data" && chmod 700 "$1/data"
	postgres initdb -D "$1/data" -U nobody -A trust --no-locale --data-checksums --wal-segsize=1 \
		>/run/initdb.txt
	cat >>"$1/data/postgresql.conf" <<-END
		listen_addresses = ''
		unix_socket_directories = '$home'
		shared_buffers = 16MB
		min_wal_size = 8MB
		max_wal_size = 32MB
	END
	serve "$1"
	postgres pgbench -i -q -s "$2" >/run/pgbench.txt 2>&1 || { cat /run/pgbench.txt && return 1; }
	postgres psql -q -c "CREATE EXTENSION amcheck"
	end "$1"
}

start_app()
{
	home_up
	serve $files
}

pgbench_run() # NAME SCRIPT RATE SECONDS SEED
{
	date +%s.%N >"$LINNOS_OUT/$1.start"
	postgres pgbench -n -c 16 -b "$2" -R "$3" -T "$4" --random-seed="$5" -l --log-prefix=$home/"$1" \
		>$home/"$1.txt" 2>&1 || { cat $home/"$1.txt" >&2 && return 1; }
	cp $home/"$1".* "$LINNOS_OUT"
}

run_app() # EPOCH_S READS_RATE READS_SECONDS MIXED_RATE MIXED_SECONDS SEED
{
	wait_until "$1"
	pgbench_run select select-only "$2" "$3" "$6"
	pgbench_run tpcb tpcb-like "$4" "$5" "$6"
}

# Nothing of a page, an index or a transaction is lost: the three sums of TPC-B agree.
stop_app()
{
	postgres pg_amcheck --heapallindexed postgres
	sums=$(postgres psql -qtA -c "SELECT count(*) FROM (SELECT sum(abalance) FROM pgbench_accounts
		UNION SELECT sum(bbalance) FROM pgbench_branches
		UNION SELECT sum(tbalance) FROM pgbench_tellers
		UNION SELECT coalesce(sum(delta), 0) FROM pgbench_history) AS sums")
	if [ "$sums" != 1 ]; then
		echo "pgbench's balances do not add up" >&2
		return 1
	fi
	end $files
}
