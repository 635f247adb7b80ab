/* SPDX-License-Identifier: MIT */
/* Files that a thread opens again before it has closed them, recorded by `linnapp watch`. */
with opened as (
  select coalesce(session, '') as session, pid, tid, process, path, time_ns, result as fd from calls
  where call in ('open', 'openat', 'creat') and result >= 0 and kind = 'file'
), closed as (
  select coalesce(session, '') as session, pid, fd, time_ns as closed_ns from calls where call = 'close'
), spans as (
  select opened.*, closed_ns from opened asof join closed
  on opened.session = closed.session and opened.pid = closed.pid and opened.fd = closed.fd and time_ns < closed_ns
)
select session, path, spans.process, count(*) as opened_again
from spans join opened as again using (session, tid, path)
where again.time_ns > spans.time_ns and again.time_ns < closed_ns
group by all order by opened_again desc
