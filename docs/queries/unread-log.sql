/* SPDX-License-Identifier: MIT */
/* Of `linnapp watch`: files that another program reads only from later on, as a log shipper does where
   a new log has got a used inode number. */
with written as (
  select coalesce(session, '') as session, device, inode, first_access_ns, any_value(path) as path,
    pid as writer, max(file_offset + result) as bytes
  from calls where call in ('write', 'writev', 'pwrite64') and result > 0 and kind = 'file'
  group by all having min(file_offset) = 0
), reads as (
  select coalesce(session, '') as session, device, inode, first_access_ns, process as reader, pid,
    min(file_offset) as begins_at
  from calls where call in ('read', 'readv', 'pread64') and kind = 'file' group by all
)
select session, path, reader, begins_at, bytes
from written join reads using (session, device, inode, first_access_ns)
where begins_at > 0 and pid <> writer order by all
