import CloakroomCore
import CloakroomIdentity
import CloakroomTelemetry
import Synchronization

/// Records the events of one OpenID Provider as metrics, log lines and its row on the status page.
///
/// A document that cannot be fetched is logged when the reason changes and when it is fetched again, not for each
/// attempt.
final class ProviderMonitor: Sendable, Unprintable {
    /// How often ``run(_:)`` reads the usability of metadata and keys, which changes with time.
    private static let interval = Duration.seconds(1)

    private struct State {
        var status: IdentityStatus
        /// The reasons of the current failures.
        var failing: [ProviderDocument: String] = [:]
    }

    private let name: String
    private let metrics: IdentityMetrics
    private let audit: AuditLog
    private let now: @Sendable () -> WallTime
    private let state: Mutex<State>

    init(
        _ identity: IdentityConfiguration, metrics: IdentityMetrics, audit: AuditLog,
        now: @escaping @Sendable () -> WallTime
    ) {
        name = identity.name
        self.metrics = metrics
        self.audit = audit
        self.now = now
        state = Mutex(State(status: IdentityStatus(name: identity.name, issuer: identity.issuer)))
    }

    /// The row on the status page.
    var status: IdentityStatus { state.withLock { $0.status } }

    /// Updates the condition until the task is cancelled.
    func run(_ provider: OpenIDProvider) async {
        while true {
            update(await provider.status())
            do { try await Task.sleep(for: Self.interval) } catch { return }
        }
    }

    /// Sets the condition.
    func update(_ status: ProviderStatus) {
        let condition: IdentityStatus.Condition =
            switch status.keys {
            case .fresh where status.hasMetadata: .up
            case .stale where status.hasMetadata: .stale
            case .fresh, .stale, .none: .down
            }
        state.withLock { state in
            // A key set without a usable key is current, but verifies nothing.
            state.status.condition = state.status.keys == 0 ? .down : condition
        }
    }

    func record(_ event: ProviderEvent) {
        switch event {
        case .metadata(let findings):
            succeeded(.metadata)
            mismatches(findings)
        case .metadataRejected(let error):
            failed(.metadata, .invalid, error.finding.message, error.finding.remedy)
        case .metadataUnavailable:
            failed(
                .metadata, .failed, "the metadata cannot be fetched",
                "check the address, certificate and status of the issuer's /.well-known/openid-configuration"
                    + " from this machine")
        case .keys(.replaced(let usable, let skipped)):
            state.withLock { state in
                state.status.keys = usable
                state.status.skippedKeys = skipped
                state.status.keysFetchedAt = now()
                // Keys are fetched after the metadata.
                state.status.condition = usable == 0 ? .down : .up
            }
            succeeded(.keys)
            if usable == 0 {
                note(
                    "the key set has no key that can be used",
                    "check that the provider signs with one of the algorithms, and publishes kty, kid and alg")
            }
        case .keys(.invalid(let error)):
            failed(
                .keys, .invalid, "the key set is invalid: \(error.rawValue)",
                "check that jwks_uri of the metadata returns a key set of at most 64 KiB and 64 keys")
        case .keys(.failed):
            failed(
                .keys, .failed, "the keys cannot be fetched",
                "check the address, certificate and status of jwks_uri of the metadata from this machine")
        case .rejected(let reason, let call):
            let hint = "\(reason.hint)"
            audit.providerResponseRejected(identity: name, call: call, reason: reason.name, hint: hint, now: now())
            note("a response was rejected (\(call.rawValue)): \(reason.name)", hint)
        case .accessToken(let outcome, let reason, let origin):
            metrics.tokens[outcome]?.increment()
            if let reason { audit.accessTokenRejected(reason, identity: name, origin: origin, now: now()) }
        case .invalidLifetime: audit.tokenLifetimeInvalid(upstream: name)
        }
    }

    private func succeeded(_ document: ProviderDocument) {
        metrics.fetches[document]?[.success]?.increment()
        let wasFailing = state.withLock { $0.failing.removeValue(forKey: document) != nil }
        if wasFailing { audit.providerFetched(identity: name, document: document) }
    }

    private func failed(
        _ document: ProviderDocument, _ outcome: ProviderFetchOutcome, _ reason: String, _ remedy: String
    ) {
        metrics.fetches[document]?[outcome]?.increment()
        let failure = note(reason, remedy)
        let isNew = state.withLock { $0.failing.updateValue(reason, forKey: document) != reason }
        if isNew { audit.providerFetchFailed(identity: name, document: document, failure: failure) }
    }

    @discardableResult
    private func note(_ reason: String, _ remedy: String) -> FailureStatus {
        let failure = FailureStatus(time: now(), reason: reason, remedy: remedy)
        state.withLock { $0.status.lastFailure = failure }
        return failure
    }

    private func mismatches(_ findings: [ProviderMetadata.Finding]) {
        let texts = findings.map { "\($0.message) (\($0.remedy))" }
        let known = state.withLock { state in
            defer { state.status.findings = texts }
            return state.status.findings
        }
        for (finding, text) in zip(findings, texts) where !known.contains(text) {
            audit.providerMismatch(identity: name, reason: finding.message, hint: finding.remedy)
        }
    }
}
