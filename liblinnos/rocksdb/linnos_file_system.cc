// SPDX-License-Identifier: MIT
/*
 * A file system for RocksDB: tables are on several drives, and each read of one goes to the drive
 * that is predicted to answer first.
 *
 *   linnos:///srv/a=a.linnos,/srv/b=b.linnos,/srv/c[?home]
 *
 * names a folder on each drive, and its model. The database is opened below the first; what is no
 * table or blob file is there alone. Tables are written below all, once, and never changed, so that
 * any copy will do. `?home` reads copies in turns and follows no prediction, to compare with.
 *
 * RocksDB reads by blocking calls, so this uses liblinnos' core, which does no I/O: it chooses, and
 * is told. docs/liblinnos.md#rocksdb
 */
#include <linnos_choose.h>

#include <rocksdb/file_system.h>
#include <rocksdb/utilities/object_registry.h>

#include <linux/fiemap.h>
#include <linux/fs.h>

#include <fcntl.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <deque>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace
{

using namespace ROCKSDB_NAMESPACE;
namespace fs = std::filesystem;

constexpr size_t kComparedBytes = 4096;
constexpr unsigned int kExtents = 256;

uint64_t NowNs()
{
	timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return static_cast<uint64_t>(t.tv_sec) * 1000000000 + t.tv_nsec;
}

/* What is known of the drives, for as long as any thread chooses. */
struct Drives {
	std::vector<std::string> roots;
	linnos_known *known = nullptr;

	~Drives()
	{
		linnos_known_free(known);
	}
};

/* A thread's chooser; made when it first reads. */
class Chooser
{
      public:
	~Chooser()
	{
		linnos_chooser_free(chooser_);
	}

	static linnos_chooser *Of(const std::shared_ptr<Drives> &drives)
	{
		static thread_local Chooser mine;

		if (mine.drives_ != drives) {
			linnos_chooser_free(mine.chooser_);
			mine.chooser_ = nullptr;
			if (linnos_chooser_create(&mine.chooser_, drives->known))
				mine.chooser_ = nullptr;
			mine.drives_ = drives;
		}
		return mine.chooser_;
	}

      private:
	/* Outlives the chooser: members are destroyed after the body of the destructor. */
	std::shared_ptr<Drives> drives_;
	linnos_chooser *chooser_ = nullptr;
};

/* Copies of reads, by which a drive is heard of again: nobody waits for them. One at a time. */
class Copies
{
      public:
	~Copies()
	{
		{
			std::lock_guard<std::mutex> lock(mutex_);
			ends_ = true;
		}
		wake_.notify_all();
		if (thread_.joinable())
			thread_.join();
	}

	void Ask(std::function<void()> read)
	{
		std::lock_guard<std::mutex> lock(mutex_);

		if (read_)
			return;
		read_ = std::move(read);
		if (!thread_.joinable())
			thread_ = std::thread([this] { Run(); });
		wake_.notify_all();
	}

      private:
	void Run()
	{
		std::unique_lock<std::mutex> lock(mutex_);

		while (!ends_) {
			if (!read_) {
				wake_.wait(lock);
				continue;
			}
			const auto read = read_;

			lock.unlock();
			read();
			lock.lock();
			read_ = nullptr;
		}
	}

	std::mutex mutex_;
	std::condition_variable wake_;
	std::function<void()> read_;
	bool ends_ = false;
	std::thread thread_;
};

/* Where on its drive a file's bytes are: models know what is read near each other. */
class Places
{
      public:
	explicit Places(const std::string &path)
	{
		std::vector<char> room(sizeof(fiemap) + kExtents * sizeof(fiemap_extent));
		auto *map = reinterpret_cast<fiemap *>(room.data());
		const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);

		map->fm_length = FIEMAP_MAX_OFFSET;
		map->fm_extent_count = kExtents;
		if (fd >= 0 && !ioctl(fd, FS_IOC_FIEMAP, map))
			extents_.assign(map->fm_extents, map->fm_extents + map->fm_mapped_extents);
		if (fd >= 0)
			close(fd);
	}

	uint64_t On(uint64_t offset) const
	{
		auto after = std::upper_bound(
			extents_.begin(), extents_.end(), offset,
			[](uint64_t at, const fiemap_extent &e) { return at < e.fe_logical; });

		if (after == extents_.begin())
			return offset;
		--after;
		return after->fe_physical + (offset - after->fe_logical);
	}

      private:
	std::vector<fiemap_extent> extents_;
};

/* A table: the same bytes on every drive. */
class Table : public FSRandomAccessFile
{
      public:
	using Files = std::vector<std::unique_ptr<FSRandomAccessFile>>;

