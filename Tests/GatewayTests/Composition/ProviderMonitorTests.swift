import CloakroomTelemetry
import TestSupport
import Testing

@testable import CloakroomCore
@testable import CloakroomIdentity
@testable import cloakroom

@Suite("The monitor of a provider")
struct ProviderMonitorTests {
    private let log = RecordedLog()
    private let telemetry = GatewayTelemetry()
    private let monitor: ProviderMonitor
    private static let now = WallTime(seconds: 1_800_000_000)

    init() {
        let identity = IdentityConfiguration(
            name: "company", issuer: "https://id.test",
            client: IdentityClientConfiguration(id: "cloakroom", authentication: .basic(Secret("secret"))))
        monitor = ProviderMonitor(
            identity, metrics: telemetry.metrics.identities["company"], audit: AuditLog(logger: log.logger),
            now: { Self.now })
    }

    private var events: [String] { log.all.compactMap { $0["event"] } }

    private func fetches(_ document: String, _ outcome: String) -> Bool {
        let text = String(decoding: telemetry.registry.exposition(), as: UTF8.self)
        let labels = "document=\"\(document)\",identity=\"company\",outcome=\"\(outcome)\""
        return !text.contains("cloakroom_provider_fetches_total{\(labels)} 0\n")
    }

    @Test("A provider is down before its metadata and keys are fetched, and stale when only its earlier keys remain")
    func condition() {
        expect(monitor.status.condition, equals: .down)
        monitor.record(.keys(.replaced(usable: 1, skipped: 0)))
        expect(monitor.status.condition, equals: .up)
        for (hasMetadata, keys, condition) in [
            (true, KeySetSchedule.Usability.fresh, IdentityStatus.Condition.up), (true, .stale, .stale),
            (true, .none, .down), (false, .fresh, .down), (false, .stale, .down), (false, .none, .down),
        ] {
            monitor.update(ProviderStatus(hasMetadata: hasMetadata, keys: keys))
            expect(monitor.status.condition, equals: condition, "\(hasMetadata) \(keys)")
        }
    }

    @Test("A document that cannot be fetched is logged when the reason changes and when it is fetched again")
    func failures() {
        let other = ProviderMetadata.ParseError.issuer("https://id.example.com/")
        for event: ProviderEvent in [
            .metadataUnavailable, .metadataUnavailable, .metadataRejected(other), .metadataRejected(other),
            .keys(.failed), .metadata([]), .keys(.failed), .metadata([]), .keys(.replaced(usable: 2, skipped: 1)),
        ] {
            monitor.record(event)
        }
        expect(events, equals: ["provider_down", "provider_down", "provider_down", "provider_up", "provider_up"])
        expect(log.all.map { $0["document"] }, equals: ["metadata", "metadata", "keys", "metadata", "keys"])
        expect(log.all[1]["reason"], equals: "the metadata names another issuer")
        expect(log.all[1]["hint"]?.contains("write issuer: https://id.example.com/ "), equals: true)
        let status = monitor.status
        expect((status.keys, status.skippedKeys) == (2, 1))
        expect(status.keysFetchedAt, equals: Self.now)
        expect(status.lastFailure?.reason, equals: "the keys cannot be fetched")
        for (document, outcome) in [
            ("metadata", "success"), ("metadata", "failed"), ("metadata", "invalid"), ("keys", "failed"),
            ("keys", "success"),
        ] {
            expect(fetches(document, outcome), "\(document) \(outcome)")
        }
        expect(!fetches("keys", "invalid"))
    }

    @Test("A key set without a usable key is a failure with a remedy, although the fetch succeeded")
    func noKeys() {
        monitor.record(.keys(.replaced(usable: 0, skipped: 3)))
        expect(monitor.status.lastFailure?.reason, equals: "the key set has no key that can be used")
        expect(monitor.status.lastFailure?.remedy?.contains("algorithms"), equals: true)
        monitor.update(ProviderStatus(hasMetadata: true, keys: .fresh))
        expect(monitor.status.condition, equals: .down)
    }

    @Test("A mismatch is logged once, and is shown until the metadata fits")
    func mismatches() {
        let finding = ProviderMetadata.Finding(message: "it does not support PKCE with S256", remedy: "enable it")
        for _ in 0..<3 { monitor.record(.metadata([finding])) }
        expect(events, equals: ["provider_mismatch"])
        expect(monitor.status.findings, equals: ["it does not support PKCE with S256 (enable it)"])
        monitor.record(.metadata([]))
        expect(monitor.status.findings, equals: [])
        monitor.record(.metadata([finding]))
        expect(events, equals: ["provider_mismatch", "provider_mismatch"])
    }

    @Test(
        "A rejected response has a constant reason and a hint",
        arguments: [
            (ResponseDefect.token(.wrongNonce), "wrong_nonce"), (.noIDToken, "no_id_token"),
            (.claimsTooLarge, "claims_too_large"), (.otherSubject, "other_subject"),
            (.invalidResponse, "invalid_response"), (.otherTokenType, "other_token_type"),
        ])
    func rejections(reason: ResponseDefect, name: String) {
        monitor.record(.rejected(reason, in: .code))
        expect(log.all.map { $0["reason"] }, equals: [name])
        expect(log.all.allSatisfy { $0["hint"]?.isEmpty == false && $0["event"] == "provider_response_rejected" })
        expect(monitor.status.lastFailure?.reason, equals: "a response was rejected (code): \(name)")
    }

    @Test("Identity rule 42: each rejected access token is counted; one line in 10 s, and one for the gateway's own")
    func accessTokens() {
        for index in 0..<1_000 {
            let origin = AuditContext(peer: "192.0.2.\(index % 250)")
            monitor.record(.accessToken(.rejected, .wrongAudience, from: origin))
        }
        monitor.record(.accessToken(.ownToken, .ownToken, from: AuditContext(peer: "192.0.2.251")))
        monitor.record(.accessToken(.limited))
        expect(events, equals: ["bearer_rejected", "bearer_own_token"])
        expect(log.all.map { $0["reason"] }, equals: ["wrong_audience", "own_token"])
        expect(log.all.map { $0["peer"] }, equals: ["192.0.2.0", "192.0.2.251"])
        let text = String(decoding: telemetry.registry.exposition(), as: UTF8.self)
        for (outcome, count) in [("rejected", 1_000), ("own_token", 1), ("limited", 1), ("accepted", 0)] {
            let line = "cloakroom_bearer_checks_total{identity=\"company\",outcome=\"\(outcome)\"} \(count)\n"
            expect(text.contains(line), "\(line)")
        }
    }
}
