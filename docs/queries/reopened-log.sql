/* SPDX-License-Identifier: MIT */
/* Of `linnapp watch`: files that are opened as often as they are written, as a log for each of its lines. */
select session, path, count(*) filter (call in ('open', 'openat', 'creat')) as opens,
  count(*) filter (call like '%write%') as writes, count(*) as calls,
  round(avg(result) filter (call like '%write%'))::bigint as bytes_a_write
from calls where kind = 'file' and result >= 0 group by session, path
having opens > 10 and opens >= writes and writes > 0 order by calls desc
