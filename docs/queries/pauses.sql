/* SPDX-License-Identifier: MIT */
/* Of `linnapp watch`: pauses of clients in which other threads did most, as a store's compactions. Put in
   your own threads' names for 'client'. */
with pauses as (
  select time_ns as begin_ns, lead(time_ns) over (order by time_ns) as end_ns
  from calls where process = 'client'
)
select (end_ns - begin_ns) // 1000 as pause_us, count(distinct tid) as threads,
  string_agg(distinct process, ' ' order by process) as names, count(*) as calls,
  (sum(result) filter (call in ('read', 'write')) // 1024)::bigint as kib,
  count(*) filter (call = 'fsync') as syncs
from pauses join calls on time_ns < end_ns and time_ns + duration_ns > begin_ns
where process <> 'client' group by begin_ns, end_ns order by calls desc limit 5
