#include "engine/model/gguf_parser.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

#include "cache/base/check.h"
#include "cache/base/status_macros.h"

namespace kvasir {
namespace {

constexpr uint64_t kMaxKeyBytes = 65535;  // the format's own limit
constexpr uint64_t kMaxTensorNameBytes = 1024;
constexpr uint64_t kMaxDims = 4;
constexpr int64_t kDefaultAlignment = 32;
constexpr int64_t kMinAlignment = 8;
constexpr int64_t kMaxAlignment = int64_t{1} << 20;
// Fewest bytes of a metadata entry (key length, one letter, type, value) and of
// a tensor record (name length, one letter, count, one dimension, type,
// offset): what bounds the claimed counts.
constexpr uint64_t kMinEntryBytes = 8 + 1 + 4 + 1;
constexpr uint64_t kMinTensorBytes = 8 + 1 + 4 + 8 + 4 + 8;
// Numbers that ggml gives to tensor types; those without kernels here are
// unsupported rather than nonsense.
constexpr uint64_t kKnownTypeIds = 40;
// Of the header in memory at a time.
constexpr uint64_t kWindowBytes = uint64_t{1} << 16;

absl::StatusOr<DType> TensorType(uint64_t id, const std::string& field) {
  switch (id) {
    case 0:
      return DType::kF32;
    case 1:
      return DType::kF16;
    case 2:
      return DType::kQ4_0;
    case 3:
      return DType::kQ4_1;
    case 6:
      return DType::kQ5_0;
    case 7:
      return DType::kQ5_1;
    case 8:
      return DType::kQ8_0;
    case 12:
      return DType::kQ4_K;
    case 13:
      return DType::kQ5_K;
    case 14:
      return DType::kQ6_K;
    case 30:
      return DType::kBF16;
    default:
      break;
  }
  if (id < kKnownTypeIds) {
    return absl::UnimplementedError(absl::StrCat(
        field, ": type id ", id,
        " has no kernels (F32 F16 BF16 Q8_0 Q4_0 Q4_1 Q5_0 Q5_1 Q4_K Q5_K Q6_K "
        "have)"));
  }
  return absl::InvalidArgumentError(
      absl::StrCat(field, ": wanted a tensor type id below ", kKnownTypeIds,
                   ", found ", id));
}

// A tensor as its record describes it, before its place is checked.
struct TensorRecord {
  GgufTensor tensor;
  uint64_t offset = 0;  // from the start of the data
};

absl::Status ReadDims(ByteReader& reader, const std::string& field,
                      GgufTensor& tensor) {
  ASSIGN_OR_RETURN(const uint64_t count,
                   reader.Unsigned(4, absl::StrCat(field, " (dimensions)")));
  if (count < 1 || count > kMaxDims) {
    return absl::InvalidArgumentError(absl::StrCat(
        field, ": wanted 1 to ", kMaxDims, " dimensions, found ", count));
  }
  for (uint64_t i = 0; i < count; ++i) {
    const std::string name = absl::StrCat(field, " (dimension ", i, ")");
    ASSIGN_OR_RETURN(const uint64_t dim, reader.Unsigned(8, name));
    if (dim < 1 ||
        dim > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      return absl::InvalidArgumentError(
          absl::StrCat(name, ": wanted 1 or more and below 2^63, found ", dim));
    }
    tensor.dims.push_back(static_cast<int64_t>(dim));
  }
  return absl::OkStatus();
}

// Sets `tensor.bytes` from its type and dims.
absl::Status MeasureTensor(const std::string& field, GgufTensor& tensor) {
  const int64_t block = DTypeBlockElements(tensor.type);
  if (tensor.dims[0] % block != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        field, ": wanted rows of a multiple of ", block, " for ",
        std::string(DTypeName(tensor.type)), ", found ", tensor.dims[0]));
  }
  int64_t bytes = 0;
  bool overflow = __builtin_mul_overflow(tensor.dims[0] / block,
                                         DTypeBlockBytes(tensor.type), &bytes);
  for (size_t i = 1; i < tensor.dims.size(); ++i) {
    overflow |= __builtin_mul_overflow(bytes, tensor.dims[i], &bytes);
  }
  // Room for the alignment's padding, too.
  if (overflow || bytes > std::numeric_limits<int64_t>::max() - kMaxAlignment) {
    return absl::InvalidArgumentError(absl::StrCat(
        field, ": the product of the dimensions does not fit in 63 bits"));
  }
  tensor.bytes = bytes;
  return absl::OkStatus();
}

