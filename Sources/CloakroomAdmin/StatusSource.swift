public import CloakroomCore

/// What the status page asks the rest of the gateway, beyond what the metrics tell. Nothing in it comes out of a session.
/// Each is asked at every look at the page, from any thread, and must not wait.
public struct StatusDataSource: Sendable {
    /// Which configuration is in effect, and what came of the last attempt to change it.
    public var config: @Sendable () -> ConfigStatus
    /// The upstreams, in the order of the configuration.
    public var upstreams: @Sendable () -> [UpstreamStatus]
    /// The certificates of all listeners.
    public var certificates: @Sendable () -> [CertificateStatus]
    /// Whether the gateway was told to stop and serves what it has begun.
    public var isDraining: @Sendable () -> Bool
    /// The kind of session store, as configured: `memory`, `sqlite`, `valkey`.
    public var store: String
    /// The version that is running.
    public var version: String
    /// The commit that it was built from; `unknown` where nobody said.
    public var commit: String

    /// Makes a source.
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
