import CloakroomConfig
import CloakroomCore
import CloakroomIdentity
import CloakroomTelemetry
import Foundation
import TestSupport
import Testing

@testable import cloakroom

@Suite("why explains what the gateway has kept")
struct RejectionReportTests {
    private static let id = ID128(high: 0, low: 255)

    private static func report(_ request: String, _ more: String = "") throws -> RejectionReport {
        let members = "\"method\":\"GET\",\"path\":\"/a\",\"route\":\"a\",\"status\":401,\(request)"
        let found = "{\"request\":{\(members)},\"listener\":\"127.0.0.1:8080\",\"credentials\":\"cookie\"\(more)}"
        return try RejectionReport(
            id, Array("{\"held\":7,\"since\":\"2026-01-01T00:00:00.005Z\",\"found\":\(found)}".utf8))
    }

    /// The explanation of a failed sign-in at a provider.
    private static func login(_ code: String, _ reason: String, at step: String = "callback") throws -> RejectionReport
    {
        try report("\"decision\":\"local\"", ",\"code\":\"\(code)\",\"login\":\"\(step): \(reason)\"")
    }

    private static func message(_ document: String) -> String {
        do {
            return try RejectionReport(id, Array(document.utf8)).text
        } catch {
            return "\(error)"
        }
    }

    @Test("Each step is a line, then the reason, the cause and the remedy")
    func text() throws {
        let text = try Self.report(
            #""app":"shop","bound":true,"decision":"forbidden","host":"a.example","time":"2026-01-01T00:00:00.005Z""#,
            #","code":"missing_claim","claim":"groups","attempts":"""#
        ).text
        expect(
            text,
            equals: """
                request     GET /a
                time        2026-01-01T00:00:00.005Z
                status      401
                listener    127.0.0.1:8080
                host        a.example
                route       a
                credentials cookie
                session     active
                app         shop
                bound       to a device
                claims      lacks groups
                rule        require and identities of the route
                reason      missing_claim
                cause       The user lacks the claim, or the provider does not put it into the ID token
                remedy      GET /auth shows those of the user

                """)
    }