	Table(std::shared_ptr<Drives> drives, Files files, const std::string &path)
	    : drives_(std::move(drives)), files_(std::make_shared<Files>(std::move(files))),
	      places_(path)
	{
	}

	IOStatus Read(uint64_t offset, size_t n, const IOOptions &options, Slice *result,
		      char *scratch, IODebugContext *dbg) const override
	{
		linnos_chooser *chooser = Chooser::Of(drives_);
		linnos_choice choice = {};

		if (!chooser)
			return First().Read(offset, n, options, result, scratch, dbg);
		choice.offset = places_.On(offset);
		choice.bytes = n;
		choice.home = LINNOS_HOME_TURNS;
		linnos_choose(chooser, &choice, NowNs());
		if (choice.copy >= 0)
			AskForCopy(choice, offset);
		for (;;) {
			linnos_sending sending;

			linnos_note_sent(chooser, &sending, &choice, choice.replica, LINNOS_FIRST,
					 NowNs());
			const IOStatus status = (*files_)[choice.replica]->Read(
				offset, n, options, result, scratch, dbg);
			const uint64_t now_ns = NowNs();

			linnos_note_ended(chooser, &sending,
					  status.ok() ? LINNOS_ANSWERED : LINNOS_FAILED, now_ns);
			if (status.ok() || linnos_choose_next(chooser, &choice, now_ns) < 0) {
				linnos_note_answered(chooser, &choice,
						     status.ok() ? &sending : nullptr, nullptr,
						     now_ns);
				return status;
			}
		}
	}

	IOStatus Prefetch(uint64_t offset, size_t n, const IOOptions &options,
			  IODebugContext *dbg) override
	{
		return First().Prefetch(offset, n, options, dbg);
	}
	size_t GetUniqueId(char *id, size_t max_size) const override
	{
		return First().GetUniqueId(id, max_size);
	}
	void Hint(AccessPattern pattern) override
	{
		for (auto &file : *files_)
			file->Hint(pattern);
	}
	bool use_direct_io() const override
	{
		return First().use_direct_io();
	}
	size_t GetRequiredBufferAlignment() const override
	{
		size_t most = 1;

		for (auto &file : *files_)
			most = std::max(most, file->GetRequiredBufferAlignment());
		return most;
	}
	IOStatus InvalidateCache(size_t offset, size_t length) override
	{
		for (auto &file : *files_)
			file->InvalidateCache(offset, length).PermitUncheckedError();
		return IOStatus::OK();
	}

      private:
	FSRandomAccessFile &First() const
	{
		return *files_->front();
	}

	void AskForCopy(const linnos_choice &of, uint64_t offset) const
	{
		static Copies copies;

		copies.Ask([of, offset, drives = drives_, files = files_] {
			linnos_chooser *chooser = Chooser::Of(drives);
			const auto &file = *(*files)[of.copy];
			const size_t alignment = file.GetRequiredBufferAlignment();
			std::vector<char> room(of.bytes + alignment);
			void *at = room.data();
			size_t left = room.size();
			linnos_sending sending;
			Slice result;

			if (!chooser || !std::align(alignment, of.bytes, at, left))
				return;
			linnos_note_sent(chooser, &sending, &of, of.copy, LINNOS_COPY, NowNs());
			const IOStatus status = file.Read(offset, of.bytes, IOOptions(), &result,
							  static_cast<char *>(at), nullptr);
			linnos_note_ended(chooser, &sending,
					  status.ok() ? LINNOS_ANSWERED : LINNOS_FAILED, NowNs());
		});
	}

	std::shared_ptr<Drives> drives_;
	std::shared_ptr<Files> files_;
	Places places_;
};

/* A table that is being written, to every drive. A drive on which that fails is left without it. */
class NewTable : public FSWritableFileOwnerWrapper
{
      public:
	struct Copy {
		std::unique_ptr<FSWritableFile> file;
		std::string path;
	};

	NewTable(std::unique_ptr<FSWritableFile> &&first, std::vector<Copy> copies)
	    : FSWritableFileOwnerWrapper(std::move(first)), copies_(std::move(copies))
	{
	}

