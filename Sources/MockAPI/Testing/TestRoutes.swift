import Hummingbird
import NIOCore

/// Slow, echoed and long bodies for testing a proxy.
struct TestRoutes {
    func register(on router: Router<BasicRequestContext>) {
        router.get("__mock/slow") { request, _ in slow(request) }
        router.post("__mock/echo") { request, _ in echo(request) }
        router.get("__mock/bytes") { request, _ in bytes(request) }
    }

    /// Sends a first chunk, waits `seconds` (0...600, fractions allowed), sends a last chunk.
    private func slow(_ request: Request) -> Response {
        guard let seconds = request.uri.queryParameters["seconds"].flatMap({ Double($0) }), (0...600).contains(seconds)
        else { return JSONResponse.error(.badRequest, "seconds must be a number from 0 to 600.") }
        let body = ResponseBody { writer in
            try await writer.write(ByteBuffer(string: "waiting\n"))
            try await Task.sleep(for: .seconds(seconds))
            try await writer.write(ByteBuffer(string: "done\n"))
            try await writer.finish(nil)
        }
        return Response(status: .ok, headers: [.contentType: "text/plain; charset=utf-8"], body: body)
    }

    /// Echoes the request body chunk by chunk without waiting for its end.
    private func echo(_ request: Request) -> Response {
        let type = request.headers[.contentType] ?? "application/octet-stream"
        return Response(
            status: .ok, headers: [.contentType: type], body: ResponseBody(asyncSequence: request.body))
    }

    /// Sends `count` (0...2^20) bytes, each of which is the lower part of its offset.
    private func bytes(_ request: Request) -> Response {
        guard let count = request.uri.queryParameters["count"].flatMap({ Int($0) }), (0...1 << 20).contains(count)
        else { return JSONResponse.error(.badRequest, "count must be a whole number from 0 to 1048576.") }
        let bytes = ByteBuffer(bytes: (0..<count).map { UInt8(truncatingIfNeeded: $0) })
        return Response(
            status: .ok, headers: [.contentType: "application/octet-stream"], body: ResponseBody(byteBuffer: bytes))
    }
}