    @Test(
        "The most specific reason is explained",
        arguments: [
            (#""decision":"unauthenticated","unauthorized_reason":"revoked""#, #","code":"unauthorized""#, "revoked"),
            (
                #""decision":"forwarded","error":"upstream_timeout""#, #","code":"unreachable","attempts":"a: b""#,
                "upstream_timeout"
            ),
            (
                #""decision":"undecided","error":"upstream_timeout""#, #","code":"unreachable","attempts":"""#,
                "refresh_failed"
            ),
            (
                #""decision":"local","error":"upstream_unreachable""#, #","code":"unreachable","attempts":"""#,
                "identity_call_failed"
            ),
            (
                #""decision":"local","error":"upstream_invalid_response""#, #","code":"invalid_response""#,
                "invalid_response"
            ),
            (#""decision":"local","error":"upstream_invalid_response""#, #","code":"login_failed""#, "login_failed"),
            (
                #""decision":"undecided","error":"internal_error""#, #","code":"identity_misconfigured""#,
                "identity_misconfigured"
            ),
            (#""decision":"forwarded","error":"internal_error""#, #","code":"new""#, "internal_error"),
            (#""decision":"file""#, #","code":"not_found""#, "no_file"),
            (#""decision":"undecided""#, #","code":"not_found""#, "not_found"),
            (#""decision":"undecided","error":"invalid_request""#, #","code":"bad_request""#, "bad_request"),
            (#""decision":"csrf_rejected""#, #","code":"cross_site""#, "cross_site"),
            (#""decision":"rate_limited","limit":"api""#, #","code":"rate_limited""#, "rate_limited"),
            (#""decision":"forwarded","error":"session_ended""#, "", "session_ended"),
            (#""decision":"new""#, #","code":"new""#, "new"),
        ])
    func reasons(request: String, more: String, reason: String) throws {
        let report = try Self.report(request, more)
        expect(report.reason, equals: reason)
        expect(report.cause == "Not known", equals: reason == "new")
    }

    @Test(
        "A failed sign-in at a provider has its step, its reason, the cause and the remedy",
        arguments: [
            (
                TokenClientError.Kind.misconfigured(.invalidClient), TokenClientError.Operation.code,
                "client.id, the secret"
            ),
            (.unreachable, .code, "The provider's own log"), (.unreachable, .push, "The status page"),
            (.denied("invalid_grant"), .code, "The lifetime of codes"),
            (.failed(.token(.wrongNonce)), .code, "Most often"),
            (.failed(.otherSubject), .user, "A cache in front of"),
            (.failed(.claimsTooLarge), .code, "Keep fewer claims"),
        ])
    func calls(kind: TokenClientError.Kind, call: TokenClientError.Operation, remedy: String) throws {
        let failure = LoginFailure(TokenClientError(kind, in: call))
        let report = try Self.login(failure.effects.code.rawValue, failure.logged, at: call.rawValue)
        expect(report.reason == failure.logged && report.remedy.hasPrefix(remedy), "\(report.text)")
        let step = try require(RejectionAdvice.loginSteps[call.rawValue])
        expect(report.text.contains("\nsign-in     failed at \(step)\n"), "\(report.text)")
    }

    @Test("Every reason of a failed sign-in at a provider has a row of its own")
    func logins() {
        let ofOthers: [LoginFailure.Reason] = [.denied, .unavailable, .declined, .misconfigured]
        var failures = LoginFailure.Reason.allCases.filter { !ofOthers.contains($0) }.map { LoginFailure($0) }
        failures += LoginFailure.registeredCodes.sorted().map { LoginFailure(providerCode: $0) }
        for call in [TokenClientError.Operation.discovery, .keys, .push, .code, .user] {
            failures.append(LoginFailure(TokenClientError(.unreachable, in: call)))
        }
        var kinds = IdentityMisconfiguration.allCases.map { TokenClientError.Kind.misconfigured($0) }
        kinds += [.failed(.invalidResponse), .failed(.noIDToken), .failed(.otherSubject), .failed(.claimsTooLarge)]
        kinds += TokenRejection.allCases.map { .failed(.token($0)) }
        failures += kinds.map { LoginFailure(TokenClientError($0, in: .code)) }
        failures.append(LoginFailure(.issuerMissing, detail: "issuer_missing:access_denied"))
        for detail in ["login_too_long", "token_too_short"] {
            failures.append(LoginFailure(.misconfigured, detail: detail))
        }
        for detail in ["unsupported_claim:groups", "session_too_short"] {
            failures.append(LoginFailure(.invalidResponse, detail: detail))
        }
        for detail in ["app_token_invalid", "app_code_invalid", "app_removed"] {
            failures.append(LoginFailure(.noPendingLogin, detail: detail))
        }
        for failure in failures {
            let reasons = RejectionAdvice.loginReasons(failure.effects.code.rawValue, failure.logged)
            expect(RejectionAdvice.of(reasons).reason.contains(" "), "\(reasons)")
        }
    }

    @Test("Without the request, the error states how many there are and since when; another program is an error")
    func notFound() {
        expect(
            Self.message(#"{"held":7,"since":"2026-01-01T00:00:00.005Z"}"#),
            equals:
                "no rejected or failed request \(Self.id): the gateway holds 7, the oldest of 2026-01-01T00:00:00.005Z"
                + " (search the log: it was forwarded, is older, or was sent to another gateway)")
        for other in ["", "[]", "{}", "{\"held\":\"7\"}", "\u{1B}[2J", "{\"held\":7}x"] {
            expect(Self.message(other), equals: "the response is not that of a gateway of this version")
        }
        expect(Self.message(#"{"held":1e300}"#).contains("holds 0 ("))
    }

    @Test("Texts of a client or of another program cannot control the terminal, and are bounded")
    func hostile() throws {
        let text = #"\u001b[2J\u202e\n"# + String(repeating: "x", count: 5_000)
        let report = try Self.report("\"host\":\"\(text)\",\"decision\":\"\(text)\"", ",\"code\":\"\(text)\"")
        expect(!report.text.unicodeScalars.contains { $0 == "\u{1B}" || $0 == "\u{202E}" })
        expect(report.text.split(separator: "\n").allSatisfy { $0.unicodeScalars.count < 1_000 })
        expect(report.reportDocument.hasPrefix("{"))
    }

    // MARK: - The document

    /// Troubleshooting.md by line, without markup and in lower case.
    private static func lines() throws -> [String] {
        var folder = URL(fileURLWithPath: #filePath)
        for _ in 0..<4 { folder.deleteLastPathComponent() }
        let file = folder.appending(path: "Sources/cloakroom/Documentation.docc/Troubleshooting.md")
        let text = try String(contentsOf: file, encoding: .utf8).replacing("`", with: "")
        return text.split(separator: "\n").map { line in
            line.split(separator: "](").enumerated().map { index, part in
                index == 0 ? part : part.drop { $0 != ")" }.dropFirst()
            }.joined().replacing("[", with: "").lowercased()
        }
    }

    /// Reasons that are not explained by a row, but by the text of a section.
    private static let withoutRow: Set = [
        "cross_site", "login_expired", "login_refused", "login_failed", "step_up_failed", "identity_unavailable",
        "session_ended", "stream_lifetime", "draining", "route_changed",
    ]

    @Test("Cause and remedy are those of the row of Troubleshooting.md", arguments: RejectionAdvice.table.keys.sorted())
    func row(reason: String) throws {
        let lines = try Self.lines()
        let advice = try require(RejectionAdvice.table[reason])
        let texts = [advice.cause.lowercased(), advice.remedy.lowercased()]
        if Self.withoutRow.contains(reason) {
            let text = lines.joined(separator: " ").split(separator: " ").joined(separator: " ")
            for part in texts { expect(text.contains(part), "\(part)") }
        } else {
            let rows = lines.filter { line in
                let words = line.split { $0 == " " || $0 == "," }
                return line.hasPrefix("| ")
                    && reason.split(separator: " ").allSatisfy { part in
                        words.contains { $0 == part || part.hasSuffix(":") && $0.hasPrefix(part) }
                    }
            }
            expect(rows.contains { row in texts.allSatisfy { row.contains($0) } }, "\(texts)")
        }
        let words = reason.split(separator: " ").map(String.init)
        let report =
            words.count == 1
            ? try Self.report("\"decision\":\"undecided\",\"error\":\"\(reason)\"")
            : try Self.login(words[0], words[1] == "token" ? "wrong_nonce" : words[1])
        expect(report.text.hasSuffix("\ncause       \(advice.cause)\nremedy      \(advice.remedy)\n"))
    }

    @Test("Every reason of a 401, every error and every code that clients can get is explained")
    func complete() {
        let unexplained: Set = [
            "unauthorized", "unknown", "unreachable", "failed_request", "client_closed", "invalid_request",
            "body_too_large",
        ]
        let reasons =
            UnauthorizedReason.allCases.map(\.rawValue) + ExchangeErrorType.allCases.map { "\($0.label)" }
            + ProblemCode.allCases.map(\.rawValue)
        for reason in reasons where !unexplained.contains(reason) {
            expect(RejectionAdvice.table[reason] != nil, "\(reason)")
        }
    }
}