	IOStatus Append(const Slice &data, const IOOptions &o, IODebugContext *d) override
	{
		return OnAll([&](FSWritableFile *f) { return f->Append(data, o, d); });
	}
	IOStatus Append(const Slice &data, const IOOptions &o, const DataVerificationInfo &v,
			IODebugContext *d) override
	{
		return OnAll([&](FSWritableFile *f) { return f->Append(data, o, v, d); });
	}
	IOStatus PositionedAppend(const Slice &data, uint64_t offset, const IOOptions &o,
				  IODebugContext *d) override
	{
		return OnAll(
			[&](FSWritableFile *f) { return f->PositionedAppend(data, offset, o, d); });
	}
	IOStatus PositionedAppend(const Slice &data, uint64_t offset, const IOOptions &o,
				  const DataVerificationInfo &v, IODebugContext *d) override
	{
		return OnAll([&](FSWritableFile *f) {
			return f->PositionedAppend(data, offset, o, v, d);
		});
	}
	IOStatus Truncate(uint64_t size, const IOOptions &o, IODebugContext *d) override
	{
		return OnAll([&](FSWritableFile *f) { return f->Truncate(size, o, d); });
	}
	IOStatus Flush(const IOOptions &o, IODebugContext *d) override
	{
		return OnAll([&](FSWritableFile *f) { return f->Flush(o, d); });
	}
	IOStatus Sync(const IOOptions &o, IODebugContext *d) override
	{
		return OnAll([&](FSWritableFile *f) { return f->Sync(o, d); });
	}
	IOStatus Fsync(const IOOptions &o, IODebugContext *d) override
	{
		return OnAll([&](FSWritableFile *f) { return f->Fsync(o, d); });
	}
	IOStatus RangeSync(uint64_t offset, uint64_t n, const IOOptions &o,
			   IODebugContext *d) override
	{
		return OnAll([&](FSWritableFile *f) { return f->RangeSync(offset, n, o, d); });
	}
	IOStatus Close(const IOOptions &o, IODebugContext *d) override
	{
		return OnAll([&](FSWritableFile *f) { return f->Close(o, d); });
	}

      private:
	template <typename Do> IOStatus OnAll(Do one)
	{
		for (Copy &copy : copies_) {
			if (!copy.file)
				continue;
			const IOStatus status = one(copy.file.get());

			if (status.ok())
				continue;
			fprintf(stderr, "linnos: %s: %s; this table is read from other drives\n",
				copy.path.c_str(), status.ToString().c_str());
			copy.file.reset();
			unlink(copy.path.c_str());
		}
		return one(target());
	}

	std::vector<Copy> copies_;
};

class LinnosFileSystem : public FileSystemWrapper
{
      public:
	LinnosFileSystem(const std::shared_ptr<FileSystem> &base, std::shared_ptr<Drives> drives)
	    : FileSystemWrapper(base), drives_(std::move(drives))
	{
	}

	static const char *kClassName()
	{
		return "LinnosFileSystem";
	}
	const char *Name() const override
	{
		return kClassName();
	}

	IOStatus NewRandomAccessFile(const std::string &path, const FileOptions &options,
				     std::unique_ptr<FSRandomAccessFile> *file,
				     IODebugContext *dbg) override
	{
		Table::Files files(1);
		const IOStatus status =
			target()->NewRandomAccessFile(path, options, &files[0], dbg);

		if (!status.ok() || !IsTable(path))
			return Given(status, &files[0], file);
		for (const std::string &copy : CopiesOf(path)) {
			files.emplace_back();
			if (!AreEqual(path, copy) ||
			    !target()->NewRandomAccessFile(copy, options, &files.back(), dbg).ok())
				/* Not on all: it is read from the first, as without us. */
				return Given(status, &files[0], file);
		}
		file->reset(new Table(drives_, std::move(files), path));
		return status;
	}

	IOStatus NewWritableFile(const std::string &path, const FileOptions &options,
				 std::unique_ptr<FSWritableFile> *file,
				 IODebugContext *dbg) override
	{
		std::vector<NewTable::Copy> copies;
		std::unique_ptr<FSWritableFile> first;
		const IOStatus status = target()->NewWritableFile(path, options, &first, dbg);

		if (!status.ok() || !IsTable(path))
			return Given(status, &first, file);
		for (const std::string &copy : CopiesOf(path)) {
			std::error_code error;
			NewTable::Copy one{nullptr, copy};

			fs::create_directories(fs::path(copy).parent_path(), error);
			const IOStatus made =
				target()->NewWritableFile(copy, options, &one.file, dbg);
			if (made.ok())
				copies.push_back(std::move(one));
			else
				fprintf(stderr, "linnos: %s: %s; it is read from other drives\n",
					copy.c_str(), made.ToString().c_str());
		}
		file->reset(new NewTable(std::move(first), std::move(copies)));
		return status;
	}

	IOStatus DeleteFile(const std::string &path, const IOOptions &options,
			    IODebugContext *dbg) override
	{
		const IOStatus status = target()->DeleteFile(path, options, dbg);

		if (status.ok() && IsTable(path))
			for (const std::string &copy : CopiesOf(path))
				unlink(copy.c_str());
		return status;
	}