absl::StatusOr<TensorRecord> ReadTensor(ByteReader& reader, uint64_t index,
                                        int64_t alignment) {
  const std::string position = absl::StrCat("tensor ", index);
  TensorRecord record;
  ASSIGN_OR_RETURN(
      record.tensor.name,
      reader.Text(kMaxTensorNameBytes, absl::StrCat(position, " (name)")));
  if (record.tensor.name.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(position, ": wanted a name, found an empty one"));
  }
  const std::string field =
      absl::StrCat("tensor ", absl::CHexEscape(record.tensor.name));
  RETURN_IF_ERROR(ReadDims(reader, field, record.tensor));
  ASSIGN_OR_RETURN(const uint64_t type,
                   reader.Unsigned(4, absl::StrCat(field, " (type)")));
  ASSIGN_OR_RETURN(record.tensor.type, TensorType(type, field));
  RETURN_IF_ERROR(MeasureTensor(field, record.tensor));
  ASSIGN_OR_RETURN(record.offset,
                   reader.Unsigned(8, absl::StrCat(field, " (offset)")));
  if (record.offset % alignment != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(field, ": wanted an offset that is a multiple of ",
                     alignment, ", found ", record.offset));
  }
  return record;
}

absl::Status ReadMetadata(ByteReader& reader, uint64_t count,
                          GgufContents& contents) {
  for (uint64_t i = 0; i < count; ++i) {
    ASSIGN_OR_RETURN(
        const std::string key,
        reader.Text(kMaxKeyBytes, absl::StrCat("metadata key ", i)));
    if (key.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "metadata key ", i, ": wanted a name, found an empty one"));
    }
    const std::string field = absl::CHexEscape(key);
    ASSIGN_OR_RETURN(const uint64_t type,
                     reader.Unsigned(4, absl::StrCat(field, " (value type)")));
    ASSIGN_OR_RETURN(GgufValue value, ParseGgufValue(reader, type, field));
    if (!contents.metadata.emplace(key, std::move(value)).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("metadata key ", field, " stands in the file twice"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<int64_t> ReadAlignment(const GgufContents& contents) {
  const auto found = contents.metadata.find("general.alignment");
  if (found == contents.metadata.end()) return kDefaultAlignment;
  const int64_t* value = std::get_if<int64_t>(&found->second);
  if (value == nullptr || *value < kMinAlignment || *value > kMaxAlignment ||
      !std::has_single_bit(static_cast<uint64_t>(*value))) {
    return absl::InvalidArgumentError(
        absl::StrCat("general.alignment: wanted a power of two from ",
                     kMinAlignment, " to ", kMaxAlignment, ", found ",
                     value == nullptr ? "another type" : absl::StrCat(*value)));
  }
  return *value;
}

std::string TensorField(const TensorRecord& record) {
  return absl::StrCat("tensor ", absl::CHexEscape(record.tensor.name));
}

// Where a tensor's data ends, counted from the start of the file.
absl::StatusOr<int64_t> TensorEnd(const TensorRecord& record,
                                  int64_t data_start) {
  int64_t end = 0;
  if (record.offset >
          static_cast<uint64_t>(std::numeric_limits<int64_t>::max()) ||
      __builtin_add_overflow(static_cast<int64_t>(record.offset),
                             record.tensor.bytes, &end) ||
      __builtin_add_overflow(end, data_start, &end)) {
    return absl::InvalidArgumentError(absl::StrCat(TensorField(record),
                                                   ": offset ", record.offset,
                                                   " is beyond any file"));
  }
  return end;
}

// The last tensor in the file's order tells how large the file must be, which
// says more about a cut file than the first tensor that is missing.
absl::Status CheckFileSize(int64_t file_bytes, int64_t data_start,
                           const std::vector<TensorRecord>& records) {
  int64_t wanted = 0;
  const TensorRecord* last = nullptr;
  for (const TensorRecord& record : records) {
    ASSIGN_OR_RETURN(const int64_t end, TensorEnd(record, data_start));
    if (end > wanted) {
      wanted = end;
      last = &record;
    }
  }
  if (wanted <= file_bytes) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      TensorField(*last), " ends at byte ", wanted,
      ": wanted a file of at least that size, found ", file_bytes, " bytes"));
}

// Checks that every tensor lies in the file and apart from the others, and
// tells it where.
absl::Status PlaceTensors(int64_t file_bytes, int64_t data_start,
                          std::vector<TensorRecord>& records) {
  RETURN_IF_ERROR(CheckFileSize(file_bytes, data_start, records));
  std::vector<TensorRecord*> order;
  for (TensorRecord& record : records) order.push_back(&record);
  std::sort(order.begin(), order.end(),
            [](auto* a, auto* b) { return a->offset < b->offset; });
  const TensorRecord* previous = nullptr;
  for (TensorRecord* record : order) {
    if (previous != nullptr &&
        record->offset < previous->offset + previous->tensor.bytes) {
      return absl::InvalidArgumentError(absl::StrCat(
          TensorField(*record), " overlaps ", TensorField(*previous)));
    }
    record->tensor.offset = data_start + static_cast<int64_t>(record->offset);
    previous = record;
  }
  return absl::OkStatus();
}

absl::Status CheckCount(const char* field, uint64_t count, uint64_t least_bytes,
                        uint64_t remaining) {
  if (count <= remaining / least_bytes) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(field, ": ", count, " wanted, ", remaining,
                   " bytes are left in the file"));
}

