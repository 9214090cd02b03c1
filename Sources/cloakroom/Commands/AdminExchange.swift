import AsyncHTTPClient
import NIOCore

/// The exchange of a command with an admin listener. The server on its address may be another program.
enum AdminExchange {
    /// Runs an exchange, including its body, within a time limit. The limit of a request in the client ends with the head
    /// of the response, so that a body could be sent without end.
    /// - Throws: `HTTPClientError.deadlineExceeded` if the time has passed.
    static func within<R: Sendable>(
        _ limit: Duration, _ body: @escaping @Sendable () async throws -> R
    ) async throws -> R {
        try await withThrowingTaskGroup(of: R.self) { group in
            group.addTask { try await body() }
            group.addTask {
                try await Task.sleep(for: limit)
                throw HTTPClientError.deadlineExceeded
            }
            defer { group.cancelAll() }
            guard let result = try await group.next() else { throw CancellationError() }
            return result
        }
    }
}
