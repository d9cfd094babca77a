#include "engine/model/gguf_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/base/call_once.h"
#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "openssl/evp.h"

#include "cache/base/check.h"
#include "cache/base/status_macros.h"
#include "engine/model/gguf_parser.h"

namespace kvasir {
namespace {

// A read-only mapping of a whole file; unmapped by the destructor.
class MappedFile {
 public:
  static absl::StatusOr<std::unique_ptr<MappedFile>> Open(
      const std::string& path) {
    // Without O_NONBLOCK, opening a named pipe would wait for a writer.
    const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
      const std::string why = std::strerror(errno);
      return errno == ENOENT
                 ? absl::NotFoundError(absl::StrCat(path, ": no such file"))
                 : absl::InvalidArgumentError(absl::StrCat(path, ": ", why));
    }
    absl::StatusOr<std::unique_ptr<MappedFile>> mapped = Map(fd, path);
    close(fd);
    return mapped;
  }
  ~MappedFile() { munmap(data_, size_); }
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  absl::Span<const uint8_t> bytes() const {
    return {static_cast<const uint8_t*>(data_), size_};
  }

 private:
  MappedFile(void* data, size_t size) : data_(data), size_(size) {}

  static absl::StatusOr<std::unique_ptr<MappedFile>> Map(
      int fd, const std::string& path) {
    struct stat status;
    if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": wanted a regular file"));
    }
    if (status.st_size == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": wanted a GGUF file, found an empty one"));
    }
    const auto size = static_cast<size_t>(status.st_size);
    void* data = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (data == MAP_FAILED) {
      return absl::ResourceExhaustedError(absl::StrCat(
          path, ": mapping ", size, " bytes failed: ", std::strerror(errno)));
    }
    return std::unique_ptr<MappedFile>(new MappedFile(data, size));
  }

  void* data_;
  size_t size_;
};

// What a value is, for errors; in the order of GgufValue's alternatives.
const char* TypeName(const GgufValue& value) {
  constexpr const char* kNames[] = {
      "a bool",
      "an integer",
      "an integer of 2^63 or more",
      "a float",
      "a string",
      "an array of bools",
      "an array of integers",
      "an array of floats",
      "an array of strings",
  };
  static_assert(std::size(kNames) == std::variant_size_v<GgufValue>);
  return kNames[value.index()];
}

std::string Sha256Hex(absl::Span<const uint8_t> bytes) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int length = 0;
  KV_CHECK(EVP_Digest(bytes.data(), bytes.size(), digest, &length, EVP_sha256(),
                      nullptr) == 1);
  return absl::BytesToHexString(
      std::string(reinterpret_cast<char*>(digest), length));
}

}  // namespace

HostMatrix GgufTensor::AsMatrix() const {
  int64_t rows = 1;
  for (size_t i = 1; i < dims.size(); ++i) rows *= dims[i];
  return {type, rows, dims[0], data};
}

struct GgufFile::Impl {
  std::string path;
  std::unique_ptr<MappedFile> mapping;  // null when parsed from memory
  absl::Span<const uint8_t> bytes;
  GgufContents contents;
  absl::flat_hash_map<std::string, size_t> tensor_by_name;
  mutable absl::once_flag digest_once;
  mutable std::string digest;

  template <typename T>
  absl::StatusOr<const T*> Get(const std::string& key,
                               const char* wanted) const {
    const auto found = contents.metadata.find(key);
    if (found == contents.metadata.end()) {
      return absl::NotFoundError(
          absl::StrCat(path, ": metadata key ", key, " is missing"));
    }
    const T* value = std::get_if<T>(&found->second);
    if (value == nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": metadata key ", key, ": wanted ", wanted,
                       ", found ", TypeName(found->second)));
    }
    return value;
  }
};

