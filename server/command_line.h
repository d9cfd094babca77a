#ifndef KVASIR_SERVER_COMMAND_LINE_H_
#define KVASIR_SERVER_COMMAND_LINE_H_

#include <string>
#include <vector>

namespace kvasir {

// A program's arguments as CLI11 wants to be given them: from the back. It
// takes the empty value of "--name=" for none and the next argument in its
// place, so such a one becomes two, the name and an empty word. What follows
// "--" is left as it is.
std::vector<std::string> ArgumentsForCli11(
    const std::vector<std::string>& arguments);

// What CLI11 says of a fault, with the option's name and what was wanted also
// where a flag has got a value.
std::string FaultOfCli11(const std::string& words);

}  // namespace kvasir

#endif  // KVASIR_SERVER_COMMAND_LINE_H_
