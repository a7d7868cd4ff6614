// The files of the status page as strings, which the build embeds in the program.
#pragma once

namespace tandem::http {

extern const char kStatusPageHtml[], kStatusPageCss[], kStatusPageJs[];

}  // namespace tandem::http
