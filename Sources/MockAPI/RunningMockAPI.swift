public import Logging

/// A mock that listens.
public struct RunningMockAPI: Sendable {
    /// The mock itself.
    public let api: MockAPI
    /// The port it is bound to.
    public let port: Int

    /// What it has seen.
    public var observations: MockObservations { api.observations }
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
        let (ports, listening) = AsyncStream.makeStream(of: Int.self)
        let api = MockAPI(settings: settings, logger: logger) { listening.yield($0) }
        return try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask {
                defer { listening.finish() }
                try await api.run()
            }
            var iterator = ports.makeAsyncIterator()
            guard let port = await iterator.next() else {
                try await group.waitForAll()
                throw MockAPIError.didNotListen
            }
            // On every way out the group cancels and awaits the server; that it then ends by cancellation is no error.
            defer { group.cancelAll() }
            return try await body(RunningMockAPI(api: api, port: port))
        }
    }
}
