import NIOCore
import NIOHTTP1

/// Slow, echoed and long bodies for testing a proxy.
enum TestRoutes {
    static var routes: RouteTable {
        ["GET /__mock/slow": { slow($0) }, "POST /__mock/echo": { echo($0) }, "GET /__mock/bytes": { bytes($0) }]
    }

    /// Sends a first chunk, waits `seconds` (0...600, fractions allowed), sends a last chunk.
    private static func slow(_ request: MockRequest) -> MockResponse {
        guard let seconds = request.number("seconds", in: 0...600.0) else {
            return .error(.badRequest, "seconds must be a number from 0 to 600.")
        }
        var response = MockResponse(.ok, ["Content-Type": "text/plain; charset=utf-8"])
        response.stream = { send in
            try await send(ByteBuffer(string: "waiting\n"))
            try await Task.sleep(for: .seconds(seconds))
            try await send(ByteBuffer(string: "done\n"))
        }
        return response
    }

    /// Echoes the request body chunk by chunk without waiting for its end.
    private static func echo(_ request: MockRequest) -> MockResponse {
        let type = request.fields.first(name: "Content-Type") ?? "application/octet-stream"
        var response = MockResponse(.ok, ["Content-Type": type])
        response.stream = { send in
            while let chunk = try await request.body.nextChunk() { try await send(chunk) }
        }
        return response
    }

    /// Sends `count` (0...2^20) bytes, each of which is the lower part of its offset.
    private static func bytes(_ request: MockRequest) -> MockResponse {
        guard let count = request.number("count", in: 0...1 << 20) else {
            return .error(.badRequest, "count must be a whole number from 0 to 1048576.")
        }
        let bytes = ByteBuffer(bytes: (0..<count).map { UInt8(truncatingIfNeeded: $0) })
        return MockResponse(.ok, ["Content-Type": "application/octet-stream"], body: bytes)
    }
}
