import CloakroomAdmin
import CloakroomCore
import CloakroomIdentity
import CloakroomProxy
import CloakroomSessions
import CloakroomTLS
import CloakroomTelemetry
import Logging
import NIOPosix
import NIOSSL
import ServiceLifecycle
import Tracing

/// The configured session store, connected to metrics and logs.
struct SessionStoreSetup {
    let store: any SessionStore
    let accounts: AccountHasher
    let rateLimits: RateLimitStorage
    /// Seals the cookies of logins. One for the process: without configured secrets its key is random.
    let cookies: CookieSealer
    /// `nil` without configured secrets: other replicas would have another key.
    let assertions: AssertionSigner?
    /// Checks the proofs of sessions that are bound to a device; `nil` if none is.
    let devices: DeviceSessions?
    /// Checks the proofs of access tokens that are bound to a key. Those that were accepted outlive a reload.
    let proofs: TokenProofs

    /// Creates the store; ``SessionStoreService`` runs it.
    /// - Throws: If a file for TLS with the server is invalid, or a secret is missing.
    init(
        _ configuration: SessionConfiguration, observer: AccountEventRecorder,
        telemetry: GatewayTelemetry,
        clock: SessionClock, logger: Logger
    ) throws {
        let metrics = telemetry.metrics
        let backend = metrics.sessionStore(
            backend: configuration.store.rawValue,
            // Durations of the memory store's operations are negligible and not measured.
            operations: configuration.store == .memory ? [] : SessionStoreOperation.allCases.map(\.rawValue),
            reassertedKinds: configuration.store == .valkey ? ReassertedWrite.allCases.map(\.rawValue) : [])
        var events = observer.sessionEvents
        events.onUnconfirmedWrites = { backend.unconfirmed?.increment(by: Int64($0)) }
        events.onReassertedWrites = { backend.reasserted[$0.rawValue]?.increment(by: Int64($1)) }
        events.onUnconfirmedPrimary = { backend.unconfirmedPrimary?.set($0 / .seconds(1)) }
        events.onFailure = { backend.errors[$0]?.increment() }
        let made = try SessionStoreFactory.make(
            configuration, tls: try Self.tls(configuration), group: MultiThreadedEventLoopGroup.singleton,
            logger: logger,
            clock: { clock.now }, events: events
        ) { operation, isSuccess, nanoseconds in
            backend.record(operation: operation.rawValue, isSuccess: isSuccess, nanoseconds: nanoseconds)
            telemetry.tracer.recordStoreCall(
                operation.rawValue, backend: configuration.store.rawValue, isSuccess: isSuccess,
                nanoseconds: nanoseconds)
        }
        let store = made.store
        self.store = store
        accounts = made.accounts
        rateLimits = made.rateLimits
        var random = SystemRandomNumberGenerator()
        cookies = CookieSealer(configuration.secrets, using: &random)
        assertions = AssertionSigner(configuration.secrets)
        proofs = TokenProofs(sealing: cookies)
        devices = DeviceSessions(configuration.device, sealing: cookies, observer: observer)
        // Counting the sessions of a shared server would be too expensive.
        let active = configuration.store == .valkey ? nil : metrics.sessionsActive()
        telemetry.registry.onScrape {
            active?.set(Int64(store.count))
            backend.up.set(store.isAvailable ? 1 : 0)
        }
    }

    /// The readiness check of the store for `/ready`.
    func probe(_ configuration: SessionConfiguration) -> ReadinessProbe {
        let failure = "the \(configuration.store.rawValue) store cannot be used; see the log for the cause"
        return ReadinessProbe(name: "session store", failure: failure) { [store] in store.isAvailable }
    }

    private static func tls(_ configuration: SessionConfiguration) throws -> TLSConfiguration? {
        guard configuration.store == .valkey, let tls = configuration.valkey.tls else { return nil }
        return try UpstreamTLS.configuration(tls, protocols: [])
    }
}

/// Runs the store: maintains its connection, deletes expired sessions and writes session uses. Ends after all services
/// that use the store.
struct SessionStoreService: Service, Unprintable {
    let store: any SessionStore

    func run() async throws {
        await cancelWhenGracefulShutdown { await store.run() }
    }
}

extension W3CTracer {
    /// Records the span of a completed session store call as a child of the request's span, if the request is sampled.
    /// Stores themselves do not depend on tracing.
    func recordStoreCall(_ operation: String, backend: String, isSuccess: Bool, nanoseconds: UInt64) {
        guard ServiceContext.current?.traceContext?.isSampled == true else { return }
        let end = UInt64(systemWallClock())
        recordFinished(
            "session_store \(operation)", kind: .client, start: end - min(nanoseconds, end), end: end,
            attributes: ["cloakroom.store.backend": .string(backend), "cloakroom.store.operation": .string(operation)],
            isError: !isSuccess)
    }
}
