#include <ctime>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"

#include "cache/base/status_macros.h"
#include "engine/template/globals.h"

namespace kvasir::jinja {
namespace {

constexpr const char* kDays[] = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                 "Thursday", "Friday", "Saturday"};
constexpr const char* kMonths[] = {
    "January", "February", "March",     "April",   "May",      "June",
    "July",    "August",   "September", "October", "November", "December"};

// `width` digits, filled up as glibc's flags say: - with nothing, _ with
// blanks, otherwise with `fill`.
std::string Digits(int value, int width, char fill, char flag) {
  std::string digits = absl::StrCat(value);
  if (flag == '-') return digits;
  if (flag == '_') fill = ' ';
  if (flag == '0') fill = '0';
  const auto wanted = static_cast<size_t>(width);
  if (digits.size() < wanted) digits.insert(0, wanted - digits.size(), fill);
  return digits;
}

// Weeks since the year's first Sunday or Monday.
int WeekOfYear(const std::tm& tm, int first_day) {
  return (tm.tm_yday + 7 - (tm.tm_wday + 7 - first_day) % 7) / 7;
}

absl::StatusOr<std::string> Convert(char conversion, char flag,
                                    const std::tm& tm, absl::Time time) {
  const std::string day = kDays[tm.tm_wday];
  const std::string month = kMonths[tm.tm_mon];
  const int hour12 = tm.tm_hour % 12 == 0 ? 12 : tm.tm_hour % 12;
  switch (conversion) {
    case 'a':
      return day.substr(0, 3);
    case 'A':
      return day;
    case 'b':
    case 'h':
      return month.substr(0, 3);
    case 'B':
      return month;
    case 'd':
      return Digits(tm.tm_mday, 2, '0', flag);
    case 'e':
      return Digits(tm.tm_mday, 2, ' ', flag);
    case 'f':
      return absl::StrFormat("%06d", absl::ToUnixMicros(time) % 1000000);
    case 'H':
      return Digits(tm.tm_hour, 2, '0', flag);
    case 'I':
      return Digits(hour12, 2, '0', flag);
    case 'j':
      return Digits(tm.tm_yday + 1, 3, '0', flag);
    case 'k':
      return Digits(tm.tm_hour, 2, ' ', flag);
    case 'l':
      return Digits(hour12, 2, ' ', flag);
    case 'm':
      return Digits(tm.tm_mon + 1, 2, '0', flag);
    case 'M':
      return Digits(tm.tm_min, 2, '0', flag);
    case 'n':
      return std::string("\n");
    case 'p':
      return std::string(tm.tm_hour < 12 ? "AM" : "PM");
    case 's':
      return absl::StrCat(absl::ToUnixSeconds(time));
    case 'S':
      return Digits(tm.tm_sec, 2, '0', flag);
    case 't':
      return std::string("\t");
    case 'u':
      return absl::StrCat(tm.tm_wday == 0 ? 7 : tm.tm_wday);
    case 'U':
      return Digits(WeekOfYear(tm, 0), 2, '0', flag);
    case 'w':
      return absl::StrCat(tm.tm_wday);
    case 'W':
      return Digits(WeekOfYear(tm, 1), 2, '0', flag);
    case 'y':
      return Digits(tm.tm_year % 100, 2, '0', flag);
    case 'Y':
      return absl::StrCat(tm.tm_year + 1900);
    case 'z':
    case 'Z':
      return std::string();  // Python's datetime.now() knows no zone
    case '%':
      return std::string("%");
    default:
      return absl::InvalidArgumentError(absl::StrCat("unknown conversion \"%",
                                                     std::string(1, conversion),
                                                     "\" of a time"));
  }
}

// Conversions that stand for several others.
std::string_view Expand(char conversion) {
  switch (conversion) {
    case 'c':
      return "%a %b %e %H:%M:%S %Y";
    case 'D':
    case 'x':
      return "%m/%d/%y";
    case 'F':
      return "%Y-%m-%d";
    case 'r':
      return "%I:%M:%S %p";
    case 'R':
      return "%H:%M";
    case 'T':
    case 'X':
      return "%H:%M:%S";
    default:
      return "";
  }
}

absl::StatusOr<std::string> Format(Budget& budget, std::string_view format,
                                   const std::tm& tm, absl::Time time) {
  // What one conversion makes, at most.
  constexpr size_t kMaxConvertedBytes = 32;
  std::string out;
  for (size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%' || i + 1 == format.size()) {
      out.push_back(format[i]);
      continue;
    }
    RETURN_IF_ERROR(budget.Step());
    RETURN_IF_ERROR(budget.Produce(kMaxConvertedBytes));
    char flag = 0;
    char conversion = format[++i];
    const bool has_flag =
        conversion == '-' || conversion == '_' || conversion == '0';
    if (has_flag && i + 1 < format.size()) {
      flag = conversion;
      conversion = format[++i];
    }
    if (const std::string_view parts = Expand(conversion); !parts.empty()) {
      ASSIGN_OR_RETURN(const std::string text, Format(budget, parts, tm, time));
      out += text;
      continue;
    }
    ASSIGN_OR_RETURN(const std::string text,
                     Convert(conversion, flag, tm, time));
    out += text;
  }
  return out;
}

}  // namespace

absl::StatusOr<std::string> FormatTime(Budget& budget, std::string_view format,
                                       absl::Time time) {
  RETURN_IF_ERROR(budget.Produce(format.size()));
  return Format(budget, format, absl::ToTM(time, absl::UTCTimeZone()), time);
}

}  // namespace kvasir::jinja
