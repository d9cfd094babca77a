#ifndef KVASIR_SERVER_CLI_OPTION_VALUES_H_
#define KVASIR_SERVER_CLI_OPTION_VALUES_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/duration.pb.h"
#include "google/protobuf/struct.pb.h"

namespace kvasir::cli {

// Words of the command line as values of the wire. What is no such value is
// INVALID_ARGUMENT in words that follow the option's name: "wanted ..., found
// ...". Which values make sense is not asked here: the server knows, and says
// so by the name of its field.

absl::StatusOr<std::string> ReadWord(const std::string& text);  // any
absl::StatusOr<int32_t> ReadInt(const std::string& text);
absl::StatusOr<uint64_t> ReadSeed(const std::string& text);
absl::StatusOr<float> ReadNumber(const std::string& text);

// "90s", "1m30s": as ParseDuration().
absl::StatusOr<google::protobuf::Duration> ReadTime(const std::string& text);

// Ids in any mix of blanks, commas and brackets, as other programs print lists
// of them; perhaps none.
absl::StatusOr<std::vector<uint32_t>> ReadTokenIds(const std::string& text);

// The same, at least one: a list of none would be as if nothing had been said.
absl::StatusOr<std::vector<uint32_t>> ReadSomeTokenIds(const std::string& text);

// "ID=AMOUNT".
absl::StatusOr<std::pair<uint32_t, float>> ReadBias(const std::string& text);

// "KEY=VALUE"; the value may hold further "=".
absl::StatusOr<std::pair<std::string, std::string>> ReadLabel(
    const std::string& text);

// A JSON object.
absl::StatusOr<google::protobuf::Struct> ReadStruct(const std::string& text);

// The number of "read-only" or "read_only" in an enum whose values are called
// CACHE_MODE_READ_ONLY and the like; errors list all but "unspecified".
absl::StatusOr<int> ReadEnum(const google::protobuf::EnumDescriptor& type,
                             const std::string& text);

// The words that ReadEnum() takes, as "read-write|read-only|bypass".
std::string EnumWords(const google::protobuf::EnumDescriptor& type);

}  // namespace kvasir::cli

#endif  // KVASIR_SERVER_CLI_OPTION_VALUES_H_