absl::Status ReadTensors(int64_t file_bytes, ByteReader& reader, uint64_t count,
                         GgufContents& contents) {
  RETURN_IF_ERROR(
      CheckCount("tensor count", count, kMinTensorBytes, reader.remaining()));
  std::vector<TensorRecord> records;
  absl::flat_hash_set<std::string> names;
  for (uint64_t i = 0; i < count; ++i) {
    ASSIGN_OR_RETURN(TensorRecord record,
                     ReadTensor(reader, i, contents.alignment));
    if (!names.insert(record.tensor.name).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("tensor ", absl::CHexEscape(record.tensor.name),
                       " stands in the file twice"));
    }
    records.push_back(std::move(record));
  }
  const int64_t alignment = contents.alignment;
  const int64_t data_start =
      (reader.position() + alignment - 1) / alignment * alignment;
  RETURN_IF_ERROR(PlaceTensors(file_bytes, data_start, records));
  for (TensorRecord& record : records) {
    contents.tensors.push_back(std::move(record.tensor));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<uint64_t> ByteReader::Unsigned(int bytes,
                                              const std::string& field) {
  if (remaining() < static_cast<uint64_t>(bytes)) {
    return absl::InvalidArgumentError(
        absl::StrCat(field, ": wanted ", bytes, " bytes at ", position_, ", ",
                     remaining(), " are left in the file"));
  }
  uint8_t raw[8] = {};
  RETURN_IF_ERROR(Take({raw, static_cast<size_t>(bytes)}));
  uint64_t value = 0;
  for (int i = 0; i < bytes; ++i) value |= uint64_t{raw[i]} << (8 * i);
  return value;
}

absl::StatusOr<std::string> ByteReader::Text(uint64_t limit,
                                             const std::string& field) {
  ASSIGN_OR_RETURN(const uint64_t length,
                   Unsigned(8, absl::StrCat(field, " (length)")));
  if (length > limit || length > remaining()) {
    return absl::InvalidArgumentError(
        absl::StrCat(field, ": wanted at most ", std::min(limit, remaining()),
                     " bytes of text, found a length of ", length));
  }
  std::string text(length, '\0');
  RETURN_IF_ERROR(Take({reinterpret_cast<uint8_t*>(text.data()), length}));
  return text;
}

absl::Status ByteReader::Take(absl::Span<uint8_t> out) {
  KV_DCHECK(out.size() <= remaining());
  while (!out.empty()) {
    if (taken_ == window_.size()) {
      hash_.Update(absl::MakeConstSpan(window_));
      window_.resize(std::min(kWindowBytes, remaining()));
      taken_ = 0;
      const absl::Status read =
          source_.ReadAt(position_, absl::MakeSpan(window_));
      if (!read.ok()) {
        window_.clear();
        return read;
      }
    }
    const size_t count = std::min(out.size(), window_.size() - taken_);
    std::memcpy(out.data(), window_.data() + taken_, count);
    out.remove_prefix(count);
    taken_ += count;
    position_ += static_cast<int64_t>(count);
  }
  return absl::OkStatus();
}

Sha256 ByteReader::Hash() const {
  Sha256 hash = hash_;
  hash.Update(absl::MakeConstSpan(window_).first(taken_));
  return hash;
}

absl::StatusOr<GgufContents> ParseGguf(const ByteSource& source) {
  constexpr uint64_t kMagic = 0x46554747;  // "GGUF"
  constexpr uint64_t kVersion = 3;
  ByteReader reader(&source);
  ASSIGN_OR_RETURN(const uint64_t magic, reader.Unsigned(4, "magic"));
  if (magic != kMagic) {
    return absl::InvalidArgumentError(
        absl::StrCat("magic: wanted \"GGUF\", found bytes ",
                     absl::Hex(magic, absl::kZeroPad8),
                     " (not a GGUF file, or a big-endian one)"));
  }
  ASSIGN_OR_RETURN(const uint64_t version, reader.Unsigned(4, "version"));
  if (version != kVersion) {
    return absl::UnimplementedError(
        absl::StrCat("version: wanted ", kVersion, ", found ", version));
  }
  GgufContents contents;
  ASSIGN_OR_RETURN(const uint64_t tensors, reader.Unsigned(8, "tensor count"));
  ASSIGN_OR_RETURN(const uint64_t entries,
                   reader.Unsigned(8, "metadata count"));
  RETURN_IF_ERROR(
      CheckCount("tensor count", tensors, kMinTensorBytes, reader.remaining()));
  RETURN_IF_ERROR(CheckCount("metadata count", entries, kMinEntryBytes,
                             reader.remaining()));
  RETURN_IF_ERROR(ReadMetadata(reader, entries, contents));
  ASSIGN_OR_RETURN(contents.alignment, ReadAlignment(contents));
  RETURN_IF_ERROR(ReadTensors(source.size(), reader, tensors, contents));
  contents.header_bytes = reader.position();
  contents.header_hash = reader.Hash();
  return contents;
}

}  // namespace kvasir
