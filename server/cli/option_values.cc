#include "server/cli/option_values.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "google/protobuf/util/json_util.h"

#include "cache/base/status_macros.h"
#include "engine/model/utf8.h"
#include "server/cli/json_input.h"
#include "server/config_values.h"
#include "server/text.h"

namespace kvasir::cli {
namespace {

using google::protobuf::EnumDescriptor;

absl::Status Fault(absl::string_view wanted, const std::string& found) {
  return absl::InvalidArgumentError(
      absl::StrCat("wanted ", wanted, ", found ", QuoteText(found)));
}

bool OnlyDigits(absl::string_view text) {
  return !text.empty() && absl::c_all_of(text, [](unsigned char c) {
    return absl::ascii_isdigit(c);
  });
}

// Each value but the zero, as people write it.
std::vector<std::string> WordsOf(const EnumDescriptor& type) {
  // Values start with what the zero ends with "UNSPECIFIED".
  const std::string& zero = type.value(0)->name();
  const size_t prefix = zero.rfind("UNSPECIFIED");
  std::vector<std::string> words;
  for (int i = 1; i < type.value_count(); ++i) {
    words.push_back(absl::StrReplaceAll(
        absl::AsciiStrToLower(type.value(i)->name().substr(prefix)),
        {{"_", "-"}}));
  }
  return words;
}

}  // namespace

absl::StatusOr<std::string> ReadWord(const std::string& text) { return text; }

absl::StatusOr<int32_t> ReadInt(const std::string& text) {
  int32_t value = 0;
  if (absl::SimpleAtoi(text, &value)) return value;
  return Fault("a whole number of 32 bits", text);
}

absl::StatusOr<uint64_t> ReadSeed(const std::string& text) {
  uint64_t value = 0;
  if (OnlyDigits(text) && absl::SimpleAtoi(text, &value)) return value;
  return Fault("a number from 0 to 2^64 - 1", text);
}

absl::StatusOr<float> ReadNumber(const std::string& text) {
  float value = 0;
  if (absl::SimpleAtof(text, &value)) return value;
  return Fault("a number", text);
}

absl::StatusOr<google::protobuf::Duration> ReadTime(const std::string& text) {
  ASSIGN_OR_RETURN(absl::Duration rest, ParseDuration(text));
  google::protobuf::Duration time;
  time.set_seconds(absl::IDivDuration(rest, absl::Seconds(1), &rest));
  time.set_nanos(static_cast<int32_t>(absl::ToInt64Nanoseconds(rest)));
  return time;
}

absl::StatusOr<std::vector<uint32_t>> ReadTokenIds(const std::string& text) {
  std::vector<uint32_t> ids;
  for (const absl::string_view part :
       absl::StrSplit(text, absl::ByAnyChar(" ,\t\r\n[]"), absl::SkipEmpty())) {
    uint32_t id = 0;
    if (!OnlyDigits(part) || !absl::SimpleAtoi(part, &id)) {
      return Fault("token ids", std::string(part));
    }
    ids.push_back(id);
  }
  return ids;
}

absl::StatusOr<std::vector<uint32_t>> ReadSomeTokenIds(
    const std::string& text) {
  ASSIGN_OR_RETURN(std::vector<uint32_t> ids, ReadTokenIds(text));
  if (ids.empty()) return Fault("token ids", text);
  return ids;
}

absl::StatusOr<std::pair<uint32_t, float>> ReadBias(const std::string& text) {
  const std::pair<std::string, std::string> parts =
      absl::StrSplit(text, absl::MaxSplits('=', 1));
  uint32_t id = 0;
  float amount = 0;
  if (OnlyDigits(parts.first) && absl::SimpleAtoi(parts.first, &id) &&
      absl::SimpleAtof(parts.second, &amount)) {
    return std::make_pair(id, amount);
  }
  return Fault("ID=AMOUNT, such as 260=-1.5", text);
}

absl::StatusOr<std::pair<std::string, std::string>> ReadLabel(
    const std::string& text) {
  const size_t sign = text.find('=');
  if (sign == std::string::npos) return Fault("KEY=VALUE", text);
  return std::make_pair(text.substr(0, sign), text.substr(sign + 1));
}

absl::StatusOr<google::protobuf::Struct> ReadStruct(const std::string& text) {
  RETURN_IF_ERROR(CheckJsonObject(text));
  google::protobuf::Struct object;
  const auto read = google::protobuf::util::JsonStringToMessage(text, &object);
  if (read.ok()) return object;
  // What follows the first line draws where in the text it is.
  const absl::string_view words(read.message().data(), read.message().size());
  return absl::InvalidArgumentError(
      absl::StrCat("wanted a JSON object, found a fault: ",
                   words.substr(0, words.find('\n'))));
}

absl::StatusOr<int> ReadEnum(const EnumDescriptor& type,
                             const std::string& text) {
  const std::string word = absl::StrReplaceAll(text, {{"_", "-"}});
  const std::vector<std::string> words = WordsOf(type);
  const auto it = absl::c_find(words, word);
  if (it != words.end()) {
    return type.value(static_cast<int>(it - words.begin()) + 1)->number();
  }
  return Fault(absl::StrJoin(words, " or "), text);
}

std::string EnumWords(const EnumDescriptor& type) {
  return absl::StrJoin(WordsOf(type), "|");
}

}  // namespace kvasir::cli
