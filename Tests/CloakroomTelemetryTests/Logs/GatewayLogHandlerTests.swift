import CloakroomCore
import Foundation
import Logging
import TestSupport
import Testing
import Tracing

@testable import CloakroomTelemetry

@Suite("Log handlers")
struct GatewayLogHandlerTests {
    private struct Failure: Error {}

    private func jsonObjects(_ body: (inout Logger) -> Void) async throws -> [[String: Any]] {
        let pipe = try LinePipe()
        let writer = LogWriter(fileDescriptor: pipe.writeEnd, dropped: CounterHandle())
        var logger = Logger(label: "test \"label\"") { label in
            GatewayLogHandler(
                label: label, format: .json, writer: writer, logLevel: DynamicLogLevel(.trace),
                metadataProvider: .traceContext,
                now: { 1_000_000_000 })
        }
        body(&logger)
        writer.shutdown()
        return try await pipe.objects()
    }

    @Test("A line is one JSON object with time, level, logger, message and metadata")
    func json() async throws {
        let objects = try await jsonObjects { logger in
            logger.trace("quiet \u{1b}[31m\n\"loud\"")
            logger.error("failed", error: Failure())
        }
        expect(objects.count, equals: 2)
        expect(objects[0]["time"] as? String, equals: "1970-01-01T00:00:01.000Z")
        expect(objects[0]["level"] as? String, equals: "trace")
        expect(objects[0]["logger"] as? String, equals: "test \"label\"")
        expect(objects[0]["message"] as? String, equals: "quiet \u{1b}[31m\n\"loud\"")
        expect(objects[1]["error"] as? String, equals: "Failure()")
    }

    @Test("Metadata can be nested; the event's overrides the logger's")
    func metadata() async throws {
        let objects = try await jsonObjects { logger in
            logger[metadataKey: "a"] = "logger"
            logger[metadataKey: "b"] = "logger"
            logger.info(
                "m", metadata: ["a": "event", "nested": ["list": ["1", ["k": "v"]]], "n": .stringConvertible(7)])
        }
        let object = try require(objects.first)
        expect(object["a"] as? String, equals: "event")
        expect(object["b"] as? String, equals: "logger")
        expect(object["n"] as? Int, equals: 7)
        let list = try require((object["nested"] as? [String: Any])?["list"] as? [Any])
        expect(list.first as? String, equals: "1")
        expect((list.last as? [String: String]), equals: ["k": "v"])
    }

    @Test("Numbers and booleans are written as such; text that looks like one stays text")
    func numbersAndBooleans() async throws {
        let pipe = try LinePipe()
        let writer = LogWriter(fileDescriptor: pipe.writeEnd, dropped: CounterHandle())
        let handler = GatewayLogHandler(label: "l", format: .json, writer: writer)
        Logger(label: "l") { _ in handler }.info(
            "m",
            metadata: [
                "int": .stringConvertible(-7), "large": .stringConvertible(UInt64.max),
                "double": .stringConvertible(0.5),
                "nan": .stringConvertible(Double.nan), "yes": .stringConvertible(true), "text": "7",
                "list": [.stringConvertible(1), "true"],
            ])
        writer.shutdown()
        let line = await pipe.text()
        for member in [
            #""int":-7"#, #""large":18446744073709551615"#, #""double":0.5"#, #""nan":"nan""#, #""yes":true"#,
            #""text":"7""#, #""list":[1,"true"]"#,
        ] {
            expect(line.contains(member), "\(member)")
        }
    }

    @Test("Metadata cannot override the line's own fields")
    func reservedKeys() async throws {
        let objects = try await jsonObjects {
            $0.info("true message", metadata: ["message": "other", "level": "none"])
        }
        let object = try require(objects.first)
        expect(object["message"] as? String, equals: "true message")
        expect(object["metadata_message"] as? String, equals: "other")
        expect(object["metadata_level"] as? String, equals: "none")
    }

    @Test("Deeply nested metadata is truncated")
    func depth() async throws {
        var value: Logger.MetadataValue = "core"
        for _ in 0..<100 { value = ["n": value] }
        let objects = try await jsonObjects { $0.info("deep", metadata: ["v": value]) }
        expect(objects.first?["v"] is [String: Any])
    }

