// The SQLite library of the system.
#include <sqlite3.h>

/// SQLITE_TRANSIENT, a cast that Swift does not import: SQLite copies the bytes before the call returns.
static inline sqlite3_destructor_type sqlite_transient(void) { return SQLITE_TRANSIENT; }
