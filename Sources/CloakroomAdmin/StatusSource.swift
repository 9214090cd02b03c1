public import CloakroomCore

/// The data of the status page that is not part of the metrics. Contains no session data. Each closure is called for
/// every request of the page, from any thread, and must not block.
public struct StatusDataSource: Sendable {
    /// The effective configuration and the result of the last reload.
    public var config: @Sendable () -> ConfigStatus
    /// The upstreams, in the order of the configuration.
    public var upstreams: @Sendable () -> [UpstreamStatus]
    /// The certificates of all listeners.
    public var certificates: @Sendable () -> [CertificateStatus]
    /// Whether the gateway is draining.
    public var isDraining: @Sendable () -> Bool
    /// The kind of session store, as configured: `memory`, `sqlite`, `valkey`.
    public var store: String
    /// The running version.
    public var version: String
    /// The commit of the build; `unknown` if not specified.
    public var commit: String

    /// Creates a source.
    public init(
        config: @escaping @Sendable () -> ConfigStatus, upstreams: @escaping @Sendable () -> [UpstreamStatus],
        certificates: @escaping @Sendable () -> [CertificateStatus],
        isDraining: @escaping @Sendable () -> Bool = { false }, store: String, version: String, commit: String
    ) {
        self.config = config
        self.upstreams = upstreams
        self.certificates = certificates
        self.isDraining = isDraining
        self.store = store
        self.version = version
        self.commit = commit
    }
}
