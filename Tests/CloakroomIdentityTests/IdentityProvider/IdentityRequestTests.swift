import AsyncHTTPClient
import Foundation
import NIOHTTP1
import NIOPosix
import TestSupport
import Testing

@testable import CloakroomCore
@testable import CloakroomIdentity

@Suite("The requests of identity calls")
struct IdentityRequestTests {
    private func withTarget(_ body: (IdentityTarget) throws -> Void) async throws {
        let target = IdentityTarget(
            UpstreamTargetConfiguration(HostAndPort(host: "127.0.0.1", port: 1)), tls: nil, hostField: "api",
            configuration: HTTPClient.Configuration(), eventLoopGroup: MultiThreadedEventLoopGroup.singleton,
            onConnected: {})
        let result = Result { try body(target) }
        await target.shutdown()
        try result.get()
    }

    private func request(
        _ path: String, method: String = "POST", credentials: RequestCredentials = RequestCredentials(),
        traceparent: String? = nil, to target: IdentityTarget
    ) throws -> HTTPClient.Request {
        var configuration = IdentityEndpointConfiguration(path: path)
        configuration.method = method
        return try IdentityRequest(
            operation: .signIn, configuration: configuration, credentials: credentials,
            apiToken: APIToken(value: Secret("t")), traceparent: traceparent
        ).request(to: target)
    }

    @Test("have nothing of earlier requests with the same method and path, and at most 16 are kept")
    func reused() async throws {
        try await withTarget { target in
            var credentials = RequestCredentials(authorization: Secret("Basic a"))
            credentials.body = (.json, Secret("{}"))
            let first = try request("/auth?x=1", credentials: credentials, traceparent: "00-a-b-01", to: target)
            expect(
                first.headers.map(\.name),
                equals: ["Host", "Accept", "X-API-TOKEN", "traceparent", "Authorization", "Content-Type"])
            expect(first.body?.contentLength, equals: 2)
            let second = try request("/auth?x=1", to: target)
            expect(second.url == first.url && second.url.absoluteString == "http://127.0.0.1:1/auth?x=1")
            expect(second.headers.map(\.name), equals: ["Host", "Accept", "X-API-TOKEN"])
            expect(second.headers["Host"] == ["api"] && second.body == nil)
            expect(target.reusedCount, equals: 1)
            try expect(request("/auth?x=1", method: "GET", to: target).method, equals: .GET)
            expect(target.reusedCount, equals: 2)
            for number in 0..<100 {
                try expect(request("/\(number)", to: target).url.path, equals: "/\(number)")
                #expect(target.reusedCount <= IdentityTarget.maxReused)
            }
        }
    }
}
