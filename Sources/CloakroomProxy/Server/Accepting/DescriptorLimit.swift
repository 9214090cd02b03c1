#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#endif

/// How many file descriptors the process may have, and how many of them connections may take.
struct FileDescriptorLimit: Equatable {
    let total: Int

    /// Kept for all that is no connection: log, files, listening sockets, calls for sign-ins.
    var reserve: Int { max(64, total / 20) }

    /// How many connections from clients fit beside those to upstreams. At least one.
    /// - Parameter upstreams: The most connections to upstreams; where they would take more than half, each client is
    ///   taken to bring one along.
    func connections(beside upstreams: Int) -> Int {
        max(total - reserve - min(upstreams, (total - reserve) / 2), 1)
    }

    /// Takes as many as the process may have, and tells how many these are.
    /// - Returns: `nil` if the system does not say.
    static func raiseToHardLimit() -> FileDescriptorLimit? {
        var limit = rlimit()
        guard getrlimit(resource, &limit) == 0 else { return nil }
        if limit.rlim_cur < limit.rlim_max {
            let soft = limit.rlim_cur
            limit.rlim_cur = limit.rlim_max
            if setrlimit(resource, &limit) != 0 { limit.rlim_cur = soft }
        }
        return FileDescriptorLimit(total: Int(clamping: limit.rlim_cur))
    }

    #if canImport(Glibc)
        private static var resource: __rlimit_resource_t { __rlimit_resource_t(RLIMIT_NOFILE.rawValue) }
    #else
        private static var resource: Int32 { RLIMIT_NOFILE }
    #endif
}
