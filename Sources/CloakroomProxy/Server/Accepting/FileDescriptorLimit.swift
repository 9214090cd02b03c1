#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#endif

/// Limit of file descriptors of the process, and the share of it that connections may use.
struct FileDescriptorLimit: Equatable {
    let total: Int

    /// Reserved for everything except connections: log, files, listening sockets, identity requests.
    var reserve: Int { max(64, total / 20) }

    /// Maximum number of client connections, in addition to upstream connections. At least 1.
    /// - Parameter upstreams: Maximum number of upstream connections. If that exceeds half of the descriptors, one
    ///   upstream connection per client connection is assumed.
    func connections(beside upstreams: Int) -> Int {
        max(total - reserve - min(upstreams, (total - reserve) / 2), 1)
    }

    /// Raises the soft limit to the hard limit and returns the result.
    /// - Returns: `nil` if the limit cannot be read.
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
