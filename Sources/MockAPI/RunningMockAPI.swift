public import Logging
import ServiceLifecycle

/// A mock that listens.
public struct RunningMockAPI: Sendable {
    /// The mock itself.
    public let api: MockAPI
    /// The port it is bound to.
    public let port: Int

    /// What it has seen.
    public var observations: RequestRecorder { api.observations }
    /// How it misbehaves.
    public var faults: MockFaults { api.faults }

    /// Scheme, host and port, no slash at the end: `http://127.0.0.1:49152`.
    public var baseURL: String {
        let host = api.settings.host
        return "http://\(host.contains(":") ? "[\(host)]" : host):\(port)"
    }
}

extension MockAPI {
    /// Runs a mock on a free port (whatever the settings' port) for as long as `body` takes, and stops it then.
    ///
    /// - Throws: what `body` throws, or what kept the mock from listening.
    public static func withServer<R: Sendable>(
        _ settings: MockAPISettings = MockAPISettings(),
        logger: Logger = Logger(label: "mock-api") { _ in SwiftLogNoOpLogHandler() },
        body: (RunningMockAPI) async throws -> R
    ) async throws -> R {
        var settings = settings
        settings.port = 0
        return try await MockAPI(settings: settings, logger: logger).whileServing(body)
    }

    /// Runs this mock for as long as `body` takes, and stops it then; its tokens and what it has seen outlive that.
    ///
    /// - Throws: what `body` throws, or what kept the mock from listening.
    public func whileServing<R: Sendable>(_ body: (RunningMockAPI) async throws -> R) async throws -> R {
        let (ports, listening) = AsyncStream.makeStream(of: Int.self)
        let service = ListeningMock(api: self) { listening.yield($0) }
        var configuration = ServiceGroupConfiguration(
            services: [service], logger: Logger(label: "mock-api") { _ in SwiftLogNoOpLogHandler() })
        // Answers that take longer are cut off.
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
            // Gracefully and not by cancellation: a connection that is accepted while its server is cancelled would take
            // the process with it.
            let result: Result<R, any Error>
            do {
                result = .success(try await body(RunningMockAPI(api: self, port: port)))
            } catch {
                result = .failure(error)
            }
            await services.triggerGracefulShutdown()
            try await tasks.waitForAll()
            return try result.get()
        }
    }
}

/// A mock that tells somebody else where it listens.
private struct ListeningMock: Service {
    let api: MockAPI
    let onListening: @Sendable (Int) async -> Void

    func run() async throws {
        try await api.serve(onListening)
    }
}
