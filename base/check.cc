#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace duotone {

CheckFailure::CheckFailure(const char* file, int line, const char* condition) {
  stream_ << file << ":" << line << ": internal error, please report it: " << condition
          << " does not hold ";
}

CheckFailure::~CheckFailure() {
  std::fprintf(stderr, "%s\n", stream_.str().c_str());
  std::fflush(stderr);
  std::abort();
}

}  // namespace duotone