    @Test("Lines inside a trace contain its id")
    func traceMetadata() async throws {
        let trace = TraceContext(traceID: ID128(high: 1, low: 2), spanID: 3, flags: 1)
        var context = ServiceContext.topLevel
        context.traceContext = trace
        let objects = try await jsonObjects { logger in
            ServiceContext.withValue(context) { logger.info("inside") }
            logger.info("outside")
        }
        expect(objects[0]["trace_id"] as? String, equals: "00000000000000010000000000000002")
        expect(objects[0]["span_id"] as? String, equals: "0000000000000003")
        expect(objects[1]["trace_id"] == nil)
    }

    @Test("A text line stays one line and contains no control character")
    func text() async throws {
        let pipe = try LinePipe()
        let writer = LogWriter(fileDescriptor: pipe.writeEnd, dropped: CounterHandle())
        let logger = Logger(label: "app") { label in
            GatewayLogHandler(label: label, format: .text, writer: writer, now: { 0 })
        }
        logger.info("hello\nworld\u{1b}", metadata: ["b": "two words", "a": "x"])
        logger.debug("not shown")
        writer.shutdown()
        let text = await pipe.text()
        expect(text, equals: "1970-01-01T00:00:00.000Z INFO     app: hello\\nworld\\u001b a=x b=\"two words\"\n")
    }
}

@Suite("Audit log")
struct AuditLogTests {
    /// The lines of events.
    private func lines(_ body: (AuditLog) -> Void) async throws -> [[String: Any]] {
        let pipe = try LinePipe()
        let writer = LogWriter(fileDescriptor: pipe.writeEnd, dropped: CounterHandle())
        body(AuditLog(logger: Logger(label: "audit") { GatewayLogHandler(label: $0, format: .json, writer: writer) }))
        writer.shutdown()
        return try await pipe.objects()
    }

    @Test("Each event has its stable name and its values in metadata")
    func events() async throws {
        let objects = try await lines { audit in
            var origin = AuditContext(peer: "192.0.2.1", requestID: "00000000000000000000000000000abc")
            (origin.app, origin.isBound) = ("shop", true)
            for event: AccountEvent in [
                .signIn(outcome: .rejected, accountHash: 0xfeed, duration: .zero), .signOut(SessionID(0x1)),
                .revokeFailed(SessionID(0x2)), .signIn(outcome: .throttled, accountHash: nil, duration: .zero),
                .signOutOthers([SessionID(0x3), SessionID(0x4)], by: SessionID(0x5), tokens: .revoking),
                .revoked((0..<1_000).map { SessionID($0) }, tokens: .notRevokedSealed),
                .tokenRefresh(.rejected, SessionID(0x6), duration: .zero),
                .evicted([SessionID(0x9)], tokens: .notRevokedSourceRemoved),
            ] {
                audit.record(event, from: origin, now: WallTime(seconds: 100))
            }
        }
        let names = objects.compactMap { $0["event"] as? String }
        expect(
            names,
            equals: [
                "sign_in", "sign_out", "revoke_failed", "sign_in", "sign_out_others", "sessions_revoked",
                "refresh_rejected", "sessions_evicted",
            ])
        let tokens = objects.map { $0["tokens"] as? String }
        expect(tokens[4...], equals: ["revoking", "not_revoked_sealed", nil, "not_revoked_source_gone"])
        expect(objects[3]["outcome"] as? String, equals: "throttled")
        expect(objects[4]["count"] as? Int, equals: 2)
        expect(objects[4]["session"] as? String, equals: "0000000000000005")
        expect(objects[4]["sessions"] as? [String], equals: ["0000000000000003", "0000000000000004"])
        expect(objects[5]["count"] as? Int, equals: 1000)
        expect((objects[5]["sessions"] as? [String])?.count, equals: 32)
        expect(objects[6]["session"] as? String, equals: "0000000000000006")
        expect(objects[0]["outcome"] as? String, equals: "rejected")
        expect(objects[0]["user"] as? String, equals: "000000000000feed")
        expect(objects[1]["user"] == nil)
        expect(objects[1]["session"] as? String, equals: "0000000000000001")
        expect(objects[2]["session"] as? String, equals: "0000000000000002")
        expect(objects.allSatisfy { $0["peer"] as? String == "192.0.2.1" })
        expect(objects.allSatisfy { $0["request_id"] as? String == "00000000000000000000000000000abc" })
        expect(objects.allSatisfy { $0["app"] as? String == "shop" && $0["bound"] as? Bool == true })
    }

