import Logging
import ServiceLifecycle

/// A listening mock.
public struct RunningMockAPI: Sendable {
    /// The mock itself.
    public let api: MockAPI
    /// The port it is bound to.
    public let port: Int

    /// The recorded traffic.
    public var observations: RequestRecorder { api.observations }
    /// The injected faults.
    public var faults: MockFaults { api.faults }

    /// Scheme, host and port, without a trailing slash: `http://127.0.0.1:49152`.
    public var baseURL: String {
        let host = api.settings.host
        return "http://\(host.contains(":") ? "[\(host)]" : host):\(port)"
    }
}

extension MockAPI {
    /// Runs a mock on a free port (regardless of the settings) while `body` runs, then stops it.
    ///
    /// - Throws: The error of `body`, or the error that prevented listening.
    public static func withServer<R: Sendable>(
        _ settings: MockAPISettings = .demo, body: (RunningMockAPI) async throws -> R
    ) async throws -> R {
        var settings = settings
        settings.port = 0
        return try await MockAPI(settings: settings).whileServing(body)
    }

    /// Runs this mock while `body` runs, then stops it; its tokens and observations are kept.
    ///
    /// - Throws: The error of `body`, or the error that prevented listening.
    public func whileServing<R: Sendable>(_ body: (RunningMockAPI) async throws -> R) async throws -> R {
        try await TemporaryServer.run(serve) { port in
            try await body(RunningMockAPI(api: self, port: port))
        }
    }
}

/// Runs a server during a test.
enum TemporaryServer {
    /// A server that calls its argument with the bound port and runs until a graceful shutdown.
    typealias Serve = @Sendable (_ onListening: @escaping @Sendable (Int) async -> Void) async throws -> Void

    /// Runs a server while `body` runs, then stops it.
    /// - Throws: The error of `body`, or the error that prevented listening.
    static func run<R: Sendable>(_ serve: @escaping Serve, body: (Int) async throws -> R) async throws -> R {
        let (ports, listening) = AsyncStream.makeStream(of: Int.self)
        let service = ListeningServer(serve: serve) { listening.yield($0) }
        var configuration = ServiceGroupConfiguration(
            services: [service], logger: Logger(label: "mock-api") { _ in SwiftLogNoOpLogHandler() })
        // Responses that take longer are aborted.
        configuration.maximumGracefulShutdownDuration = .seconds(1)
        let services = ServiceGroup(configuration: configuration)
        return try await withThrowingTaskGroup(of: Void.self) { tasks in
            tasks.addTask {
                defer { listening.finish() }
                try await services.run()
            }
            var iterator = ports.makeAsyncIterator()
            guard let port = await iterator.next() else {
                try await tasks.waitForAll()
                throw MockAPIError.exitedBeforeListening
            }
            // Shut down gracefully rather than by cancellation: a connection accepted while its server is cancelled
            // would crash the process.
            let result: Result<R, any Error>
            do {
                result = .success(try await body(port))
            } catch {
                result = .failure(error)
            }
            await services.triggerGracefulShutdown()
            try await tasks.waitForAll()
            return try result.get()
        }
    }
}

/// A server that reports its address to another task.
private struct ListeningServer: Service {
    let serve: TemporaryServer.Serve
    let onListening: @Sendable (Int) async -> Void

    func run() async throws {
        try await serve(onListening)
    }
}
