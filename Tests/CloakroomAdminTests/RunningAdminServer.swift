import AsyncHTTPClient
import CloakroomAdmin
import CloakroomCore
import CloakroomTelemetry
import Foundation
import Logging
import NIOCore
import NIOHTTP1
import ServiceLifecycle

/// An admin listener on a free loopback port.
enum RunningAdminServer {
    struct StartFailed: Error {}

    /// Runs the server while `body` runs, then shuts down gracefully and waits for the end.
    static func run(
        _ registry: PrometheusRegistry = PrometheusRegistry(), _ probes: [ReadinessProbe] = [],
        revocation: RevokeSessionsHandler? = nil, status: StatusDataSource? = nil,
        access: AdminAccess = AdminAccess(),
        logger: Logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() },
        _ body: @Sendable (_ address: String) async throws -> Void
    ) async throws {
        let (ports, bound) = AsyncStream.makeStream(of: Int.self)
        let server = AdminServer(
            host: "127.0.0.1", port: 0, registry: registry, probes: probes, revocation: revocation, status: status,
            access: access, now: { WallTime(milliseconds: Int64(Date().timeIntervalSince1970 * 1_000)) },
            logger: logger,
            onBound: { bound.yield($0) })
        let group = ServiceGroup(configuration: .init(services: [server], logger: logger))
        try await withThrowingTaskGroup(of: Void.self) { tasks in
            tasks.addTask {
                defer { bound.finish() }
                try await group.run()
            }
            guard let port = await ports.first(where: { _ in true }) else { throw StartFailed() }
            do {
                try await body("http://127.0.0.1:\(port)")
            } catch {
                await group.triggerGracefulShutdown()
                throw error
            }
            await group.triggerGracefulShutdown()
            try await tasks.waitForAll()
        }
    }

    static func send(
        _ method: HTTPMethod, _ url: String, _ fields: [(String, String)] = [], body: String? = nil
    ) async throws -> (HTTPClientResponse, Data) {
        var request = HTTPClientRequest(url: url)
        request.method = method
        request.headers = HTTPHeaders(fields)
        if let body { request.body = .bytes(Array(body.utf8)) }
        // The server is shut down immediately afterwards; idle connections would delay that.
        request.headers.add(name: "connection", value: "close")
        let response = try await HTTPClient.shared.execute(request, timeout: .seconds(30))
        let collected = try await response.body.collect(upTo: 1 << 20)
        return (response, Data(collected.readableBytesView))
    }
}
