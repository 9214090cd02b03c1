import CloakroomWire
import Foundation
import TestSupport
import Testing

@testable import CloakroomCore
@testable import CloakroomProxy

/// The decision for another proxy is the one that the gateway would make about the same request.
@Suite("Forward authorization agrees with ordinary listeners")
struct ForwardAuthAgreementTests {
    /// The number of requests for each kind of proxy.
    private static let count =
        ProcessInfo.processInfo.environment["CLOAKROOM_FORWARD_AUTH_REQUESTS"].flatMap { Int($0) } ?? 2_000

    /// A random request, without the fields of a proxy.
    private struct Request {
        var method: String
        var path: String
        var fields: [String]
        var hasCookie: Bool
        var hasOrigin: Bool

        init(_ generator: inout SeededGenerator) {
            let words = [
                "public", "private", "token", "auth", "a", "Public", "%61", "..", "%2e", "a;b", "", "private.",
            ]
            path = ""
            for _ in 0..<generator.between(1, 4) { path += "/" + words[generator.below(words.count)] }
            if generator.chance(200) { path += ["?a=b", "?%2e%2e", "?", "#x"][generator.below(4)] }
            method = ["GET", "HEAD", "POST", "PUT", "OPTIONS", "TRACE", "FOO", "get"][generator.below(8)]
            fields = []
            hasCookie = generator.chance(500)
            if hasCookie { fields.append(Ask.cookie) }
            if generator.chance(100) { fields.append("Authorization: Bearer x") }
            let origin = generator.below(5)
            hasOrigin = origin > 0
            fields +=
                [
                    [], ["Sec-Fetch-Site: same-origin"], ["Sec-Fetch-Site: cross-site"],
                    ["Origin: https://gateway.test"],
                    ["Origin: https://evil.test"],
                ][origin]
            if generator.chance(100) { fields += Question.navigation.dropLast() }
        }
    }

    private enum Outcome: Equatable {
        case permitted(UpstreamPermit)
        case denied
    }

    private static func outcome(
        _ text: String, _ config: ConfigSnapshot, _ session: Session, for proxy: ForwardAuthConfiguration.Proxy?
    ) throws -> Outcome {
        // A target with a space is no request; the proxy rejects it.
        guard var request = try? RequestDeciderTests.makeRequest(text) else { return .denied }
        if let proxy { request.replaceByOriginal(of: proxy, maxTarget: 8_192) }
        let decider = RequestDecider(
            config: config, isTrusted: true, scheme: .http, listener: proxy == nil ? 0 : 1,
            decidesForProxy: proxy != nil)
        let decision = decider.decide(
            &request, session: { _ in .active(session) }, limit: { _, _ in nil }, now: WallTime(seconds: 2_000_000_000))
        guard case .forward(let permit) = decision else { return .denied }
        return .permitted(permit)
    }

    private static func isInNormalForm(_ path: String) -> Bool {
        let bytes = Array(path.utf8)
        var scratch: [UInt8] = []
        guard let target = try? RequestTarget.parse(bytes.span, scratch: &scratch) else { return false }
        return RequestDecider.isInNormalForm(target)
    }

    @Test("Rule 113: random requests are decided as on an ordinary listener", arguments: Question.proxies)
    func agreement(_ proxy: ForwardAuthConfiguration.Proxy) throws {
        let config = try GatewaySetup().configuration {
            $0.listeners.append($0.listeners[0])
            $0.listeners[1].forwardAuth = ForwardAuthConfiguration(proxy: proxy, sources: [], hosts: ["gateway.test"])
        }.makeConfig()
        let session = FakeSessions.make().1
        var generator = SeededGenerator(seed: 33)
        var permitted = 0
        for _ in 0..<Self.count {
            let request = Request(&generator)
            let common = ["X-Forwarded-Proto: https", "X-Forwarded-For: 192.0.2.7"]
            let ordinary = try Self.outcome(
                Ask.ask(request.method, request.path, common + request.fields), config, session, for: nil)
            let asked = try Self.outcome(
                Question.of(proxy, request.method, request.path, request.fields), config, session, for: proxy)
            var expected = ordinary
            let isUnsafe = !["GET", "HEAD", "OPTIONS", "TRACE"].contains(request.method)
            let lacksOrigin = isUnsafe && request.hasCookie && !request.hasOrigin
            if case .permitted(let permit) = ordinary {
                // The public routes do not use the session, so that nothing is checked.
                let usesSession = config.routes[permit.route].access.usesSession
                if !Self.isInNormalForm(request.path) || lacksOrigin && usesSession { expected = .denied }
            }
            if case .permitted = asked { permitted += 1 }
            #expect(asked == expected, "\(request.method) \(request.path) \(request.fields)")
        }
        #expect(permitted > Self.count / 50, "most random requests are not permitted: \(permitted)")
    }
}
