import TestSupport

extension RawPeer {
    /// The next response, interim ones included.
    /// - Throws: ``ResponseTruncated`` if the connection ends before it does.
    func response(isToHead: Bool = false) async throws -> TestResponse {
        try await take("a response") { unread, isClosed in
            try TestResponse.read(&unread, isToHead: isToHead, isClosed: isClosed)
        }
    }

    /// Sends a request and reads its response.
    func exchange(_ request: String, isToHead: Bool = false) async throws -> TestResponse {
        send(request)
        return try await response(isToHead: isToHead)
    }
}
