// The files of the status page as strings. The build embeds the files in the program.
#pragma once

namespace tandem::http {

extern const char kStatusPageHtml[], kStatusPageCss[], kStatusPageJs[];

}  // namespace tandem::http