    @Test("Events that the gateway detects itself name no peer and no request")
    func ownEvents() async throws {
        let objects = try await lines { audit in
            audit.sessionUnreadable(SessionID(0x7))
            let event = AccountEvent.tokenRefresh(.rejected, SessionID(0x8), duration: .zero)
            audit.record(event, from: AuditContext(), now: WallTime(seconds: 100))
        }
        expect(objects.map { $0["event"] as? String }, equals: ["session_unreadable", "refresh_rejected"])
        expect(objects.map { $0["session"] as? String }, equals: ["0000000000000007", "0000000000000008"])
        expect((objects.first?["hint"] as? String)?.contains("session.secrets"), equals: true)
        expect(objects.allSatisfy { $0["peer"] == nil && $0["request_id"] == nil })
        expect(objects.allSatisfy { $0["app"] == nil && $0["bound"] == nil })
    }

    @Test("A reload is one event: success at notice, failure at error with a bounded list of problems")
    func configReload() async throws {
        let objects = try await lines { audit in
            audit.configReloaded(hash: "0123456789ab")
            audit.configReloaded(
                hash: "ba9876543210", problems: (0..<1_000).map { "\($0): " + String(repeating: "x", count: 900) })
        }
        expect(objects.map { $0["event"] as? String }, equals: ["config_reload", "config_reload"])
        expect(objects.map { $0["outcome"] as? String }, equals: ["success", "failure"])
        expect(objects.map { $0["level"] as? String }, equals: ["notice", "error"])
        expect(objects.map { $0["config"] as? String }, equals: ["0123456789ab", "ba9876543210"])
        expect(objects[0]["problems"] == nil)
        expect(objects[1]["count"] as? Int, equals: 1000)
        let problems = try require(objects[1]["problems"] as? [String])
        expect(problems.count, equals: 20)
        expect(problems.allSatisfy { $0.count == 500 })
    }

    @Test(
        "An identity request that the upstream rejects is an error with call, reason and remedy, once per 10 s and call"
    )
    func misconfiguredIdentity() async throws {
        let objects = try await lines { audit in
            for second: Int64 in [100, 105, 110] {
                audit.record(
                    .identityMisconfigured(.notFound, in: .signIn, of: nil), from: AuditContext(),
                    now: WallTime(seconds: second))
            }
            // Failed sign-ins do not suppress lines about failed refreshes.
            for second: Int64 in [111, 112] {
                audit.record(
                    .identityMisconfigured(.invalidClient, in: .refresh, of: "company"), from: AuditContext(),
                    now: WallTime(seconds: second))
            }
            audit.tokenLifetimeInvalid(upstream: "api")
            for call: TokenClientError.Operation in [.push, .code] {
                audit.record(
                    .identityMisconfigured(.requestRejected, in: call, of: nil), from: AuditContext(),
                    now: WallTime(seconds: 113))
            }
        }
        expect(
            objects.map { $0["event"] as? String },
            equals: [
                "identity_misconfigured", "identity_misconfigured", "identity_misconfigured",
                "token_lifetime_invalid", "identity_misconfigured", "identity_misconfigured",
            ])
        // An identity has no method, path and rejectedStatuses.
        for object in objects.suffix(2) {
            let hint = try require(object["hint"] as? String)
            expect(hint.contains("client.authentication"))
            expect(!hint.contains("rejectedStatuses"))
        }
        expect(
            objects.map { $0["level"] as? String }, equals: ["error", "error", "error", "warning", "error", "error"])
        expect(objects[0]["call"] as? String, equals: "sign_in")
        expect(objects[0]["reason"] as? String, equals: "not_found")
        expect((objects[0]["hint"] as? String)?.contains("path"), equals: true)
        expect(objects[1]["suppressed"] as? Int, equals: 1)
        expect(objects[0]["identity"] == nil)
        expect(objects[2]["call"] as? String, equals: "renew")
        expect(objects[2]["identity"] as? String, equals: "company")
        expect(objects[3]["upstream"] as? String, equals: "api")
    }

