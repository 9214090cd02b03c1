public import Foundation

#if canImport(FoundationNetworking)
    public import FoundationNetworking
#endif

/// What carries a request to the gateway, cookies included.
public protocol Transport: Sendable {
    /// Sends a request and reads the whole answer, whatever its status.
    ///
    /// Throws when there was no answer, and then what it likes.
    func send(_ request: URLRequest) async throws -> (Data, HTTPURLResponse)
}

/// A `URLSession` with a cookie storage of its own, in memory: who starts the app anew signs in anew, as the session's
/// cookie has no lifetime of its own.
public struct URLSessionTransport: Transport {
    private let session: URLSession

    /// A transport with a session of its own, or with one that is configured elsewhere and accepts cookies.
    public init(_ session: URLSession = URLSession(configuration: .ephemeral)) {
        self.session = session
    }

    /// Sends a request; throws `URLError` when there was no answer.
    public func send(_ request: URLRequest) async throws -> (Data, HTTPURLResponse) {
        let (data, response) = try await session.data(for: request)
        guard let response = response as? HTTPURLResponse else { throw URLError(.badServerResponse) }
        return (data, response)
    }
}
