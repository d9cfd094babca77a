#include "server/command_line.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace kvasir {

std::vector<std::string> ArgumentsForCli11(
    const std::vector<std::string>& arguments) {
  std::vector<std::string> words;
  bool options = true;
  for (const std::string& argument : arguments) {
    options &= argument != "--";
    if (options && absl::StartsWith(argument, "--") &&
        argument.find('=') == argument.size() - 1) {
      words.push_back(argument.substr(0, argument.size() - 1));
      words.emplace_back();
    } else {
      words.push_back(argument);
    }
  }
  std::reverse(words.begin(), words.end());
  return words;
}

std::string FaultOfCli11(const std::string& words) {
  constexpr absl::string_view kFlagWithValue =
      " was given a disallowed flag override";
  if (!absl::EndsWith(words, kFlagWithValue)) return words;
  return absl::StrCat("--",
                      words.substr(0, words.size() - kFlagWithValue.size()),
                      ": wanted no value, found one");
}

}  // namespace kvasir
