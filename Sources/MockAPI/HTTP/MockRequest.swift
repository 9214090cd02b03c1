import NIOCore
import NIOHTTP1

/// Responds to a request. An error is a response with the status 500.
typealias MockHandler = @Sendable (MockRequest) async throws -> MockResponse

/// The handlers by method and path, such as `GET /videos/*`. The asterisk matches any last segment.
typealias RouteTable = [String: MockHandler]

/// A request to a mock. Its body is read when a handler reads it.
struct MockRequest {
    let method: HTTPMethod
    /// The path as sent, before the first `?`, nothing decoded.
    let path: String
    /// The part after the first `?`, not decoded; `nil` without a `?`.
    let query: String?
    /// The fields as received, without white space around the values.
    let fields: HTTPHeaders
    let body: RequestParts

    init(_ head: HTTPRequestHead, _ body: RequestParts) {
        let parts = head.uri.split(separator: "?", maxSplits: 1, omittingEmptySubsequences: false)
        method = head.method
        path = parts.first.map(String.init) ?? ""
        query = parts.count == 2 ? String(parts[1]) : nil
        // The parser removes leading white space only.
        fields = HTTPHeaders(
            head.headers.map { name, value in
                let end = value.lastIndex { $0 != " " && $0 != "\t" }.map(value.index(after:)) ?? value.startIndex
                return (name, String(value[..<end]))
            })
        self.body = body
    }

    /// The segments of the path; empty ones are ignored.
    private var segments: [Substring] { path.split(separator: "/") }
    /// What the asterisk of the route matches.
    var lastSegment: String { segments.last.map(String.init) ?? "" }

    /// A number of the query, not decoded; `nil` for none or other text.
    func number<Number: LosslessStringConvertible>(_ name: String, in range: ClosedRange<Number>) -> Number? {
        let value = (query ?? "").split(separator: "&").first { $0.hasPrefix(name + "=") }?.dropFirst(name.count + 1)
        return value.flatMap { Number(String($0)) }.flatMap { range.contains($0) ? $0 : nil }
    }

    /// The response of the handler of this request; 404 if there is none.
    /// - Parameter servesHead: Whether HEAD has the handlers of GET.
    func response(from tables: [RouteTable], servesHead: Bool = false) async throws -> MockResponse {
        let method = servesHead && method == .HEAD ? HTTPMethod.GET : method
        for path in [segments, segments.dropLast() + ["*"]] {
            let route = "\(method.rawValue) /" + path.joined(separator: "/")
            for table in tables { if let handler = table[route] { return try await handler(self) } }
        }
        return MockResponse(.notFound)
    }
}

/// The requests of a connection, part by part.
final class RequestParts {
    private var parts: NIOAsyncChannelInboundStream<HTTPServerRequestPart>.AsyncIterator
    private var isInBody = false

    init(_ parts: NIOAsyncChannelInboundStream<HTTPServerRequestPart>) {
        self.parts = parts.makeAsyncIterator()
    }

    /// The head of the next request, after what is left of the body; `nil` at the end of the connection.
    func nextHead() async throws -> HTTPRequestHead? {
        while try await nextChunk() != nil {}
        guard case .head(let head)? = try await parts.next() else { return nil }
        isInBody = true
        return head
    }

    /// The next part of the body; `nil` at its end.
    func nextChunk() async throws -> ByteBuffer? {
        if isInBody, case .body(let chunk)? = try await parts.next() { return chunk }
        isInBody = false
        return nil
    }

    /// The whole body; `nil` if it is longer than `limit` bytes.
    func collect(upTo limit: Int) async throws -> ByteBuffer? {
        var body = ByteBuffer()
        while var chunk = try await nextChunk() {
            guard body.readableBytes + chunk.readableBytes <= limit else { return nil }
            body.writeBuffer(&chunk)
        }
        return body
    }
}
