public import CloakroomCore
public import Logging
public import NIOCore
public import NIOSSL

/// Makes the store that a plan names.
public enum SessionStoreFactory {
    /// A store, and what accounts are called where it keeps them.
    public struct Product: Sendable {
        /// Where sessions are kept. Somebody has to call ``SessionStore/run()``.
        public let store: any SessionStore
        /// What accounts are called in the store, and may be called in logs.
        public let accounts: AccountHasher
    }

    /// Makes a store. Nothing is opened and nobody connected to yet: that is for ``SessionStore/run()``, which keeps
    /// trying.
    /// - Parameters:
    ///   - tls: How TLS is spoken with a server, where the plan has it.
    ///   - group: Has the connection to a server.
    ///   - logger: Is told of failures, and when they are over.
    ///   - unsourced: The source of sessions in records that name none, of releases before these named one.
    ///   - clock: What time it is.
    ///   - events: Is told what becomes of sessions.
    ///   - onOperation: Is told how long each operation took that left the process. Must not wait.
    /// - Throws: ``SessionStoreSetupError`` if secrets are missing; NIOSSL's error if there can be no such TLS.
    public static func make(
        _ configuration: SessionConfiguration, tls: TLSConfiguration? = nil, group: any EventLoopGroup, logger: Logger,
        unsourced: SessionSource = .unknown, clock: @escaping @Sendable () -> Timestamp,
        events: SessionStoreCallbacks = SessionStoreCallbacks(),
        onOperation: @escaping @Sendable (SessionStoreOperation, _ isSuccess: Bool, _ nanoseconds: UInt64) -> Void = {
            _, _, _ in
        }
    ) throws -> Product {
        let secrets = SealingKeyring(configuration.secrets)
        switch configuration.store {
        case .memory:
            var random = SystemRandomNumberGenerator()
            // Nothing in memory outlives the process; but the log's names for accounts may as well.
            let accounts = secrets?.accountHashes ?? AccountHasher(KeyedHash(using: &random))
            let store = MemorySessionStore(
                configuration, accountHashes: accounts, clock: clock, onCreated: events.onCreated,
                onEnded: events.onEnded)
            return Product(store: store, accounts: accounts)
        case .sqlite:
            let records = SQLiteRecordStore(path: configuration.sqlite.path, logger: logger, now: clock)
            return try sealed(records, configuration, secrets, unsourced, events, onOperation)
        case .valkey:
            let records = try ValkeyRecordStore(configuration.valkey, tls: tls, group: group, logger: logger)
            return try sealed(records, configuration, secrets, unsourced, events, onOperation)
        }
    }

    private static func sealed(
        _ records: some SessionRecordStore, _ configuration: SessionConfiguration, _ secrets: SealingKeyring?,
        _ unsourced: SessionSource, _ events: SessionStoreCallbacks,
        _ onOperation: @escaping @Sendable (SessionStoreOperation, Bool, UInt64) -> Void
    ) throws(SessionStoreSetupError) -> Product {
        guard let secrets else { throw SessionStoreSetupError(store: configuration.store) }
        let timed = InstrumentedRecordStore(records, onOperation: onOperation)
        let store = SealedSessionStore(
            timed, configuration: configuration, secrets: secrets, unsourced: unsourced, events: events)
        return Product(store: store, accounts: secrets.accountHashes)
    }
}

/// Why there can be no store: it seals what it keeps, and there is no secret to seal it with.
public struct SessionStoreSetupError: Error, Sendable, Equatable, CustomStringConvertible {
    /// Which store.
    public let store: SessionConfiguration.Store

    /// What to do.
    public var description: String {
        "the session store \(store.rawValue) needs a secret: set session.secrets or session.secretsFile"
    }
}
