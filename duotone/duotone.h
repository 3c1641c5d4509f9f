// Duotone: mixed-precision training compiled from C++. This header brings the whole public API.
#ifndef DUOTONE_DUOTONE_DUOTONE_H_
#define DUOTONE_DUOTONE_DUOTONE_H_

#include "base/dtype.h"             // IWYU pragma: export
#include "duotone/checkpoint.h"     // IWYU pragma: export
#include "duotone/graph_builder.h"  // IWYU pragma: export
#include "duotone/initializers.h"   // IWYU pragma: export
#include "duotone/ops.h"            // IWYU pragma: export
#include "duotone/options.h"        // IWYU pragma: export
#include "duotone/session.h"        // IWYU pragma: export
#include "duotone/types.h"          // IWYU pragma: export

#endif  // DUOTONE_DUOTONE_DUOTONE_H_
