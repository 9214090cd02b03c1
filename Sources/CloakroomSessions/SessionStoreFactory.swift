public import CloakroomCore
import Crypto
public import Logging
public import NIOCore
public import NIOSSL

/// Creates the session store that the configuration selects.
///
/// Module `CloakroomSessions`: keeps sessions, in memory or sealed in a record store (SQLite, Valkey).
public enum SessionStoreFactory {
    /// A store, and the hasher of the account names in it.
    public struct Product: Sendable {
        /// The session store. The caller has to run ``SessionStore/run()``.
        public let store: any SessionStore
        /// Hashes account names for the store and for logs.
        public let accounts: AccountHasher
        /// Keeps what rate limits count; with a store that gateways share, also their shared limits.
        public var rateLimits = RateLimitStorage()
    }

    /// Creates a store. It opens no file and no connection: ``SessionStore/run()`` does, and retries.
    /// - Parameters:
    ///   - tls: The TLS configuration for connections to a server, if TLS is configured.
    ///   - group: The event loops for the connection to a server.
    ///   - logger: Logs failures and recoveries.
    ///   - clock: The wall clock.
    ///   - events: Called for events of sessions.
    ///   - onOperation: Called with the duration of each operation outside the process. Must not wait.
    /// - Throws: ``SessionStoreSetupError`` if secrets are missing; NIOSSL's error if the TLS configuration is invalid.
    public static func make(
        _ configuration: SessionConfiguration, tls: TLSConfiguration? = nil, group: any EventLoopGroup, logger: Logger,
        clock: @escaping @Sendable () -> SessionTime,
        events: SessionStoreCallbacks = .none,
        onOperation: @escaping @Sendable (SessionStoreOperation, _ isSuccess: Bool, _ nanoseconds: UInt64) -> Void = {
            _, _, _ in
        }
    ) throws -> Product {
        let secrets = SealingKeyring(configuration.secrets)
        switch configuration.store {
        case .memory:
            var random = SystemRandomNumberGenerator()
            // Configured secrets keep the hashed names in logs stable across restarts; otherwise a random key will do.
            let accounts = secrets?.accountHashes ?? AccountHasher(KeyedHash(using: &random))
            let store = MemorySessionStore(
                configuration, accountHashes: accounts, clock: clock, events: events)
            return Product(store: store, accounts: accounts)
        case .sqlite:
            let records = SQLiteRecordStore(path: configuration.sqlite.path, logger: logger, now: clock)
            // It logs its failures itself.
            let onFailure = events.onFailure
            return try sealed(records, configuration, secrets, events, { onFailure($1) }, onOperation)
        case .valkey:
            let records = try ValkeyRecordStore(
                configuration.valkey, tls: tls, group: group, logger: logger, events: events)
            let log = StoreFailureLog(logger)
            let onFailure = events.onFailure
            let report: FailureCallback = { operation, reason in
                // Without a connection, the reason for its loss is more precise.
                let reason = reason == .unreachable ? records.link.outage ?? reason : reason
                log.failed(operation, reason, now: NIODeadline.now().uptimeNanoseconds)
                onFailure(reason)
            }
            var product = try sealed(records, configuration, secrets, events, report, onOperation)
            if let secrets { product.rateLimits = RateLimitStorage(store: records, hash: secrets.rateHash) }
            return product
        }
    }

    private typealias FailureCallback = @Sendable (SessionStoreOperation, SessionStoreError.Reason) -> Void

    private static func sealed(
        _ records: some SessionRecordStore, _ configuration: SessionConfiguration, _ secrets: SealingKeyring?,
        _ events: SessionStoreCallbacks, _ onFailure: @escaping FailureCallback,
        _ onOperation: @escaping @Sendable (SessionStoreOperation, Bool, UInt64) -> Void
    ) throws(SessionStoreSetupError) -> Product {
        guard let secrets else { throw SessionStoreSetupError(store: configuration.store) }
        let store = SealedSessionStore(
            records, configuration: configuration, secrets: secrets, events: events,
            meter: StoreMeter(onFailure: onFailure, onOperation: onOperation))
        return Product(store: store, accounts: secrets.accountHashes)
    }
}

/// The store cannot be created: it seals its records, and no secret is configured.
public struct SessionStoreSetupError: Error, Sendable, Equatable, CustomStringConvertible {
    /// The configured store.
    public let store: SessionConfiguration.Store

    /// The cause and its remedy.
    public var description: String {
        "the session store \(store.rawValue) requires a secret: set session.secrets or session.secretsFile"
    }
}

extension SessionKey {
    /// The key under which stores keep the session of a ticket: SHA-256 (FIPS 180-4) of its bytes,
    /// after those of its site unless that is the default one.
    public init(_ ticket: SessionTicket) {
        let digest = ticket.withBytes { SHA256.hash(data: $0) }
        self = digest.withUnsafeBytes { SessionKey(digest: $0) }
    }
}

/// Callbacks for events of sessions. Called on the thread that detected the event; must not wait.
public struct SessionStoreCallbacks: Sendable {
    /// Callbacks that do nothing.
    public static let none = SessionStoreCallbacks()

    /// Called once for each session that was created here.
    public var onCreated: @Sendable () -> Void = {}
    /// Called once for each session that ended here.
    public var onEnded: @Sendable (SessionEndReason) -> Void = { _ in }
    /// Called if the record with this id cannot be read.
    public var onUnreadable: @Sendable (SessionID) -> Void = { _ in }
    /// Called with the number of writes that fewer replicas of the server have confirmed than configured.
    public var onUnconfirmedWrites: @Sendable (Int) -> Void = { _ in }
    /// Called with the number of writes of a kind that a new server had lost, and that were repeated.
    public var onReassertedWrites: @Sendable (ReassertedWrite, Int) -> Void = { _, _ in }
    /// Called about once a second, if sentinels are configured, with the time since at least half of them have confirmed
    /// the primary in use; 0 if it is confirmed, or if there is none.
    public var onUnconfirmedPrimary: @Sendable (Duration) -> Void = { _ in }
    /// Called for each failed operation of a store outside the process.
    public var onFailure: @Sendable (SessionStoreError.Reason) -> Void = { _ in }
}