    @Test("The numbers of a line about a failed identity call are JSON numbers")
    func failedIdentityCall() async throws {
        let objects = try await lines { audit in
            let failure = IdentityCallFailure(
                call: .signIn, source: .upstream("api"), method: "POST", server: "api.test:443", path: "/auth",
                status: 418,
                defect: .init("not_json"), nanoseconds: 12_400_000)
            audit.identityCallFailed(failure, now: WallTime(seconds: 100))
        }
        let object = try require(objects.first)
        expect(object["suppressed"] as? Int, equals: 0)
        expect(object["status"] as? Int, equals: 418)
        expect(object["duration_ms"] as? Int, equals: 12)
    }

    @Test("Events of providers have their stable names, and lines that any client can cause are limited")
    func providers() async throws {
        let objects = try await lines { audit in
            let origin = AuditContext(peer: "192.0.2.1", requestID: "00000000000000000000000000000abc")
            let now = WallTime(seconds: 100)
            for event: AccountEvent in [
                .login(.success, identity: "company", reason: nil, accountHash: 0xfeed, duration: .zero),
                .login(.failed, identity: "company", reason: "wrong_nonce", accountHash: nil, duration: .zero),
                .providerLogout((0..<40).map { SessionID($0) }, identity: "company"),
            ] {
                audit.record(event, from: origin, now: now)
            }
            for second: Int64 in [100, 105, 110] {
                audit.record(
                    .providerLogoutFailed(identity: "company", reason: "wrong_issuer"), from: origin,
                    now: WallTime(seconds: second))
                audit.providerResponseRejected(
                    identity: "company", call: .refresh, reason: "other_subject", hint: "h",
                    now: WallTime(seconds: second)
                )
            }
            let failure = FailureStatus(time: WallTime(seconds: 1), reason: "r", remedy: "m")
            audit.providerFetchFailed(identity: "company", document: .keys, failure: failure)
            audit.providerFetched(identity: "company", document: .keys)
            audit.providerMismatch(identity: "company", reason: "r", hint: "m")
        }
        expect(
            objects.map { $0["event"] as? String },
            equals: [
                "login", "login", "provider_logout", "provider_logout_failed", "provider_response_rejected",
                "provider_logout_failed", "provider_response_rejected", "provider_down", "provider_up",
                "provider_mismatch",
            ])
        expect(objects.allSatisfy { $0["identity"] as? String == "company" })
        expect(objects[0]["user"] as? String, equals: "000000000000feed")
        expect(objects[0]["reason"] == nil)
        expect(objects[1]["reason"] as? String, equals: "wrong_nonce")
        expect(objects[1]["peer"] as? String, equals: "192.0.2.1")
        expect(objects[2]["count"] as? Int, equals: 40)
        expect((objects[2]["sessions"] as? [String])?.count, equals: 32)
        expect(objects[5]["suppressed"] as? Int, equals: 1)
        expect(objects[6]["suppressed"] as? Int, equals: 1)
        expect(objects[7]["hint"] as? String, equals: "m")
        expect(objects.map { $0["level"] as? String }[7...], equals: ["warning", "notice", "error"])
    }

    @Test("Transiently failed refreshes are logged once per 10 s, with the number of suppressed lines")
    func failedRefreshes() async throws {
        let objects = try await lines { audit in
            for second in [100, 101, 109, 110, 50] {
                audit.record(
                    .tokenRefresh(.transient, SessionID(0x9), duration: .zero), from: AuditContext(),
                    now: WallTime(seconds: Int64(second)))
            }
        }
        expect(objects.map { $0["suppressed"] as? Int }, equals: [0, 2, 0])
        expect(objects.allSatisfy { $0["level"] as? String == "warning" })
        expect(objects.allSatisfy { $0["event"] as? String == "refresh_failed" })
    }
}
