import CloakroomCore
import CloakroomTelemetry
import TestSupport
import Testing

@testable import cloakroom

@Suite("The recorder of identity calls")
struct IdentityCallRecorderTests {
    private let log = RecordedLog()
    private let telemetry = GatewayTelemetry()

    private func recorder() -> IdentityCallRecorder {
        IdentityCallRecorder(
            metrics: telemetry.metrics, audit: AuditLog(logger: log.logger), now: { WallTime(seconds: 1_000) })
    }

    private static func failure(
        _ call: TokenClientError.Operation = .signIn, _ source: IdentityCallSource = .upstream("api")
    ) -> IdentityCallFailure {
        IdentityCallFailure(
            call: call, source: source, method: "POST", server: "api.test:443", path: "/auth", status: 200,
            defect: .init("member_missing", key: "signIn.accessToken", expected: "token", found: ["access", "id"]),
            nanoseconds: 12_400_000)
    }

    @Test("One line has everything that finds a wrong key, and further ones are counted")
    func line() throws {
        let recorder = recorder()
        for _ in 0..<3 { recorder.identityCallFailed(Self.failure()) }
        recorder.identityCallFailed(Self.failure(.user, .identity("company")))
        let lines = log.lines("event", "identity_call_failed")
        expect(lines.count, equals: 2)
        let line = try require(lines.first)
        for (key, value) in [
            ("level", "warning"), ("call", "sign_in"), ("upstream", "api"), ("method", "POST"),
            ("server", "api.test:443"), ("path", "/auth"), ("status", "200"), ("reason", "member_missing"),
            ("key", "signIn.accessToken"), ("expected", "token"), ("duration_ms", "12"), ("suppressed", "0"),
            ("hint", "set signIn.accessToken to the member that has the token"),
        ] {
            expect(line[key], equals: value, "\(key)")
        }
        expect(line["found"]?.contains("access"), equals: true)
        expect(lines.last?["identity"], equals: "company")
        expect(lines.last?["upstream"], equals: nil)
    }

    @Test("The last 20 failures are kept, the newest first")
    func history() {
        let recorder = recorder()
        for status in 500..<530 {
            var failure = Self.failure()
            failure.status = status
            recorder.identityCallFailed(failure)
        }
        expect(recorder.failures.map(\.status), equals: (510..<530).reversed().map { $0 })
        expect(recorder.failures.first?.time, equals: WallTime(seconds: 1_000))
    }

    @Test("Attempts are counted with the labels of requests to an upstream")
    func metrics() {
        let recorder = recorder()
        var attempt = IdentityCallAttempt(
            call: .signIn, source: .upstream("api"), method: "POST", serverAddress: "api.test", serverPort: 443,
            status: 200, nanoseconds: 1_000_000)
        recorder.identityCallAttempted(attempt)
        attempt.source = .identity("company")
        attempt.call = .keys
        attempt.status = nil
        attempt.errorType = "upstream_timeout"
        recorder.identityCallAttempted(attempt)
        let text = String(decoding: telemetry.registry.exposition(), as: UTF8.self)
        for labels in [
            #"call="sign_in",error_type="",http_request_method="POST",http_response_status_code="200","#
                + #"server_address="api.test",server_port="443",upstream="api""#,
            #"call="keys",error_type="upstream_timeout",http_request_method="POST",http_response_status_code="","#
                + #"identity="company",server_address="api.test",server_port="443",upstream="company""#,
        ] {
            expect(text.contains("http_client_request_duration_seconds_count{\(labels)} 1\n"), "\(labels)")
        }
    }
}
