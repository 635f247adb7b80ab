/* SPDX-License-Identifier: MIT */
/* Of `linnapp watch --hash`: contents written to a file that another program opens, which it never
   reads. That they differ from all that it reads is known from their hashes. */
with written as (
  select coalesce(session, '') as session, path, device, inode, pid, file_offset, result as bytes, content_hash
  from calls where call in ('write', 'writev', 'pwrite64') and kind = 'file' and result > 0
), readers as (
  select distinct coalesce(session, '') as session, device, inode, pid as reader_pid, process as reader
  from calls where call in ('read', 'readv', 'pread64') and kind = 'file'
)
select session, path, reader, file_offset, bytes, content_hash
from written join readers using (session, device, inode)
where reader_pid <> pid and content_hash is not null and not exists (
  from calls where coalesce(calls.session, '') = written.session and calls.pid = reader_pid
    and calls.call in ('read', 'readv', 'pread64') and calls.content_hash = written.content_hash)
order by all