	/* What is to be deleted bit by bit has another name first. */
	IOStatus RenameFile(const std::string &from, const std::string &to,
			    const IOOptions &options, IODebugContext *dbg) override
	{
		const IOStatus status = target()->RenameFile(from, to, options, dbg);

		if (status.ok() && IsTable(from)) {
			const auto there = CopiesOf(to);
			size_t k = 0;

			for (const std::string &copy : CopiesOf(from))
				if (k < there.size())
					rename(copy.c_str(), there[k++].c_str());
		}
		return status;
	}

	IOStatus DeleteDir(const std::string &path, const IOOptions &options,
			   IODebugContext *dbg) override
	{
		for (const std::string &copy : CopiesOf(path))
			rmdir(copy.c_str());
		return target()->DeleteDir(path, options, dbg);
	}

      private:
	template <typename File>
	static IOStatus Given(const IOStatus &status, std::unique_ptr<File> *have,
			      std::unique_ptr<File> *want)
	{
		*want = std::move(*have);
		return status;
	}

	/* Never changed once it is whole. */
	static bool IsTable(const std::string &path)
	{
		const std::string name = fs::path(path).filename();

		return name.find(".sst") != std::string::npos ||
		       name.find(".blob") != std::string::npos;
	}

	/* On the other drives; none of what is not below the first. */
	std::vector<std::string> CopiesOf(const std::string &path) const
	{
		const std::string &first = drives_->roots[0];
		std::vector<std::string> copies;

		if (path.compare(0, first.size() + 1, first + "/"))
			return copies;
		for (size_t k = 1; k < drives_->roots.size(); k++)
			copies.push_back(drives_->roots[k] + path.substr(first.size()));
		return copies;
	}

	/* A copy that is left of a table of the same name has another size, or another end, where
	 * a table says which session of which database wrote it. */
	static bool AreEqual(const std::string &a, const std::string &b)
	{
		const std::string first = End(a);

		return !first.empty() && first == End(b);
	}

	static std::string End(const std::string &path)
	{
		const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
		const off_t size = fd < 0 ? -1 : lseek(fd, 0, SEEK_END);
		const size_t n = std::min<off_t>(std::max<off_t>(size, 0), kComparedBytes);
		std::string end(n, 0);

		if (n && pread(fd, &end[0], n, size - n) != static_cast<ssize_t>(n))
			end.clear();
		if (fd >= 0)
			close(fd);
		return end.empty() ? end : std::to_string(size) + ":" + end;
	}

	std::shared_ptr<Drives> drives_;
};

/* linnos://DIR[=MODEL],DIR[=MODEL]...[?home] */
FileSystem *Make(const std::string &uri, std::unique_ptr<FileSystem> *guard, std::string *why)
{
	const std::string kHome = "?home";
	std::string list = uri.substr(strlen("linnos://"));
	linnos_options options = LINNOS_OPTIONS_INIT;
	auto drives = std::make_shared<Drives>();
	std::vector<std::string> models;
	std::vector<const char *> names;

	if (list.size() >= kHome.size() &&
	    !list.compare(list.size() - kHome.size(), kHome.size(), kHome)) {
		list.resize(list.size() - kHome.size());
		options.home_margin_percent = 100;
		options.explore_ms = 0;
	}
	for (size_t at = 0; at <= list.size();) {
		const size_t comma = std::min(list.find(',', at), list.size());
		const std::string one = list.substr(at, comma - at);
		const size_t equals = one.find('=');
		const std::string root = one.substr(0, equals);

		if (!fs::is_directory(root)) {
			*why = uri + ": " + root +
			       ": no folder; it is linnos://DIR[=MODEL],DIR[=MODEL]...";
			return nullptr;
		}
		drives->roots.push_back(root);
		models.push_back(equals == std::string::npos ? "" : one.substr(equals + 1));
		at = comma + 1;
	}
	for (const std::string &model : models)
		names.push_back(model.empty() ? nullptr : model.c_str());
	if (linnos_known_create(&drives->known, drives->roots.size(), names.data(), &options)) {
		*why = linnos_error();
		return nullptr;
	}
	guard->reset(new LinnosFileSystem(FileSystem::Default(), drives));
	return guard->get();
}

__attribute__((constructor)) void Register()
{
	ObjectLibrary::Default()->AddFactory<FileSystem>(
		ObjectLibrary::PatternEntry("linnos", false).AddSeparator("://", false), Make);
}

} // namespace
