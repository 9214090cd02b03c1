public import CloakroomCore
public import Logging
import NIOCore

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#endif

/// Limit of file descriptors of the process.
public struct FileDescriptorLimit: Equatable, Sendable {
    let total: Int
    var cores = System.coreCount

    /// Two groups of event loops have one loop per core, with three descriptors each.
    private var loops: Int { 6 * cores }
    /// Required to start.
    var minimum: Int { loops + 64 }
    /// Reserved for everything except connections of clients and pools: event loops, the admin listener, stores, identity
    /// requests, health checks, listening sockets, and files, of which half may be sent to clients.
    var reserve: Int { max(total / 20, loops + min(256, (total - loops) / 2)) }

    /// Divides the other descriptors between client connections and pools. Pools get what they are configured for, up to
    /// half, and what client connections cannot use.
    public func budget(for configuration: GatewayConfiguration) -> DescriptorBudget {
        let available = max(total - reserve, 2)
        let pools = min(DescriptorBudget.poolConnections(of: configuration), available / 2)
        let connections = min(configuration.limits.connections, available - pools)
        return DescriptorBudget(
            total: total, connections: connections, pools: available - connections, files: max(reserve / 2, 1))
    }

    /// Raises the soft limit to the hard limit and returns the result. Must precede the first event loop, which cannot
    /// be created without descriptors.
    /// - Throws: ``FileDescriptorError`` if the limit is too low to start.
    public static func raised() throws(FileDescriptorError) -> FileDescriptorLimit {
        let limit = raiseToHardLimit() ?? FileDescriptorLimit(total: .max)
        guard limit.total >= limit.minimum else { throw FileDescriptorError(limit: limit) }
        return limit
    }

    /// - Returns: `nil` if the limit cannot be read.
    private static func raiseToHardLimit() -> FileDescriptorLimit? {
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

/// The process may open too few files to start.
public struct FileDescriptorError: Error, Equatable, CustomStringConvertible {
    let limit: FileDescriptorLimit

    /// The limit, the required number, and a suggestion.
    public var description: String {
        "the limit of open files is \(limit.total), at least \(limit.minimum) are required (raise it: ulimit -n,"
            + " LimitNOFILE of systemd)"
    }
}

/// The numbers of connections for which the process has descriptors; fixed at the start.
public struct DescriptorBudget: Equatable, Sendable {
    let total: Int
    /// Maximum number of client connections.
    let connections: Int
    /// Maximum number of connections of all pools.
    let pools: Int
    /// Maximum number of files that are sent at a time.
    var files = 128

    /// Lowers the limits of a configuration that exceed the budget, those of all pools by the same ratio, and logs it.
    public func fit(_ configuration: GatewayConfiguration, logger: Logger) -> GatewayConfiguration {
        var fitted = configuration
        let wanted = Self.poolConnections(of: configuration)
        fitted.limits.openFiles = files
        if connections < configuration.limits.connections {
            fitted.limits.connections = connections
            log(
                "connection limit lowered to the descriptor limit", configuration.limits.connections, connections,
                logger)
        }
        if pools < wanted {
            for index in fitted.upstreams.indices {
                let limit = fitted.upstreams[index].pool.maxConnections
                fitted.upstreams[index].pool.maxConnections = max(limit * pools / wanted, 1)
            }
            log("pools lowered to the descriptor limit", wanted, pools, logger)
        }
        return fitted
    }

    /// WebSockets to an upstream with HTTP/2 have a pool of their own.
    static func poolConnections(of configuration: GatewayConfiguration) -> Int {
        configuration.upstreams.reduce(0) {
            $0 + $1.pool.maxConnections * ($1.protocolVersion.allowsHTTP2 ? 2 : 1)
        }
    }

    private func log(_ message: Logger.Message, _ configured: Int, _ limit: Int, _ logger: Logger) {
        logger.log(
            level: 2 * limit < configured ? .warning : .notice, message,
            metadata: [
                "configured": "\(configured)", "limit": "\(limit)", "descriptors": "\(total)",
                "hint": "allow the process more open files: LimitNOFILE of systemd, ulimits of Compose, ulimit -n",
            ])
    }
}
