// From the public options to those of the passes.
#ifndef DUOTONE_DUOTONE_TRANSLATE_OPTIONS_H_
#define DUOTONE_DUOTONE_TRANSLATE_OPTIONS_H_

#include "duotone/options.h"
#include "passes/options.h"

namespace duotone {

// Fills in what is left to us: the automatic loss scale and the optimizers' names. CheckOptions
// says whether they make sense.
passes::PassOptions ToPassOptions(const Options& options);

}  // namespace duotone

#endif  // DUOTONE_DUOTONE_TRANSLATE_OPTIONS_H_
