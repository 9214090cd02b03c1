// The zlib library of the system.
#include <zlib.h>
