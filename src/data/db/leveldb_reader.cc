#include "data/db/leveldb_reader.h"

#include <fcntl.h>
#include <leveldb/db.h>
#include <leveldb/env.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>

extern "C" {
#include "core/io.h"
}

namespace {

// A table that is read by pread.
class File final : public leveldb::RandomAccessFile {
 public:
  File(const std::string &path, int fd, uint64_t size)
      : name_(path.substr(path.rfind('/') + 1)), fd_(fd), size_(size) {}
  ~File() override { cr_io_close(fd_); }

  leveldb::Status Read(uint64_t offset, size_t size, leveldb::Slice *result,
                       char *bytes) const override {
    ssize_t got = cr_io_read_at(fd_, bytes, size, static_cast<off_t>(offset));
    *result = leveldb::Slice(bytes, got < 0 ? 0 : static_cast<size_t>(got));
    if (got < 0) return leveldb::Status::IOError(name_, std::strerror(errno));
    if (static_cast<size_t>(got) == size) return leveldb::Status::OK();
    if (offset <= size_ && size <= size_ - offset) {
      return leveldb::Status::IOError(name_, "truncated while it was read");
    }
    return leveldb::Status::Corruption(name_, "points to data behind its end");
  }

 private:
  const std::string name_;
  const int fd_;
  const uint64_t size_;
};

// The library's own environment, except for how tables are read.
class Env final : public leveldb::EnvWrapper {
 public:
  Env() : leveldb::EnvWrapper(leveldb::Env::Default()) {}

  leveldb::Status NewRandomAccessFile(const std::string &path,
                                      leveldb::RandomAccessFile **out) override {
    struct stat info;
    *out = nullptr;
    int fd = cr_io_open(path.c_str(), O_RDONLY, 0);
    if (fd < 0) return error_of(path);
    if (fstat(fd, &info) != 0) {
      leveldb::Status status = error_of(path);
      cr_io_close(fd);
      return status;
    }
    *out = new File(path, fd, static_cast<uint64_t>(info.st_size));
    return leveldb::Status::OK();
  }

 private:
  static leveldb::Status error_of(const std::string &path) {
    if (errno == ENOENT) return leveldb::Status::NotFound(path, std::strerror(errno));
    return leveldb::Status::IOError(path, std::strerror(errno));
  }
};

char *text_of(const leveldb::Status &status) {
  return status.ok() ? nullptr : strdup(status.ToString().c_str());
}

leveldb::Iterator *iterator_of(cr_leveldb_cursor *cursor) {
  return reinterpret_cast<leveldb::Iterator *>(cursor);
}

const leveldb::Iterator *iterator_of(const cr_leveldb_cursor *cursor) {
  return reinterpret_cast<const leveldb::Iterator *>(cursor);
}

}  // namespace

struct cr_leveldb_reader {
  Env env;
  leveldb::DB *db = nullptr;
};

cr_leveldb_reader *cr_leveldb_reader_open(const char *path, char **error) {
  auto *reader = new cr_leveldb_reader;
  leveldb::Options options;
  options.env = &reader->env;
  options.paranoid_checks = true;
  options.max_open_files = 100;
  /* Replaying the log takes this memory at each opening; Caffe writes with 256 MB. */
  options.write_buffer_size = size_t{64} << 20;
  leveldb::Status status = leveldb::DB::Open(options, path, &reader->db);
  *error = text_of(status);
  if (status.ok()) return reader;
  delete reader;
  return nullptr;
}

void cr_leveldb_reader_close(cr_leveldb_reader *reader) {
  if (reader == nullptr) return;
  delete reader->db;
  delete reader;
}

cr_leveldb_cursor *cr_leveldb_cursor_open(cr_leveldb_reader *reader) {
  leveldb::ReadOptions options;
  options.verify_checksums = true;
  options.fill_cache = false;
  return reinterpret_cast<cr_leveldb_cursor *>(reader->db->NewIterator(options));
}

void cr_leveldb_cursor_close(cr_leveldb_cursor *cursor) {
  delete iterator_of(cursor);
}

void cr_leveldb_cursor_first(cr_leveldb_cursor *cursor) {
  iterator_of(cursor)->SeekToFirst();
}

void cr_leveldb_cursor_next(cr_leveldb_cursor *cursor) {
  iterator_of(cursor)->Next();
}

void cr_leveldb_cursor_seek(cr_leveldb_cursor *cursor, const void *key, size_t size) {
  iterator_of(cursor)->Seek(leveldb::Slice(static_cast<const char *>(key), size));
}

bool cr_leveldb_cursor_valid(const cr_leveldb_cursor *cursor, char **error) {
  *error = nullptr;
  if (iterator_of(cursor)->Valid()) return true;
  *error = text_of(iterator_of(cursor)->status());
  return false;
}

const void *cr_leveldb_cursor_key(const cr_leveldb_cursor *cursor, size_t *size) {
  leveldb::Slice key = iterator_of(cursor)->key();
  *size = key.size();
  return key.data();
}

const void *cr_leveldb_cursor_value(const cr_leveldb_cursor *cursor, size_t *size) {
  leveldb::Slice value = iterator_of(cursor)->value();
  *size = value.size();
  return value.data();
}
