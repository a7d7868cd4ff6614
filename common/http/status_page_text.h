// The files of the status page, as the build put them into the program.
#pragma once

namespace tandem {

extern const char kStatusPageHtml[], kStatusPageCss[], kStatusPageJs[];

}  // namespace tandem
