#include "engine/model/gguf_file.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"

#include "cache/base/status_macros.h"
#include "engine/model/byte_source.h"
#include "engine/model/gguf_parser.h"
#include "engine/model/sha256.h"

namespace kvasir {
namespace {

// Bytes that are read and hashed at a time: they are still in the processor's
// cache when they are hashed.
constexpr int64_t kReadBytes = int64_t{1} << 18;

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

absl::Status InFile(const std::string& path, const absl::Status& status) {
  return absl::Status(status.code(),
                      absl::StrCat(path, ": ", status.message()));
}

// Reads a source's bytes one after the other and hashes them.
class HashingReader {
 public:
  HashingReader(const ByteSource& source, int64_t position, Sha256 hash)
      : source_(source), position_(position), hash_(std::move(hash)) {}

  absl::Status Read(absl::Span<uint8_t> out) {
    while (!out.empty()) {
      const absl::Span<uint8_t> piece =
          out.first(std::min(out.size(), size_t{kReadBytes}));
      RETURN_IF_ERROR(source_.ReadAt(position_, piece));
      hash_.Update(piece);
      position_ += static_cast<int64_t>(piece.size());
      out.remove_prefix(piece.size());
    }
    return absl::OkStatus();
  }

  // Padding, or what else stands between tensors and behind them.
  absl::Status SkipTo(int64_t position) {
    std::vector<uint8_t> skipped;
    while (position_ < position) {
      skipped.resize(std::min(position - position_, kReadBytes));
      RETURN_IF_ERROR(Read(absl::MakeSpan(skipped)));
    }
    return absl::OkStatus();
  }

  std::string Hex() const { return hash_.Hex(); }

 private:
  const ByteSource& source_;
  int64_t position_;
  Sha256 hash_;
};

// Room for any of `tensors`.
absl::StatusOr<std::unique_ptr<uint8_t[]>> MakeRoom(
    absl::Span<const GgufTensor> tensors) {
  int64_t bytes = 0;
  for (const GgufTensor& tensor : tensors) {
    bytes = std::max(bytes, tensor.bytes);
  }
  std::unique_ptr<uint8_t[]> room(new (std::nothrow) uint8_t[bytes]);
  if (room != nullptr) return room;
  return absl::ResourceExhaustedError(absl::StrCat(
      "no memory for a tensor of ", bytes, " bytes, to read it into"));
}

}  // namespace

HostMatrix GgufTensor::AsMatrix(const uint8_t* data) const {
  int64_t rows = 1;
  for (size_t i = 1; i < dims.size(); ++i) rows *= dims[i];
  return {type, rows, dims[0], data};
}

struct GgufFile::Impl {
  std::string path;
  std::unique_ptr<ByteSource> source;
  GgufContents contents;
  absl::flat_hash_map<std::string, size_t> tensor_by_name;

  static absl::StatusOr<std::unique_ptr<GgufFile>> Make(
      std::unique_ptr<ByteSource> source, std::string path);
  absl::StatusOr<std::string> ReadThrough(TensorVisitor visit) const;

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
  absl::StatusOr<std::unique_ptr<ByteSource>> source = OpenFileSource(path);
  if (!source.ok()) return InFile(path, source.status());
  return Impl::Make(*std::move(source), path);
}

absl::StatusOr<std::unique_ptr<GgufFile>> GgufFile::Parse(
    absl::Span<const uint8_t> bytes, std::string name) {
  return Impl::Make(MakeMemorySource(bytes), std::move(name));
}

absl::StatusOr<std::unique_ptr<GgufFile>> GgufFile::Impl::Make(
    std::unique_ptr<ByteSource> source, std::string path) {
  absl::StatusOr<GgufContents> contents = ParseGguf(*source);
  if (!contents.ok()) return InFile(path, contents.status());
  auto impl = std::make_unique<Impl>();
  impl->path = std::move(path);
  impl->source = std::move(source);
  impl->contents = *std::move(contents);
  for (size_t i = 0; i < impl->contents.tensors.size(); ++i) {
    impl->tensor_by_name[impl->contents.tensors[i].name] = i;
  }
  return std::unique_ptr<GgufFile>(new GgufFile(std::move(impl)));
}

const std::string& GgufFile::path() const { return impl_->path; }
int64_t GgufFile::file_bytes() const { return impl_->source->size(); }
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

absl::StatusOr<std::vector<uint8_t>> GgufFile::ReadTensor(
    const GgufTensor& tensor) const {
  std::vector<uint8_t> bytes(tensor.bytes);
  const absl::Status read =
      impl_->source->ReadAt(tensor.offset, absl::MakeSpan(bytes));
  if (!read.ok()) return InFile(impl_->path, read);
  return bytes;
}

absl::StatusOr<std::string> GgufFile::Impl::ReadThrough(
    TensorVisitor visit) const {
  std::vector<const GgufTensor*> order;
  for (const GgufTensor& tensor : contents.tensors) order.push_back(&tensor);
  std::sort(order.begin(), order.end(),
            [](auto* a, auto* b) { return a->offset < b->offset; });
  ASSIGN_OR_RETURN(const std::unique_ptr<uint8_t[]> room,
                   MakeRoom(contents.tensors));
  HashingReader reader(*source, contents.header_bytes, contents.header_hash);
  for (const GgufTensor* tensor : order) {
    RETURN_IF_ERROR(reader.SkipTo(tensor->offset));
    RETURN_IF_ERROR(
        reader.Read({room.get(), static_cast<size_t>(tensor->bytes)}));
    RETURN_IF_ERROR(visit(*tensor, room.get()));
  }
  RETURN_IF_ERROR(reader.SkipTo(source->size()));
  return reader.Hex();
}

absl::StatusOr<std::string> GgufFile::ReadThrough(TensorVisitor visit) const {
  absl::StatusOr<std::string> digest = impl_->ReadThrough(visit);
  // Before any other complaint: a change explains it.
  const absl::Status unchanged = impl_->source->CheckUnchanged();
  if (!unchanged.ok() && !absl::IsCancelled(digest.status())) {
    return InFile(impl_->path, unchanged);
  }
  if (!digest.ok()) return InFile(impl_->path, digest.status());
  return digest;
}

}  // namespace kvasir