GgufFile::GgufFile(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
GgufFile::~GgufFile() = default;

absl::StatusOr<std::unique_ptr<GgufFile>> GgufFile::Open(
    const std::string& path) {
  ASSIGN_OR_RETURN(std::unique_ptr<MappedFile> mapping, MappedFile::Open(path));
  ASSIGN_OR_RETURN(std::unique_ptr<GgufFile> file,
                   Parse(mapping->bytes(), path));
  file->impl_->mapping = std::move(mapping);
  return file;
}

absl::StatusOr<std::unique_ptr<GgufFile>> GgufFile::Parse(
    absl::Span<const uint8_t> bytes, std::string name) {
  absl::StatusOr<GgufContents> contents = ParseGguf(bytes);
  if (!contents.ok()) {
    return absl::Status(contents.status().code(),
                        absl::StrCat(name, ": ", contents.status().message()));
  }
  auto impl = std::make_unique<Impl>();
  impl->path = std::move(name);
  impl->bytes = bytes;
  impl->contents = *std::move(contents);
  for (size_t i = 0; i < impl->contents.tensors.size(); ++i) {
    impl->tensor_by_name[impl->contents.tensors[i].name] = i;
  }
  return std::unique_ptr<GgufFile>(new GgufFile(std::move(impl)));
}

const std::string& GgufFile::path() const { return impl_->path; }
int64_t GgufFile::file_bytes() const {
  return static_cast<int64_t>(impl_->bytes.size());
}
int64_t GgufFile::alignment() const { return impl_->contents.alignment; }

const absl::flat_hash_map<std::string, GgufValue>& GgufFile::metadata() const {
  return impl_->contents.metadata;
}

absl::Span<const GgufTensor> GgufFile::tensors() const {
  return impl_->contents.tensors;
}

const GgufTensor* GgufFile::FindTensor(std::string_view name) const {
  const auto found = impl_->tensor_by_name.find(std::string(name));
  return found == impl_->tensor_by_name.end()
             ? nullptr
             : &impl_->contents.tensors[found->second];
}

bool GgufFile::Has(std::string_view key) const {
  return impl_->contents.metadata.contains(std::string(key));
}

absl::StatusOr<int64_t> GgufFile::GetInt(std::string_view key) const {
  ASSIGN_OR_RETURN(const int64_t* value,
                   impl_->Get<int64_t>(std::string(key), "an integer"));
  return *value;
}

absl::StatusOr<double> GgufFile::GetFloat(std::string_view key) const {
  ASSIGN_OR_RETURN(const double* value,
                   impl_->Get<double>(std::string(key), "a float"));
  return *value;
}

absl::StatusOr<bool> GgufFile::GetBool(std::string_view key) const {
  ASSIGN_OR_RETURN(const bool* value,
                   impl_->Get<bool>(std::string(key), "a bool"));
  return *value;
}

absl::StatusOr<std::string> GgufFile::GetString(std::string_view key) const {
  ASSIGN_OR_RETURN(const std::string* value,
                   impl_->Get<std::string>(std::string(key), "a string"));
  return *value;
}

absl::StatusOr<absl::Span<const std::string>> GgufFile::GetStrings(
    std::string_view key) const {
  ASSIGN_OR_RETURN(const std::vector<std::string>* values,
                   impl_->Get<std::vector<std::string>>(std::string(key),
                                                        "an array of strings"));
  return absl::Span<const std::string>(*values);
}

absl::StatusOr<absl::Span<const int64_t>> GgufFile::GetInts(
    std::string_view key) const {
  ASSIGN_OR_RETURN(const std::vector<int64_t>* values,
                   impl_->Get<std::vector<int64_t>>(std::string(key),
                                                    "an array of integers"));
  return absl::Span<const int64_t>(*values);
}

const std::string& GgufFile::Digest() const {
  absl::call_once(impl_->digest_once,
                  [this] { impl_->digest = Sha256Hex(impl_->bytes); });
  return impl_->digest;
}

}  // namespace kvasir
