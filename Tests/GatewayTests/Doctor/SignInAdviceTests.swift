import CloakroomCore
import TestSupport
import Testing

@testable import CloakroomIdentity
@testable import cloakroom

@Suite("What doctor advises about a rejected access token")
struct SignInAdviceTests {
    private func changes(challenge: String?) -> [String] {
        var upstream = UpstreamConfiguration(name: "api", targets: [])
        upstream.user = IdentityEndpointConfiguration(method: "GET", path: "/me")
        var call = IdentityCallObservation(method: "GET", url: "http://api.test/me", fieldNames: [], bodyType: nil)
        call.response = IdentityCallObservation.Response(status: 401, challenge: challenge)
        var step = DoctorStep("user", .passed)
        let error = TokenClientError(.failed(.invalidResponse), in: .user)
        SignInAdvice(upstream: upstream, redaction: DoctorRedaction([])).explain(error, call, in: &step)
        return step.changes.map { "\($0.key): \($0.advice)" }
    }

    /// The keys to change after a sign-in.
    private func signIn(
        _ status: Int, _ format: IdentityEndpointConfiguration.CredentialFormat, _ body: String = "",
        success: IdentityEndpointConfiguration.SuccessMember? = nil
    ) -> [String] {
        var upstream = UpstreamConfiguration(name: "api", targets: [])
        upstream.signIn = IdentityEndpointConfiguration(path: "/login", credentials: format, success: success)
        var call = IdentityCallObservation(method: "POST", url: "http://api.test/login", fieldNames: [], bodyType: nil)
        call.response = IdentityCallObservation.Response(status: status, body: Array(body.utf8))
        var step = DoctorStep("sign-in", .passed)
        let error = TokenClientError(
            status == 200 && success == nil ? .failed(.invalidResponse) : .rejected, in: .signIn)
        SignInAdvice(upstream: upstream, redaction: DoctorRedaction([])).explain(error, call, in: &step)
        return step.changes.map { $0.key.replacing("upstreams.api.signIn.", with: "") }
    }

    @Test("After each rejection the names of keys in the request may be wrong", arguments: [400, 401, 403])
    func members(status: Int) {
        expect(signIn(status, .json).count { $0 == "members" }, equals: 1)
        expect(signIn(status, .form).count { $0 == "members" }, equals: 1)
        expect(signIn(status, .basic).contains("members"), equals: status == 400)
    }

    @Test("A response with a token, but without the sign of success, has one key to change")
    func success() {
        let changes = { (body: String) in signIn(200, .json, body, success: .init(path: "ok")) }
        expect(changes(#"{"accessToken":"a"}"#), equals: ["success"])
        expect(changes(#"{"ok":false}"#), equals: ["success", "credentials", "members"])
    }

    @Test("Odd names of both tokens are reported at once, and a usual one is proposed")
    func bothTokens() {
        expect(signIn(200, .json, #"{"session_key":"a","again":"b"}"#), equals: ["accessToken", "refreshToken"])
        expect(signIn(200, .json, #"{"session_key":"a","refreshToken":"b"}"#), equals: ["accessToken"])
    }

    @Test("The scheme that the API asks for, or the field to check")
    func scheme() {
        expect(
            changes(challenge: "Token").contains(
                "upstreams.api.bearer.scheme: write Token, which the API asks for; Bearer is configured"))
        for challenge in [nil, "bearer", "Basic"] {
            expect(
                changes(challenge: challenge).contains(
                    "upstreams.api.bearer.header: Authorization is configured; check the field and the scheme that the API"
                        + " expects"))
        }
    }

    @Test("If every step passed, the summary states how many changes are proposed")
    func proposed() {
        var step = DoctorStep("sign-in", .passed)
        for (count, summary) in [
            (1, "ok: every step passed, 1 change is proposed"), (2, "ok: every step passed, 2 changes are proposed"),
        ] {
            step.changes = Array(repeating: .init("key", "write it"), count: count)
            let report = DoctorReport(sections: [.init(identity: "api", kind: "upstream", steps: [step])])
            expect(report.passed && report.text.hasSuffix("\n\(summary)\n"), "\(report.text)")
        }
        step.fail("no", .init("key", "write it"))
        let report = DoctorReport(sections: [.init(identity: "api", kind: "upstream", steps: [step])])
        expect(report.text.hasSuffix("\n1 step did not pass\n"), "\(report.text)")
    }

    @Test("A step that is undecided is no failure, and the summary does not state that it passed")
    func undecided() {
        var report = DoctorReport()
        for (outcome, summary) in [
            (DoctorStep.Outcome.notConfigured, "ok: every step passed"), (.undecided, "no step failed, 1 undecided"),
        ] {
            let steps = [DoctorStep("keys", .passed), DoctorStep("client", outcome)]
            report.sections = [.init(identity: "company", kind: "provider", steps: steps)]
            expect(report.passed && report.text.hasSuffix("\n\(summary)\n"), "\(report.text)")
        }
    }
}
