#ifndef KVASIR_SERVER_CLI_FIELD_OPTIONS_H_
#define KVASIR_SERVER_CLI_FIELD_OPTIONS_H_

#include <functional>
#include <string>
#include <utility>

#include "absl/status/status.h"

#include "CLI/CLI.hpp"

namespace kvasir::cli {

// Adds options to one group of a command's help, each of which sets a field of
// a request while the command line is read; so none can be read and forgotten.
//
// `read` makes a value of the option's text or says, as StatusOr, what is wrong
// with it, which ends the program by a line with the option's name. `set` gets
// the value; what it refers to outlives the parsing.
class FieldOptions {
 public:
  FieldOptions(CLI::App& command, std::string group)
      : command_(command), group_(std::move(group)) {}

  // At most once on a command line.
  template <typename Read, typename Set>
  CLI::Option* Once(const char* names, const char* type, const char* help,
                    Read read, Set set) {
    // CLI11's own conversions take "{}" for an empty list, and wrap negative
    // numbers round; so texts go by them.
    CLI::callback_t take = [read, set](const CLI::results_t& texts) {
      for (const std::string& text : texts) set(*read(text));
      return true;
    };
    return command_.add_option(names, std::move(take), help)
        ->type_name(type)
        ->group(group_)
        ->check([read](const std::string& text) {
          const auto value = read(text);
          return value.ok() ? std::string()
                            : std::string(value.status().message());
        });
  }

  // Any number of times, one value each.
  template <typename Read, typename Set>
  CLI::Option* Many(const char* names, const char* type, const char* help,
                    Read read, Set set) {
    return Once(names, type, help, std::move(read), std::move(set))
        ->take_all()
        ->allow_extra_args(false);
  }

  CLI::Option* Flag(const char* names, const char* help,
                    std::function<void()> set) {
    return command_.add_flag_callback(names, std::move(set), help)
        ->group(group_);
  }

  // Two flags of which one may be there.
  void Either(const char* yes, const char* yes_help, const char* no,
              const char* no_help, const std::function<void(bool)>& set) {
    CLI::Option* const first = Flag(yes, yes_help, [set] { set(true); });
    Flag(no, no_help, [set] { set(false); })->excludes(first);
  }

 private:
  CLI::App& command_;
  const std::string group_;
};

}  // namespace kvasir::cli

#endif  // KVASIR_SERVER_CLI_FIELD_OPTIONS_H_
